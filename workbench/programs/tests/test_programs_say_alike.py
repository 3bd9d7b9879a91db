"""What the terminal claims of two programs, JSON, Markdown and the pages claim as well."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.programs.capture.capture_store import Shelf
from workbench.programs.recalled import ProgramDiff, open_capture
from workbench.programs.shown import captured
from workbench.programs.shown.sheets import difference_document, difference_sheet, program_sheet
from workbench.programs.shown.steps import kernel_step_view, steps_markdown, steps_of
from workbench.views.html.page import CapturedProgram
from workbench.views.html.site import Site
from workbench.views.terminal.console import render
from workbench.views.text.tables import sheet_text

DATA = Path(__file__).resolve().parents[3] / "tests" / "data"
#: Columns in which no sentence is broken.
WIDE = 4000
#: Where prose ends and tables of hunks begin.
HUNKS = "What changed, and what it is linked to"
SLOW = {"orthogonalize"}


def pairs() -> Iterator[tuple[Shelf, str, str]]:
    shelf = Shelf(DATA / "programs")
    for name in sorted({each.rpartition("-")[0] for each in shelf.names()}):
        if {f"{name}-before", f"{name}-after"} <= set(shelf.names()):
            yield shelf, f"{name}-before", f"{name}-after"
    for old, new in (("strided", "coalesced"), ("manual", "fused"), ("eager", "compile")):
        yield Shelf(DATA / "captures"), old, new


PAIRS = [
    pytest.param(*pair, id=pair[1], marks=[pytest.mark.slow] * (pair[1].split("-")[0] in SLOW))
    for pair in pairs()
]


def bare(text: str) -> str:
    """Letters and numbers alone: views may begin a line with a capital and end it with a point."""
    return re.sub(r"[\W_]+", " ", text).casefold().strip()


def claims(diff: ProgramDiff) -> list[str]:
    """Every line of prose on the terminal, of the programs and of each kernel."""
    out = list(difference_sheet(diff.difference).title[:-2])
    for step in diff.steps():
        text = render(kernel_step_view(step, diff.difference, width=WIDE), WIDE)
        # Of the first line the name is another one everywhere.
        name, _, first = text.partition(HUNKS)[0].strip().partition("  ")
        assert name
        lines = first.splitlines()
        out += [line for line in lines if not line.startswith("  ") or "launched with" in line]
    return [bare(line.removeprefix("! ")) for line in out if line.strip()]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from texts(one)


@pytest.mark.parametrize(("shelf", "old", "new"), PAIRS)
def test_every_view_has_every_claim_of_the_terminal(
    shelf: Shelf, old: str, new: str, tmp_path: Path
) -> None:
    diff = ProgramDiff(open_capture(shelf, f"@{old}"), open_capture(shelf, f"@{new}"))
    document = difference_document(diff.difference, steps_of(diff.difference, diff.steps()))
    text = sheet_text(difference_sheet(diff.difference), "markdown")
    text += steps_markdown(diff.difference, diff.steps())
    with Site(tmp_path) as site:
        sides = (captured._Surveyed(site, CapturedProgram(shelf.root, name)) for name in (old, new))
        pages = [page.render().html for page in captured._Compared(*sides).pages("key")]
    views = {
        "json": "\n".join(map(bare, texts(document.plain()))),
        "markdown": bare(html.unescape(re.sub(r"\\(.)", r"\1", text))),
        "pages": bare(html.unescape(re.sub(r"<[^>]*>", " ", " ".join(pages)))),
    }
    found = claims(diff)
    assert len(found) >= 2
    for view, told in views.items():
        assert [claim for claim in found if claim not in told] == [], view


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("programs", "triton_matmul-after"),
        ("programs", "ddp_straggler-before"),
        ("programs", "string_graph-after"),
        ("captures", "two-gpus"),
    ],
)
def test_one_program_is_said_alike(folder: str, name: str, tmp_path: Path) -> None:
    """Its iterations, what a tuner tried, what ranks work and wait."""
    shelf = Shelf(DATA / folder)
    sheet = program_sheet(shelf.load(name))
    found = [bare(line) for line in sheet.title[2:] if line]
    told = "\n".join(map(bare, texts(sheet.document)))
    assert [claim for claim in found if claim not in told] == []
    with Site(tmp_path) as site:
        program = captured._Surveyed(site, CapturedProgram(shelf.root, name))
        page = program.overview().html
    told = bare(html.unescape(re.sub(r"<[^>]*>", " ", page)))
    # How long it was busy, and its wall time, stand in tiles.
    assert [claim for claim in found[1:] if claim not in told] == []


def test_no_page_tells_a_step_that_goes_against_the_program(tmp_path: Path) -> None:
    """The profiles are exchanged: what was looked at closely contradicts the program."""
    shelf, names = Shelf(DATA / "programs"), ("asian-before", "asian-after")
    with Site(tmp_path) as site:
        old, new = (captured._Surveyed(site, CapturedProgram(shelf.root, name)) for name in names)
        old.__dict__["detail"], new.__dict__["detail"] = new.detail, old.detail
        pages = [page.render().html for page in captured._Compared(old, new).pages("key")]
    assert len(pages) == 1
    assert "the program's time counts" in html.unescape(pages[0])
    assert 'class="strip"' not in pages[0].partition('id="told"')[2]
