"""Charts drawn as inline SVG, without the script: the memory chart, and a run over time.

The memory chart has three hops from the SM to device memory. A hop has places on the left and right
and an arrow for each flow between them; its width shows the amount. For two profiles, the old one's
arrow is above the new one's. On a wide page the hops form one chart; on a narrow page, they are
below each other. All lengths are computed here; the template only prints them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from workbench import units
from workbench.analysis.limits.memory import MemoryChart, Place, Transfer, Unit, shown
from workbench.analysis.timeline import Course, Lane, telling
from workbench.language import N_, _
from workbench.model import Launch, LineKey
from workbench.views.html.page import Link, View
from workbench.views.html.parts import CounterCell, cell, percent
from workbench.views.sheets.memory import amount, arrow, flow_rows, level_rows, share

#: Side (0 is the first profile) and line of a source -> "#L39", or "" if it is not shown.
Anchor = Callable[[int, LineKey], str]

_WIDTH, _BOX, _SM, _SLAB = 400, 108, 74, 10  # widths: a hop, a place, the SM, a continued place
_ROW, _TEXT, _GAP = 70, 15, 14  # heights: a flow, a line of text, a gap
_THICK, _HEAD = 26.0, 8.0  # width of the widest arrow (two share it), length of its head
_LEAST = 1.5
#: The most lines highlighted with an arrow, and the least share of such a line.
_LIT = 24
LEAST_SHARE = 0.005
_HOPS: tuple[tuple[str, tuple[Place, ...], tuple[Place, ...]], ...] = (
    (N_("Between the SM, shared memory and L1"), ("sm",), ("shared", "l1", "tma")),
    (N_("Between L1 and L2"), ("l1", "tma"), ("l2",)),
    (N_("Between L2 and device memory"), ("l2",), ("dram",)),
)


#: One side's part of an arrow or a place: an SVG path and its classes.
Band = tuple[str, str]


class _Stretch(NamedTuple):
    """Top and height of a place."""

    y: float
    height: float


class Drawing:
    """The chart of one profile or of two.

    It has one side, or the old and the new one. `anchor` gives the address of a line on the page;
    `prefix` begins the ids of the table's rows, `counters` begins the address of a counter.
    """

    def __init__(
        self, sides: Sequence[MemoryChart], anchor: Anchor, prefix: str = "", counters: str = "#"
    ) -> None:
        self._sides, self._anchor = sides, anchor
        self._prefix, self._counters = prefix, counters
        self._flows = shown(sides)
        self._texts = {row.id: row for row in flow_rows(sides)}
        self._most: dict[Unit, float] = {}
        for flow in (flow for row in self._flows for flow in row):
            self._most[flow.unit] = max(self._most.get(flow.unit, 0.0), flow.amount or 0.0)
        self._places = self._layout()

    def _between(self, left: Sequence[Place], right: Sequence[Place]) -> list[tuple[Transfer, ...]]:
        ends = {(a, b) for a in left for b in right}
        ends |= {(b, a) for a, b in ends}
        return [row for row in self._flows if (row[0].start, row[0].end) in ends]

    def _copies(self) -> tuple[Transfer, ...] | None:
        return next(
            (row for row in self._flows if (row[0].start, row[0].end) == ("l1", "shared")), None
        )

    def _layout(self) -> dict[Place, _Stretch]:
        touched = {level.place for level in level_rows(self._sides)}
        out: dict[Place, _Stretch] = {}
        y = 1.0
        for place in ("shared", "l1", "tma"):
            if place not in touched:
                continue
            rows = max(
                len(self._between(("sm",), (place,))), len(self._between((place,), ("l2",))), 1
            )
            height = rows * _ROW + 4.0
            out[place] = _Stretch(y, height)
            y += height + (_ROW if place == "shared" and self._copies() else _GAP)
        bottom, near = y - _GAP, out["l1"].y
        far = _Stretch(near, bottom - near)
        return {**out, "sm": _Stretch(1.0, bottom - 1.0), "l2": far, "dram": far}

    def hops(self) -> list[View]:
        """The three drawings; the second and third begin at the height of the L1.

        Their shapes are arrows and places: links to a row or counter that highlight lines.
        """
        whole = self._places["sm"].height + 2
        out = []
        for number, (title, left, right) in enumerate(_HOPS):
            first = number == 0
            width = _SM if first else _SLAB
            ends = [(place, 0 if first else -1, width, first) for place in left]
            ends += [(place, _WIDTH - _BOX, _BOX, True) for place in right]
            shapes = [self._box(*end) for end in ends if end[0] in self._places]
            for place in right if first else left:
                ways = (left, (place,)) if first else ((place,), right)
                for row, flows in enumerate(self._between(*ways)):
                    y = self._places["l1" if number == 2 else place].y + row * _ROW + 2
                    shapes.append(self._across(flows, width + 8, y, flows[0].start in left))
            copies = self._copies()
            if first and copies:
                shapes.append(self._upward(copies))
            top = 0.0 if first else self._places["l1"].y - 1
            size = f"0 {_number(top)} {_WIDTH} {_number(whole - top)}"
            out.append(View(title=_(title), size=size, shapes=shapes))
        return out

    def _box(self, place: Place, x: float, width: float, named: bool) -> View:
        y, height = self._places[place]
        level = next(row for row in level_rows(self._sides) if row.place == place)
        sides = [each for side in self._sides for each in side.levels if each.place == place]
        identity = sides[0].hit_counter or sides[0].throughput_counter
        touching = [row for row in self._flows if place in (row[0].start, row[0].end)]
        rates = {_("hit rate"): level.hits, _("of peak"): level.busy}
        said = ", ".join(f"{name} {arrow(texts)}" for name, texts in rates.items() if any(texts))
        bands = [(_rectangle(x, y, width, height), "box")]
        part = height / len(sides)
        for number, side in enumerate(sides) if named else ():
            if side.throughput is not None:
                was = " was" if number + 1 < len(sides) else ""
                edge = _rectangle(x, y + number * part, 4, part)
                bands.append((edge, f"{_tone(side.throughput / 100)}{was}"))
        texts = [(word, "b") for word in level.title.split()]
        for name, values in rates.items():
            if any(values):
                *before, last = dict.fromkeys(values)
                texts += [(name, "s"), *((f"{text} →", "") for text in before), (last, "")]
        words = [
            (_number(x + 10), _number(y + 17 + n * _TEXT), text, tone)
            for n, (text, tone) in enumerate(texts)
        ]
        return View(
            href=f"{self._counters}{identity}" if identity and named else "",
            label=f"{level.title}: {said}" if said else level.title,
            lines=self.lit(touching),
            bands=bands,
            words=words if named else (),
        )

    def _across(self, flows: Sequence[Transfer], left: float, y: float, outward: bool) -> View:
        right = _WIDTH - _BOX - 8
        ends = (left, right) if outward else (right, left)
        middle = y + 17 + (_ROW - 40) / 2
        bands = [
            self._band(flow, [(x, middle + shift) for x in ends], tone)
            for flow, shift, tone in self._sided(flows)
        ]
        return self._shape(flows, bands, (left, right), (y + 13, y + _ROW - 11))

    def _upward(self, flows: Sequence[Transfer]) -> View:
        shared = self._places["shared"]
        top, bottom = shared.y + shared.height, self._places["l1"].y
        x = _WIDTH - _BOX / 2
        bands = [
            self._band(flow, [(x + shift, y) for y in (bottom - 2, top + 2)], tone)
            for flow, shift, tone in self._sided(flows)
        ]
        return self._shape(flows, bands, (_SM + 8, _WIDTH - _BOX - 8), (top + 30, top + 46))

    def _shape(
        self,
        flows: Sequence[Transfer],
        bands: Sequence[Band],
        across: tuple[float, float],
        down: tuple[float, float],
    ) -> View:
        """An arrow with its name and share at the upper height, its amounts at the lower one."""
        row = self._texts[flows[-1].id]
        known = any(flow.amount is not None for flow in flows)
        plural = units.plural("wavefront")
        # A rough value is enough here; the table has a share's digits.
        shares = [x.share for x in flows]
        rough = [_("under 1%") if x is not None and x < 0.01 else share(x) for x in shares]
        amounts = arrow(row.amounts) if known else _("unknown")
        # The pointer also hits an arrow between its lines of text.
        wide, high = across[1] - across[0], down[1] - down[0] + 18
        whole = _rectangle(across[0], down[0] - 13, wide, high)
        left, right = map(_number, across)
        upper, lower = map(_number, down)
        return View(
            href=f"#{self._prefix}flow-{row.id}",
            label=_("{flow}, {way}: {amounts}; {shares} of peak").format(
                flow=row.title, way=row.way, amounts=amounts, shares=arrow(row.shares)
            ),
            lines="",  # its row has the amounts
            bands=[(whole, "hit"), *bands],
            words=[
                (left, upper, row.title, ""),
                (right, upper, arrow(rough), "e s"),
                (left, lower, amounts.replace(f" {plural}", ""), "b"),
            ],
        )

    @staticmethod
    def _sided(flows: Sequence[Transfer]) -> list[tuple[Transfer, float, str]]:
        """Each side's flow, its distance from the middle, and its class."""
        if len(flows) == 1:
            return [(flows[0], 0.0, "")]
        apart = _THICK / 4 + 1.5
        return [(flows[0], -apart, "was"), (flows[1], apart, "")]

    def _band(self, flow: Transfer, ends: Sequence[tuple[float, float]], tone: str) -> Band:
        """An arrow from the first of two points to the second."""
        (x0, y0), (x1, y1) = ends
        if not flow.amount:
            kind = "unknown" if flow.amount is None else "zero"
            path = f"M{_number(x0)} {_number(y0)}L{_number(x1)} {_number(y1)}"
            return path, f"{kind} {tone}".strip()
        most = _THICK if len(self._sides) == 1 else _THICK / 2 - 3
        half = max(most * flow.amount / self._most[flow.unit], _LEAST) / 2
        length = abs(x1 - x0) + abs(y1 - y0)
        along = ((x1 - x0) / length, (y1 - y0) / length)
        across = (-along[1], along[0])
        points = (
            *((0.0, half), (length - _HEAD, half), (length - _HEAD, half + 2.5), (length, 0.0)),
            *((length - _HEAD, -half - 2.5), (length - _HEAD, -half), (0.0, -half)),
        )
        corners = (
            (x0 + a * along[0] + b * across[0], y0 + a * along[1] + b * across[1])
            for a, b in points
        )
        path = "L".join(f"{_number(x)} {_number(y)}" for x, y in corners)
        return f"M{path}z", f"{_tone(flow.share)} {tone}".strip()

    def lit(self, rows: Sequence[Sequence[Transfer]]) -> str:
        """The ids of the lines that cause flows, the largest share first."""
        found: dict[str, float] = {}
        for flows in rows:
            for side, flow in enumerate(flows):
                for line in flow.lines:
                    if line.share >= LEAST_SHARE and (href := self._anchor(side, line.key)):
                        found[href[1:]] = max(found.get(href[1:], 0.0), line.share)
        return " ".join(sorted(found, key=lambda name: -found[name])[:_LIT])

    def scale(self) -> str:
        """The amount of the widest arrow of each unit."""
        parts = []
        for unit in ("byte", "wavefront"):
            most = max(
                (flow for row in self._flows for flow in row if flow.unit == unit and flow.amount),
                key=lambda flow: flow.amount or 0.0,
                default=None,
            )
            if most is not None:
                parts.append(amount(most))
        said = _(" or ").join(parts)
        return _("The widest arrow is {amount}.").format(amount=said) if parts else ""


