"""Notes on a line of code: its part of the time, its counts and their excess over the ideal.

Pages draw them as gutters, an editor writes them at the line's end. Counts of several launches of a
profile on the same lines add up. A missing count has no notes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from workbench import units
from workbench.analysis.aggregate import value_of
from workbench.analysis.limits.limit import GROUP, SAMPLES, HotLine, sampled_lines
from workbench.counters import MACHINE, Counter, catalog, line_metric
from workbench.language import N_, _
from workbench.model import Launch, LineKey, Number, Profile, line_counters

#: Id, title, counter, and its ideal ("" if it has none).
COUNTED = (
    ("global", N_("Global sectors"), "global_sectors", "global_sectors_ideal"),
    ("shared", N_("Shared wavefronts"), "shared_wavefronts", "shared_wavefronts_ideal"),
    ("local", N_("Local sectors"), "local_sectors", ""),
    ("instructions", N_("Instructions"), "instructions", ""),
)
#: The maximum number of stalls to show for a line.
_STALLS = 3
Lines = dict[LineKey, dict[str, Number]]


class Amount(NamedTuple):
    """A line's amount as text, its size, its excess over the ideal, and a note."""

    text: str
    total: Number
    excess: Number = 0
    note: str = ""


Amounts = dict[LineKey, Amount]


def _percent(share: float) -> str:
    return units.quantity(100.0 * share, "%")


def stall_note(line: HotLine, limit: int = 1) -> str:
    """The largest stalls of a line, as shares of its samples."""
    parts = [f"{state.title} {_percent(share)}" for state, share in line.stalls[:limit]]
    return ", ".join(parts)


def samples_beside(launch: Launch) -> Amounts:
    """The part (0-1) of a launch's samples by line; the note is the largest stall."""
    return {
        line.key: Amount(text=_percent(line.share), total=line.share, note=stall_note(line))
        for line in sampled_lines(launch)
    }


def time_beside(profile: Profile) -> Amounts:
    """Seconds by line: its share of a launch's samples times the duration; the same note."""
    seconds: dict[LineKey, float] = {}
    stalls: dict[LineKey, dict[str, float]] = {}
    for launch in profile.launches:
        duration = value_of(launch, "duration") if launch.profiled else None
        for line in sampled_lines(launch) if duration else ():
            spent = line.share * float(duration or 0.0)
            seconds[line.key] = seconds.get(line.key, 0.0) + spent
            own = stalls.setdefault(line.key, {})
            for state, share in line.stalls:
                own[state.title] = own.get(state.title, 0.0) + share * spent
    return {
        key: Amount(text=units.quantity(spent, "s"), total=spent, note=_top(stalls[key], spent))
        for key, spent in seconds.items()
    }


def _top(stalls: dict[str, float], spent: float) -> str:
    title, most = max(stalls.items(), key=lambda item: item[1], default=("", 0.0))
    return f"{title} {_percent(most / spent)}" if most else ""


def counted_beside(side: Iterable[tuple[Launch, Lines]], counter: str, ideal: str) -> Amounts:
    """A counter by line over launches; the note says how many times the ideal it is."""
    totals: dict[LineKey, Number] = {}
    least: dict[LineKey, Number] = {}
    mark = ""
    for launch, lines in side:
        name = line_metric(launch, catalog()[counter])
        mark = "≈" if name and name.startswith(MACHINE) else mark
        best = line_metric(launch, catalog()[ideal]) if ideal else None
        for key, own in lines.items() if name else ():
            if number := own.get(name or "", 0):
                totals[key] = totals.get(key, 0) + number
                least[key] = least.get(key, 0) + (own.get(best, 0) if best else number)
    return {
        key: Amount(
            text=mark + units.count(round(total)),
            total=total,
            excess=max(total - least[key], 0),
            note=_beyond(total, least[key]),
        )
        for key, total in totals.items()
    }


def _beyond(total: Number, least: Number) -> str:
    if total <= least:
        return ""
    return (
        _("{factor} the ideal").format(factor=units.factor(total / least))
        if least
        else _("all of it excess")
    )


