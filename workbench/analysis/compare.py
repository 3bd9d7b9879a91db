"""The changes between two profiles: counters and time, and whether the two are comparable.

Rules, all stated in the result:

* Launches of the same kernel and configuration in a report are samples, compared one by one: see
  `analysis.launches`. Those of a version are added up: see `analysis.aggregate`.
* Counters that compiler and launch fix (registers, waves) come from one pair of kernels: `Speaker`.
* A counter *moved* if the change exceeds its noise: the intervals of repeated captures if both
  sides have them, else the catalog's relative and absolute floors. Counts of warp samples must also
  leave two standard deviations of the difference of two Poisson counts.
* Profiles that differ in device, problem, engine, ncu's major version or clock
  policy, or that hold NaN, are refused: their difference is not the code's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Literal

from msgspec import field
from msgspec.structs import replace

from workbench.analysis.aggregate import Combined, LaunchPair, combine
from workbench.analysis.kernels import (
    KernelChange,
    kernel_changes,
    launch_words,
    of_no_pair,
    partial_words,
    speaking,
)
from workbench.analysis.launches import side_by_side
from workbench.analysis.misread import conflicts_told, misread_sides, misread_words
from workbench.analysis.plausible import broken, implausible, implausible_time, most_on
from workbench.analysis.sameness import both_for_debugging
from workbench.analysis.times.noise import (
    Chance,
    Chances,
    CountedSide,
    Steady,
    left_noise,
    noise_of,
    of_both,
)
from workbench.analysis.times.timing import Speed, TimeChange, time_change
from workbench.counters import (
    DERIVED,
    ESTIMATED,
    IMPLAUSIBLE,
    MACHINE,
    Counter,
    Missing,
    bound_broken,
    catalog,
)
from workbench.errors import InconclusiveError
from workbench.gpus import Chip, chip_for
from workbench.language import N_, _, told
from workbench.model import COMPILER, Number, Profile, Record, Timing
from workbench.units import faster, inside, points, quantity, relative, several, signed

Movement = Literal["better", "worse", "changed", "same", "missing"]

#: Codes of a warning, and of a profile's notices, that do not affect verdicts.
_SEEDS, _KEPT = N_("different input seeds"), ("raw-not-kept", "raw-too-large", "library-kernel")
#: Captures whose SM clocks differ by more than this do not differ only in the code.
_CLOCK_DRIFT = 0.03
#: Counters of the whole time, which a part of the kernels does not have.
_WHOLE = ("duration", "cycles")
#: Counters of the number of blocks that fit on an SM by each resource.
_BLOCKS_THAT_FIT = "occupancy_limit_"
#: Counters of the use of shared memory. Starting to use it is a choice, and not worse.
_USES = ("shared_loads", "shared_stores", "shared_accesses", "shared_wavefronts",
         "shared_wavefronts_ideal")  # fmt: skip


class Side(Record, frozen=True):
    """One side of a comparison."""

    label: str
    study: str
    version: str
    problem: str
    engine: str
    device: str
    captured: str
    kernels: tuple[str, ...]
    source_hash: str = ""

    @property
    def of_program(self) -> bool:
        """True for launches of a captured program (``@name``)."""
        return self.label.startswith("@")


class Delta(Record, frozen=True):
    """One counter on both sides. `old`, `new`, `delta` are None if it is missing.

    `noise` is the change, in `unit`, that would still count as none; `rule` says
    how several launches became one number; `reason` why a side is missing. `derived`: a side
    follows from shares of peaks, and the title says so. `chances`: what a chip may count on either
    side if timing decides how often lines run.
    """

    id: str
    title: str
    group: str
    unit: str
    better: str
    ncu: str
    old: Number | None
    new: Number | None
    delta: Number | None
    relative: float | None
    moved: bool
    verdict: Movement
    noise: float = 0.0
    rule: str = ""
    reason: str = ""
    chances: Chances | None = None
    derived: bool = False

    @property
    def phrase(self) -> str:
        """The title as written inside a sentence."""
        return inside(self.title)

    @property
    def difference(self) -> str:
        """``+1.20 M``, or ``+3.10 points`` for percentages; an em dash if a side is missing."""
        if self.delta is None:
            return quantity(None)
        return points(float(self.delta)) if self.unit == "%" else signed(self.delta, self.unit)

    @property
    def ratio(self) -> str:
        """``−84.0%``, ``×2.10``; "" for percentages, or if a side is missing."""
        if self.old is None or self.new is None or self.unit == "%":
            return ""
        return relative(self.old, self.new)

    @property
    def words(self) -> str:
        """``288 M → 46.1 M (−84.0%)``; points for percentages; no ratio from zero or None."""
        old, new = self.old, self.new
        values = f"{quantity(old, self.unit)} → {quantity(new, self.unit)}"
        if old is None or new is None:
            return values
        if self.unit == "%":
            return f"{values} ({points(float(new) - float(old))})"
        return f"{values} ({relative(old, new)})" if old else values


class Comparison(Record, frozen=True):
    """Everything that moved from `old` to `new`. `reasons` are why they are not comparable.

    `launches` are positions in the profiles of `launches.side_by_side`; `kernels` say how each
    kernel changed, and `launch_words` how several launches were compared. `partial` says why the
    whole has no time, if much of either side has no counterpart. `implausible` are counters
    and times of either side that no run can have; they are among the warnings too. `concerns` says
    which warnings are about one counter (its id), and which ("") change no verdict: seeds, and
    instructions that ncu misreads.
    """

    old: Side
    new: Side
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    time: TimeChange | None
    counters: tuple[Delta, ...]
    launches: tuple[LaunchPair, ...]
    kernels: tuple[KernelChange, ...] = ()
    launch_words: tuple[str, ...] = ()
    partial: str = ""
    implausible: tuple[str, ...] = ()
    concerns: dict[str, str] = field(default_factory=dict)

    @property
    def comparable(self) -> bool:
        """False only if `compare` was forced."""
        return not self.reasons

    def both(self, field: str) -> str:
        """A field of both sides, given once if they agree: ``NVIDIA H100, NVIDIA H200``."""
        values = (getattr(side, field) for side in (self.old, self.new))
        return ", ".join(dict.fromkeys(filter(None, values)))

    @property
    def clockless(self) -> bool:
        """True if both sides were counted in the emulator, and have no recorded time."""
        return self.time is None and self.old.engine == self.new.engine == "emulator"

    @property
    def refusals(self) -> list[str]:
        """Warnings that come before any number of a forced comparison."""
        return [
            _("not comparable, compared with --force: {reason}").format(reason=reason)
            for reason in self.reasons
        ]

    @property
    def speed(self) -> Speed | None:
        """The ratio of the recorded times, else of the durations under the profiler, if any."""
        time, duration = self.time, self["duration"]
        if time is not None:
            return Speed(old_s=time.old_s, new_s=time.new_s, moved=time.moved, profiled=False)
        if not duration.old or not duration.new:
            return None
        old, new = float(duration.old), float(duration.new)
        return Speed(old_s=old, new_s=new, moved=duration.moved, profiled=True)

    @property
    def profiler_alone(self) -> bool:
        """True if the time moved under the profiler, and the recorded time did not."""
        return self.time is not None and not self.time.moved and self["duration"].moved

    def __getitem__(self, counter_id: str) -> Delta:
        for delta in self.counters:
            if delta.id == counter_id:
                return delta
        raise KeyError(counter_id)


def label_of(profile: Profile) -> str:
    """``v3``, or for a report without a version its kernels' names."""
    if profile.version:
        return profile.version
    names = list(dict.fromkeys(launch.kernel for launch in profile.launches))
    return (
        names[0]
        if len(names) == 1
        else _("{launches} launches").format(launches=len(profile.launches))
    )