def _tone(of_peak: float | None) -> str:
    """The class for a quarter of peak."""
    return "p" if of_peak is None else f"p{min(int(of_peak * 4), 3)}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    return f"M{_number(x)} {_number(y)}h{_number(width)}v{_number(height)}h{_number(-width)}z"


#: Row title, then the counters for: instructions, requests, sectors or wavefronts, per request,
#: efficiency, excess. "" leaves a cell empty.
_WHOLE = ("{}s", "{}_requests", "{}_sectors", "{}_sectors_per_request", "{}_efficiency", "")
_ACCESSES = (
    (N_("Global loads"), *(name.format("global_load") for name in _WHOLE)),
    (N_("Global stores"), *(name.format("global_store") for name in _WHOLE)),
    (
        N_("Global, from addresses"),
        "",
        "l1_tag_requests",
        "global_sectors",
        "",
        "",
        "global_sectors_excess",
    ),
    (
        N_("Shared accesses"),
        "shared_accesses",
        "",
        "shared_wavefronts",
        "shared_conflict_ways",
        "",
        "shared_wavefronts_excess",
    ),
    (N_("Local loads"), "local_loads", "", "", "", "", ""),
    (N_("Local stores"), "local_stores", "", "", "", "", ""),
)
#: The most lines that a flow's row names.
_NAMED = 4


