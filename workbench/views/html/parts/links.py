"""View models of what a change is linked to: for each part, its time and its counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workbench import units
from workbench.analysis.explanation import Explanation
from workbench.analysis.split.attribution import Attribution, CounterSplit, LineShare, Part
from workbench.analysis.split.duration import TimePart
from workbench.counters import catalog
from workbench.model import Number, Record
from workbench.views.html.parts.common import Link, Tone, percent, width

#: Parts below this share of their counter (or of the duration) are left to the tables.
TELLING = 0.002
#: Counters named for one part.
_MOST = 6
#: Symbols that a card lists, the heaviest first.
_SYMBOLS = 6
_SAMPLES = "smsp__pcsamp_"

PartKeyed = tuple[str, int | None, str | None, str]


class LinkRow(Record, frozen=True):
    """A number that a part is linked to; the bar is its share of the whole change."""

    id: str
    title: str
    meaning: str
    value: str
    tone: Tone
    width: str
    share: str
    error: str = ""
    note: str = ""
    where: Link | None = None


class LinkGroup(Record, frozen=True):
    """The numbers of one part: a hunk's own lines, a symbol, the launch, elsewhere."""

    link: str
    symbol: str
    rows: tuple[LinkRow, ...]
    shared: bool = False


def tone_of(counter: str, delta: Number) -> Tone:
    """Good or bad where the counter has a direction, else nothing."""
    better = catalog()[counter].better if counter in catalog() else ""
    if not better or not delta:
        return ""
    return "good" if (delta < 0) == (better == "lower") else "bad"


def told(attribution: Attribution) -> list[CounterSplit]:
    """The splits that a reader is told of: catalog counters, no samples, no ideal or excess."""
    return [
        split
        for split in attribution.counters
        if split.id
        and not split.counter.startswith(_SAMPLES)
        and not split.id.endswith(("_ideal", "_excess"))
    ]


def weight(split: CounterSplit, part: Part) -> float:
    """A part's size relative to its counter."""
    return abs(part.delta) / max(abs(split.old), abs(split.new), 1)


class Links:
    """The parts of one step, ready to be listed by hunk or by link.

    Args:
        story: The step, explained.
        anchor: Side (0 old, 1 new), path and line -> address on the page, or "".
    """

    def __init__(self, story: Explanation, anchor: Callable[[int, str, int | None], str]) -> None:
        self._story = story
        self._anchor = anchor

    def of_hunk(self, hunk: int) -> tuple[LinkGroup, ...]:
        """A hunk's own lines first, then symbol by symbol, the heaviest first."""
        keys = [key for key in self._keys() if key[1] == hunk and key[0] in ("hunk", "symbol")]
        groups = [group for key in keys if (group := self._group(key)).rows]
        own = [group for group in groups if group.link == "hunk"]
        symbols = [group for group in groups if group.link == "symbol"]
        symbols.sort(key=lambda group: -max(float(row.width) for row in group.rows))
        return (*own, *symbols[:_SYMBOLS])

    def rest(self) -> tuple[LinkGroup, ...]:
        """Parts of no hunk: launches, and what nothing explains."""
        keys = [key for key in self._keys() if key[0] in ("launch", "elsewhere")]
        return tuple(group for key in keys if (group := self._group(key)).rows)

    def _keys(self) -> list[PartKeyed]:
        found: dict[PartKeyed, None] = {}
        parts: list[Part | TimePart] = [
            part for split in told(self._story.attribution) for part in split.parts
        ]
        parts += self._story.time.parts if self._story.time else ()
        for part in parts:
            found[part.link, part.hunk, part.symbol, part.note] = None
        return list(found)

    def _group(self, key: PartKeyed) -> LinkGroup:
        rows: list[LinkRow] = []
        shared = False
        for time_part in self._story.time.parts if self._story.time else ():
            if _key(time_part) == key:
                rows += self._time(time_part)
        found = [
            (weight(split, part), split, part)
            for split in told(self._story.attribution)
            for part in split.parts
            if _key(part) == key and weight(split, part) >= TELLING
        ]
        if any(split.id == "instructions" for _, split, _ in found):
            # Lanes follow warps; where they do not, the whole table says so.
            found = [item for item in found if not item[1].id.startswith("thread_instructions")]
        found.sort(key=lambda item: -item[0])
        for _, split, part in found[:_MOST]:
            rows.append(self._counter(split, part))
            shared = shared or part.shared
        return LinkGroup(link=key[0], symbol=key[2] or "", rows=tuple(rows), shared=shared)

    def _time(self, part: TimePart) -> Iterable[LinkRow]:
        split = self._story.time
        assert split is not None
        whole = max(split.old_s, split.new_s)
        if not part.certain or abs(part.delta_s) < TELLING * whole:
            return
        error = max(part.high_s - part.delta_s, part.delta_s - part.low_s)
        stalls = [
            f"{catalog()[stall.stall].title} {units.signed(stall.delta_s, 's')}"
            for stall in part.stalls[:2]
            if stall.stall in catalog() and abs(stall.delta_s) >= TELLING * whole
        ]
        yield LinkRow(
            id="duration",
            title="Time",
            meaning="An estimate: warp samples on the lines, times the duration.",
            value=units.signed(part.delta_s, "s"),
            tone="good" if part.delta_s < 0 else "bad",
            width=width(abs(part.delta_s) / _largest(abs(p.delta_s) for p in split.parts)),
            share=_share(part.delta_s, split.delta_s),
            error=f"±{units.quantity(error, 's')}",
            note=", ".join(stalls),
        )

    def _counter(self, split: CounterSplit, part: Part) -> LinkRow:
        counter = catalog()[split.id]
        return LinkRow(
            id=counter.id,
            title=counter.title,
            meaning=counter.meaning,
            value=units.signed(part.delta, split.unit),
            tone=tone_of(split.id, part.delta),
            width=width(abs(part.delta) / _largest(abs(p.delta) for p in split.parts)),
            share=_share(part.delta, split.delta),
            note=_via(part.lines),
            where=self._where(part),
        )

    def _where(self, part: Part) -> Link | None:
        """The line that holds most of the part, if one does."""
        if not part.lines:
            return None
        line = part.lines[0]
        side = 1 if line.new else 0
        number = line.new or line.old
        if not number or abs(line.delta) < 0.5 * abs(part.delta):
            return None
        href = self._anchor(side, line.new_file if side else line.old_file, number)
        return Link(text=f"{'' if side else 'old '}line {number}", href=href) if href else None


def _key(part: Part | TimePart) -> PartKeyed:
    return part.link, part.hunk, part.symbol, part.note


def _via(lines: tuple[LineShare, ...]) -> str:
    names = [name for line in lines[:1] for name in line.via]
    return f"by way of {', '.join(names[:3])}" if names else ""


def _largest(amounts: Iterable[Number]) -> Number:
    return max(amounts, default=0) or 1


def _share(amount: Number, whole: Number) -> str:
    if not whole:
        return ""
    share = amount / whole
    if share == 1:
        return "all of it"
    return f"{percent(share)} of it" if 0 < share < 1 else ""