def compare(
    old: Profile,
    new: Profile,
    *,
    old_time: Timing | None = None,
    new_time: Timing | None = None,
    force: bool = False,
    labels: tuple[str, str] | None = None,
    across: bool = False,
) -> Comparison:
    """Compare two profiles counter by counter.

    Times are those outside a profiler. `force`: compare what is not comparable;
    `Comparison.reasons` says why it is not. `labels` are the names of the two sides (default:
    version, else kernel). `across`: two devices are intended, so their difference is not a reason
    to refuse. Raises InconclusiveError: the two are not comparable and `force` is not set.
    """
    names = labels or (label_of(old), label_of(new))
    reasons = incomparable(old, new, across=across)
    both = side_by_side(old, new)
    kernels = kernel_changes(both)
    speaker = speaking(kernels)
    before = combine(both.old, speaker.old if speaker else None)
    after = combine(both.new, speaker.new if speaker else None)
    if speaker is None and max(len(both.old.launches), len(both.new.launches)) > 1:
        before = {**before, **of_no_pair()}
        after = {**after, **of_no_pair()}
    for name, values in zip(names, (before, after), strict=True):
        missing = [(key, value) for key, value in values.items() if isinstance(value, Missing)]
        broken = [key for key, value in missing if "NaN" in value.reason]
        if broken:
            shown = ", ".join(broken[:4]) + (" …" if len(broken) > 4 else "")
            number = several(len(broken), "NaN counter")
            reasons.append(
                _("{number} of {name} ({shown})").format(number=number, name=name, shown=shown)
            )
    if reasons and not force:
        raise InconclusiveError(
            _("{names_0} and {names_1} are not comparable: ").format(
                names_0=names[0], names_1=names[1]
            )
            + _("; ").join(reasons),
            _remedy(old, new),
        )
    time = time_change(old_time, new_time, across=across)
    threads = [side["threads_per_block"] for side in (before, after)]
    resized = len({each.value for each in threads if isinstance(each, Combined)}) == 2
    # With several kernels, no launch can be left out, and sums have the default noise.
    alone = len(both.old.launches) == len(both.new.launches) == 1
    steady = both.steady[0] if alone and both.steady else {}
    deltas = tuple(
        _delta(c, before[c.id], after[c.id], resized=resized, steady=steady) for c in catalog()
    )
    chips = chip_for(old.device), chip_for(new.device)
    partial = partial_words(both, kernels, names)
    deltas = tuple(_told_as_absent(delta, chips, partial) for delta in deltas)
    loose = of_both(
        CountedSide(both.old, before, speaker.old if speaker else None),
        CountedSide(both.new, after, speaker.new if speaker else None),
    )
    if loose:
        deltas = tuple(replace(d, chances=loose.get(d.id)) for d in deltas)
    warnings = _warnings(both.old, both.new)
    seeds = [said for said in warnings if said.startswith(_(_SEEDS))]
    concerns = dict.fromkeys((*seeds, *misread_sides(both.old, both.new)), "")
    concerns |= dict.fromkeys(conflicts_told(both.old, both.new), "shared_bank_conflicts")
    concerns |= dict.fromkeys(_clocks_told(before["sm_clock"], after["sm_clock"]), "sm_clock")
    warnings += [said for said in concerns if said not in seeds]
    for name, one, other in zip(names, (old, new), (new, old), strict=True):
        notices = [x for x in one.notices if x.code == COMPILER and x not in other.notices]
        warnings += [f"{name}: {told(notice.message)}" for notice in notices]
    impossible = [x for x in (*implausible(old), *implausible(new)) if x not in reasons]
    impossible += [text for one in (old_time, new_time) if one for text in implausible_time(one)]
    warnings += impossible
    if time is None and old_time is not None and new_time is not None:
        warnings.append(_("the two times differ in device, problem or cache policy: not compared"))
    if time is not None:
        duration, clock = (next(d for d in deltas if d.id == n) for n in ("duration", "sm_clock"))
        # If only one of the times moved, the step's sentence says so.
        if duration.old and duration.new and time.moved and duration.moved:
            seen = float(duration.old) / float(duration.new)
            clocks = (clock.old, clock.new) if clock.moved else ()
            apart = disagreement((time.low, time.speedup, time.high), seen, clocks)
            warnings += apart
            if (seen > 1) == (time.speedup > 1):  # else the verdict itself is in doubt
                concerns |= dict.fromkeys(apart, "duration")
    return Comparison(
        old=_side(old, names[0]),
        new=_side(new, names[1]),
        reasons=tuple(reasons),
        warnings=tuple(warnings),
        time=time,
        counters=deltas,
        launches=both.pairs,
        kernels=kernels,
        launch_words=launch_words(kernels, names, (old, new), both.runs),
        partial=partial,
        implausible=tuple(impossible),
        concerns=concerns,
    )


