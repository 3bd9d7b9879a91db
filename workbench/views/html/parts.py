"""Small pieces that several pages share: heads, chips, tiles, numbers, counters, the panel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from workbench import units
from workbench.analysis.aggregate import readings_of
from workbench.analysis.expectations import Score
from workbench.analysis.limits.headroom import Panel, Way, line_at, statement_at
from workbench.analysis.limits.limit import GROUP, RESOURCES
from workbench.analysis.sentence import Stop
from workbench.counters import IMPLAUSIBLE, Counter, Missing, Reading, bound_broken, catalog
from workbench.language import _, ngettext
from workbench.model import Launch, LineKey, Profile, Record, Timing, Verification
from workbench.views.html.page import Badge, Link, Tone, View


@lru_cache(maxsize=64)
def hue(state: str) -> str:
    """``c3``: the token of a warp state's colour, which is the same on all pages."""
    return f"c{1 + [each.id for each in catalog().group(GROUP)].index(state)}"


_CODE = re.compile(r"`([^`]*)`")
#: Matches blanks without a line break: between a number and its unit, and around an arrow.
_TIED = re.compile(r"(?<=\d) (?=[^\W\d]|→)|(?<=→) ")


class Tile(Record, frozen=True):
    """One number that matters, with a line that puts it into proportion."""

    label: str
    value: str
    note: str = ""
    tone: Tone = ""
    change: str = ""
    check: Badge | None = None


class Phrase(Record, frozen=True):
    """A piece of a text: plain, in monospace (`code`), or a link if `href` is set.

    `kind` is that of a stop on the causal strip.
    """

    text: str
    href: str = ""
    code: bool = False
    kind: str = ""


def sentence(text: str) -> tuple[Phrase, ...]:
    """Pieces of a sentence; text between back quotes is code."""
    parts = enumerate(_CODE.split(tied(text)))
    return tuple(Phrase(part, code=place % 2 == 1) for place, part in parts if part)


def tied(text: str) -> str:
    """The same, without line breaks between a number and its unit."""
    return _TIED.sub("\N{NO-BREAK SPACE}", text)


def strip_links(stops: Sequence[Stop], page: str = "") -> tuple[Phrase, ...]:
    """The causal strip, each stop with a link to its proof on a step's page."""
    return tuple(Phrase(tied(stop.text), f"{page}{_proof(stop)}", kind=stop.kind) for stop in stops)


def _proof(stop: Stop) -> str:
    if stop.hunk is not None:
        return f"#hunk-{stop.hunk}"
    fixed = {"time": "#time", "limit": "#now", "edit": "#launch", "doubt": "#time"}
    return fixed.get(stop.kind, f"#counter-{stop.counter}")


class CounterCell(NamedTuple):
    """A counter in one launch."""

    counter: Counter
    reading: Reading | Missing

    @property
    def missing(self) -> str:
        """The reason why it has no value; "" if it has one."""
        return self.reading.reason if isinstance(self.reading, Missing) else ""

    @property
    def value(self) -> str:
        """The value as text; a missing one has an em dash, or a word for the reason."""
        undefined = isinstance(self.reading, Missing) and self.reading.undefined
        return _("undefined") if undefined else self.reading.text

    @property
    def doubt(self) -> str:
        """The reason why the value is impossible; "" if it is possible."""
        if isinstance(self.reading, Missing):
            return ""
        bound = bound_broken(self.counter.id, self.reading.value)
        return (
            _("{doubt}: it must be {bound}").format(doubt=_(IMPLAUSIBLE), bound=bound)
            if bound
            else ""
        )

    @property
    def unit(self) -> str:
        """The unit to write beside the value."""
        return "" if isinstance(self.reading, Missing) else units.beside(self.reading.unit)


def tone_of(good: bool | None) -> Tone:
    """``good`` or ``bad`` if a number has a better side, else ""."""
    return "" if good is None else "good" if good else "bad"


def cell(launch: Launch, counter: Counter | str) -> CounterCell:
    """Read a counter, given by itself or by its id."""
    known = catalog()[counter] if isinstance(counter, str) else counter
    return CounterCell(known, readings_of(launch)[known.id])


def text(launch: Launch, counter: str) -> str:
    """A counter's value, formatted; an em dash if it is missing."""
    return readings_of(launch)[counter].text


def percent(share: float) -> str:
    """A share (0-1) in percent."""
    return units.quantity(100.0 * share, "%")


def interval(timing: Timing) -> str:
    """The 95% interval of the median, and unusual conditions of the measurement."""
    time = timing.time
    # In percent, as the ends of a narrow interval have the same three digits.
    said = f"±{percent(time.error / time.value if time.value else 0.0)} (95%)"
    if not timing.converged:
        said += _(", not settled")
    return said if timing.cache == "cold" else said + _(", warm cache")


def width(amount: float, whole: float = 1.0) -> str:
    """An amount's part of a whole as a CSS width, clamped; not text for a reader."""
    return f"{min(max(amount / whole, 0.0), 1.0) * 100:.1f}"


#: The most parts of a stacked bar with a colour and a name.
_COLOURED = 7


def stacked(
    labels: Sequence[str], rows: Sequence[tuple[str, tuple[float, ...]]], unit: str = ""
) -> list[View]:
    """One bar of kernels' amounts per side; small ones share a part. `unit`: that of the sum."""
    order = sorted(rows, key=lambda row: -max(row[1]))
    parts = order[:_COLOURED]
    if left := [own for _name, own in order[_COLOURED:]]:
        words = _("{n} more").format(n=units.count(len(left)))
        parts.append((words, tuple(map(sum, zip(*left, strict=True)))))
    sums = [sum(own) or 1.0 for own in zip(*(own for _name, own in rows), strict=True)]
    return [
        View(
            label=label,
            said=units.quantity(whole, unit) if unit else "",
            width=width(whole, max(sums)),
            parts=[
                (name, own[side] / whole, min(own) > 0, f"c{n}")
                for n, (name, own) in enumerate(parts, 1)
            ],
        )
        for side, (label, whole) in enumerate(zip(labels, sums, strict=True))
    ]