#: A row of the table of accesses; None if a kind of access has no such counter.
AccessRow = tuple[str, tuple[CounterCell | None, ...]]


def accesses(launch: Launch) -> tuple[AccessRow, ...]:
    """The kinds of access that this launch made."""
    rows = []
    for title, *ids in _ACCESSES:
        cells = tuple(cell(launch, counter) if counter else None for counter in ids)
        if any(item.value != units.count(0) for item in cells if item and not item.missing):
            rows.append((_(title), cells))
    return tuple(rows)


def memory_view(
    sides: Sequence[MemoryChart],
    labels: Sequence[str],
    anchor: Anchor,
    prefix: str = "",
    counters: str = "#",
) -> View:
    """The memory chart of one profile or of two, with its table.

    The arguments are those of `Drawing`.
    """
    drawing = Drawing(sides, anchor, prefix, counters)
    rows = []
    for flows, words in zip(shown(sides), flow_rows(sides), strict=True):
        last = flows[-1]
        links = [
            Link(text=f"{line.key[1]} {percent(line.share)}", href=href)
            for line in last.lines
            if line.share >= LEAST_SHARE and (href := anchor(len(flows) - 1, line.key))
        ]
        more = len(links) - _NAMED
        rows.append(
            View(
                flow=words,
                lines=links[:_NAMED],
                more=_("and {n} more").format(n=units.count(more)) if more > 0 else "",
                lit=drawing.lit([flows]),  # the ids of lines highlighted with it
                counter=f"{counters}{last.counter}" if last.counter else "",
                made_of=next((flow.ncu for flow in reversed(flows) if flow.ncu), ""),
            )
        )
    return View(
        prefix=prefix,
        hops=drawing.hops(),
        heads=labels,
        rows=rows,
        levels=level_rows(sides),
        scale=drawing.scale(),
    )


