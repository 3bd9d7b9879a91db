"""Predictions of a step against its measurements.

An author's predictions are confirmed, refuted or inconclusive. Promises for the old version, by
ncu's rules or by the panel of its limits, are kept, partly kept or not kept (`Score`).

The grammar of ``change`` is in `workbench.specs`.

The rule for a predicted change from `old` to a target: *confirmed* if at least nine tenths of the
change (`REACHED`) were reached, *inconclusive* if the missing part lies within the counter's noise,
or the predicted change itself does, *refuted* otherwise. Bounds: confirmed if they hold,
inconclusive if they fail by less than the noise. ``up`` and ``down``: inconclusive if the counter
did not move, refuted if it is a count without noise. A counter that a side lacks is inconclusive,
with the reason; so is one whose verdict depends on lines that the timing of warps makes run more or
less often (`noise.Chance`).

Instructions of a profile that ran PTX are judged by the estimate of machine instructions, which an
author means and a GPU counts: a verdict is valid only if it is the same at both ends of the
estimate's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec import structs
from msgspec.structs import replace

from workbench.analysis.compare import Comparison, Delta, doubt
from workbench.counters import ESTIMATED, MACHINE, Counter, catalog
from workbench.language import _
from workbench.model import Profile, Record, Rule
from workbench.specs import Expectation, Prediction, parse_prediction
from workbench.units import Number, factor, quantity, relative

Verdict = Literal["confirmed", "refuted", "inconclusive"]

#: Part of the predicted change that must be reached.
REACHED = 0.9
#: Noise of exact counts: only that of sums of floats.
_EXACT = 1e-9
#: Relative error of the estimate of machine instructions (docs/emulator-rules.md).
ESTIMATE_ERROR = 0.15

#: Sign of a bound -> the test that a value satisfies it.
BOUNDS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Judgement(Record, frozen=True):
    """One expectation and its verdict.

    `observed` is in words; `why` and `learned` are the author's words before and after measuring.
    """

    counter: str
    expected: str
    observed: str
    verdict: Verdict
    reason: str
    why: str
    learned: str
    line: int


def find_counter(name: str) -> Counter | None:
    """The catalog's counter for an id or an ncu name."""
    known = catalog()
    return known[name] if name in known else known.by_name(name)


def judge(
    expectations: Sequence[Expectation], comparison: Comparison, *, unchanged: bool = False
) -> tuple[Judgement, ...]:
    """Judge the predictions of the new version's author, relative to its parent.

    `unchanged`: source and launch are the parent's, so no prediction is scored.

    Raises UsageError: a ``change`` has an unknown form.
    """
    found = tuple(_judge(expectation, comparison) for expectation in expectations)
    if not unchanged:
        return found
    words = _("source and launch are unchanged")
    return tuple(replace(one, verdict="inconclusive", reason=words) for one in found)


def _judge(expectation: Expectation, comparison: Comparison) -> Judgement:
    prediction = parse_prediction(expectation.change)
    counter = find_counter(expectation.counter)
    delta = next((d for d in comparison.counters if counter and d.id == counter.id), None)
    observed, reason = "—", _("no counter {counter!r}").format(counter=expectation.counter)
    verdict: Verdict = "inconclusive"
    if counter is not None and counter.id == "duration" and comparison.time is not None:
        # Times measured outside the profiler are preferred.
        time = comparison.time
        observed = _change(time.old_s, time.new_s, "s", prediction.form)
        noise = time.old_s * max(0.0, 1 / time.low - 1 / time.speedup)
        verdict, reason = _decide(prediction, time.old_s, time.new_s, noise, time.moved, "s")
    elif delta is not None and delta.old is not None and delta.new is not None:
        observed = observed_change(delta, prediction.form)
        if delta.ncu.startswith(MACHINE):
            observed += _(ESTIMATED)
        targets = (prediction.number,) if prediction.form == "to" else ()
        why = doubt(delta, lambda one: _of_counter(prediction, one)[0], targets)
        verdict, reason = ("inconclusive", why) if why else _of_counter(prediction, delta)
    elif delta is not None:
        reason = delta.reason or _("missing on one side")
    return Judgement(
        counter=expectation.counter,
        expected=expectation.change,
        observed=observed,
        verdict=verdict,
        reason=reason,
        why=expectation.why,
        learned=expectation.learned,
        line=expectation.line,
    )


