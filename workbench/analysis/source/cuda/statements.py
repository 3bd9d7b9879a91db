"""What each kind of syntax node means to `Reader`: one small function per kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.analysis.source.cuda import control
from workbench.analysis.source.cuda.declarations import Action
from workbench.analysis.source.cuda.reader import Handlers, Reader
from workbench.analysis.source.symbols import DefinitionKind
from workbench.analysis.source.tokens import tokens_of

if TYPE_CHECKING:
    from tree_sitter import Node


def _function(reader: Reader, node: Node) -> None:
    function = reader.function
    if function is None or node.end_byte != function.span[1]:
        return  # read on its own
    for name, index in function.names.items():
        reader.scopes[-1][name] = index
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    parameters = declarator.child_by_field_name("parameters") if declarator else None
    body = node.child_by_field_name("body")
    known = {n.id for n in (node.child_by_field_name("declarator"), body) if n is not None}
    rest = [c for c in node.children if c.is_named and c.id not in known]
    reader.later(*rest, parameters, body)


def _parameter(reader: Reader, node: Node) -> None:
    name, _ = reader.declared_name(node.child_by_field_name("declarator"))
    if name is None:  # type parameters, and unnamed ones
        name = node.child_by_field_name("name")
    if name is None or reader.function is None:
        reader.later(*reader.children(node))
        return
    text = reader.name(name)
    index = reader.function.names.get(text, -1)
    if index < 0 or reader.found.symbols[index].places != [reader.place(node)]:
        made = reader.symbol(
            text, "parameter", reader.tokens(node), [reader.place(node)], reader.function.name
        )
        index = made.index
    reader.declared.add(name.start_byte)
    reader.later(*reader.fed("shape", index, *reader.children(node)))


def _compound(reader: Reader, node: Node) -> None:
    close = reader.open_scope(node)
    reader.later(*node.children, close)


def _declaration(reader: Reader, node: Node) -> None:
    if reader.function is None:
        reader.later(*reader.children(node))
        return
    declarators = node.children_by_field_name("declarator")
    first = declarators[0].start_byte if declarators else node.end_byte
    specifiers = tokens_of(reader.slice(node.start_byte, first))
    made: list[tuple[Node, Node | None, int]] = []
    for declarator in declarators:
        name, shape = reader.declared_name(declarator)
        if name is None:
            continue
        reader.declared.add(name.start_byte)
        is_call = shape is not None and shape.type == "function_declarator"  # dim3 grid(x, y)
        own = reader.tokens(name if is_call else shape)
        places = [reader.place(node, shape)] if not is_call else [reader.place(node)]
        if declarator.id != declarators[0].id:
            # The shared type stands on the statement's first line, the name on its own.
            line = node.start_point[0] + 1
            places = [(reader.file, line, line), reader.place(declarator, shape)]
        symbol = reader.symbol(
            reader.name(name), "variable", specifiers + own, places, reader.function.name
        )
        made.append((declarator, shape, symbol.index))
    known = {declarator.id for declarator in declarators}
    plan: list[Node | Action] = [reader.opened("shape", index) for _, _, index in made]
    plan += [child for child in node.children if child.is_named and child.id not in known]
    plan += [reader.closed for _ in made]
    for declarator, shape, index in made:
        value = declarator.child_by_field_name("value")
        if shape is not None and shape.type == "function_declarator":
            value, shape = shape.child_by_field_name("parameters"), None
        if shape is not None:
            plan += reader.fed("shape", index, shape)
        if value is not None:
            definition = reader.definition(
                index, "value", declarator, reader.tokens(value), kills=True
            )
            plan += reader.fed("definition", definition, value)
    reader.later(*plan)


def _assignment(reader: Reader, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = node.child_by_field_name("operator")
    plain = operator is None or operator.type == "="
    base, element = reader.base(left)
    targets = reader.lookup(reader.name(base)) if base is not None else []
    if base is not None and plain:
        reader.targets.add(base.start_byte)
    plan: list[Node | Action] = [n for n in (left, right) if n is not None]
    for index in targets:
        definition = reader.definition(
            index,
            "element" if element else "value" if plain else "update",
            node,
            reader.tokens(node),
            kills=plain and not element,
        )
        plan = reader.fed("definition", definition, *plan)
    reader.later(*plan)


def _update(reader: Reader, node: Node) -> None:
    base, element = reader.base(node.child_by_field_name("argument"))
    plan: list[Node | Action] = list(reader.children(node))
    for index in reader.lookup(reader.name(base)) if base is not None else []:
        kind: DefinitionKind = "element" if element else "update"
        definition = reader.definition(index, kind, node, reader.tokens(node))
        plan = reader.fed("definition", definition, *reader.children(node))
    reader.later(*plan)


def _call(reader: Reader, node: Node) -> None:
    function, arguments = (
        node.child_by_field_name("function"),
        node.child_by_field_name("arguments"),
    )
    callee = function
    if callee is not None and callee.type in ("template_function", "qualified_identifier"):
        callee = callee.child_by_field_name("name")
    name = reader.name(callee) if callee is not None and callee.type == "identifier" else ""
    parts = [c for c in node.children if c.is_named and (not arguments or c.id != arguments.id)]
    given = [c for c in arguments.children if c.is_named] if arguments is not None else []
    plan: list[Node | Action] = list(parts)
    callees = reader.by_name.get(name, [])
    if callees:
        reader.add_call(name, reader.tokens(node), reader.place(node))
    for number, argument in enumerate(given):
        inner: list[Node | Action] = [argument]
        for target in callees:
            if number < len(target.parameters):
                index = target.parameters[number]
                definition = reader.definition(index, "argument", argument, reader.tokens(argument))
                inner = reader.fed("definition", definition, *inner)
        plan += inner
    for index in _written_by(reader, node, given) if not name.endswith("_cast") else []:
        definition = reader.definition(index, "element", node, reader.tokens(node))
        plan = reader.fed("definition", definition, *plan)
    reader.later(*plan)


def _written_by(reader: Reader, node: Node, arguments: list[Node]) -> list[int]:
    """Variables that a call may write: ``&x``, and arrays or pointers given to a statement."""
    statement = node.parent is not None and node.parent.type == "expression_statement"
    out: list[int] = []
    for argument in arguments:
        address = argument.type == "pointer_expression" and argument.children[0].type == "&"
        if not address and not (statement and argument.type == "identifier"):
            continue
        base, _ = reader.base(argument)
        for index in reader.lookup(reader.name(base)) if base is not None else []:
            shape = reader.found.symbols[index].shape
            if "const" not in shape and (address or not {"*", "[", "&"}.isdisjoint(shape)):
                out.append(index)
    return out


def _return(reader: Reader, node: Node) -> None:
    if reader.function is None:
        reader.later(*reader.children(node))
        return
    reader.later(*reader.fed("return", reader.function.symbol, *reader.children(node)))


def _lambda(reader: Reader, node: Node) -> None:
    close = reader.open_scope(node)
    reader.later(*reader.children(node), close)


def _local_macro(reader: Reader, node: Node) -> None:
    if reader.function is not None:
        reader.macro(node)


def _kept(reader: Reader, node: Node) -> None:
    """Declares or names nothing that this reading follows."""


HANDLERS: Handlers = {
    "function_definition": _function,
    "parameter_declaration": _parameter,
    "optional_parameter_declaration": _parameter,
    "type_parameter_declaration": _parameter,
    "optional_type_parameter_declaration": _parameter,
    "compound_statement": _compound,
    "declaration": _declaration,
    "assignment_expression": _assignment,
    "update_expression": _update,
    "call_expression": _call,
    "return_statement": _return,
    "for_statement": control.visit_for,
    "for_range_loop": control.visit_for,
    "while_statement": control.visit_while,
    "do_statement": control.visit_while,
    "switch_statement": control.visit_switch,
    "if_statement": control.visit_if,
    "preproc_ifdef": control.visit_conditional,
    "preproc_if": control.visit_conditional,
    "preproc_call": control.visit_pragma,
    "preproc_def": _local_macro,
    "preproc_function_def": _local_macro,
    "lambda_expression": _lambda,
    "comment": _kept,
    "field_identifier": _kept,
    "namespace_identifier": _kept,
    "statement_identifier": _kept,
    "string_literal": _kept,
    "preproc_include": _kept,
}
