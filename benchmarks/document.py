"""A measured table in a document, between two marks, so that it can be measured again."""

from __future__ import annotations

from pathlib import Path


def replace(document: Path, marks: tuple[str, str], text: str) -> None:
    """Put a text between the marks of a document.

    Raises:
        ValueError: the document has no such marks.
    """
    before, first, rest = document.read_text(encoding="utf-8").partition(marks[0])
    _, second, after = rest.partition(marks[1])
    if not first or not second:
        raise ValueError(f"{document} has no place for the table between {marks[0]} and {marks[1]}")
    document.write_text(f"{before}{first}\n{text}{second}{after}", encoding="utf-8")
