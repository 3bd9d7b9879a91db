"""A page of the site: what it is made from, what rendering it gave, what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from workbench.model import Record

#: The file beside a page is a script that assigns one value: a page opened from a disk may
#: load that, and a page of fetched JSON would need a server.
_CODE = b"window.workbenchCode="


class Rendered(Record, frozen=True):
    """A page's text and, for the index, what is worth saying about it there.

    `beside` are files in the page's folder that belong to it alone, by name.
    """

    html: str
    summary: dict[str, object] = msgspec.field(default_factory=dict)
    beside: dict[str, bytes] = msgspec.field(default_factory=dict)


class ReportFile(Record, frozen=True):
    """A report captured elsewhere, and which of its kernels are meant (None: all).

    `label` is what it is called, where its file's name says nothing: ``@before``, whose file is
    the detailed profile of a capture.
    """

    path: Path
    kernel: str | None = None
    label: str = ""

    @property
    def title(self) -> str:
        """What it is called: its label, or its file's name."""
        return self.label or self.path.name


class CapturedProgram(Record, frozen=True):
    """A captured program: the folder that ``.workbench`` is in, and the capture's own name."""

    root: Path
    name: str


class Page(Record, frozen=True):
    """A page that should exist.

    `owner` groups the pages that come and go together; neighbours of one `group` are
    rendered together, because they are made of the same profiles. `key` is cheap and differs
    whenever the page might; `exact`, where there is one, is asked for then, and differs only
    if the page does.
    """

    path: str  # relative to the site, forward slashes
    key: str
    owner: str
    render: Callable[[], Rendered]
    group: str = ""
    exact: Callable[[], str] | None = None


class KeptPage(Record, frozen=True):
    """What the manifest remembers of a page; sizes tell a page that a crash has cut short."""

    key: str
    owner: str
    exact: str = ""
    size: int = 0
    beside: dict[str, int] = msgspec.field(default_factory=dict)
    summary: dict[str, object] = msgspec.field(default_factory=dict)


class PageCount(NamedTuple):
    """How many pages were written, left alone because unchanged, and removed."""

    written: int = 0
    unchanged: int = 0
    removed: int = 0

    def plus(self, other: PageCount) -> PageCount:
        """The sum of two counts."""
        return PageCount(*map(sum, zip(self, other, strict=True)))


def code_script(launches: Mapping[str, Mapping[str, object]]) -> bytes:
    """The file's content.

    Args:
        launches: Prefix of a launch's ids on the page -> its columns.
    """
    data = msgspec.json.encode(launches)
    # Only strings hold `<`; as an escape it can neither end a script nor start a comment
    # where a page is packed into one file.
    return _CODE + data.replace(b"<", b"\\u003c") + b";\n"


def digest(*parts: str | bytes) -> str:
    """A content key; parts are kept apart, so ("ab", "c") and ("a", "bc") differ."""
    state = blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()