def _of_counter(prediction: Prediction, delta: Delta) -> tuple[Verdict, str]:
    """The verdict on a counter that both sides have; estimates may be inexact."""
    assert delta.old is not None and delta.new is not None
    old, new = float(delta.old), float(delta.new)
    if not delta.ncu.startswith(MACHINE):
        return _decide(prediction, old, new, delta.noise, delta.moved, delta.unit)
    low, high = new * (1 - ESTIMATE_ERROR), new * (1 + ESTIMATE_ERROR)
    off = [low, high, *([old] if low <= old <= high else [])]
    could_be = [new, *(off if new != old or delta.moved else [])]
    verdicts = [_decide(prediction, old, at, 0.0, at != old, delta.unit) for at in could_be]
    if len({verdict for verdict, __ in verdicts}) > 1:
        return "inconclusive", _("the estimate may be off by {estimate_error:.0%}").format(
            estimate_error=ESTIMATE_ERROR
        )
    return verdicts[0]


def observed_change(delta: Delta, form: str = "") -> str:
    """A counter's change, in the unit of a prediction of that form."""
    if delta.old is None or delta.new is None:
        return "—"
    return _change(delta.old, delta.new, delta.unit, form)


def _change(old: Number, new: Number, unit: str, form: str) -> str:
    if form in ("ratio", "factor") and old:
        return factor(new / old)
    if old == 0 or unit == "%" or form in ("to", "bound"):
        return f"{quantity(old, unit)} → {quantity(new, unit)}"
    return relative(old, new)


def _decide(
    prediction: Prediction, old: float, new: float, noise: float, moved: bool, unit: str
) -> tuple[Verdict, str]:
    form, number = prediction.form, prediction.number
    if form == "same":
        if moved and relative(old, new) == "±0%":
            return "confirmed", _("it moved by less than 0.05%")
        return (
            ("refuted", _("it moved")) if moved else ("confirmed", _("it stayed within its noise"))
        )
    if form in ("up", "down"):
        if not moved:
            if new == old and noise <= _EXACT * abs(old):
                return "refuted", _("it did not change")
            if new == old:
                return "inconclusive", _("it did not change")
            if abs(new - old) > noise:
                # With few captures, their ranges, widened because they are few, decide.
                return "inconclusive", _("the ranges of the repeated captures overlap")
            return "inconclusive", _("the change lies within the noise, {noise}").format(
                noise=quantity(noise, unit)
            )
        right = (new > old) == (form == "up")
        return ("confirmed", "") if right else ("refuted", _("it moved the other way"))
    if form == "peak" and unit != "%":
        return "inconclusive", _("the counter is not in percent of a peak")
    if form in ("ratio", "bound", "peak"):
        if form == "ratio" and old == 0:
            return "inconclusive", _("the old value is zero, so there is no ratio")
        scale = {"ratio": old, "bound": 1.0, "peak": 100.0}[form]
        bound = number * scale
        if BOUNDS[prediction.sign](new, bound):
            return "confirmed", ""
        near = abs(new - bound) <= noise and noise > 0
        short = _("{bound} from the bound").format(bound=quantity(abs(new - bound), unit))
        return (
            ("inconclusive", _("{short}, within the noise").format(short=short))
            if near
            else ("refuted", short)
        )
    if form in ("relative", "factor") and old == 0:
        return "inconclusive", _("the old value is zero, so there is no relative change")
    return _reach(prediction, old, new, noise, unit)