def _remedy(old: Profile, new: Profile) -> str:
    lone = next((side for side in (old, new) if side.engine == "ncu" and side.version), None)
    if lone is not None and {old.engine, new.engine} == {"ncu", "emulator"}:
        name = f"{lone.study}/{lone.version}"
        return _(
            "Count the other one in the emulator too: `workbench profile {name}:{problem} "
            "--engine emulator`; or add --force to see the difference anyway."
        ).format(name=name, problem=lone.problem)
    return _(
        "Compare profiles with the same device, problem, engine and clock policy, or "
        "add --force to see the difference anyway."
    )


def incomparable(old: Profile, new: Profile, *, across: bool = False) -> list[str]:
    """Reasons why two profiles are not comparable as code; empty if they are.

    `across`: the user asked for two devices.
    """
    reasons = [*dict.fromkeys((*broken(old), *broken(new)))]

    def differ(what: str, a: str, b: str) -> None:
        if a and b and a != b:
            reasons.append(_("different {what} ({a}, {b})").format(what=what, a=a, b=b))

    for profile in (old, new):
        if not any(launch.profiled for launch in profile.launches):
            reasons.append(
                _("{label_of} holds no profiled launch").format(label_of=label_of(profile))
            )
    differ(_("engines"), old.engine, new.engine)
    if not across:
        differ(_("devices"), old.device.name, new.device.name)
    differ(_("studies"), old.study, new.study)
    differ(_("problems"), old.problem, new.problem)
    if old.problem == new.problem and old.parameters and new.parameters:
        differ(_("parameters"), _parameters(old), _parameters(new))
    differ(_("major versions of ncu"), _major(old), _major(new))
    differ(_("clock policies"), old.capture.clock_control, new.capture.clock_control)
    return reasons


