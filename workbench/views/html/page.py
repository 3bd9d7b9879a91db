"""A page of the site: its path, its rendered text, its record in the manifest.

Planning a site needs its addresses but no template: whether a page is up to date is known before
its rendering code is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from workbench.ladder import ENGINES, Ladder, Rung
from workbench.language import N_, _
from workbench.model import Record

#: Kinds of owners; an owner's pages are added and removed together.
LADDERS, REPORTS, PROGRAMS, SHARED = "ladder", "report", "program", "site"
#: The file beside a page is a script that assigns one value: a page opened from a disk may load a
#: script, while fetching JSON would need a server.
_CODE = b"window.workbenchCode="


class View(SimpleNamespace):
    """The values that a template shows, by name, for a page or for one of its rows."""

    def but(self, **changes: object) -> View:
        """The same with the given changes."""
        return View(**{**vars(self), **changes})


class Rendered(Record, frozen=True):
    """A page's text and its summary for the index.

    `beside` are files in the page's folder that belong only to it, by name.
    """

    html: str
    summary: dict[str, object] = msgspec.field(default_factory=dict)
    beside: dict[str, bytes] = msgspec.field(default_factory=dict)


Tone = Literal["", "good", "bad", "warn"]


class Link(Record, frozen=True):
    """A link; an empty `href` is the page itself."""

    text: str
    href: str = ""
    label: str = ""


class Badge(Record, frozen=True):
    """A short fact in the page's head."""

    text: str
    tone: Tone = ""


class Head(Record, frozen=True):
    """The head of every page: names, links, marks.

    `change` is the author's description of the change; `steps` and `pages` link to neighbours;
    `listings` are pages with all instructions, at ``#k0-i12``; `notices` may change a verdict;
    `origin` is the source of the numbers.
    """

    heading: str
    name: str = ""
    change: str = ""
    crumbs: tuple[Link, ...] = ()
    steps: tuple[Link, ...] = ()
    pages: tuple[Link, ...] = ()
    listings: bool = False
    chips: tuple[Badge, ...] = ()
    notices: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()

    def told(self, remarks: Sequence[str], origin: Sequence[str]) -> Head:
        """The head with remarks on profiles; those that change no verdict go to `origin`."""
        weighty = (text for text in remarks if text not in origin)
        beside = tuple(text for text in remarks if text in origin)
        return replace(self, notices=(*weighty, *self.notices), origin=beside)


_NEIGHBOURS = {
    "kernel": (N_("Previous kernel"), N_("Next kernel")),
    "launch": (N_("Previous launch"), N_("Next launch")),
    "step": (N_("Previous step"), N_("Next step")),
    "version": (N_("Previous version"), N_("Next version")),
}


def neighbours(pages: Sequence[tuple[str, str]], place: int, noun: str) -> tuple[Link, ...]:
    """Links to the pages (text, address) before and after the one at index `place`."""
    out = []
    if place > 0:
        text, href = pages[place - 1]
        out.append(Link(f"‹ {text}", href, _(_NEIGHBOURS[noun][0])))
    if place + 1 < len(pages):
        text, href = pages[place + 1]
        out.append(Link(f"{text} ›", href, _(_NEIGHBOURS[noun][1])))
    return tuple(out)


class ReportFile(Record, frozen=True):
    """A report captured elsewhere, and the requested kernels (None: all).

    `label` is its name if its file's name is not meaningful: ``@before`` for the detailed profile
    of a capture.
    """

    path: Path
    kernel: str | None = None
    label: str = ""

    @property
    def title(self) -> str:
        """Its title: its label, or its file's name."""
        return self.label or self.path.name


class CapturedProgram(Record, frozen=True):
    """A captured program: the folder that holds ``.workbench``, and the capture's own name."""

    root: Path
    name: str


class Page(Record, frozen=True):
    """A page that should exist.

    `owner` groups the pages that are added and removed together; neighbours in one `group` are
    rendered together, because they are made from the same profiles. `key` is a digest of all inputs
    of the page: the code with its templates, the contents of files, and a study's facts about
    versions.
    """

    path: str  # relative to the site, forward slashes
    key: str
    owner: str
    render: Callable[[], Rendered]
    group: str = ""


