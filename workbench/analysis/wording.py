"""Links of a hunk and their numbers, in words, each once.

From the parts of a counter's or the time's change it makes titles and rows; terminal, Markdown,
HTML and JSON style them without adding words. `story` decides which links and numbers are shown.
Code is *linked to* the counts of its lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from workbench.analysis.attribution import Attribution, CounterSplit, Linked, Part
from workbench.analysis.duration import StallDelta, TimePart
from workbench.analysis.limits.limit import stall_words
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.weight import TELLING
from workbench.counters import catalog
from workbench.language import N_, _
from workbench.model import Number, Record
from workbench.units import capital, listed, quantity, several, signed

#: The prefix of ncu's counters of warp samples.
SAMPLES = "smsp__pcsamp_"
#: The most lines to name for an unknown source: those that changed most.
_PLACES = 3
#: The most lines to name for a symbol's counter.
_FEW = 4

#: A line that a hunk is linked to: (side: 0 old, 1 new; path; line).
LinkedLine = tuple[int, str, int]
#: Fates of a launch.
_BECAME = (N_("added"), N_("removed"))


class Fact(Record, frozen=True):
    """One part of one counter."""

    split: CounterSplit
    part: Part

    @property
    def change(self) -> float:
        """The part relative to the larger of the counter's two values, with its sign."""
        return self.part.delta / max(abs(self.split.old), abs(self.split.new), 1)

    @property
    def weight(self) -> float:
        """`change` without its sign, to compare with `weight.TELLING`."""
        return abs(self.change)

    @property
    def of_change(self) -> float | None:
        """Part of the counter's change (0-1); None if other parts moved the other way."""
        share = self.part.delta / self.split.delta if self.split.delta else 0.0
        return share if 0 < share <= 1 else None

    @property
    def good(self) -> bool | None:
        """True if the counter moved to its better side; None if it has no better side."""
        return went_well(self.split.id, self.part.delta)

    @property
    def row(self) -> Row:
        """Its number in words."""
        lines = [str(line.new) for line in self.part.lines if line.new and line.delta]
        few = self.part.link == "symbol" and 0 < len(lines) <= _FEW
        return Row(
            id=self.split.id,
            delta=self.part.delta,
            unit=self.split.unit,
            good=self.good,
            share=self.of_change,
            where=_("on line {lines}").format(lines=", ".join(lines)) if few else "",
        )


class Title(NamedTuple):
    """A link in words: `head`, joined by `by` to `names`.

    `note` is its place or fate, `why` a possible cause without an edit.
    """

    head: str
    by: str = ""
    names: tuple[str, ...] = ()
    note: str = ""
    why: str = ""

    @property
    def lead(self) -> str:
        """The words before the names, as a heading: ``Linked by``, ``On its own lines``."""
        text = f"{self.head}{self._joint}{self.by}" if self.names else self.head
        return capital(text)

    @property
    def _joint(self) -> str:
        return "" if not self.head else _(" ") if self.by == _("of") else _(", ")

    @property
    def tail(self) -> str:
        """Everything after the head: ``linked by As and Bs``, ``of split_rows``, a note, or ""."""
        why = f"({self.why})" if self.why else ""
        return f"{self.by} {listed(self.names)}" if self.names else self.note or why

    def sentence(self, named: Callable[[str], str] = str, most: int = 4) -> str:
        """``shared by hunks 4 and 5, linked by As``, ``the launch of k, added``.

        `named` formats a name for an output, `most` is the most names to list.
        """
        text = self.head.removeprefix(_("linked to "))
        if self.names:
            names = listed([named(name) for name in self.names], most)
            if text and self.by == _("of"):
                text = _("{head} of {names}").format(head=text, names=names)
            else:
                text = f"{text}{self._joint}{self.by} {names}"
        text += f"{_(', ')}{self.note}" if self.note else ""
        return _("{text} ({why})").format(text=text, why=self.why) if self.why else text


class Row(Record, frozen=True):
    """One number of a link. `share` is its part (0-1) of the whole change, if it has one.

    An estimate, the time, has an error (`error`, in `unit`) and `stalls`, the warp states that
    changed most. For a counter `where` names the lines that a symbol moved, if they are few.
    """

    id: str
    delta: Number
    unit: str
    good: bool | None = None
    share: float | None = None
    error: float | None = None
    stalls: tuple[Row, ...] = ()
    where: str = ""

    @property
    def title(self) -> str:
        """``Shared bank conflicts``; for a time, which is an estimate, ``time (estimate)``."""
        return _("time (estimate)") if self.error is not None else title_of(self.id)

    @property
    def phrase(self) -> str:
        """The title inside a sentence."""
        if self.error is not None:
            return _("time")
        known = catalog()[self.id]
        return stall_words(self.id) if known.group == "stalls" else known.phrase

    @property
    def amount(self) -> str:
        """``−32.5 M``."""
        return signed(self.delta, self.unit)

    @property
    def margin(self) -> str:
        """``±1.20 µs`` for an estimate, else ""."""
        return f"±{quantity(self.error, self.unit)}" if self.error is not None else ""

    @property
    def of_it(self) -> str:
        """``84% of it``: of the change of the whole; "" if other parts moved the other way."""
        if self.share is None:
            return ""
        share = f"{100 * self.share:.0f}%"
        return _("all of it") if self.share == 1 else _("{share} of it").format(share=share)


def title_of(counter: str) -> str:
    """A counter's title; for a counter unknown to the catalog, the name itself."""
    return catalog()[counter].title if counter in catalog() else counter


