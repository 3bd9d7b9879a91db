"""The whole site of a small project, page by page: its words and its structure."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests import goldens
from tests.factories import make_project
from tests.views import site_data
from workbench.project import find_project
from workbench.views.html.build import build_report

#: What changes with every run or build and says nothing of the page.
_VOLATILE = (
    (re.compile(r"[0-9a-f]{40,64}"), "<hash>"),
    (re.compile(r"\?v=[0-9a-zA-Z.]+"), "?v="),
)


class Outline(HTMLParser):
    """A page as an outline: a line for each element and text, indented by depth."""

    VOID = frozenset({"meta", "link", "img", "br", "input", "hr", "col", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kept = " ".join(f"{name}={value}" for name, value in attrs)
        self._line(f"<{tag}{' ' if kept else ''}{kept}>")
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while tag in self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.lstrip().startswith("{") and data.rstrip().endswith("}"):
            data = json.dumps(json.loads(data), sort_keys=True, ensure_ascii=False)
        if text := " ".join(data.split()):
            self._line(text)

    def _line(self, text: str) -> None:
        for pattern, instead in _VOLATILE:
            text = pattern.sub(instead, text)
        self.lines.append(" " * len(self._open) + text)


def outline(path: Path) -> str:
    page = Outline()
    page.feed(path.read_text(encoding="utf-8"))
    return "\n".join(page.lines) + "\n"


@pytest.mark.parametrize("name", ["plain", "stepped"])
def test_site(name: str, tmp_path: Path) -> None:
    root = tmp_path / "project"
    if name == "plain":
        site_data.plain(root)
    else:
        make_project(root)
    build_report(root / "reports", project=find_project(root))
    pages = sorted((root / "reports").rglob("*.html"))
    assert pages
    for page in pages:
        relative = page.relative_to(root / "reports").with_suffix(".txt")
        goldens.same(f"site/{name}/{relative.as_posix()}", outline(page))
    kept = {
        p.relative_to(goldens.FOLDER / "site" / name).as_posix()
        for p in (goldens.FOLDER / "site" / name).rglob("*.txt")
    }
    assert kept == {p.relative_to(root / "reports").with_suffix(".txt").as_posix() for p in pages}