def _parameters(profile: Profile) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(profile.parameters.items()))


def _major(profile: Profile) -> str:
    return profile.tools.get("ncu", "").split(".")[0]


def _seed(profile: Profile) -> str:
    return "" if profile.verification is None else str(profile.verification.seed)


def _warnings(old: Profile, new: Profile) -> list[str]:
    warnings = []
    for what, a, b in (
        (_("cache policies"), old.capture.cache_control, new.capture.cache_control),
        (_("replay modes"), old.capture.replay_mode, new.capture.replay_mode),
        (_("drivers"), old.tools.get("driver", ""), new.tools.get("driver", "")),
        (_("input seeds"), _seed(old), _seed(new)),
    ):
        if a and b and a != b:
            warnings.append(_("different {what}: {a}, {b}").format(what=what, a=a, b=b))
    skipped = sum(not launch.profiled for p in (old, new) for launch in p.launches)
    if skipped:
        warnings.append(
            _("{skipped} listed but never profiled, and left out").format(
                skipped=several(skipped, "launch", "launches")
            )
        )
    debug = both_for_debugging(old, new)
    return [*warnings, *([debug] if debug else [])]


def _clocks_told(old: Combined | Missing, new: Combined | Missing) -> list[str]:
    if isinstance(old, Missing) or isinstance(new, Missing):
        return []
    first, second = float(old.value), float(new.value)
    if abs(first - second) <= _CLOCK_DRIFT * max(first, second):
        return []
    text = _("the SM clock differed: {first}, {second}; compare cycles rather than duration")
    return [text.format(first=quantity(first, "hz"), second=quantity(second, "hz"))]