class KeptPage(Record, frozen=True):
    """The manifest's record of a page; the sizes reveal a page that a crash truncated."""

    key: str
    owner: str
    size: int = 0
    beside: dict[str, int] = msgspec.field(default_factory=dict)
    summary: dict[str, object] = msgspec.field(default_factory=dict)


class PageCount(NamedTuple):
    """The numbers of pages written, left alone because unchanged, and removed."""

    written: int = 0
    unchanged: int = 0
    removed: int = 0

    def plus(self, other: PageCount) -> PageCount:
        """The sum of two counts."""
        return PageCount(*map(sum, zip(self, other, strict=True)))


def code_script(launches: Mapping[str, Mapping[str, object]]) -> bytes:
    """The content of a code script: a launch's id prefix on the page -> its columns."""
    data = msgspec.json.encode(launches)
    # Only strings hold `<`; as an escape it can neither end a script nor start a comment
    # when a page is packed into one file.
    return _CODE + data.replace(b"<", b"\\u003c") + b";\n"


def digest(*parts: str | bytes) -> str:
    """A content key; the parts are separated, so that ("ab", "c") and ("a", "bc") differ."""
    state = blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


_UNSAFE = re.compile(r"[^A-Za-z0-9._+@-]")


def to_root(path: str) -> str:
    """``studies/sgemm/index.html`` -> ``../../``, so that pages open from a disk."""
    return "../" * path.count("/")


def page_part(name: str) -> str:
    """A name as one safe component of a page's path and address.

    Unusual characters become ``-``; a short hash then distinguishes two such names.
    """
    safe = _UNSAFE.sub("-", name)[:80]
    if safe == name and not safe.startswith("."):
        return safe
    return f"{safe.lstrip('.')}-{blake2b(name.encode(), digest_size=4).hexdigest()}"


def ladder_folder(ladder: Ladder) -> str:
    """The folder of a ladder's pages, relative to the site."""
    parts = (ladder.name, ladder.device, ladder.problem)
    return "studies/" + "/".join(page_part(part) for part in parts)


def study_page(name: str) -> str:
    """The page of a study, relative to the site."""
    return f"studies/{page_part(name)}/index.html"


def ladder_crumbs(ladder: Ladder) -> tuple[Link, ...]:
    """The breadcrumbs to a ladder's page, which comes last."""
    where = f"{ladder.device_name} · {ladder.problem}"
    return (
        Link(_("Overview"), "index.html"),
        Link(ladder.name, study_page(ladder.name)),
        Link(where),
    )


def beside(ladder: Ladder, device: str, page: str) -> str:
    """The link from a ladder's page to a page of its study and problem on a device (slug)."""
    return f"../../{page_part(device)}/{page_part(ladder.problem)}/{page}"


def version_page(version: str, engine: str) -> str:
    """The file name of a version's page: ``v3.html``."""
    name = page_part(version)
    return f"{name}.html" if engine == "ncu" else f"{name}.{page_part(engine)}.html"


def tuned_page(version: str, engine: str) -> str:
    """The file name of a tuned version's page: ``v3.tuned.html``."""
    name = page_part(version)
    return f"{name}.tuned.html" if engine == "gpu" else f"{name}.tuned.{page_part(engine)}.html"


def rung_page(rung: Rung) -> str:
    """The link to a version's main page, from a page of the same ladder; "" if it has none."""
    engine = next((engine for engine in ENGINES if engine in rung.entries), "")
    return version_page(rung.id, engine) if engine else ""


def step_page(old: str, new: str, engine: str) -> str:
    """The file name of a step's page: ``v2..v3.html``."""
    name = f"{page_part(old)}..{page_part(new)}"
    return f"{name}.html" if engine == "ncu" else f"{name}.{page_part(engine)}.html"


def short_device(device: str, others: Iterable[str]) -> str:
    """A device's slug as users type it: its first word, if no other device begins with it."""
    word = device.partition("-")[0]
    alike = [other for other in others if other != device and other.partition("-")[0] == word]
    return device if alike else word


def launch_page(index: int) -> str:
    """The file name of a launch's page."""
    return f"launch{index}.html"


def file_beside(path: str, suffix: str = ".code.js") -> str:
    """The name of a file beside a page, from the page's path: ``v3.html`` -> ``v3.code.js``."""
    return PurePosixPath(path).name.removesuffix(".html") + suffix
