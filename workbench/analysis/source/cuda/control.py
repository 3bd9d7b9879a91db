"""Control flow for `Reader`: loops, conditions, pragmas, and what they govern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.analysis.source.cuda.declarations import Action, words_of
from workbench.analysis.source.cuda.reader import Reader
from workbench.analysis.source.tokens import tokens_of

if TYPE_CHECKING:
    from tree_sitter import Node

_LOOPS = {"for_statement", "for_range_loop", "while_statement", "do_statement"}
_EXITS = {"return_statement": "function", "break_statement": "loop", "continue_statement": "loop"}


def visit_for(reader: Reader, node: Node) -> None:
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


def visit_while(reader: Reader, node: Node) -> None:
    """``while`` and ``do``: the condition governs the body."""
    condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    reader.add_loop(node.start_byte, node.end_byte)
    _governed(reader, node, "while", condition, [body])


def visit_switch(reader: Reader, node: Node) -> None:
    """The value governs all cases."""
    _governed(
        reader,
        node,
        "switch",
        node.child_by_field_name("condition"),
        [node.child_by_field_name("body")],
    )


def visit_if(reader: Reader, node: Node) -> None:
    """The condition governs both branches, and all that follows if a branch leaves."""
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


def visit_conditional(reader: Reader, node: Node) -> None:
    """``#if`` and ``#ifdef`` inside of a function."""
    head = node.child_by_field_name("name") or node.child_by_field_name("condition")
    if reader.function is None or head is None:
        reader.later(*reader.children(node))
        return
    line = node.start_point[0] + 1
    key = tokens_of(reader.slice(node.start_byte, head.end_byte))
    governed = reader.add_governed("#if", key, (reader.file, line, line), reader.place(node))
    rest = [c for c in node.children if c.is_named and c.id != head.id]
    reader.later(*reader.fed("governed", governed, head), *rest)


def visit_pragma(reader: Reader, node: Node) -> None:
    """A pragma governs the statement behind it."""
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