class Tie(Linked, frozen=True):
    """One link with its time and its counters, the heaviest first."""

    weight: float
    facts: tuple[Fact, ...]
    time: TimePart | None = None
    stalls: tuple[StallDelta, ...] = ()
    #: For link ``elsewhere``, its reason if it is neither a note, the compiler nor noise; for
    #: ``launch``, its changes.
    instead: str = ""

    @property
    def title(self) -> Title:
        """The link in words."""
        if self.link == "hunk":
            return Title(_("on its own lines"))
        if self.link == "symbol":
            shared = _("shared by {hunks}").format(hunks=self.together) if self.together else ""
            return Title(shared, _("linked by"), self.symbols)
        if self.link == "launch":
            became = _(self.note) if self.note in _BECAME else ""
            return Title(_("linked to the launch"), _("of"), self.symbols, became, self.instead)
        if self.link == "unknown":
            return Title(_("source unknown"), note=self.places)
        return Title(_("unattributed"), why=self.instead or self.elsewhere)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Its numbers: the time first, then the counters."""
        counters = tuple(fact.row for fact in self.facts)
        if self.time is None:
            return counters
        stalls = tuple(Row(id=s.stall, delta=s.delta_s, unit="s") for s in self.stalls)
        time = Row(
            id="duration",
            delta=self.time.delta_s,
            unit="s",
            good=self.time.delta_s < 0,
            error=self.time.error_s,
            stalls=stalls,
        )
        return (time, *counters)

    @property
    def together(self) -> str:
        """``hunks 4 and 5`` for a share of several hunks, else ""."""
        return hunks_named(self.hunks) if len(self.hunks) > 1 else ""

    @property
    def places(self) -> str:
        """``mostly lines 23 and 31 of k.cu``, by its heaviest counter; "" without any line."""
        lines = self.facts[0].part.lines if self.facts else ()
        numbers: dict[str, list[str]] = defaultdict(list)
        for line in lines[:_PLACES]:
            file, number = (line.new_file, line.new) if line.new else (line.old_file, line.old)
            name = PurePosixPath(file.replace("\\", "/")).name
            if number and str(number) not in numbers[name]:
                numbers[name].append(str(number))
        found = [
            (
                _("lines {lines} of {name}") if len(every) > 1 else _("line {lines} of {name}")
            ).format(lines=listed(every), name=name)
            for name, every in numbers.items()
            if every
        ]
        if not found:
            return ""
        text = _("mostly {places}") if len(lines) > _PLACES else "{places}"
        return text.format(places=listed(found))


class LeftOut(Record, frozen=True):
    """Facts that are too small to show: their number, and their largest part (0-1) of a counter."""

    symbols: int = 0
    numbers: int = 0
    share: float = 0.0

    @property
    def words(self) -> str:
        """``2 negligible symbols and 3 negligible counters hidden``, or ""."""
        symbols = several(self.symbols, "negligible symbol") if self.symbols else ""
        numbers = several(self.numbers, "negligible counter") if self.numbers else ""
        parts = [each for each in (symbols, numbers) if each]
        return _("{what} hidden").format(what=listed(parts)) if parts else ""


class Passage(Record, frozen=True):
    """Links that are shown one after another, and the number left out."""

    ties: tuple[Tie, ...]
    left_out: LeftOut


class Chapter(Passage, frozen=True):
    """The facts of one hunk.

    `symbols` are all names that the hunk changes, by weight, those with a tie first.
    `lines` are the unchanged lines that make up `weight.TELLING` of a counter by its links.
    """

    hunk: Hunk
    symbols: tuple[str, ...]
    lines: frozenset[LinkedLine]

    @property
    def seconds(self) -> float:
        """The time that it is linked to."""
        return sum(tie.time.delta_s for tie in self.ties if tie.time is not None)


class LaunchRow(NamedTuple):
    """The fate of a launch: `how` (added or removed), else its `changes`."""

    kernel: str
    how: str
    changes: str

    def words(self, named: Callable[[str], str] = str) -> str:
        """``launch of k: grid 8 → 16``, ``launch added: k``."""
        name = named(self.kernel)
        if self.how:
            return _("launch {how}: {name}").format(how=_(self.how), name=name)
        return _("launch of {name}: {changes}").format(name=name, changes=self.changes)


def silence(attribution: Attribution, hunks: int = 1) -> str:
    """A sentence for hunks without facts."""
    if not tellable(attribution):
        return _("no counter is known per line")
    its = _("no counter moved by {share} on its lines")
    their = _("no counter moved by {share} on their lines")
    return (its if hunks == 1 else their).format(share=f"{TELLING:.1%}")


def went_well(counter: str, delta: Number) -> bool | None:
    """True if a change is to a counter's better side; None if it has no better side."""
    better = catalog()[counter].better if counter in catalog() else ""
    return (delta < 0) == (better == "lower") if better and delta else None


def tellable(attribution: Attribution) -> list[CounterSplit]:
    """The splits shown to a reader: catalog counters, no samples, no ideal or excess."""
    return [
        split
        for split in attribution.counters
        if split.id
        and not split.counter.startswith(SAMPLES)
        and not split.id.endswith(("_ideal", "_excess"))
    ]


def hunks_named(numbers: Sequence[int]) -> str:
    """``hunk 4``, ``hunks 4 and 5``."""
    text = _("hunks {numbers}") if len(numbers) > 1 else _("hunk {numbers}")
    return text.format(numbers=listed(list(map(str, numbers))))
