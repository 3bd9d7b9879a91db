"""The documentation that came with the installation, by name: no network, no checkout."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from workbench.errors import MissingError, UsageError, did_you_mean
from workbench.features import FEATURES
from workbench.model import Record
from workbench.project import shipped

#: The page to read first.
_INDEX = "index"


class Topic(Record, frozen=True):
    """A page of the documentation: its name (``how-to/ci``) and its first heading."""

    name: str
    title: str


def _pages() -> dict[str, Path]:
    """Name of a page -> its file: those of the core, and those of each feature.

    Raises MissingError: the installation holds no pages.
    """
    core = shipped("docs")
    pages = {
        path.relative_to(root).as_posix()[:-3]: path
        for root in (core, *(each.folder / "docs" for each in FEATURES))
        for path in root.rglob("*.md")
    }
    if _INDEX not in pages:
        raise MissingError(
            f"this installation of workbench has no documentation ({core} is not there)",
            "Install it again from the wheel, or from a checkout.",
        )
    return pages


def topics() -> list[Topic]:
    """All pages, those at the top first; MissingError: the installation holds no pages."""
    pages = _pages()
    found = []
    for name in sorted(pages, key=lambda name: (name.count("/"), name != _INDEX, name)):
        lines = pages[name].read_text(encoding="utf-8").splitlines()
        title = next((line[2:] for line in lines if line.startswith("# ")), name)
        found.append(Topic(name=name, title=title))
    return found


def page(topic: str) -> str:
    """The text of a page.

    `topic` is ``how-to/ci``, ``ci``, or the name in a hint: ``docs/how-to/ci.md``.

    Raises:
        UsageError: there is no such page, or there are several.
        MissingError: the installation holds no pages.
    """
    pages = _pages()
    names = list(pages)
    wanted = topic.removeprefix("docs/").partition("#")[0].removesuffix(".md")
    found = [name for name in names if wanted in (name, PurePosixPath(name).name)]
    if wanted in found:
        found = [wanted]
    if not found:
        raise UsageError(
            f"there is no page `{topic}` in the documentation",
            f"{did_you_mean(wanted, names, 'pages')} `workbench docs` lists all of them.",
        )
    if len(found) > 1:
        raise UsageError(
            f"several pages are called `{wanted}`", f"Name one in full: {', '.join(found)}."
        )
    return pages[found[0]].read_text(encoding="utf-8")
