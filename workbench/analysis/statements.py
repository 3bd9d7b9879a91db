"""What each kind of syntax node means to `syntax.Reader`: one small function per kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.analysis.symbols import DefinitionKind, tokens_of, words_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from workbench.analysis.syntax import Action, Reader

_LOOPS = {"for_statement", "for_range_loop", "while_statement", "do_statement"}
_EXITS = {"return_statement": "function", "break_statement": "loop", "continue_statement": "loop"}


def _scope(reader: Reader, node: Node) -> Action:
    """Open a scope; returns what closes it."""
    reader.scopes.append({})
    reader.blocks.append((node.start_byte, node.end_byte))

    def close() -> None:
        reader.scopes.pop()
        reader.blocks.pop()

    return close


def _guarded(reader: Reader, node: Node | None) -> list[Node | Action]:
    """Visit a node as a conditional block: what it assigns may not have happened."""
    if node is None:
        return []
    span = (node.start_byte, node.end_byte)
    return [lambda: reader.guards.append(span), node, lambda: _drop(reader.guards)]


def _drop(stack: list[tuple[int, int]]) -> None:
    stack.pop()


def _fed(
    reader: Reader, kind: str, index: int, *inside: Node | Action | None
) -> list[Node | Action]:
    """Visit nodes while their uses flow into something."""
    nodes = (node for node in inside if node is not None)
    return [_opened(reader, kind, index), *nodes, _closed(reader)]


def _opened(reader: Reader, kind: str, index: int) -> Action:
    return lambda: reader.feeds.append((kind, index))


def _closed(reader: Reader) -> Action:
    def close() -> None:
        reader.feeds.pop()

    return close


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
    if index < 0 or reader.program.symbols[index].places != [reader.place(node)]:
        made = reader.symbol(
            text, "parameter", reader.tokens(node), [reader.place(node)], reader.function.name
        )
        index = made.index
    reader.declared.add(name.start_byte)
    reader.later(*_fed(reader, "shape", index, *reader.children(node)))


def _compound(reader: Reader, node: Node) -> None:
    close = _scope(reader, node)
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
    plan: list[Node | Action] = [_opened(reader, "shape", index) for _, _, index in made]
    plan += [child for child in node.children if child.is_named and child.id not in known]
    plan += [_closed(reader) for _ in made]
    for declarator, shape, index in made:
        value = declarator.child_by_field_name("value")
        if shape is not None and shape.type == "function_declarator":
            value, shape = shape.child_by_field_name("parameters"), None
        if shape is not None:
            plan += _fed(reader, "shape", index, shape)
        if value is not None:
            definition = reader.definition(
                index, "value", declarator, reader.tokens(value), kills=True
            )
            plan += _fed(reader, "definition", definition, value)
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
        plan = _fed(reader, "definition", definition, *plan)
    reader.later(*plan)


def _update(reader: Reader, node: Node) -> None:
    base, element = reader.base(node.child_by_field_name("argument"))
    plan: list[Node | Action] = list(reader.children(node))
    for index in reader.lookup(reader.name(base)) if base is not None else []:
        kind: DefinitionKind = "element" if element else "update"
        definition = reader.definition(index, kind, node, reader.tokens(node))
        plan = _fed(reader, "definition", definition, *reader.children(node))
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
    callees = reader.functions_named(name)
    if callees:
        reader.call(name, reader.tokens(node), node)
    for number, argument in enumerate(given):
        inner: list[Node | Action] = [argument]
        for target in callees:
            if number < len(target.parameters):
                index = target.parameters[number]
                definition = reader.definition(index, "argument", argument, reader.tokens(argument))
                inner = _fed(reader, "definition", definition, *inner)
        plan += inner
    for index in _written_by(reader, node, given) if not name.endswith("_cast") else []:
        definition = reader.definition(index, "element", node, reader.tokens(node))
        plan = _fed(reader, "definition", definition, *plan)
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
            shape = reader.program.symbols[index].shape
            if "const" not in shape and (address or not {"*", "[", "&"}.isdisjoint(shape)):
                out.append(index)
    return out


def _return(reader: Reader, node: Node) -> None:
    if reader.function is None:
        reader.later(*reader.children(node))
        return
    reader.later(*_fed(reader, "return", reader.function.symbol, *reader.children(node)))


def _for(reader: Reader, node: Node) -> None:
    body = node.child_by_field_name("body")
    start = node.child_by_field_name("initializer") or node.child_by_field_name("declarator")
    end = body.start_byte if body is not None else node.end_byte
    end = node.start_byte + len(reader.slice(node.start_byte, end).rstrip())
    key = tokens_of(reader.slice(node.start_byte, end))
    header = (reader.file, node.start_point[0] + 1, reader.row_of(end))
    close = _scope(reader, node)
    variable = _induction(reader, node)
    region = reader.region(
        variable or "for", key, header, reader.place(body) if body is not None else header
    )
    reader.program.loops.setdefault(reader.file, []).append((node.start_byte, node.end_byte))
    rest = [
        child
        for child in node.children
        if child.is_named and child.id not in {n.id for n in (body, start) if n is not None}
    ]
    opened: list[int] = []

    def head() -> None:
        # The whole head says which values the variable takes, so it is its definition.
        for index in reader.lookup(variable) if variable else []:
            definition = reader.definition(index, "update", node, key)
            reader.program.definitions[definition].place = header
            reader.program.definitions[definition].end = end
            opened.append(definition)
            reader.feeds.append(("definition", definition))

    def done() -> None:
        for _ in opened:
            reader.feeds.pop()

    if node.type == "for_range_loop" and start is not None:
        name, _ = reader.declared_name(start)
        if name is not None and reader.function is not None:
            reader.declared.add(name.start_byte)
            place = reader.place(node, start)
            shape = tokens_of(reader.slice(node.start_byte, start.end_byte))
            reader.symbol(reader.name(name), "variable", shape, [place], reader.function.name)
    plan = _fed(reader, "region", region, start)
    plan[-1:] = [head, *rest, done, plan[-1]]
    reader.later(*plan, *_guarded(reader, body), close)


def _induction(reader: Reader, node: Node) -> str:
    """Name of the variable that a loop's head declares, assigns or updates ("": none)."""
    for name in ("initializer", "declarator", "update"):
        part = node.child_by_field_name(name)
        if part is None:
            continue
        inner = part.child_by_field_name("declarator") or part.child_by_field_name("left")
        inner = inner or part.child_by_field_name("argument") or part
        found, _ = reader.declared_name(inner)
        if found is not None and found.type == "identifier":
            return reader.name(found)
    return ""


