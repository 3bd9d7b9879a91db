"""View models of what was predicted, advised and not foreseen, against what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from workbench import units
from workbench.analysis.advice import Score
from workbench.analysis.compare import Delta
from workbench.analysis.expectations import Judgement, find_counter
from workbench.analysis.occupancy import OccupancySplit
from workbench.analysis.story import Story
from workbench.model import Record
from workbench.views.html.parts.common import Tone, percent
from workbench.views.html.parts.moved import MovedTile, tile

_VERDICT: dict[str, Tone] = {"confirmed": "good", "refuted": "bad", "inconclusive": "warn"}
_SCORE: dict[str, tuple[str, Tone]] = {
    "kept": ("kept", "good"),
    "partly": ("partly kept", "warn"),
    "not kept": ("not kept", "bad"),
    "open": ("not followed", ""),
}
_EFFECTS = 8


class Judged(Record, frozen=True):
    """An expectation and what became of it; `id` is the counter's, "" where unknown."""

    id: str
    title: str
    tone: Tone
    said: Judgement


class Advice(Record, frozen=True):
    """What the panel or a rule of ncu promised on the old version, and what the step gained."""

    title: str
    by: str
    kernel: str
    promised: str
    gained: str
    still: str
    verdict: str
    tone: Tone


class OccupancyRow(Record, frozen=True):
    """Theoretical occupancy of one kernel on both sides, and points by cause."""

    kernel: str
    old: str
    new: str
    delta: str
    causes: tuple[tuple[str, str], ...]
    limiters: str


def verdicts(story: Story) -> tuple[Judged, ...]:
    """Every expectation, in the author's order."""
    return tuple(map(_verdict, story.expectations))


def _verdict(judgement: Judgement) -> Judged:
    counter = find_counter(judgement.counter)
    return Judged(
        id=counter.id if counter else "",
        title=counter.title if counter else judgement.counter,
        tone=_VERDICT[judgement.verdict],
        said=judgement,
    )


def advice(story: Story) -> tuple[Advice, ...]:
    """What stood on the old panel, then the promises of ncu's rules; what was acted on first."""
    order = {"kept": 0, "partly": 1, "not kept": 2, "open": 3}
    scores = [
        score
        for every in (story.tried, story.scores)
        for score in sorted(every, key=lambda one: (order[one.verdict], -one.promised))
    ]
    several = len({score.kernel for score in story.scores}) > 1
    return tuple(_advice(score, several, ncu=score in story.scores) for score in scores)


def _advice(score: Score, several: bool, *, ncu: bool) -> Advice:
    word, tone = _SCORE[score.verdict]
    return Advice(
        title=score.title,
        by="ncu" if ncu else "the panel",
        kernel=score.kernel if several else "",
        promised=percent(score.promised),
        gained=percent(score.gained)
        if score.gained > 0
        else units.signed(-score.gained * 100, "%"),
        still=percent(score.still) if score.still is not None else "nothing",
        verdict=word,
        tone=tone,
    )


def effects(
    found: tuple[Delta, ...], heaviest: Sequence[tuple[float, Delta]]
) -> tuple[tuple[MovedTile, ...], int]:
    """The side effects worth naming (worse ones first), and how many more there are.

    Args:
        found: What nobody expected.
        heaviest: All counters that moved, in the order of their weight.
    """
    order = {delta.id: place for place, (_, delta) in enumerate(heaviest)}
    told = [delta for delta in found if not delta.id.endswith(("_excess", "_ideal"))]
    told.sort(key=lambda d: ({"worse": 0, "better": 1}.get(d.verdict, 2), order[d.id]))
    shown = tuple(map(tile, told[:_EFFECTS]))
    return shown, len(told) - len(shown)


def occupancies(splits: tuple[OccupancySplit, ...]) -> tuple[OccupancyRow, ...]:
    """The kernels whose theoretical occupancy changed, by cause."""
    return tuple(
        OccupancyRow(
            kernel=split.kernel,
            old=units.quantity(split.old, "%"),
            new=units.quantity(split.new, "%"),
            delta=units.points(split.delta),
            causes=tuple(
                (name, units.points(value)) for name, value in split.causes.items() if value
            ),
            limiters=f"{' and '.join(split.limiters_old)} → {' and '.join(split.limiters_new)}",
        )
        for split in splits
        if split.delta
    )