def _delta(
    counter: Counter,
    old: Combined | Missing,
    new: Combined | Missing,
    *,
    resized: bool,
    steady: Mapping[str, Steady],
) -> Delta:
    # More blocks of a different size are neither better nor worse.
    better = "" if resized and counter.id.startswith(_BLOCKS_THAT_FIT) else counter.better
    if counter.id in _USES and isinstance(old, Combined) and not old.value:
        better = ""
    values = [None if isinstance(side, Missing) else side.value for side in (old, new)]
    known = [side for side in (old, new) if isinstance(side, Combined)]
    ncu = known[-1].ncu if known else counter.origin
    rules = [side.rule for side in known if side.rule]
    derived = any(side.derived for side in known)
    estimated = any(side.value and side.ncu.startswith(MACHINE) for side in known)
    result = partial(
        Delta,
        id=counter.id,
        title=counter.title + (_(DERIVED) if derived else _(ESTIMATED) if estimated else ""),
        derived=derived,
        group=counter.group,
        unit=counter.unit,
        better=better,
        ncu=ncu,
        old=values[0],
        new=values[1],
        rule=" → ".join(dict.fromkeys(rules)),
    )
    if isinstance(old, Missing) or isinstance(new, Missing):
        lacking = {
            name: side.reason
            for name, side in ((N_("old"), old), (N_("new"), new))
            if isinstance(side, Missing)
        }
        reason = _("; ").join(f"{_(name)}{_(': ')}{told(why)}" for name, why in lacking.items())
        if len(lacking) == 2 and len(set(lacking.values())) == 1:
            reason = lacking["old"]
        return result(delta=None, relative=None, moved=False, verdict="missing", reason=reason)
    delta = new.value - old.value
    noise = noise_of(counter, old.value, new.value, derived)
    spreads, ratio = (old.spread, new.spread), steady.get(new.ncu)
    moved = left_noise(counter, old.value, new.value, spreads, derived, ratio)
    verdict = movement(better, delta, moved)
    relative = delta / old.value if old.value else None
    return result(delta=delta, relative=relative, moved=moved, verdict=verdict, noise=noise)


def _told_as_absent(delta: Delta, chips: tuple[Chip | None, Chip | None], partial: str) -> Delta:
    """Make a counter with an impossible value count as unmoved, so that it explains nothing.

    A part of the kernels (`partial`) does not have the time of the whole.
    """
    sides = zip((_("old"), _("new")), (delta.old, delta.new), chips, strict=True)
    broken = [
        _("{side}: {implausible}; it must be {bound}").format(
            side=side, implausible=_(IMPLAUSIBLE), bound=bound
        )
        for side, value, chip in sides
        if value is not None and (bound := bound_broken(delta.id, value, most_on(chip, delta.id)))
    ]
    if partial and delta.id in _WHOLE:
        broken, delta = [partial], replace(delta, old=None, new=None)
    if not broken:
        return delta
    return replace(
        delta,
        delta=None,
        relative=None,
        moved=False,
        verdict="missing",
        reason="; ".join(filter(None, (delta.reason, *broken))),
    )


def movement(better: str, change: Number, moved: bool) -> Movement:
    """The meaning of a change in a counter that is ``better`` lower, higher, or neither ("")."""
    if not moved:
        return "same"
    if not better:
        return "changed"
    return "better" if (change < 0) == (better == "lower") else "worse"


def _side(profile: Profile, label: str) -> Side:
    return Side(
        label=label,
        study=profile.study,
        version=profile.version,
        problem=profile.problem,
        engine=profile.engine,
        device=profile.device.name,
        captured=profile.captured,
        kernels=tuple(dict.fromkeys(launch.kernel for launch in profile.launches)),
        source_hash=profile.source_hash,
    )


# --- verdicts that hold for all possible counts of a chip ---------------------------
#
# A counter's two values are exchanged for others that are possible (`Chance`): both ends of each
# side's range, and within it the values that may decide a verdict: the predicted value and the
# other side's. Verdicts change only at a bound or at these, so if all of them give one verdict, it
# is valid; otherwise there is none, and the lines are named.