def _reach(
    prediction: Prediction, old: float, new: float, noise: float, unit: str
) -> tuple[Verdict, str]:
    """The rule for a predicted change to a target; overshooting is fine unless it was exact."""
    number = prediction.number
    if prediction.form == "relative":
        target = old * (1 + number / 100)
    elif prediction.form == "factor":
        target = old * number if number > 0 else old / -number
    else:
        target = number
    way = target - old
    exact = prediction.form == "to"
    missing = abs(target - new)
    if abs(way) <= noise and new != target:
        # It was predicted to stay, or hardly to move, but it moved.
        if abs(new - old) > noise and (missing > noise if exact else (new - old) * way < 0):
            beyond = _("it moved {missing} too far").format(missing=quantity(missing, unit))
            return "refuted", beyond if exact else _("it moved the other way")
        return "inconclusive", _("the predicted change is below the noise, {noise}").format(
            noise=quantity(noise, unit)
        )
    if way == 0:
        return "confirmed", ""
    covered = (new - old) / way
    if covered >= REACHED and not (exact and covered > 2 - REACHED):
        return "confirmed", ""
    if missing <= noise:
        return "inconclusive", _("{missing} short, within the noise").format(
            missing=quantity(missing, unit)
        )
    if covered <= 0:
        return "refuted", _("it did not move that way")
    if exact and covered > 1:
        return "refuted", _("it moved {missing} too far").format(missing=quantity(missing, unit))
    return "refuted", _("{covered:.0f}% of the predicted change").format(covered=100 * covered)


def side_effects(comparison: Comparison, expectations: Sequence[Expectation]) -> tuple[Delta, ...]:
    """Counters that moved and were not predicted, those with a direction first.

    Counters that follow from an expected one (`Catalog.following`) are expected with it, unless one
    improved while the other got worse. Within each kind the largest relative changes come first; a
    counter that rose from zero counts as largest.
    """
    expected: set[str] = set()
    implied: set[str] = set()
    moved = {delta.id: delta for delta in comparison.counters if delta.moved}
    for expectation in expectations:
        counter = find_counter(expectation.counter)
        if counter is None:
            continue
        expected.add(counter.id)
        cause = moved.get(counter.id)
        for name in catalog().following(counter.id) & moved.keys() if cause else ():
            if {moved[name].verdict, moved[counter.id].verdict} != {"better", "worse"}:
                implied.add(name)
    found = [delta for name, delta in moved.items() if name not in expected | implied]

    def size(delta: Delta) -> float:
        if not delta.old or delta.new is None:
            return float("inf")
        return abs(float(delta.new) / float(delta.old) - 1.0)

    return tuple(sorted(found, key=lambda d: (not d.better, -size(d))))


#: A promise counts as kept if this part of it came true.
_KEPT = 0.9


class Score(Record, frozen=True):
    """The promise of a rule for the old version, and the gain of the new version.

    `promised` and `gained` are parts of the old duration (0-1); `gained` is the whole
    step's gain, whatever its cause. `still` is the promise of the same rule for the new version,
    None if the rule no longer fires. ``open``: the rule promises as much as before, so the step did
    not act on it and its gain is not the rule's.
    """

    rule: str
    title: str
    kernel: str
    promised: float
    gained: float
    still: float | None
    verdict: Literal["kept", "partly", "not kept", "open"] = "open"


def weigh(score: Score) -> Score:
    """A score with the verdict that follows from its numbers."""
    verdict: Literal["kept", "partly", "not kept", "open"] = "not kept"
    if score.still is not None and score.still >= _KEPT * score.promised:
        verdict = "open"
    elif score.gained >= _KEPT * score.promised:
        verdict = "kept"
    elif score.gained > 0:
        verdict = "partly"
    return structs.replace(score, verdict=verdict)


def _promises(profile: Profile) -> Iterator[tuple[str, Rule, str, float | None]]:
    """Kernel, rule, its title and the promised part of the duration (0-1), largest first."""
    found = [
        (launch.kernel, rule)
        for launch in profile.launches
        for rule in launch.rules
        if rule.kind in ("optimization", "warning")
    ]
    for kernel, rule in sorted(found, key=lambda each: -(each[1].speedup or 0.0)):
        promised = None if rule.speedup is None else rule.speedup / 100.0
        yield kernel, rule, rule.title or rule.name, promised


def score(old: Profile, new: Profile, speedup: float) -> tuple[Score, ...]:
    """Score ncu's promises for the old version by the step's gain.

    `speedup` is old time over new time, measured outside the profiler if possible.
    """
    gained = 1.0 - 1.0 / speedup
    later = {(rule.id, title): promised for __, rule, title, promised in _promises(new)}
    return tuple(
        weigh(
            Score(
                rule=rule.id,
                title=title,
                kernel=kernel,
                promised=promised,
                gained=gained,
                still=later.get((rule.id, title)),
            )
        )
        for kernel, rule, title, promised in _promises(old)
        if promised is not None
    )
