"""Reading a parse tree, second pass: everything inside of functions.

The walk is a loop with its own stack: sources nest as deep as their author (or a
damaged file) likes. Entries are nodes to visit or callables that close what a node
opened (a scope, a region, a statement whose uses are being collected).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.analysis.source.cuda.declarations import Declarations
from workbench.analysis.source.symbols import Call, Function, Place, Region, Use
from workbench.analysis.source.tokens import Tokens

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS = {"function_definition", "template_declaration"}


class Reader(Declarations):
    """Reads one file into the program."""

    # --- bodies --------------------------------------------------------------------

    def read_bodies(
        self, names: Mapping[str, list[int]], by_name: Mapping[str, list[Function]]
    ) -> None:
        """Second pass: everything inside of what the first pass met."""
        self.globals, self.by_name = names, by_name
        functions = {f.span[0]: f for f in self.program.functions if f.place[0] == self.file}
        for node in self.bodies:
            function = functions.get(node.start_byte)
            if function is not None and node.type in (
                "function_definition",
                "template_declaration",
            ):
                self._body(node, function)
            elif node.type in ("preproc_def", "preproc_function_def"):
                self._macro_uses(node)
            else:
                self._file_level(node)

    def _macro_uses(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        for index in self.lookup(self.name(name)) if name else []:
            symbol = self.program.symbols[index]
            if symbol.file == self.file and symbol.places == [self.place(node)]:
                line = symbol.places[0][1]
                for word in symbol.words:
                    for used in self.globals.get(word, []):
                        if used != index:
                            self.record(used, line, node.start_byte, (("shape", index),))

    def _file_level(self, node: Node) -> None:
        owners = [
            s.index
            for s in self.program.symbols
            if not s.scope and s.file == self.file and self.place(node) in s.places
        ]
        for index in owners:
            self.feeds.append(("shape", index))
        self.walk([c for c in node.children if c.is_named])
        for _ in owners:
            self.feeds.pop()

    def _body(self, node: Node, function: Function) -> None:
        self.function = function
        self.scopes, self.blocks = [{}], [function.span]
        self.guards = [(0, 1 << 62)]
        self.walk([node])
        self.function, self.scopes, self.blocks = None, [], []

    def walk(self, nodes: list[Node]) -> None:
        """Visit nodes and all below them, in the order of the text."""
        from workbench.analysis.source.cuda.statements import HANDLERS

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
            self.record(index, line, at, feeds, target=at in self.targets)
            symbol = self.program.symbols[index]
            todo = list(symbol.words) if symbol.kind == "macro" else []
            # A macro's body is read where it is expanded: its names are looked up here.
            while todo:
                word = todo.pop()
                if word in seen:
                    continue
                seen.add(word)
                for inner in self.lookup(word):
                    self.record(inner, line, at, feeds)
                    if self.program.symbols[inner].kind == "macro":
                        todo.extend(self.program.symbols[inner].words)

    def record(
        self,
        symbol: int,
        line: int,
        at: int,
        feeds: tuple[tuple[str, int], ...],
        *,
        target: bool = False,
    ) -> None:
        """Record one mention of one symbol."""
        self.program.uses.append(Use(symbol, self.file, line, at, feeds, target))

    def region(self, label: str, key: Tokens, header: Place, body: Place, **more: bool) -> int:
        """Record lines that a header governs."""
        made = Region(
            len(self.program.regions),
            label,
            self.function.name if self.function else "",
            key,
            header,
            body,
            **more,
        )
        self.program.regions.append(made)
        return made.index

    def call(self, name: str, key: Tokens, node: Node) -> None:
        """Record a call."""
        scope = self.function.name if self.function else ""
        self.program.calls.append(Call(name, scope, key, self.place(node)))
