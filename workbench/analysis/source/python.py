"""Reading Python sources (Triton kernels) into the same `SourceMap` as CUDA's.

Python declares nothing: a name's assignments are its definitions, and at file level also its
declaration. Scopes are functions. A file that does not parse adds nothing, so its hunks have no
symbols.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from workbench.analysis.source.lines import Source, Tokens, joined
from workbench.analysis.source.symbols import DefinitionKind, Extent, Recorder, Routine, SourceMap


class PythonReader(Recorder, ast.NodeVisitor):
    """Reads one Python file into the map."""

    def __init__(self, found: SourceMap, file: int, source: Source) -> None:
        super().__init__(found, file)
        self.starts = [0]
        for line in source.lines:
            self.starts.append(self.starts[-1] + len(line.encode("utf-8", "replace")) + 1)
        try:
            self.tree = ast.parse(source.text)
            ast.dump(self.tree)  # as deep as the passes below descend
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.tree = ast.Module(body=[], type_ignores=[])
        every = (node for node in ast.walk(self.tree) if isinstance(node, ast.stmt))
        found.statements[file] = joined(map(_lines_of, every))
        self.names: dict[str, int] = {}

    def _at(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        line = node.end_lineno or node.lineno
        return self.starts[line - 1] + (node.end_col_offset or 0)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return self._at(node), self._end(node)

    def _place(self, node: ast.expr | ast.stmt) -> Extent:
        return (self.file, node.lineno, node.end_lineno or node.lineno)

    def _key(self, *nodes: ast.AST) -> Tokens:
        return tuple(ast.dump(node) for node in nodes)

    def declare_globals(self) -> None:
        """Functions and names of file scope."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                self._declare_function(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        self.add_symbol(target.id, "variable", self._key(node), [self._place(node)])

    def _declare_function(self, node: ast.FunctionDef) -> None:
        first = _first_line(node)
        place = (self.file, first, node.end_lineno or node.lineno)
        head = max(first, node.body[0].lineno - 1 if node.body else node.lineno)
        made = Routine(
            name=node.name,
            kernel=any("jit" in ast.dump(mark) for mark in node.decorator_list),
            head=self._key(*node.decorator_list),
            tokens=self._key(node),
            place=place,
            head_place=(self.file, first, head),
            span=self._span(node),
            symbol=self.add_symbol(node.name, "function", self._key(node), [place]).index,
        )
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            own = (self.file, argument.lineno, argument.end_lineno or argument.lineno)
            type_ = argument.annotation
            written = isinstance(type_, ast.Constant)
            key = self._key(*([type_] if type_ is not None and not written else []))
            symbol = self.add_symbol(argument.arg, "parameter", key, [own], node.name)
            if isinstance(type_, ast.Constant):
                # A type in words. If it is not written, the launch determines it, so it is like an
                # argument: a type that only one side has is not a change.
                self.add_definition(
                    symbol.index, "argument", node.name, self._key(type_), own, self._span(type_)
                )
            made.parameters.append(symbol.index)
            made.names[argument.arg] = symbol.index
        self.found.routines.append(made)

    def read_bodies(
        self, names: Mapping[str, list[int]], by_name: Mapping[str, list[Routine]]
    ) -> None:
        """Everything inside functions, and the uses in file-level values."""
        self.globals, self.by_name = names, by_name
        own = {f.place[1:]: f for f in self.found.routines if f.place[0] == self.file}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                self.function = own[_first_line(node), node.end_lineno or node.lineno]
                self.names = dict(self.function.names)
                for statement in node.body:
                    self._visit(statement)
                self.function, self.names = None, {}
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                place = self._place(node)
                owners = [s.index for s in self.found.symbols if s.places == [place]]
                with self._feeding(*(("shape", index) for index in owners)):
                    if node.value is not None:
                        self._visit(node.value)

    def _visit(self, node: ast.AST) -> None:
        try:
            self.visit(node)
        except RecursionError:
            return  # a statement nested too deeply: its names are left out

    @contextmanager
    def _feeding(self, *targets: tuple[str, int]) -> Iterator[None]:
        depth = len(self.feeds)
        self.feeds.extend(targets)
        try:
            yield
        finally:
            del self.feeds[depth:]

    def _define(
        self, name: str, node: ast.stmt | ast.expr, kind: DefinitionKind, key: Tokens
    ) -> int:
        if name not in self.names:
            # The shape is empty: a Python name has no declaration beyond its values.
            made = self.add_symbol(name, "variable", (), [self._place(node)], self.scope)
            self.names[name] = made.index
        return self.add_definition(
            self.names[name],
            kind,
            self.scope,
            key,
            self._place(node),
            self._span(node),
            kills=kind == "value",
        )

    def _targets(self, target: ast.expr) -> Iterator[tuple[str, DefinitionKind]]:
        """(name, kind) of each name that an assignment's left side defines."""
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
        for index in [self.names[name]] if name in self.names else self.globals.get(name, []):
            self.add_use(index, node.lineno, self._at(node), tuple(self.feeds))

    def visit_Call(self, node: ast.Call) -> None:
        """A call: its arguments flow into the parameters of functions of that name."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        callees = self.by_name.get(name, [])
        if callees:
            self.add_call(name, self._key(node), self._place(node))
        self.visit(node.func)
        for number, argument in enumerate(node.args):
            made = [
                self.add_definition(
                    callee.parameters[number],
                    "argument",
                    callee.name,
                    self._key(argument),
                    self._place(argument),
                    self._span(argument),
                )
                for callee in callees
                if number < len(callee.parameters)
            ]
            with self._feeding(*(("definition", index) for index in made)):
                self.visit(argument)
        for keyword in node.keywords:
            self.visit(keyword.value)

    def visit_Return(self, node: ast.Return) -> None:
        """A returned value reaches the function's callers."""
        if node.value is not None and self.function is not None:
            with self._feeding(("return", self.function.symbol)):
                self.visit(node.value)

    def _governs(
        self, label: str, header: ast.expr, first: int, body: list[ast.stmt]
    ) -> tuple[str, int]:
        last = body[-1].end_lineno or body[-1].lineno
        made = self.add_governed(
            label,
            (label, *self._key(header)),
            (self.file, first, header.end_lineno or header.lineno),
            (self.file, body[0].lineno, last),
        )
        return "governed", made

    def _guarded(self, body: list[ast.stmt]) -> None:
        if body:
            self.guards.append((self._at(body[0]), self._end(body[-1])))
            for statement in body:
                self.visit(statement)
            self.guards.pop()

    def visit_For(self, node: ast.For) -> None:
        """A loop: its range defines the variable and governs the body."""
        self.add_loop(*self._span(node))
        names = [name for name, _ in self._targets(node.target)]
        governed = self._governs(" ".join(["for", *names[:1]]), node.iter, node.lineno, node.body)
        made = [self._define(name, node.iter, "value", self._key(node.iter)) for name in names]
        with self._feeding(governed, *(("definition", index) for index in made)):
            self.visit(node.iter)
        self._guarded(node.body)
        self._guarded(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        """A loop with a condition."""
        self.add_loop(*self._span(node))
        with self._feeding(self._governs("while", node.test, node.lineno, node.body)):
            self.visit(node.test)
        self._guarded(node.body)
        self._guarded(node.orelse)

    def visit_If(self, node: ast.If) -> None:
        """A condition governs both branches."""
        with self._feeding(self._governs("if", node.test, node.lineno, node.body + node.orelse)):
            self.visit(node.test)
        self._guarded(node.body)
        self._guarded(node.orelse)


def _first_line(node: ast.stmt) -> int:
    """The first line of a statement with its decorators."""
    marks: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(mark.lineno for mark in marks)])


def _lines_of(node: ast.stmt) -> tuple[int, int]:
    """First and last line of a statement, or of the head of one that holds others."""
    body = getattr(node, "body", None)
    if not isinstance(body, list) or not body:
        return _first_line(node), node.end_lineno or node.lineno
    return _first_line(node), max(node.lineno, _first_line(body[0]) - 1)