def doubt(delta: Delta, decide: Callable[[Delta], object], targets: Iterable[float] = ()) -> str:
    """The reason why a verdict on a counter is uncertain, with the lines; empty if it is certain.

    `decide` gives the verdict for the counter's values and for other possible ones; `targets` are
    values of the new side at which the verdict may change.
    """
    said = decide(delta)
    if delta.chances is None or all(decide(one) == said for one in possible(delta, targets)):
        return ""
    sides = (delta.chances.old, delta.chances.new)
    return "; ".join(dict.fromkeys(side.words for side in sides if side is not None))


def possible(delta: Delta, targets: Iterable[float] = ()) -> Iterator[Delta]:
    """The counter with other values that a chip may give; empty if both sides are certain.

    If both sides have the same code, the effect of chance on one does not count as a difference.
    """
    if delta.chances is None:
        return
    before, after = delta.chances.old, delta.chances.new
    olds, news = _ends(delta.old, before), _ends(delta.new, after)
    inside = [value for value in targets if after is not None and after.low < value < after.high]
    if delta.chances.together and len(olds) == len(news):
        for old, new in [*zip(olds, news, strict=True), *((value, value) for value in inside)]:
            yield at(delta, old, new)
        return
    for old, new in product(olds, [*news, *inside]):
        yield at(delta, old, new)
    first, second = ([value for value in ends if value is not None] for ends in (olds, news))
    if first and second:
        common = max(min(first), min(second))
        if common <= min(max(first), max(second)):
            yield at(delta, common, common)  # perhaps nothing moved


def _ends(value: Number | None, chance: Chance | None) -> list[Number | None]:
    return [value] if chance is None else [chance.low, value, chance.high]


def at(delta: Delta, old: Number | None, new: Number | None) -> Delta:
    """The same counter with other values."""
    if old is None or new is None:
        return replace(delta, old=old, new=new)
    counter, change = catalog()[delta.id], new - old
    moved = left_noise(counter, old, new)
    return replace(
        delta,
        old=old,
        new=new,
        delta=change,
        relative=change / old if old else None,
        moved=moved,
        verdict=movement(delta.better, change, moved),
        noise=noise_of(counter, old, new),
    )


#: Durations under the profiler may lie this far outside the interval of the recorded speed-up:
#: twice the noise of one of them, rounded up.
_DISAGREE = 0.025


def remarks(profile: Profile) -> list[str]:
    """The notices of a profile's capture, and the counters that ncu gets wrong."""
    wrong = (f"{text}." for text in (*misread_words(profile), *implausible(profile)))
    return [*(notice.message for notice in profile.notices), *wrong]


def provenance(profile: Profile) -> list[str]:
    """The remarks that give the source of numbers and change no verdict."""
    misread = (f"{text}." for text in misread_words(profile))
    return [*(each.message for each in profile.notices if each.code in _KEPT), *misread]


def disagreement(
    recorded: tuple[float, float, float], profiled: float, clocks: Sequence[Number | None] = ()
) -> list[str]:
    """Sentences for recorded times and durations under the profiler with different speed-ups.

    Either may be right: ncu empties the caches, counts in several passes and may hold the
    clock; but it is the recorded time that a user waits for.

    `recorded` is old over new of the recorded times (lowest, median, highest), `profiled` that of
    the durations; `clocks` are the SM clocks in Hz under the profiler, if they moved.
    """
    low, middle, high = recorded
    if low * (1 - _DISAGREE) <= profiled <= high * (1 + _DISAGREE):
        return []
    text = _(
        "the times and the profiler disagree: {middle} by the recorded times, "
        "{profiled} under the profiler"
    ).format(middle=faster(middle), profiled=faster(profiled))
    if clocks:
        old, new = (quantity(clock, "hz") for clock in clocks)
        text += _(" (where the SM clock was {old}, then {new})").format(old=old, new=new)
    return [text]
