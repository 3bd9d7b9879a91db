"""What the host code of a ``.cu`` does with its kernels: read, and nothing of it run.

`follow` walks through ``main`` as the program would go without arguments: constants keep their
names, functions of the file are entered, loops are gone through once. What comes out is what the
device sees of it, in order: memory, copies, launches, and between them the host's own work on the
same arrays. Where the file chooses between kernels (``switch (atoi(argv[1]))``), `choices` tells
all ways, and each is followed by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from workbench.analysis.source.amounts import Known, number, operated
from workbench.analysis.source.hostcalls import HostCalls
from workbench.analysis.source.hostseen import (
    Callee,
    CopySeen,
    Followed,
    Frame,
    Fresh,
    LaunchSeen,
    Value,
    Variable,
)
from workbench.analysis.source.hostvalues import INTEGERS, MOST_STEPS
from workbench.analysis.source.pieces import Pieces, inner, name_in

if TYPE_CHECKING:
    from tree_sitter import Node

#: Turns of a loop that are gone through one by one.
_MOST_PARTS = 16
_LAUNCHED = re.compile(r"\b([A-Za-z_]\w*)\s*<<<")
_POINTED = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*&?\s*([A-Za-z_]\w*)\s*(?:<[\w, ]*>)?\s*;")


def follow(pieces: Pieces, choice: int = 0, start: str = "main") -> Followed:
    """Walk through a program.

    Args:
        pieces: Of its file.
        choice: Which of the ways is taken where it chooses between kernels.
        start: The function that it begins with.
    """
    walk = _HostWalk(pieces, choice)
    begin = pieces.function(start)
    if begin is not None:
        walk.enter(begin, [Known("1", 1), None])
    return walk.found


class _HostWalk(HostCalls):
    def __init__(self, pieces: Pieces, choice: int) -> None:
        super().__init__(pieces)
        self.choice = choice
        self.forked: int | None = None
        texts = [each.text for each in pieces.pieces if each.kind == "function"]
        called = {name for text in texts for name in _LAUNCHED.findall(text)}
        self.pointers = called - set(pieces.kernels())  # variables that are launched

    def statement(self, node: Node) -> None:
        self.steps += 1
        if self.frames[-1].left or self.steps > MOST_STEPS:
            return
        handler = _STATEMENTS.get(node.type)
        if handler is not None:
            handler(self, node)
        elif node.type.endswith(("_expression", "literal")) or node.type == "identifier":
            self.value(node)
        else:
            for child in node.named_children:
                self.statement(child)

    def _block(self, node: Node) -> None:
        self.frames[-1].scopes.append({})
        for child in node.named_children:
            self.statement(child)
        self.frames[-1].scopes.pop()

    def _return(self, node: Node) -> None:
        if node.named_children:
            self.frames[-1].result = self.value(node.named_children[0])
        self.frames[-1].left = True

    def _if(self, node: Node) -> None:
        condition = self.value(node.child_by_field_name("condition"))
        then, other = (node.child_by_field_name(x) for x in ("consequence", "alternative"))
        branches = list(_branches(node))
        if (
            self.forked is None
            and len([each for each in branches if self._launches(each)]) > 1
            and _by_number(self.text(node.child_by_field_name("condition")))
            and not self._settled(condition, node)
        ):
            ways = [each for each in branches if self._launches(each)]
            labels = [self._label(each) for each in ways]
            self._fork(ways, labels)
            return
        known = condition.value if isinstance(condition, Known) else None
        usage = "argc" in self.text(node.child_by_field_name("condition"))
        if usage and then is not None and re.search(r"\b(?:exit|return)\b", self.text(then)):
            known = 0  # how the program says what it wants to be given
        if known is not None and self.unit is None:
            chosen = then if known else other
            if chosen is not None:
                self.statement(chosen)
            return
        launching = [each for each in branches if self._launches(each)]
        for branch in (then, other):
            if branch is None or (len(launching) > 1 and branch is not then):
                continue  # of two ways to launch the first
            if (
                self.unit is not None
                or self.reaches(branch)
                or not re.search(r"\b(?:exit|return|abort)\b", self.text(branch))
            ):
                self._maybe(branch)

    def _label(self, branch: Node) -> str:
        """What a branch of ``if`` is taken for."""
        above = branch.parent
        if above is None or above.type != "if_statement":
            return "else"
        return self.text(above.child_by_field_name("condition")).strip("()")

    def _settled(self, condition: Value, node: Node) -> bool:
        """Whether what is chosen by is a constant of the program and no argument of it."""
        names = set(re.findall(r"[A-Za-z_]\w*", self.text(node.child_by_field_name("condition"))))
        chosen = {name for frame in self.frames for name in _from_arguments(frame)}
        return isinstance(condition, Known) and condition.value is not None and not names & chosen

    def _maybe(self, branch: Node) -> None:
        """A branch that may not be taken: that it leaves says nothing."""
        self.statement(branch)
        self.frames[-1].left = False

    def _launches(self, node: Node) -> bool:
        """Whether code launches a kernel, or points to the one that is launched."""
        text = self.text(node)
        return (
            "<<<" in text
            or any(
                name in self.active and self._launching(name, set())
                for name in re.findall(r"[A-Za-z_]\w*(?=\s*[(<])", text)
            )
            or any(
                found[1] in self.pointers and found[2] in self.pieces.kernels()
                for found in _POINTED.finditer(text)
            )
        )

    def _launching(self, name: str, seen: set[str]) -> bool:
        piece = self.pieces.named(name)
        if piece is None or name in seen:
            return False
        seen.add(name)
        return "<<<" in piece.text or any(
            self._launching(each, seen) for each in piece.words & self.active
        )

    def _fork(self, ways: list[Node], labels: list[str]) -> None:
        self.forked = ways[0].start_byte
        self.found.choices = labels
        for child in [ways[min(self.choice, len(ways) - 1)]]:
            self.statement(child)

    def _switch(self, node: Node) -> None:
        value = self.value(node.child_by_field_name("condition"))
        body = node.child_by_field_name("body")
        cases = [c for c in body.named_children if c.type == "case_statement"] if body else []
        ways = [each for each in cases if self._launches(each)]
        if (
            len(ways) > 1
            and self.forked is None
            and not (
                isinstance(value, Known)
                and value.value is not None
                and self._constant_argument(node)
            )
        ):
            labels = [self.text(each.child_by_field_name("value")) or "default" for each in ways]
            self._fork(ways, labels)
            return
        if self.forked is not None and len(ways) > 1 and not isinstance(value, Known):
            self.statement(ways[min(self.choice, len(ways) - 1)])
            return
        for each in cases:
            label = self.value(each.child_by_field_name("value"))
            other = (
                isinstance(label, Known) and isinstance(value, Known) and label.value != value.value
            )
            if each in ways and not other:
                self.statement(each)
                return

    def _constant_argument(self, node: Node) -> bool:
        """Whether a function chooses by a number that each of its callers writes down."""
        condition = self.text(node.child_by_field_name("condition")).strip("() ")
        frame = self.frames[-1]
        return (
            frame.name != "main"
            and re.fullmatch(r"\w+", condition) is not None
            and (isinstance(found := self.lookup(condition), Known) and found.text.isdigit())
        )

    def _case(self, node: Node) -> None:
        label = node.child_by_field_name("value")
        for child in node.named_children:
            if child.type == "break_statement":
                return
            if label is None or child.id != label.id:
                self.statement(child)

    def _loop(self, node: Node) -> None:
        self.frames[-1].scopes.append({})
        body = node.child_by_field_name("body")
        alone = self.unit is None and not self.reaches(node) and not self._calls(node)
        alone = alone and self.frames[-1].name in (self.active | {"main"})
        if alone:
            self.unit = self._new_unit(node)
        start = node.child_by_field_name("initializer") or node.child_by_field_name("declarator")
        counted, self.counting = self.counting, "known" if self.reaches(body) else "open"
        for name in ("initializer", "condition", "right", "update"):
            part = node.child_by_field_name(name)
            if part is not None and (name != "update" or not self.reaches(body)):
                self.statement(part)
            self.counting = counted
        if start is not None and node.type == "for_range_loop":
            self._each(self.text(name_in(start)), node)
        if body is not None:
            began = len(self.found.events)
            self._maybe(body)
            if node.type == "for_statement" and self._launches(body):
                self._parts(node, body, self._offsets(began))
        if alone:
            self._end_unit()
        self.frames[-1].scopes.pop()

    def _parts(self, node: Node, body: Node, first: list[list[str]]) -> None:
        """Go through a loop's other turns, where each launches on another part of its arrays."""
        condition = node.child_by_field_name("condition")
        left, right = (condition and condition.child_by_field_name(x) for x in ("left", "right"))
        name, last = self.text(left or None), self.value(right or None)
        begin = self.lookup(name) if name.isidentifier() else None
        if not (isinstance(begin, Known) and isinstance(last, Known)):
            return
        tables = re.search(rf"\[\s*{name}\s*\]\s*(?:\.\w+\s*)?<<<", self.text(body))
        if not tables and not any(any(each[1:]) for each in first):
            return
        step = re.sub(r"\s", "", self.text(node.child_by_field_name("update")))
        turns = range((begin.whole or 0) + 1, last.whole or 0)
        if step not in (f"{name}++", f"++{name}", f"{name}+=1") or len(turns) >= _MOST_PARTS:
            return
        for turn in turns:
            at = len(self.found.events)
            self.assign(name, number(turn))
            self._maybe(body)
            if self._offsets(at) == first:
                del self.found.events[at:]  # the same once more, as for times
                return
            for each in self.found.events[at:]:
                if isinstance(each, LaunchSeen):
                    each.part = each.kernel in {of[0] for of in first}

    def _offsets(self, began: int) -> list[list[str]]:
        """What was launched since, each with where its pointers lead."""
        met = [each for each in self.found.events[began:] if isinstance(each, LaunchSeen)]
        return [
            [each.kernel, *(offset.text if offset else "" for offset in each.offsets)]
            for each in met
        ]

    def _each(self, name: str, node: Node) -> None:
        """``for (auto& x : values)``: what is assigned to `x` fills the array."""
        self.declare(name, None)
        values = self.value(node.child_by_field_name("right"))
        if not isinstance(values, Variable) or values.memory is None:
            return
        filled = re.search(rf"\b{name}\s*[-+*/]?=(?!=)\s*([^;]*)", self.text(node))
        if filled is not None:
            self._write(values.memory, filled[1])
        else:
            self._read(values.memory)

    def _calls(self, node: Node) -> bool:
        """Whether code calls a function of the file, and gives it an array."""
        for found in re.finditer(r"(\w+)\s*\(([^;]*)\)", self.text(node)):
            piece = self.pieces.function(found[1])
            if piece is not None and not piece.device:
                words = re.findall(r"[A-Za-z_]\w*(?!\w*\s*\[)", found[2])
                if any(isinstance(self.lookup(word), Variable) for word in words):
                    return True
        return False

    def _declaration(self, node: Node) -> None:
        kind = node.child_by_field_name("type")
        written = self.text(kind)
        for declarator in node.children_by_field_name("declarator"):
            self._declare(written, declarator)

    def _declare(self, kind: str, declarator: Node) -> None:
        name = self.text(name_in(declarator))
        value = declarator.child_by_field_name("value")
        shape = declarator
        if declarator.type == "init_declarator":
            shape = declarator.child_by_field_name("declarator") or declarator
        stars = self.text(shape).partition("[")[0].count("*")
        plain = self.resolve(kind.rstrip("* ")) if kind != "auto" else ""
        vector = re.match(r"(?:thrust::\w+_|pinned_)?vector\s*<\s*([^<>]+?)\s*(?:,.*)?>", plain)
        class_ = self._class(plain) if not stars and shape.type != "array_declarator" else False
        if plain == "dim3":
            self.declare(name, self._extent(self._arguments(value, shape)))
        elif class_ and (value is None or value.type in ("argument_list", "initializer_list")):
            self._plain(name, plain, 0, self._made(plain, self._arguments(value, shape)), None)
        elif vector:
            self._vector(name, self.resolve(vector[1]), value, shape)
        elif shape.type == "array_declarator" or "[" in self.text(shape):
            self._array(name, plain, shape, value)
        elif shape.type == "function_declarator" and kind != "auto":
            given = self._arguments(value, shape)
            self.declare(name, given[0] if given and plain in INTEGERS else None)
        else:
            given_value = self.value(value) if value is not None else None
            if value is None and plain in INTEGERS and not stars:
                self.frames[-1].unset.add(name)
            if isinstance(given_value, list) and len(given_value) == 1:
                given_value = given_value[0]
            self._plain(name, plain, stars or kind.endswith("*"), given_value, value)

    def _class(self, kind: str) -> bool:
        """Whether a type is a class of the file that has a body."""
        piece = self.pieces.named(kind.partition("<")[0].strip())
        node = inner(piece.node) if piece is not None and piece.kind == "type" else None
        return node is not None and node.type in ("class_specifier", "struct_specifier")

    def _vector(self, name: str, kind: str, value: Node | None, shape: Node) -> None:
        given = self._arguments(value, shape)
        made = self._named(name, kind, Fresh(None))
        assert made.memory is not None
        made.memory.vector = True
        if value is not None and value.type == "initializer_list" and len(given) > 1:
            made.memory.count = number(len(given))
            made.memory.filled.append(self.text(value))
        elif given and isinstance(given[0], Known):
            made.memory.count = given[0]
            if len(given) > 1 and isinstance(given[1], Known):
                made.memory.filled.append(given[1].expression)
        elif given and isinstance(given[0], Variable) and given[0].memory is not None:
            made.memory.count = given[0].memory.count
            made.memory.filled = list(given[0].memory.filled)
            self.found.events.append(CopySeen(given[0].memory, made.memory))
        if not made.memory.filled:
            made.memory.filled.append("0")  # as the language says
        self.declare(name, made)

    def _array(self, name: str, kind: str, shape: Node, value: Node | None) -> None:
        count: Known | None = number(1)
        sizes = 0
        node: Node | None = shape
        while node is not None and node.type == "array_declarator":
            size = node.child_by_field_name("size")
            found = self.value(size) if size is not None else None
            if isinstance(found, Known) and count is not None:
                count = operated("*", found, count)
            else:
                count = None
            sizes += 1
            node = node.child_by_field_name("declarator")
        items = self.value(value) if value is not None else None
        listed = items if isinstance(items, list) else None
        if count is None and listed:
            count = number(len(listed))
        if listed and all(isinstance(each, Callee) for each in listed):  # a table of kernels
            self.declare(name, Variable(name, kind, items=listed))
            return
        if "*" in self.text(shape).partition("[")[0]:  # an array of pointers
            self.declare(name, Variable(name, kind, pointers={}))
            return
        made = self._named(name, kind, Fresh(count, counted=True))
        made.items = listed
        if listed and made.memory is not None:
            known = [each.value for each in listed if isinstance(each, Known)]
            whole = len(known) == len(listed) and None not in known
            numbers = ", ".join(map(repr, known))
            made.memory.filled.append(f"{{{numbers}}}" if whole else self.text(value))
        if made.memory is not None and sizes > 1:
            made.memory.kind += "[]" * (sizes - 1)
        self.declare(name, made)

    def _arguments(self, value: Node | None, shape: Node) -> list[Value]:
        """What stands in parentheses behind a variable: arguments, read as parameters at times."""
        if value is not None and value.type in ("argument_list", "initializer_list"):
            return [self.value(each) for each in value.named_children]
        if value is not None:
            found = self.value(value)
            return found if isinstance(found, list) else [found]
        listed = shape.child_by_field_name("parameters")
        if listed is None:
            return []
        return [self._snippet(self.text(each)) for each in listed.named_children]


