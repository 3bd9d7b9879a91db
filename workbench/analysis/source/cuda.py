"""A CUDA parse tree read into a `SourceMap`: what lines declare, use and govern.

`symbols.Declarations`, the first pass, reads the names of file scope. This is the second:
everything inside functions. `HANDLERS` has the visitor of each kind of node.

The walk is a loop with its own stack: sources nest as deep as their author (or a
damaged file) likes. Entries are nodes to visit or callables that close what a node
opened (a scope, a guard, a statement whose uses are being collected).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from workbench.analysis.source.lines import Range, Source, joined, tokens_of
from workbench.analysis.source.symbols import (
    EVERYWHERE,
    Action,
    Declarations,
    DefinitionKind,
    Routine,
    SourceMap,
    words_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

# --- Which lines are one statement, or one head of a loop, condition or function -----------------
#
# A statement's lines are those of its own tokens: code in a nested block (the body of a loop, a
# lambda) belongs to its statements. A pragma and the statement after it are one, and so are
# statements that share a line. Macros are left out: they have no instructions.

#: Nodes whose children are statements.
_BLOCKS = frozenset(
    {"translation_unit", "compound_statement", "declaration_list", "field_declaration_list"}
    | {"case_statement", "else_clause", "labeled_statement", "ERROR"}
    | {"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef"}
)
#: Nodes that are a statement, or a list of them, anywhere.
_LISTS = frozenset({"declaration_list", "field_declaration_list", "else_clause"})
_MACROS = frozenset({"preproc_def", "preproc_function_def", "preproc_include", "comment"})


class _Walk:
    """All tokens in the order of the text, each with the statement that it belongs to."""

    def __init__(self, root: Node) -> None:
        self.found: list[Range] = []
        self.pragma = 0  # line of a pragma that waits for its statement
        # (node, the statement that it is in); None closes the open statement.
        self.stack: list[tuple[Node, bool] | None] = [(root, True)]
        self.rows: list[Range | None] = [None]
        while self.stack:
            item = self.stack.pop()
            if item is None:
                self._close()
                self.rows.pop()
            else:
                self._visit(*item)
        self._close()

    def _visit(self, node: Node, statement: bool) -> None:
        if node.type in _MACROS:
            return
        if statement:
            self._close()  # the part before a nested statement is a piece of its own
            self.rows.append(None)
            self.stack.append(None)
        if node.type == "preproc_call":
            row = node.start_point[0] + 1
            self.pragma = self.pragma or row
            return
        if not node.child_count:
            first, last = node.start_point[0] + 1, node.end_point[0] + 1
            known = self.rows[-1]
            if known is None and self.pragma:
                first, self.pragma = self.pragma, 0
            self.rows[-1] = (known[0], last) if known else (first, last)
            return
        inside = node.type in _BLOCKS
        for child in reversed(node.children):
            own = inside and child.is_named
            statement = child.type.endswith("_statement") and child.type != "init_statement"
            self.stack.append((child, own or child.type in _LISTS or statement))

    def _close(self) -> None:
        """End the open piece; its statement may continue after a nested one."""
        piece, self.rows[-1] = self.rows[-1], None
        if piece is not None:
            self.found.append(piece)


_FUNCTIONS = {"function_definition", "template_declaration"}


class Reader(Declarations):
    """Reads one file, by its index, into `found`, the map of the whole version."""

    def __init__(self, found: SourceMap, file: int, source: Source) -> None:
        super().__init__(found, file, source)
        found.statements[file] = joined(_Walk(self.root).found)

    def read_bodies(
        self, names: Mapping[str, list[int]], by_name: Mapping[str, list[Routine]]
    ) -> None:
        """Second pass: everything inside the declarations of the first pass."""
        self.globals, self.by_name = names, by_name
        functions = {f.span[0]: f for f in self.found.routines if f.place[0] == self.file}
        for node in self.bodies:
            function = functions.get(node.start_byte)
            if function is not None and node.type in _FUNCTIONS:
                self._body(node, function)
            elif node.type in ("preproc_def", "preproc_function_def"):
                self._macro_uses(node)
            else:
                self._file_level(node)

    def _macro_uses(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        for index in self.lookup(self.name(name)) if name else []:
            symbol = self.found.symbols[index]
            if symbol.file == self.file and symbol.places == [self.place(node)]:
                line = symbol.places[0][1]
                for word in symbol.words:
                    for used in self.globals.get(word, []):
                        if used != index:
                            self.add_use(used, line, node.start_byte, (("shape", index),))

    def _file_level(self, node: Node) -> None:
        owners = [
            s.index
            for s in self.found.symbols
            if not s.scope and s.file == self.file and self.place(node) in s.places
        ]
        for index in owners:
            self.feeds.append(("shape", index))
        self.walk([c for c in node.children if c.is_named])
        for _ in owners:
            self.feeds.pop()

    def _body(self, node: Node, function: Routine) -> None:
        self.function = function
        self.scopes, self.blocks = [{}], [function.span]
        self.guards = [EVERYWHERE]
        self.walk([node])
        self.function, self.scopes, self.blocks = None, [], []

    def walk(self, nodes: list[Node]) -> None:
        """Visit nodes and all below them, in the order of the text."""
        self.stack = list(reversed(nodes))
        while self.stack:
            item = self.stack.pop()
            if callable(item):
                item()
                continue
            handler = HANDLERS.get(item.type)
            if handler is not None:
                handler(self, item)
            elif item.child_count:
                self.stack.extend(reversed(item.children))
            elif item.type in ("identifier", "type_identifier"):
                self.use(item)

    def use(self, node: Node) -> None:
        """Record a mention of every symbol that the name may mean."""
        at = node.start_byte
        if at in self.declared:
            return
        line = node.start_point[0] + 1
        name = self.name(node)
        feeds = tuple(self.feeds)
        seen = {name}
        for index in self.lookup(name):
            self.add_use(index, line, at, feeds, target=at in self.targets)
            symbol = self.found.symbols[index]
            todo = list(symbol.words) if symbol.kind == "macro" else []
            # A macro's body is read where it is expanded: its names are looked up here.
            while todo:
                word = todo.pop()
                if word in seen:
                    continue
                seen.add(word)
                for inner in self.lookup(word):
                    self.add_use(inner, line, at, feeds, macro=name)
                    if self.found.symbols[inner].kind == "macro":
                        todo.extend(self.found.symbols[inner].words)

    def later(self, *actions: Node | Action | None) -> None:
        """Visit these nodes next, in this order."""
        self.stack.extend(action for action in reversed(actions) if action is not None)

    def open_scope(self, node: Node) -> Action:
        """Open a scope; returns the action that closes it."""
        self.scopes.append({})
        self.blocks.append((node.start_byte, node.end_byte))

        def close() -> None:
            self.scopes.pop()
            self.blocks.pop()

        return close

    def guarded(self, node: Node | None) -> list[Node | Action]:
        """Visit a node as a conditional block: its assignments may not have happened."""
        if node is None:
            return []
        span = (node.start_byte, node.end_byte)

        def close() -> None:
            self.guards.pop()

        return [lambda: self.guards.append(span), node, close]

    def fed(self, kind: str, index: int, *inside: Node | Action | None) -> list[Node | Action]:
        """Visit nodes while their uses flow into something."""
        nodes = (node for node in inside if node is not None)
        return [self.opened(kind, index), *nodes, self.closed]

    def opened(self, kind: str, index: int) -> Action:
        """An action that starts a flow of uses into something."""
        return lambda: self.feeds.append((kind, index))

    def closed(self) -> None:
        """End the innermost flow."""
        self.feeds.pop()


_EXITS = {"return_statement": "function", "break_statement": "loop", "continue_statement": "loop"}


def _for(reader: Reader, node: Node) -> None:
    """A loop: its head defines the variable and governs the body."""
    body = node.child_by_field_name("body")
    start = node.child_by_field_name("initializer") or node.child_by_field_name("declarator")
    end = body.start_byte if body is not None else node.end_byte
    end = node.start_byte + len(reader.slice(node.start_byte, end).rstrip())
    key = tokens_of(reader.slice(node.start_byte, end))
    header = (reader.file, node.start_point[0] + 1, reader.row_of(end))
    close = reader.open_scope(node)
    variable = _induction(reader, node)
    governed = reader.add_governed(
        f"for {variable}".rstrip(),
        key,
        header,
        reader.place(body) if body is not None else header,
        bare=body is not None and body.type != "compound_statement",
    )
    reader.add_loop(node.start_byte, node.end_byte)
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
            reader.found.definitions[definition].place = header
            reader.found.definitions[definition].end = end
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
    plan = reader.fed("governed", governed, start)
    plan[-1:] = [head, *rest, done, plan[-1]]
    reader.later(*plan, *reader.guarded(body), close)


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
    """``while`` and ``do``: the condition governs the body."""
    condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    reader.add_loop(node.start_byte, node.end_byte)
    _governed(reader, node, "while", condition, [body])


def _switch(reader: Reader, node: Node) -> None:
    """The value governs all cases."""
    condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    _governed(reader, node, "switch", condition, [body])


def _if(reader: Reader, node: Node) -> None:
    """The condition governs both branches, and all that follows if a branch exits."""
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
        reader.add_governed("if", reader.tokens(condition), header, body, early_exit=True)
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
    close = reader.open_scope(node)
    parts = [body for body in bodies if body is not None]
    plan: list[Node | Action] = []
    if condition is not None and parts:
        governed = reader.add_governed(
            label,
            (label, *reader.tokens(condition)),
            reader.place(node if node.type != "do_statement" else condition, condition),
            reader.place(parts[0], parts[-1]),
        )
        plan += reader.fed("governed", governed, condition)
    for part in parts:
        plan += reader.guarded(part)
    reader.later(*plan, close)


def _conditional(reader: Reader, node: Node) -> None:
    """``#if`` and ``#ifdef`` inside a function."""
    head = node.child_by_field_name("name") or node.child_by_field_name("condition")
    if reader.function is None or head is None:
        reader.later(*reader.children(node))
        return
    line = node.start_point[0] + 1
    key = tokens_of(reader.slice(node.start_byte, head.end_byte))
    governed = reader.add_governed("#if", key, (reader.file, line, line), reader.place(node))
    rest = [c for c in node.children if c.is_named and c.id != head.id]
    reader.later(*reader.fed("governed", governed, head), *rest)