def shape(launch: Launch) -> str:
    """``32 × 32 blocks of 32 × 32 threads``, or the kind of a workload without a grid."""
    if not any(launch.grid):
        return launch.workload
    grid, block = (units.extent(size, " × ") for size in (launch.grid, launch.block))
    many = [1 if size == (1, 1, 1) else 2 for size in (launch.grid, launch.block)]
    return _("{blocks} of {threads}").format(
        blocks=ngettext("{size} block", "{size} blocks", many[0]).format(size=grid),
        threads=ngettext("{size} thread", "{size} threads", many[1]).format(size=block),
    )


def day(captured: str) -> str:
    """The day of an ISO 8601 time, or a word for an unknown one."""
    return captured[:10] or _("date unknown")


def parameters(values: dict[str, int]) -> str:
    """``n = 1024`` or ``N = 8, C = 64``; "" without parameters."""
    return ", ".join(f"{name} = {number}" for name, number in values.items())


def profiled(profile: Profile) -> tuple[Launch, ...]:
    """The launches that were measured; a report may list others."""
    return tuple(launch for launch in profile.launches if launch.profiled)


def once(texts: Iterable[str]) -> str:
    """``v2 → v3``: the known texts of both sides, or one text if they agree."""
    return " → ".join(dict.fromkeys(filter(None, texts)))


def facts_of(*sides: Profile) -> tuple[Badge, ...]:
    """Device, problem, engine and date of a profile, or of two; whether the result was right."""
    texts = [
        once(side.device.name for side in sides),
        once(parameters(side.parameters) or side.problem for side in sides),
        once(map(tool, sides)),
    ]
    if len(sides) > 1 or sides[0].captured:
        days = once(day(side.captured) for side in sides)
        texts.append(_("captured {date}").format(date=days))
    # A step shows it beside its speed-up.
    check = verified(sides[-1].verification) if len(sides) == 1 else None
    return (*(Badge(text=text) for text in texts if text), *([check] if check else ()))


def tool(profile: Profile) -> str:
    """``ncu 2025.3.1.0`` and the known facts about the clocks."""
    text = " ".join(
        part for part in (profile.engine, profile.tools.get(profile.engine, "")) if part
    )
    clocks = clocks_of(profile)
    return f"{text} · {clocks}" if clocks else text


def clocks_of(profile: Profile) -> str:
    """The policy of the clocks in words, or ""."""
    known = {"none": _("clocks not locked"), "base": _("clocks locked to base")}
    return known.get(profile.capture.clock_control, "")


def verified(check: Verification | None) -> Badge | None:
    """The check that preceded a profile or time; None if there was none."""
    if check is None:
        return None
    good = check.error <= check.tolerance
    right = _("verified against the reference, error {error} of {most} allowed")
    text = right if good else _("wrong result, error {error} of {most} allowed")
    error, most = map(units.digits3, (check.error, check.tolerance))
    return Badge(text=text.format(error=error, most=most), tone="good" if good else "bad")


#: The address of a line on a page, or "".
Anchor = Callable[[LineKey], str]


#: The link to each later version's page, and the scores of the suggestions there.
Scored = Sequence[tuple[Link, Sequence[Score]]]


class PanelView(Record, frozen=True):
    """The panel of a page.

    `anchor` gives the address of a line on the page; `scored` is the outcome of the suggestions in
    later versions; `page` is the panel's own page if another page quotes it.
    """

    panel: Panel
    profile: Profile
    anchor: Anchor
    scored: Scored = ()
    page: str = ""

    @property
    def counter(self) -> str:
        """The catalog's counter that shows the limit; "" for a wait."""
        limit = self.panel.limit.id if self.panel.limit is not None else ""
        return next((one.counter for one in RESOURCES if one.id == limit), "")

    def place(self, key: LineKey) -> Link:
        """The words for a line, with its address."""
        path, __ = line_at(self.profile, key)
        name = PurePosixPath(path.replace("\\", "/")).name
        own = len({source.path for source in self.profile.sources}) > 1
        href = self.anchor(key)
        said = _("line {n} of {file}") if own and name else _("line {n}")
        return Link(
            text=said.format(n=key[1], file=name), href=f"{self.page}{href}" if href else ""
        )

    def code(self, key: LineKey) -> str:
        """The text of a line."""
        return statement_at(self.profile, key)

    def became(self, way: Way) -> Iterator[tuple[Link, Badge]]:
        """The outcome of a suggestion in later versions: any gain counts, as it is only a bound."""
        for link, scores in self.scored:
            for score in scores:
                if score.rule != way.kind or score.title != way.words:
                    continue
                step = units.factor(1 / (1 - score.gained))
                if score.verdict == "open":
                    yield link, Badge(_("not followed"))
                elif score.gained > 0:
                    yield link, Badge(_("followed, {speedup}").format(speedup=step), "good")
                else:
                    yield link, Badge(_("followed, no gain, {speedup}").format(speedup=step), "bad")


def panel_view(
    panel: Panel | None, profile: Profile, anchor: Anchor, scored: Scored = ()
) -> PanelView | None:
    """The panel of a page; None without a known limit and without suggestions."""
    counted = profile.engine == "emulator"
    if panel is None or not (panel.limit or (counted and panel.ways)):
        return None
    return PanelView(panel, profile, anchor, scored)
