"""View model of the panel: what limits the kernel now, its hottest line, and what to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from workbench import units
from workbench.analysis.advice import Score
from workbench.analysis.headroom import Panel, Way, line_at, statement_at, waited_most
from workbench.analysis.limit import RESOURCES, Limit
from workbench.analysis.stalls import stall_words
from workbench.model import LineKey, Profile, Record
from workbench.views.html.parts.common import Link, Tone, percent

#: Ways that are shown before something is unfolded.
_FIRST = 3
#: The address of a line on a page, or "".
Anchor = Callable[[LineKey], str]


class Became(Record, frozen=True):
    """What became of a way in a version that came after."""

    version: Link
    words: str
    tone: Tone


class WayRow(Record, frozen=True):
    """One thing to try; `href` leads to its line, `counter` is its number's id."""

    words: str
    speedup: str
    saves: str
    because: str
    effort: str
    counter: str
    place: str
    href: str
    became: tuple[Became, ...] = ()


class HotSpot(Record, frozen=True):
    """The line on which most warp samples fell."""

    place: str
    href: str
    code: str
    share: str
    stall: str


class PanelView(Record, frozen=True):
    """The panel. `counter` is the row that shows the limit, "" where there is none."""

    limit: str
    counter: str
    hot: HotSpot | None
    ways: tuple[WayRow, ...]
    more: tuple[WayRow, ...]


#: Scores by the page of the version that came after: its link, and what became of the ways.
Scored = Sequence[tuple[Link, Sequence[Score]]]
_EFFORT = {1: "an expression or two", 2: "a loop", 3: "another design"}


def panel_view(
    panel: Panel | None, profile: Profile, anchor: Anchor, scored: Scored = ()
) -> PanelView | None:
    """The panel of a page; None where nothing limits that is known.

    Args:
        panel: What was found of the profile.
        profile: Holds the lines' text.
        anchor: Where a line stands on the page.
        scored: What became of the ways in the versions that came after.
    """
    if panel is None or panel.limit is None:
        return None
    rows = tuple(_row(way, profile, anchor, scored) for way in panel.ways)
    return PanelView(
        limit=panel.limit.words,
        counter=limit_counter(panel.limit),
        hot=_hot(panel, profile, anchor),
        ways=rows[:_FIRST],
        more=rows[_FIRST:],
    )


def limit_counter(limit: Limit) -> str:
    """The catalog's counter that shows a limit; "" for a wait."""
    return next((one.counter for one in RESOURCES if one.id == limit.id), "")


def _place(profile: Profile, key: LineKey | None, anchor: Anchor) -> tuple[str, str, str]:
    """Words, address and text of a line; "" for what is not known."""
    if key is None:
        return "", "", ""
    path, _ = line_at(profile, key)
    name = PurePosixPath(path.replace("\\", "/")).name
    own = len({source.path for source in profile.sources}) > 1
    words = f"line {key[1]} of {name}" if own and name else f"line {key[1]}"
    return words, anchor(key), statement_at(profile, key)


def _hot(panel: Panel, profile: Profile, anchor: Anchor) -> HotSpot | None:
    if panel.hot is None:
        return None
    place, href, code = _place(profile, panel.hot.key, anchor)
    stall = waited_most(panel.hot)
    return HotSpot(
        place=place,
        href=href,
        code=code,
        share=percent(panel.hot.share),
        stall=f"{percent(stall[1])} of them in {stall_words(stall[0].id)}" if stall else "",
    )


def _row(way: Way, profile: Profile, anchor: Anchor, scored: Scored) -> WayRow:
    place, href, _ = _place(profile, way.line, anchor)
    return WayRow(
        words=way.words,
        speedup=units.factor(way.speedup),
        saves=percent(way.saves),
        because=way.because,
        effort=_EFFORT[way.effort],
        counter=way.counter,
        place=place,
        href=href,
        became=tuple(
            _became(link, score)
            for link, scores in scored
            for score in scores
            if score.rule == way.kind and score.title == way.words
        ),
    )


def _became(version: Link, score: Score) -> Became:
    """A bound is no promise: what was followed and made the step faster was right."""
    if score.verdict == "open":
        return Became(version=version, words="not followed", tone="")
    step = units.factor(1 / (1 - score.gained))
    if score.gained > 0:
        return Became(version=version, words=f"followed, {step}", tone="good")
    return Became(version=version, words=f"followed in vain, {step}", tone="bad")