def _pragma(reader: Reader, node: Node) -> None:
    """A pragma governs the statement after it."""
    statement = node.next_named_sibling
    while statement is not None and statement.type in ("comment", "preproc_call"):
        statement = statement.next_named_sibling
    key = tokens_of(reader.name(node))
    if statement is None or key[:2] != ("#", "pragma"):
        return
    line = node.start_point[0] + 1
    header = (reader.file, line, line)
    label = "#pragma " + (key[2] if len(key) > 2 else "")
    governed = reader.add_governed(label, key, header, reader.place(statement))
    for word in words_of(reader.name(node))[1:]:
        for index in reader.lookup(word):
            reader.add_use(index, line, node.start_byte, (*reader.feeds, ("governed", governed)))


def _function(reader: Reader, node: Node) -> None:
    function = reader.function
    if function is None or node.end_byte != function.span[1]:
        return  # read separately
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


def _scoped(reader: Reader, node: Node) -> None:
    close = reader.open_scope(node)
    reader.later(*reader.children(node), close)


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
            # The shared type is on the statement's first line, each name on its own line.
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
    callee, arguments = (node.child_by_field_name(x) for x in ("function", "arguments"))
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


def _local_macro(reader: Reader, node: Node) -> None:
    if reader.function is not None:
        reader.macro(node)


