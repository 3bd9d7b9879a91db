"""Which lines of a CUDA file are one statement, or one head of a loop, condition or function.

A statement's lines are those of its own tokens: what stands in a nested block (the body of
a loop, a lambda) is of the statements there. A pragma and the statement behind it are one,
and so are statements that share a line. Macros are left out: no instruction lies on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.analysis.source.units import Range, joined

if TYPE_CHECKING:
    from tree_sitter import Node

#: What holds statements side by side; a child of one of these is a statement.
_BLOCKS = frozenset(
    {"translation_unit", "compound_statement", "declaration_list", "field_declaration_list"}
    | {"case_statement", "else_clause", "labeled_statement", "ERROR"}
    | {"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef"}
)
#: What is a statement, or a list of them, wherever it stands.
_LISTS = frozenset({"declaration_list", "field_declaration_list", "else_clause"})
_MACROS = frozenset({"preproc_def", "preproc_function_def", "preproc_include", "comment"})


def statement_lines(root: Node) -> list[Range]:
    """Lines of every statement that has several, ascending and disjoint.

    Args:
        root: A parse tree.

    Returns:
        1-based first and last lines.
    """
    return joined(_Walk(root).found)


class _Walk:
    """All tokens in the order of the text, each for the statement that it is of."""

    def __init__(self, root: Node) -> None:
        self.found: list[Range] = []
        self.pragma = 0  # line of a pragma that waits for its statement
        # (node, the statement it is in); None closes the statement that is open.
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
            self._close()  # what stood before a nested statement is a piece of its own
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
            self.stack.append((child, own or child.type in _LISTS or _is_statement(child.type)))

    def _close(self) -> None:
        """End the piece that is open; its statement may go on behind a nested one."""
        piece, self.rows[-1] = self.rows[-1], None
        if piece is not None:
            self.found.append(piece)


def _is_statement(kind: str) -> bool:
    return kind.endswith("_statement") and kind != "init_statement"