def _while(reader: Reader, node: Node) -> None:
    condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    reader.program.loops.setdefault(reader.file, []).append((node.start_byte, node.end_byte))
    _governed(reader, node, "while", condition, [body])


def _switch(reader: Reader, node: Node) -> None:
    _governed(
        reader,
        node,
        "switch",
        node.child_by_field_name("condition"),
        [node.child_by_field_name("body")],
    )


def _if(reader: Reader, node: Node) -> None:
    then = node.child_by_field_name("consequence")
    condition = node.child_by_field_name("condition")
    last = then
    if then is not None and then.type == "compound_statement" and then.named_children:
        last = then.named_children[-1]
    kind = _EXITS.get(last.type) if last is not None else None
    if kind is not None and condition is not None:
        outer = _around(node, kind)
        end = outer.end_point[0] + 1 if outer is not None else node.end_point[0] + 1
        body = (reader.file, node.end_point[0] + 2, end)
        header = reader.place(node, condition)
        reader.region("if", reader.tokens(condition), header, body, early_exit=True)
    _governed(reader, node, "if", condition, [then, node.child_by_field_name("alternative")])


def _around(node: Node, kind: str) -> Node | None:
    outer = node.parent
    while outer is not None:
        if outer.type in ("function_definition", "lambda_expression"):
            return outer
        if kind == "loop" and outer.type.endswith(
            ("for_statement", "while_statement", "do_statement")
        ):
            return outer
        outer = outer.parent
    return None


def _governed(
    reader: Reader, node: Node, label: str, condition: Node | None, bodies: list[Node | None]
) -> None:
    close = _scope(reader, node)
    parts = [body for body in bodies if body is not None]
    plan: list[Node | Action] = []
    if condition is not None and parts:
        region = reader.region(
            label,
            (label, *reader.tokens(condition)),
            reader.place(node if node.type != "do_statement" else condition, condition),
            reader.place(parts[0], parts[-1]),
        )
        plan += _fed(reader, "region", region, condition)
    for part in parts:
        plan += _guarded(reader, part)
    reader.later(*plan, close)


def _conditional(reader: Reader, node: Node) -> None:
    head = node.child_by_field_name("name") or node.child_by_field_name("condition")
    if reader.function is None or head is None:
        reader.later(*reader.children(node))
        return
    line = node.start_point[0] + 1
    key = tokens_of(reader.slice(node.start_byte, head.end_byte))
    region = reader.region("#if", key, (reader.file, line, line), reader.place(node))
    rest = [c for c in node.children if c.is_named and c.id != head.id]
    reader.later(*_fed(reader, "region", region, head), *rest)


def _pragma(reader: Reader, node: Node) -> None:
    governed = node.next_named_sibling
    while governed is not None and governed.type in ("comment", "preproc_call"):
        governed = governed.next_named_sibling
    key = tokens_of(reader.name(node))
    if governed is None or key[:2] != ("#", "pragma"):
        return
    line = node.start_point[0] + 1
    header = (reader.file, line, line)
    label = "#pragma " + (key[2] if len(key) > 2 else "")
    region = reader.region(label, key, header, reader.place(governed))
    for word in words_of(reader.name(node))[1:]:
        for index in reader.lookup(word):
            reader.record(index, line, node.start_byte, (*reader.feeds, ("region", region)))


def _lambda(reader: Reader, node: Node) -> None:
    close = _scope(reader, node)
    reader.later(*reader.children(node), close)


def _local_macro(reader: Reader, node: Node) -> None:
    if reader.function is not None:
        reader.macro(node)


def _kept(reader: Reader, node: Node) -> None:
    """Declares or names nothing that this reading follows."""


HANDLERS: dict[str, Callable[[Reader, Node], None]] = {
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
    "for_statement": _for,
    "for_range_loop": _for,
    "while_statement": _while,
    "do_statement": _while,
    "switch_statement": _switch,
    "if_statement": _if,
    "preproc_ifdef": _conditional,
    "preproc_if": _conditional,
    "preproc_call": _pragma,
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