def _from_arguments(frame: Frame) -> Iterator[str]:
    """Variables of a function that get a number of the command line."""
    for found in re.finditer(r"(\w+)\s*=[^=;]*\b(?:argv|ato[il]|stoi|strtol)\b", frame.plain):
        yield found[1]


def _by_number(condition: str) -> bool:
    return bool(re.search(r"\w+\s*==\s*\w+|strcmp", condition))


def _branches(node: Node) -> Iterator[Node]:
    """The bodies of ``if``, ``else if``, ``else``."""
    while node is not None and node.type == "if_statement":
        then, other = (node.child_by_field_name(x) for x in ("consequence", "alternative"))
        if then is not None:
            yield then
        if other is None:
            return
        inside = other.named_children[-1] if other.type == "else_clause" else other
        if inside.type != "if_statement":
            yield inside
            return
        node = inside


_STATEMENTS: dict[str, Callable[[_HostWalk, Node], None]] = {
    "compound_statement": _HostWalk._block,
    "declaration": _HostWalk._declaration,
    "return_statement": _HostWalk._return,
    "if_statement": _HostWalk._if,
    "switch_statement": _HostWalk._switch,
    "case_statement": _HostWalk._case,
    **dict.fromkeys(
        ("for_statement", "while_statement", "do_statement", "for_range_loop"), _HostWalk._loop
    ),
    **dict.fromkeys(
        ("comment", "preproc_def", "preproc_function_def", "type_definition"),
        lambda _walk, _node: None,
    ),
}
