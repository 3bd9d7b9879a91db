"""One page of the report as one file: to mail, to attach, to keep.

The page's own stylesheet and scripts are put into it, with the charts' script if it has charts.
Links to other pages of the site lose their target, because those pages are missing; links within
the page and to documentation stay. A policy in the page's head forbids it from loading anything, so
that opening it sends no requests.
"""

from __future__ import annotations

import base64
import html
import mimetypes
import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from workbench.disk.limits import check_regular
from workbench.errors import DataError, UsageError
from workbench.language import N_, _

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
)
NOTE = N_(
    "This is one page of a report, in a file of its own. "
    "Links to the report’s other pages are switched off."
)
#: Links without a target look like text; the note that says so is unobtrusive.
_STYLE = "a:not([href]) { color: inherit; text-decoration: none; cursor: default; }"

#: The number of leading bytes that identify a page of a report.
_HEAD = 2048

#: Matches the end of a script element, or the start of a state in which its end is ignored (HTML,
#: section 4.12.1.3, restrictions for contents of script elements).
_ENDS_SCRIPT = re.compile(r"<!--|</?script", re.IGNORECASE)
_ENDS_STYLE = re.compile(r"</(?=style)", re.IGNORECASE)
_LOADS = re.compile(r"@import|url\(\s*['\"]?(?!data:|#)", re.IGNORECASE)


def pack(page: Path, root: Path) -> str:
    """The page of the site `root` as HTML that opens without a network or other files.

    Raises UsageError: the page cannot be read, or it needs a file that is not in the site.
    """
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {page}: {error}", "Name a page that `workbench report` wrote."
        ) from error
    packer = _Packer(page.resolve(), root.resolve())
    packer.feed(text)
    packer.close()
    return packer.text()


def is_page_of_ours(path: Path) -> bool:
    """True if a file is a page of a report, so that a new one may replace it."""
    try:
        check_regular(path, path.stat())
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, DataError):
        return False
    return b'<meta name="generator" content="workbench ' in head


class _Packer(HTMLParser):
    """Copies a page token by token, and changes references to other files."""

    def __init__(self, page: Path, root: Path) -> None:
        super().__init__(convert_charrefs=False)
        self._page, self._root = page, root
        self._out: list[str] = []
        self._early: list[str] = []  # scripts marked `async`: others wait for them
        self._late: list[str] = []
        self._skipping = False  # inside a script element that was removed

    def text(self) -> str:
        """The copied text."""
        self._scripts()
        return "".join(self._out)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raw = self.get_starttag_text() or ""
        values = {name: value or "" for name, value in attrs}
        if tag == "link" and values.get("rel") == "stylesheet":
            self._out.append(_style(self._read(values["href"])))
        elif tag == "script" and "src" in values:
            place = self._early if "async" in values else self._late
            place.append(_script(self._read(values["src"]), values.get("id", "")))
            self._skipping = True
        elif tag in ("a", "area") and "href" in values:
            self._out.append(self._link(tag, raw, attrs))
        elif "src" in values and not values["src"].startswith("data:"):
            self._out.append(_tag(tag, _with(attrs, "src", self._embedded(values["src"]))))
        elif tag == "link" and not values.get("href", "data:").startswith("data:"):
            pass  # an icon or a preload hint: the page is complete without it
        elif "http-equiv" in values:
            pass  # the policy of a page with files beside it; this page has a stricter one
        else:
            self._out.append(raw)
        if tag == "meta" and "charset" in values:
            policy = html.escape(POLICY, quote=True)
            self._out.append(
                f'\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
                '\n<meta name="referrer" content="no-referrer">'
            )
        if tag == "main":
            self._out.append(f'\n<p class="note single">{html.escape(_(NOTE))}</p>')

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._skipping:
            self._skipping = False
            return
        if tag == "head":
            self._out.append(f"<style>{_STYLE}</style>\n")
        if tag == "body":
            self._scripts()
        self._out.append(f"</{tag}>")

    def _scripts(self) -> None:
        # After the content, where deferred scripts would run; inline ones cannot be deferred.
        self._out += self._early + self._late
        self._early, self._late = [], []

    def _link(self, tag: str, raw: str, attrs: list[tuple[str, str | None]]) -> str:
        href = next(value or "" for name, value in attrs if name == "href")
        if href.startswith("#") or urlsplit(href).scheme in ("https", "http", "mailto"):
            return raw
        path, _, anchor = href.partition("#")
        here = posixpath.join(self._page.parent.as_posix(), unquote(path))
        if anchor and posixpath.normpath(here) == self._page.as_posix():
            return _tag(tag, _with(attrs, "href", f"#{anchor}"))
        return _tag(tag, [pair for pair in attrs if pair[0] not in ("href", "rel", "target")])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._out.append(data)

    def handle_entityref(self, name: str) -> None:
        self._out.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._out.append(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        self._out.append(f"<!{decl}>")

    def _file(self, reference: str) -> Path:
        path = (self._page.parent / unquote(urlsplit(reference).path)).resolve()
        if urlsplit(reference).scheme or not path.is_relative_to(self._root) or not path.is_file():
            raise UsageError(
                f"{self._page.name} needs {reference}, which is not in {self._root}",
                "Write the report again with `workbench report --force`.",
            )
        return path

    def _read(self, reference: str) -> str:
        return self._file(reference).read_text(encoding="utf-8")

    def _embedded(self, reference: str) -> str:
        path = self._file(reference)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _with(
    attrs: list[tuple[str, str | None]], name: str, value: str
) -> list[tuple[str, str | None]]:
    return [(key, value if key == name else old) for key, old in attrs]


def _tag(tag: str, attrs: list[tuple[str, str | None]]) -> str:
    """A start tag from the parser's unescaped values, which are escaped again."""
    words = [
        f" {name}" if value is None else f' {name}="{html.escape(value, quote=True)}"'
        for name, value in attrs
    ]
    return f"<{tag}{''.join(words)}>"


def _style(css: str) -> str:
    """A style element; an end tag inside a CSS string is written with an escaped slash."""
    if _LOADS.search(css):
        raise UsageError(
            "the stylesheet loads another file, which a self-contained page cannot do",
            "Put what it loads into the stylesheet as a data: URL.",
        )
    return "<style>\n" + _ENDS_STYLE.sub(r"<\\/", css) + "</style>"


def _script(code: str, name: str = "") -> str:
    """A script element that its own code cannot end.

    Code that holds a sequence with a meaning in HTML is not rewritten, because that is only right
    within string and regular expression literals; it becomes a ``data:`` address, in which such
    sequences have no meaning.
    """
    label = f' id="{html.escape(name, quote=True)}"' if name else ""
    if _ENDS_SCRIPT.search(code):
        data = base64.b64encode(code.encode()).decode()
        return f'<script{label} src="data:text/javascript;charset=utf-8;base64,{data}"></script>\n'
    return f"<script{label}>\n{code}\n</script>\n"
