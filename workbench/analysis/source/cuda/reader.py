"""Reading a parse tree, second pass: everything inside of functions.

The walk is a loop with its own stack: sources nest as deep as their author (or a
damaged file) likes. Entries are nodes to visit or callables that close what a node
opened (a scope, a guard, a statement whose uses are being collected).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from workbench.analysis.source.cuda.declarations import Action, Declarations
from workbench.analysis.source.cuda.extents import statement_lines
from workbench.analysis.source.symbols import EVERYWHERE, Routine, SourceMap
from workbench.analysis.source.tokens import Source

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS = {"function_definition", "template_declaration"}

#: What a kind of node means: node type -> what visits it.
Handlers = Mapping[str, "Callable[[Reader, Node], None]"]


class Reader(Declarations):
    """Reads one file into the map.

    Args:
        found: The map of the whole version.
        file: Index of the file.
        source: Its text.
        handlers: What visits the nodes inside of functions; of other kinds of nodes the
            children are visited.
    """

    def __init__(self, found: SourceMap, file: int, source: Source, handlers: Handlers) -> None:
        super().__init__(found, file, source)
        self.handlers = handlers
        found.statements[file] = statement_lines(self.root)

    # --- bodies --------------------------------------------------------------------

    def read_bodies(
        self, names: Mapping[str, list[int]], by_name: Mapping[str, list[Routine]]
    ) -> None:
        """Second pass: everything inside of what the first pass met."""
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
            handler = self.handlers.get(item.type)
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

    # --- visits that open something before and close it behind ---------------------

    def later(self, *actions: Node | Action | None) -> None:
        """Visit these next, in this order."""
        self.stack.extend(action for action in reversed(actions) if action is not None)

    def open_scope(self, node: Node) -> Action:
        """Open a scope; returns what closes it."""
        self.scopes.append({})
        self.blocks.append((node.start_byte, node.end_byte))

        def close() -> None:
            self.scopes.pop()
            self.blocks.pop()

        return close

    def guarded(self, node: Node | None) -> list[Node | Action]:
        """Visit a node as a conditional block: what it assigns may not have happened."""
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
        """What starts a flow of uses into something."""
        return lambda: self.feeds.append((kind, index))

    def closed(self) -> None:
        """End the innermost flow."""
        self.feeds.pop()