class Beside(NamedTuple):
    """One known fact about a line.

    Attributes:
        counter: The catalog's counter whose meaning it has.
        title: Its name at the head of a column.
        text: The amount.
        note: Its relation to the ideal, or what the line waits for; "" if there is nothing.
        telling: Whether to show it at the line's end.
        each: The amount of one access of a warp, and the ideal one; "" if that is not known.
        kernel: Its kernel if several kernels have the line; "" if only one has it.
    """

    counter: Counter
    title: str
    text: str
    note: str = ""
    telling: bool = False
    each: str = ""
    kernel: str = ""

    @property
    def timed(self) -> bool:
        """True for time and warp states, which the emulator does not measure."""
        return self.counter.unit == "s" or self.counter.group in (GROUP, "samples")

    @property
    def words(self) -> str:
        """The amount and its notes."""
        return self._whose(", ".join(filter(None, (self.text, self.each, self.note))))

    @property
    def short(self) -> str:
        """Briefly: ``global sectors 32 a request, ideal 4``; ``12% of the time, Wait 45%``."""
        return self._whose(f"{self.title.lower()} {self.each}") if self.each else self.words

    def _whose(self, words: str) -> str:
        return f"{self.kernel}: {words}" if self.kernel else words


def beside(profile: Profile) -> dict[LineKey, list[Beside]]:
    """All that is known about each line of a profile, the most telling first."""
    launches = [launch for launch in profile.launches if launch.profiled]
    out: dict[LineKey, list[Beside]] = defaultdict(list)
    for key, found in _shares(profile, launches).items():
        out[key].append(found)
    for launch in launches if len(launches) == 1 else ():
        for line in sampled_lines(launch):
            out[line.key] += [
                Beside(state, state.title, _percent(share), _("of the line's samples"))
                for state, share in line.stalls[:_STALLS]
            ]
    side = [(launch, line_counters(launch)) for launch in launches]
    for __, title, name, ideal in COUNTED:
        counter = catalog()[name]
        each = _each(launches, name, ideal) if ideal else {}
        for key, amount in counted_beside(side, name, ideal).items():
            if key[1] > 0:
                said = each.get(key, "")
                found = Beside(counter, _(title), amount.text, amount.note, bool(said), said)
                out[key].append(found)
    return dict(out)


def _shares(profile: Profile, launches: list[Launch]) -> dict[LineKey, Beside]:
    """The lines' parts of the time, or, if no duration is known, of the samples."""
    spent, id_, title = time_beside(profile), "duration", _("Time")
    durations = [value_of(each, "duration") for each in launches if sampled_lines(each)]
    # Samples without a line are part of the time as well.
    whole = float(sum(each for each in durations if each))
    if not spent and len(launches) == 1:
        spent, id_, title, whole = samples_beside(launches[0]), SAMPLES, _("Samples"), 1.0
    telling = {line.key for each in launches for line in sampled_lines(each) if line.telling}
    return {
        key: Beside(
            *(
                catalog()[id_],
                title,
                _("{percent} of the {lower}").format(
                    percent=_percent(each.total / whole), lower=title.lower()
                ),
                each.note,
            ),
            key in telling,
        )
        for key, each in spent.items()
    }


def _each(launches: list[Launch], counter: str, ideal: str) -> dict[LineKey, str]:
    """The cost of one access of a warp on each line, and the ideal, over instructions executed.

    Lines with an instruction without a count of executions are left out.
    """
    sums: dict[LineKey, list[Number]] = {}
    unknown: set[LineKey] = set()
    for launch in launches:
        table = launch.instructions
        columns = [
            table.columns.get(name) if (name := line_metric(launch, catalog()[each])) else None
            for each in (counter, ideal, "instructions")
        ]
        taken, least, ran = (
            dict(zip(each.rows, each.values, strict=True)) if each else {} for each in columns
        )
        for row, amount in taken.items():
            key = table.file[row], table.line[row]
            if not ran.get(row) or columns[1] is None:
                unknown.add(key)
            elif amount:
                own = sums.setdefault(key, [0, 0, 0])
                for place, number in enumerate((amount, least.get(row, 0), ran[row])):
                    own[place] += number
    return {
        key: _("{digits3} per request, ideal {digits32}").format(
            digits3=units.digits3(taken / ran), digits32=units.digits3(best / ran)
        )
        for key, (taken, best, ran) in sums.items()
        if key not in unknown
    }
