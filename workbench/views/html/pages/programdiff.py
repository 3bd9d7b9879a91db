"""View model of two captured programs: what became of every kernel, so that it adds up.

The table is that of `views.sheets.programs`; what is told of a kernel is told by its own page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from workbench import units
from workbench.analysis.program.difference import ProgramDifference, WorkChange
from workbench.analysis.program.steps import as_fast, weighs
from workbench.analysis.step import Step
from workbench.model import Record
from workbench.views.html.pages.program import program_chips
from workbench.views.html.parts.common import (
    Head,
    Link,
    Phrase,
    Tile,
    Tone,
    percent,
    strip_links,
    width,
)
from workbench.views.html.parts.headroom import PanelView
from workbench.views.sheets.program import ROWS
from workbench.views.sheets.programs import (
    change_words,
    difference_sheet,
    fate_words,
    row_names,
)


class FateRow(Record, frozen=True):
    """A row of the table of two programs.

    `shares` are its parts of each program's time, `widths` those of the longer one's, as bars.
    """

    fate: str
    name: str
    href: str
    cells: tuple[str, ...]
    shares: tuple[str, str]
    widths: tuple[str, str]
    tone: Tone


class ToldRow(Record, frozen=True):
    """What became of a kernel that matters: its strip, or in `words` why there is none."""

    name: str
    href: str
    program: str
    launches: str
    step: str
    tone: Tone
    strip: tuple[Phrase, ...]
    words: str


class ProgramDiffView(Record, frozen=True):
    """Two captures."""

    head: Head
    lede: tuple[str, ...]
    reasons: tuple[str, ...]
    tiles: tuple[Tile, ...]
    panel: PanelView | None
    panel_title: str
    told: tuple[ToldRow, ...]
    columns: tuple[str, ...]
    rows: tuple[FateRow, ...]
    sums: tuple[FateRow, ...]
    rest: tuple[FateRow, ...]


def program_diff_view(
    difference: ProgramDifference,
    steps: Sequence[tuple[int, Step | None, str]],
    pages: tuple[Sequence[str], Sequence[Link]],
    panel: tuple[str, PanelView | None],
) -> ProgramDiffView:
    """The page of two captures.

    Args:
        difference: Of the two.
        steps: Rows of the kernels that matter, compared; or why they could not be.
        pages: Where each row of `difference` leads to, or ""; and the pages of both sides.
        panel: The kernel that changed most of those compared, and its page's panel.
    """
    sheet = difference_sheet(difference, rest="below")
    every = difference_sheet(difference, everything=True)
    names = row_names(difference)
    longest = max(estimate.value for estimate in difference.totals) or 1.0

    def made(
        shown: tuple[str, ...], href: str, seconds: tuple[float, float], moved: bool
    ) -> FateRow:
        wholes = (estimate.value for estimate in difference.totals)
        return FateRow(
            fate=shown[0],
            name=shown[1],
            href=href,
            cells=shown[2:],
            shares=_both(
                percent(s / all_) if s else "" for s, all_ in zip(seconds, wholes, strict=True)
            ),
            widths=_both(width(s / longest) for s in seconds),
            tone=("good" if seconds[1] < seconds[0] else "bad") if moved else "",
        )

    rows = tuple(
        replace(
            made(shown, href, difference.seconds(row), weighs(difference, row)),
            name=name,  # whole: names of libraries differ at their end
        )
        for shown, name, href, row in zip(
            every.shown[:-1], names, pages[0], difference.rows, strict=True
        )
    )
    kept = min(ROWS, len(rows))
    left = difference.rows[kept:]
    sums = [
        made(
            shown,
            "",
            _sum(difference, left if number else difference.rows),
            difference.moved and not number,
        )
        for number, shown in enumerate(reversed(sheet.shown[kept:]))
    ]
    captures = difference.old, difference.new
    title = f"@{difference.old.name} → @{difference.new.name}"
    return ProgramDiffView(
        head=Head(
            heading=" → ".join(dict.fromkeys(" ".join(one.command) for one in captures)),
            name=title,
            crumbs=(Link("Overview", "index.html"), Link(title)),
            pages=tuple(pages[1]),
            chips=program_chips(captures),
            notices=difference.warnings,
        ),
        lede=tuple(
            f"{text}." for text in (change_words(difference), fate_words(difference)) if text
        ),
        reasons=difference.reasons,
        tiles=_tiles(difference),
        panel=panel[1],
        panel_title=f"{panel[0]} is now limited by",
        told=tuple(
            _told(difference, number, Link(names[number], pages[0][number]), step, why)
            for number, step, why in steps
        ),
        columns=every.header[2:],
        rows=rows[:kept],
        sums=tuple(reversed(sums)),
        rest=rows[kept:],
    )


def _both(texts: Iterable[str]) -> tuple[str, str]:
    first, second = texts
    return first, second


def _sum(difference: ProgramDifference, rows: Sequence[WorkChange]) -> tuple[float, float]:
    found = [difference.seconds(row) for row in rows]
    return sum(one[0] for one in found), sum(one[1] for one in found)


def _tiles(difference: ProgramDifference) -> tuple[Tile, ...]:
    old, new = difference.totals
    change = difference.change_s.value
    tone: Tone = ("good" if change < 0 else "bad") if difference.moved else ""
    ratio = units.factor(old.value / new.value) if new.value else "—"
    interval = "" if difference.interval_known else "; one run has no interval"
    launches = [side.survey.launches for side in (difference.old, difference.new)]
    return (
        Tile(
            label="Time on the GPU",
            value=units.quantity(new.value, "s"),
            change=f"{units.signed(change, 's')} · {ratio}",
            note=f"from {units.quantity(old.value, 's')}{interval}",
            tone=tone,
        ),
        Tile(
            label="Launches",
            value=units.count(launches[1]),
            change=units.signed(launches[1] - launches[0]),
            note=f"from {units.count(launches[0])}",
        ),
    )


def _told(
    difference: ProgramDifference, number: int, kernel: Link, step: Step | None, why: str
) -> ToldRow:
    row = difference.rows[number]
    told = ToldRow(
        name=kernel.text,
        href=kernel.href if step is not None else "",
        program=_seconds(difference, row),
        launches=_times(difference, row),
        step="",
        tone="",
        strip=(),
        words=why,
    )
    if step is None:
        return told
    speed = step.comparison.speed
    if speed is None:
        return replace(told, words="no duration on both sides")
    if as_fast(step.comparison):
        return replace(told, step="as fast", words="a launch takes as long as before")
    tone: Tone = "good" if speed.speedup > 1 else "bad"
    strip = strip_links(step.story.strip, kernel.href)
    return replace(told, step=units.factor(speed.speedup), tone=tone, strip=strip)


def _seconds(difference: ProgramDifference, row: WorkChange) -> str:
    return " → ".join(units.quantity(seconds, "s") for seconds in difference.seconds(row))


def _times(difference: ProgramDifference, row: WorkChange) -> str:
    numbers = dict.fromkeys(round(number) for number in difference.launches(row))
    return " → ".join(map(units.count, numbers))


def in_program(difference: ProgramDifference, row: WorkChange) -> str:
    """What a kernel is in its program: its time there, and how often it is launched."""
    launches = _times(difference, row)
    return f"In the program: {_seconds(difference, row)}, {launches} launches a run."
