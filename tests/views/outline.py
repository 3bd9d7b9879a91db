"""A page as an outline: a line for each element, text and part of its data, by depth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from html.parser import HTMLParser
from typing import Any

#: What changes with every build and says nothing of the page.
_VOLATILE = ((re.compile(r"[0-9a-f]{40,64}"), "<hash>"), (re.compile(r"\?v=[0-9a-zA-Z.]+"), "?v="))
VOID = frozenset(("meta", "link", "img", "br", "input", "hr", "col", "wbr"))
_CELLS = frozenset(("td", "th"))
#: Element -> those that it ends where they were left open, and where the search for them ends.
#: https://html.spec.whatwg.org/multipage/syntax.html#optional-tags
_ENDS: dict[str, tuple[Set[str], Set[str]]] = {
    "td": (_CELLS, {"tr"}),
    "th": (_CELLS, {"tr"}),
    "tr": (_CELLS | {"tr"}, {"table"}),
    "thead": (_CELLS | {"tr", "thead", "tbody"}, {"table"}),
    "tbody": (_CELLS | {"tr", "thead", "tbody"}, {"table"}),
    "li": ({"li"}, {"ul", "ol"}),
    "dt": ({"dt", "dd"}, {"dl"}),
    "dd": ({"dt", "dd"}, {"dl"}),
}
_OPTIONAL = _CELLS | {"tr", "thead", "tbody", "li", "dt", "dd"}
#: Longer data are told on several lines.
_WIDE = 110


class Outline(HTMLParser):
    """Reads one page; `lines` is its outline. What is not closed as opened is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._open: list[tuple[str, bool]] = []  # with whether blanks count in it

    def handle_decl(self, decl: str) -> None:
        self._line(f"<!{decl}>")

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment reaches the reader: {data}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _ENDS:
            self._end_implied(*_ENDS[tag])
        # A class that a template adds may leave a blank behind, which means nothing.
        told = [name if value is None else f"{name}={value.rstrip()}" for name, value in attrs]
        self._line(f"<{' '.join([tag, *told])}>")
        if tag not in VOID:
            code = tag == "pre" or (tag == "td" and "c" in (dict(attrs).get("class") or "").split())
            self._open.append((tag, code or self._is_code))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open[-1][0] != tag and self._open[-1][0] in _OPTIONAL:
            self._open.pop()
        assert self._open and self._open.pop()[0] == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if data.lstrip().startswith("{") and data.rstrip().endswith("}"):
            self.lines += [self._indent + line for line in told(json.loads(data))]
        elif self._is_code:
            for line in data.removesuffix("\n").split("\n") if data != "\n" else ():
                self._line(f"|{line}|")
        elif text := " ".join(data.split()):
            self._line(text)

    def close(self) -> None:
        super().close()
        assert not self._open, self._open

    @property
    def _is_code(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    @property
    def _indent(self) -> str:
        return " " * len(self._open)

    def _end_implied(self, ended: Set[str], within: Set[str]) -> None:
        names = [name for name, _ in self._open]
        start = max((n + 1 for n, name in enumerate(names) if name in within), default=0)
        if any(name in ended for name in names[start:]):
            first = next(n for n in range(start, len(names)) if names[n] in ended)
            assert set(names[first:]) <= _OPTIONAL, (names, self.getpos())
            del self._open[first:]

    def _line(self, text: str) -> None:
        for pattern, instead in _VOLATILE:
            text = pattern.sub(instead, text)
        self.lines.append(self._indent + text)


def outline(html: str) -> str:
    """The outline of a page."""
    page = Outline()
    page.feed(html)
    page.close()
    return "\n".join(page.lines) + "\n"


def outline_of_data(script: str) -> str:
    """The outline of a script that sets one global to data: ``window.name={…};``."""
    name, _, data = script.partition("=")
    return "\n".join([name, *told(json.loads(data.rstrip().removesuffix(";")))]) + "\n"


def told(value: Any, indent: str = "", name: str = "") -> Iterator[str]:
    """Data as lines; what is short is on one. Numbers have the digits that every sum has."""
    short = json.dumps(_rounded(value), sort_keys=True, ensure_ascii=False)
    for pattern, instead in _VOLATILE:
        short = pattern.sub(instead, short)
    short = f"{indent}{name} {short}" if name else indent + short
    if len(short) <= _WIDE or not isinstance(value, dict | list):
        yield short
        return
    if name:
        yield indent + name
        indent += " "
    parts = [(f"{key}:", value[key]) for key in sorted(value)] if isinstance(value, dict) else []
    for name, inner in parts or [("-", inner) for inner in value]:
        yield from told(inner, indent, name)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value