def _kept(reader: Reader, node: Node) -> None:
    """A node that declares or names nothing of interest here."""


#: Node type -> its visitor. For other types the children are visited.
HANDLERS: Mapping[str, Callable[[Reader, Node], None]] = {
    "function_definition": _function,
    "compound_statement": _scoped,
    "declaration": _declaration,
    "assignment_expression": _assignment,
    "update_expression": _update,
    "call_expression": _call,
    "return_statement": _return,
    "switch_statement": _switch,
    "if_statement": _if,
    "preproc_call": _pragma,
    "lambda_expression": _scoped,
    **dict.fromkeys(["for_statement", "for_range_loop"], _for),
    **dict.fromkeys(["while_statement", "do_statement"], _while),
    **dict.fromkeys(["preproc_ifdef", "preproc_if"], _conditional),
    **dict.fromkeys(["preproc_def", "preproc_function_def"], _local_macro),
    **dict.fromkeys(["parameter_declaration", "optional_parameter_declaration"], _parameter),
    **dict.fromkeys(
        ["type_parameter_declaration", "optional_type_parameter_declaration"], _parameter
    ),
    **dict.fromkeys(["comment", "string_literal", "preproc_include"], _kept),
    **dict.fromkeys(["field_identifier", "namespace_identifier", "statement_identifier"], _kept),
}