#: Points of an area, and its height in units of its drawing.
_POINTS, _HEIGHT = 128, 100


#: One series of all sides; None for a side that was not sampled for it.
LaneRow = tuple[View | None, ...]


def timeline_view(sides: Sequence[Course], labels: Sequence[str]) -> View:
    """One run, or the old and the new one on one scale of time."""
    throughputs = dict.fromkeys(lane.title for side in sides for lane in side.throughputs)
    runs = [
        f"{label + ' ' if label else ''}{units.quantity(side.seconds, 's')}"
        for label, side in zip(labels, sides, strict=True)
    ]
    return View(
        heads=labels,
        throughputs=_rows(throughputs, [side.throughputs for side in sides], sides),
        states=_rows(telling(sides), [side.states for side in sides], sides),
        note=_("From the kernel’s start to its end, {runs}; heights are 0 to 100%.").format(
            runs=units.listed(runs)
        ),
    )


def _rows(
    titles: Iterable[str], lanes: Sequence[Sequence[Lane]], sides: Sequence[Course]
) -> tuple[LaneRow, ...]:
    longest = max(side.seconds for side in sides)

    def row(title: str) -> LaneRow:
        own = [next((lane for lane in side if lane.title == title), None) for side in lanes]
        return tuple(
            _area(lane, side.seconds / longest) if lane is not None else None
            for lane, side in zip(own, sides, strict=True)
        )

    return tuple(map(row, titles))


def _area(lane: Lane, share: float) -> View:
    """A side's series: an SVG path of at most `_POINTS` points, its part of the longer run."""
    merged = math.ceil(len(lane.values) / _POINTS)
    parts = [lane.values[n : n + merged] for n in range(0, len(lane.values), merged)]
    known = [[value for value in part if value is not None] for part in parts]
    # Nothing is drawn after the end of the pass.
    heights = [round(min(sum(part) / len(part), 100.0)) for part in known if part]
    path, at = [f"M0 {_HEIGHT}"], 0
    for height in heights:
        path.append(f"v{at - height}h1" if height != at else "h1")
        at = height
    path.append(f"V{_HEIGHT}z")
    return View(lane=lane, path="".join(path), points=len(parts), share=share)
