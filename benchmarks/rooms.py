"""How much stands in each room: modules, lines, lines of code, imports inside of functions.

    python -m benchmarks.rooms [--root CHECKOUT] [--depth 1]

A line of code is one that holds part of a statement: no blank line, comment, docstring or
import. Lines are a symptom and not the measure; the measure is `benchmarks.walk`.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).resolve().parent.parent
PACKAGES = ("workbench", "ptxemu")
_NOTHING = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Size(NamedTuple):
    """What a module holds; sizes add up."""

    modules: int = 0
    lines: int = 0
    code: int = 0
    late: int = 0

    def __add__(self, other: object) -> Size:
        assert isinstance(other, Size)
        return Size(*(a + b for a, b in zip(self, other, strict=True)))


def size(text: str) -> Size:
    """The size of one module's text."""
    tree = ast.parse(text)
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NOTHING
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in (*docstrings(tree), *imports(tree)):
        code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return Size(1, len(text.splitlines()), len(code), sum(1 for _ in late(tree)))


def docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    """The docstrings of a module, its classes and functions; strings that explain a field."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for each in node.body:
                if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                    yield each


def imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports, wherever they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def late(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports inside of functions."""
    seen = {
        found
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for found in imports(node)
    }
    yield from seen


def rooms(root: Path, depth: int) -> dict[str, Size]:
    """Sizes by room: the first `depth` folders below a package; ``(top)`` is its own files."""
    found: dict[str, Size] = defaultdict(Size)
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            inside = path.relative_to(root / package).parts[:-1][:depth]
            name = "/".join([package, *inside]) if inside else f"{package} (top)"
            found[name] += size(path.read_text(encoding="utf-8"))
    return dict(found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=REPO)
    parser.add_argument("--depth", type=int, default=1)
    arguments = parser.parse_args()
    table = rooms(arguments.root, arguments.depth)
    rows = [*sorted(table.items()), ("all", sum(table.values(), Size()))]
    lines = [f"{'room':<28} {'modules':>7} {'lines':>7} {'code':>7} {'late':>5}"]
    lines += [f"{name:<28} {s.modules:>7} {s.lines:>7} {s.code:>7} {s.late:>5}" for name, s in rows]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
