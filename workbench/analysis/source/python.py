"""Reading Python sources (Triton kernels) into the same `symbols.Program` as CUDA's.

Python declares nothing: a name's assignments are its definitions, at file level they
are its declaration as well. Scopes are functions. A file that does not parse adds
nothing, so its hunks stand without symbols.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from workbench.analysis.source.symbols import (
    Call,
    Definition,
    Function,
    Place,
    Program,
    Region,
    Symbol,
    Use,
)
from workbench.analysis.source.tokens import Source, Tokens

_EVERYWHERE = (0, 1 << 62)


class PythonReader(ast.NodeVisitor):
    """Reads one Python file into the program."""

    def __init__(self, program: Program, file: int, source: Source) -> None:
        self.program, self.file, self.source = program, file, source
        self.starts = [0]
        for line in source.lines:
            self.starts.append(self.starts[-1] + len(line.encode("utf-8", "replace")) + 1)
        try:
            self.tree = ast.parse(source.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.tree = ast.Module(body=[], type_ignores=[])
        self.names: dict[str, int] = {}
        self.globals: Mapping[str, list[int]] = {}
        self.by_name: Mapping[str, list[Function]] = {}
        self.function: Function | None = None
        self.feeds: list[tuple[str, int]] = []
        self.guards = [_EVERYWHERE]

    # --- positions ---------------------------------------------------------------

    def _at(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        line = node.end_lineno or node.lineno
        return self.starts[line - 1] + (node.end_col_offset or 0)

    def _place(self, node: ast.expr | ast.stmt) -> Place:
        return (self.file, node.lineno, node.end_lineno or node.lineno)

    def _key(self, *nodes: ast.AST) -> Tokens:
        return tuple(ast.dump(node) for node in nodes)

    # --- first pass ----------------------------------------------------------------

    def declare_globals(self) -> None:
        """Functions and names of file scope."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                self._declare_function(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._symbol(target.id, self._key(node), self._place(node), "")

    def _symbol(self, name: str, shape: Tokens, place: Place, scope: str) -> int:
        made = Symbol(len(self.program.symbols), name, "variable", scope, shape, [place], self.file)
        self.program.symbols.append(made)
        return made.index

    def _declare_function(self, node: ast.FunctionDef) -> None:
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        place = (self.file, first, node.end_lineno or node.lineno)
        head = (self.file, first, node.body[0].lineno - 1 if node.body else node.lineno)
        symbol = self._symbol(node.name, self._key(node), place, "")
        self.program.symbols[symbol].kind = "function"
        made = Function(
            name=node.name,
            kernel=any("jit" in ast.dump(mark) for mark in node.decorator_list),
            head=self._key(*node.decorator_list),
            tokens=self._key(node),
            place=place,
            head_place=(head[0], head[1], max(head[1], head[2])),
            span=(self._at(node), self._end(node)),
            symbol=symbol,
        )
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            own = (self.file, argument.lineno, argument.end_lineno or argument.lineno)
            index = self._symbol(argument.arg, self._key(argument), own, node.name)
            self.program.symbols[index].kind = "parameter"
            made.parameters.append(index)
            made.names[argument.arg] = index
        self.program.functions.append(made)

    # --- second pass -----------------------------------------------------------------

    def read_bodies(
        self, names: Mapping[str, list[int]], by_name: Mapping[str, list[Function]]
    ) -> None:
        """Everything inside of functions, and what file-level values use."""
        self.globals, self.by_name = names, by_name
        own = {f.place[1:]: f for f in self.program.functions if f.place[0] == self.file}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                self.function = own[first, node.end_lineno or node.lineno]
                self.names = dict(self.function.names)
                for statement in node.body:
                    self._visit(statement)
                self.function, self.names = None, {}
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                place = self._place(node)
                owners = [s.index for s in self.program.symbols if s.places == [place]]
                with self._feeding(*(("shape", index) for index in owners)):
                    if node.value is not None:
                        self._visit(node.value)

    def _visit(self, node: ast.AST) -> None:
        try:
            self.visit(node)
        except RecursionError:
            return  # a statement nested beyond reason: its names are left out

    @contextmanager
    def _feeding(self, *targets: tuple[str, int]) -> Iterator[None]:
        depth = len(self.feeds)
        self.feeds.extend(targets)
        try:
            yield
        finally:
            del self.feeds[depth:]

    def _lookup(self, name: str) -> list[int]:
        return [self.names[name]] if name in self.names else self.globals.get(name, [])

    def _define(self, name: str, node: ast.stmt | ast.expr, kind: str, key: Tokens) -> int:
        scope = self.function.name if self.function else ""
        if name not in self.names:
            # The shape is empty: a Python name has no declaration beyond its values.
            self.names[name] = self._symbol(name, (), self._place(node), scope)
        made = Definition(
            index=len(self.program.definitions),
            symbol=self.names[name],
            kind="element" if kind == "element" else "update" if kind == "update" else "value",
            scope=scope,
            key=key,
            place=self._place(node),
            start=self._at(node),
            end=self._end(node),
            kills=kind == "value",
            guard=self.guards[-1],
        )
        self.program.definitions.append(made)
        return made.index

    def _targets(self, target: ast.expr) -> Iterator[tuple[str, str]]:
        """(name, kind) of what an assignment's left side defines."""
        if isinstance(target, ast.Name):
            yield target.id, "value"
        elif isinstance(target, (ast.Tuple, ast.List)):
            for item in target.elts:
                yield from self._targets(item)
        elif isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
            for name, _ in self._targets(target.value):
                yield name, "element"

    def visit_Assign(self, node: ast.Assign) -> None:
        """``a = b = …``."""
        found = [pair for target in node.targets for pair in self._targets(target)]
        made = [self._define(name, node, kind, self._key(node)) for name, kind in found]
        with self._feeding(*(("definition", index) for index in made)):
            self.visit(node.value)
            for target in node.targets:
                if not isinstance(target, ast.Name):
                    self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """``a: int = …``."""
        made = [
            self._define(name, node, kind, self._key(node))
            for name, kind in self._targets(node.target)
        ]
        with self._feeding(*(("definition", index) for index in made)):
            if node.value is not None:
                self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """``a += …``: the old value flows in."""
        known = list(self._targets(node.target))
        made = [
            self._define(name, node, "element" if kind == "element" else "update", self._key(node))
            for name, kind in known
        ]
        with self._feeding(*(("definition", index) for index in made)):
            for name, _ in known:
                self._use(name, node.target)
            self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        """A mention."""
        self._use(node.id, node)

    def _use(self, name: str, node: ast.expr) -> None:
        for index in self._lookup(name):
            use = Use(index, self.file, node.lineno, self._at(node), tuple(self.feeds), False)
            self.program.uses.append(use)

    def visit_Call(self, node: ast.Call) -> None:
        """A call: its arguments flow into the parameters of functions of that name."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        callees = self.by_name.get(name, [])
        if callees:
            scope = self.function.name if self.function else ""
            self.program.calls.append(Call(name, scope, self._key(node), self._place(node)))
        self.visit(node.func)
        for number, argument in enumerate(node.args):
            made = []
            for callee in callees:
                if number < len(callee.parameters):
                    parameter = callee.parameters[number]
                    made.append(len(self.program.definitions))
                    self.program.definitions.append(
                        Definition(
                            index=made[-1],
                            symbol=parameter,
                            kind="argument",
                            scope=callee.name,
                            key=self._key(argument),
                            place=self._place(argument),
                            start=self._at(argument),
                            end=self._end(argument),
                            kills=False,
                            guard=self.guards[-1],
                        )
                    )
            with self._feeding(*(("definition", index) for index in made)):
                self.visit(argument)
        for keyword in node.keywords:
            self.visit(keyword.value)

    def visit_Return(self, node: ast.Return) -> None:
        """What a function returns reaches its callers."""
        if node.value is not None and self.function is not None:
            with self._feeding(("return", self.function.symbol)):
                self.visit(node.value)

    def _region(
        self, label: str, header: ast.expr, first: int, body: list[ast.stmt]
    ) -> tuple[str, int]:
        last = body[-1].end_lineno or body[-1].lineno
        made = Region(
            index=len(self.program.regions),
            label=label,
            scope=self.function.name if self.function else "",
            key=(label, *self._key(header)),
            header=(self.file, first, header.end_lineno or header.lineno),
            body=(self.file, body[0].lineno, last),
        )
        self.program.regions.append(made)
        return "region", made.index

    def _guarded(self, body: list[ast.stmt]) -> None:
        if body:
            self.guards.append((self._at(body[0]), self._end(body[-1])))
            for statement in body:
                self.visit(statement)
            self.guards.pop()

    def visit_For(self, node: ast.For) -> None:
        """A loop: its range defines the variable and governs the body."""
        self.program.loops.setdefault(self.file, []).append((self._at(node), self._end(node)))
        names = [name for name, _ in self._targets(node.target)]
        region = self._region(names[0] if names else "for", node.iter, node.lineno, node.body)
        made = [self._define(name, node.iter, "value", self._key(node.iter)) for name in names]
        with self._feeding(region, *(("definition", index) for index in made)):
            self.visit(node.iter)
        self._guarded(node.body)
        self._guarded(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        """A loop with a condition."""
        self.program.loops.setdefault(self.file, []).append((self._at(node), self._end(node)))
        with self._feeding(self._region("while", node.test, node.lineno, node.body)):
            self.visit(node.test)
        self._guarded(node.body)
        self._guarded(node.orelse)

    def visit_If(self, node: ast.If) -> None:
        """A condition governs both branches."""
        with self._feeding(self._region("if", node.test, node.lineno, node.body + node.orelse)):
            self.visit(node.test)
        self._guarded(node.body)
        self._guarded(node.orelse)
