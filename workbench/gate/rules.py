"""Gates for continuous integration: expectations, regressions, thresholds.

Every check gives one `Gate` for each thing it examined, passed ones included, so that a report can
list the checks. The whole fails if one gate fails (exit code 1). It is inconclusive if none fails
but one could not be judged (exit code 6): a time that is too noisy, a counter that is missing, or
one that depends on how warps meet (`noise.Chance`).

Emulated profiles have no time: if the project names no counters, `COUNTED` are gated instead,
except those whose change was predicted. Instructions are the machine's.

A program's time is judged by its interval if both captures have several runs; if not, a regression
must also exceed the range by which two durations of one program may differ. Its
kernels are judged by the counters and limits of the rules; without times, by `COUNTED`.

Settings, in ``[tool.workbench.check]``:

``max_regression = "2%"``       this slow-down from the parent is allowed (without it: noise,
                                and for estimated instructions the estimate's error)
``resolution = "2%"``           the slow-down beyond it that a pass excludes
``baseline_runs = 20``          runs that a rolling baseline keeps (`workbench docs ci`)
``require_expectations = true`` every version with a parent must predict something
``counters = { id = "5%" }``    further counters that must not get worse by more
``limits = { id = "<= 0" }``    bounds on a counter of the version itself
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from workbench.analysis.compare import Comparison, Delta, doubt
from workbench.analysis.expectations import (
    BOUNDS,
    ESTIMATE_ERROR,
    Judgement,
    Verdict,
    find_counter,
    observed_change,
)
from workbench.analysis.times.noise import Chances
from workbench.analysis.times.regression import (
    MAX_RUNS,
    MIN_RUNS,
    RESOLUTION,
    Status,
    Turns,
    in_words,
    judge_run,
    judged_words,
    verdict,
)
from workbench.counters import MACHINE, catalog
from workbench.errors import UsageError
from workbench.language import _, told
from workbench.model import Estimate, Record, Timing
from workbench.units import quantity, relative, signed, span

if TYPE_CHECKING:
    from workbench.programs.compared.program import ProgramDifference
    from workbench.programs.compared.steps import KernelStep

#: Counters that are gated without a clock if the project names none: the emulator counts them
#: exactly, and a slower kernel usually has more of them.
COUNTED = ("instructions", "global_sectors", "shared_wavefronts")

Kind = Literal["expectation", "regression", "limit", "comparable", "result", "claim"]
_STATUS: dict[Verdict, Status] = {
    "confirmed": "pass",
    "refuted": "fail",
    "inconclusive": "inconclusive",
}
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_LIMIT = re.compile(r"\s*(<=?|>=?)\s*(-?\d+(?:\.\d+)?)\s*%?\s*")


class Rules(Record, frozen=True):
    """The settings, read. Percentages as 0-100; `limits` as (sign, bound).

    Without `timed`, neither durations nor unknown values that only a clock can give are judged.
    """

    max_regression: float = 0.0
    resolution: float = RESOLUTION
    baseline_runs: int = 20
    require_expectations: bool = False
    counters: dict[str, float] = msgspec.field(default_factory=dict)
    limits: dict[str, tuple[str, float]] = msgspec.field(default_factory=dict)
    timed: bool = True


_KEYS = tuple(name for name in Rules.__struct_fields__ if name != "timed")


class Gate(Record, frozen=True):
    """One checked thing. `file` and `line` are its place; line 0: the whole file."""

    version: str
    kind: Kind
    name: str
    status: Status
    message: str
    file: str = ""
    line: int = 0


def read_rules(settings: Mapping[str, object]) -> Rules:
    """Rules from the project's settings (the ``[tool.workbench]`` table).

    Raises UsageError: an unknown key, a counter that the catalog lacks, a wrong value.
    """
    table = settings.get("check", {})
    if not isinstance(table, dict):
        raise UsageError(
            _("[tool.workbench.check] must be a table"), _("`workbench docs how-to/ci` shows one.")
        )
    for key in table:
        if key not in _KEYS:
            said = _("[tool.workbench.check] has no setting {key!r}").format(key=key)
            raise UsageError(said, _("It knows {keys}.").format(keys=", ".join(_KEYS)))
    require = table.get("require_expectations", False)
    if not isinstance(require, bool):
        said = _("require_expectations must be true or false, not {require!r}")
        raise UsageError(said.format(require=require), _("Correct it in [tool.workbench.check]."))
    runs = table.get("baseline_runs", Rules().baseline_runs)
    if not isinstance(runs, int) or not MIN_RUNS <= runs <= MAX_RUNS:
        said = _("baseline_runs must be a number from {min_runs} to {max_runs}, not {runs!r}")
        said = said.format(min_runs=MIN_RUNS, max_runs=MAX_RUNS, runs=runs)
        raise UsageError(said, _("Correct it in [tool.workbench.check]."))
    allowed = _table(table, "counters")
    limits: dict[str, tuple[str, float]] = {}
    for name, text in _table(table, "limits").items():
        match = _LIMIT.fullmatch(str(text))
        if match is None:
            said = _("cannot read the limit {text!r} of {name} in [tool.workbench.check]")
            said = said.format(text=text, name=name)
            raise UsageError(said, _('Write a bound like "<= 0" or ">= 90%".'))
        limits[catalog()[name].id] = (match[1], float(match[2]))
    return Rules(
        max_regression=_percent(table.get("max_regression", "0%"), "max_regression"),
        resolution=_percent(table.get("resolution", f"{RESOLUTION:g}%"), "resolution"),
        baseline_runs=runs,
        require_expectations=require,
        counters={catalog()[name].id: _percent(text, name) for name, text in allowed.items()},
        limits=limits,
    )


def _table(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    inner = table.get(key, {})
    if not isinstance(inner, dict):
        raise UsageError(
            _("{key} in [tool.workbench.check] must be a table").format(key=key),
            _('Write {key} = {{ spill_instructions = "…" }}.').format(key=key),
        )
    return inner


def _percent(text: object, key: str) -> float:
    match = _PERCENT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        said = _("cannot read {text!r} for {key} in [tool.workbench.check]")
        said = said.format(text=text, key=key)
        raise UsageError(said, _('Write a percentage in quotes, like "2%".'))
    return float(match[1])


def check_step(
    comparison: Comparison,
    judgements: Sequence[Judgement],
    rules: Rules,
    *,
    version: str,
    file: str,
) -> tuple[Gate, ...]:
    """All gates of one step from a version's parent to the version (``sgemm/v3``).

    `judgements` are those of its expectations, which point to their line in `file`.
    """
    gates: list[Gate] = []

    def add(kind: Kind, name: str, status: Status, message: str, line: int = 0) -> None:
        gates.append(Gate(version, kind, name, status, message, file, line))

    forced = _("compared with --force: {reason}")
    gates += [inconclusive(version, file, forced.format(reason=x)) for x in comparison.reasons]
    for text in comparison.implausible:
        add("limit", "plausible", "fail", text)
    for judgement in judgements:
        if not rules.timed and _takes_a_clock(judgement, comparison):
            continue
        text = _("expected {counter} {expected}, observed {observed}").format(
            counter=judgement.counter, expected=judgement.expected, observed=judgement.observed
        )
        text = _("{text}: {verdict}").format(text=text, verdict=_(judgement.verdict))
        text += _(" ({why})").format(why=judgement.reason) if judgement.reason else ""
        add("expectation", judgement.counter, _STATUS[judgement.verdict], text, judgement.line)
    if rules.require_expectations and not judgements:
        add("expectation", "expectations", "fail", _("the version predicts nothing ([[expect]])"))
    allowed = rules.counters
    if comparison.clockless and not allowed:
        allowed = dict.fromkeys(COUNTED, rules.max_regression)
        if comparison["instructions"].ncu.startswith(MACHINE):  # an estimate, not an exact count
            allowed["instructions"] = rules.max_regression or 100 * ESTIMATE_ERROR
    gated = {name: _regression(comparison, name, part) for name, part in allowed.items()}
    timed = rules.timed and not comparison.clockless
    times = {"duration": _time(comparison, rules)} if timed else {}
    for name, (status, text) in [*times.items(), *gated.items()]:
        said = _predicted(name, judgements) if status == "fail" else ""
        if said and name not in ("duration", *rules.counters):  # a gate that was not requested
            text = text.partition(_(": "))[2]
            status, said = "pass", _(", as predicted")
        add("regression", name, status, text + said)
    for name, (sign, bound) in rules.limits.items():
        add("limit", name, *_limit(comparison[name], sign, bound))
    return tuple(gates)


def _predicted(name: str, judgements: Sequence[Judgement]) -> str:
    """Remark for a failed gate that a confirmed prediction allowed."""
    for judgement in judgements:
        counter = find_counter(judgement.counter)
        if judgement.verdict == "confirmed" and counter is not None and counter.id == name:
            setting = "max_regression" if name == "duration" else f"counters.{name}"
            return _(
                "; the prediction {counter} {expected} allows it, the gate does not: "
                "widen {setting} in [tool.workbench.check], or narrow the prediction"
            ).format(counter=judgement.counter, expected=judgement.expected, setting=setting)
    return ""


#: Groups of counters that only a clock can give: the emulator lacks them.
_CLOCKED = ("throughput", "issue", "stalls", "pipes", "samples")


def _takes_a_clock(judgement: Judgement, comparison: Comparison) -> bool:
    counter = find_counter(judgement.counter)
    if counter is None or counter.group not in _CLOCKED:
        return counter is not None and counter.group == "time"
    return comparison[counter.id].delta is None


def _time(comparison: Comparison, rules: Rules) -> tuple[Status, str]:
    time = comparison.time
    if time is None:
        return _regression(comparison, "duration", rules.max_regression)
    old, new = comparison.old.label, comparison.new.label
    slowdown = Estimate(value=1 / time.speedup, low=1 / time.high, high=1 / time.low)
    status = verdict(slowdown, rules.max_regression, rules.resolution)
    text = f"{quantity(time.old_s, 's')} ({old}) → {quantity(time.new_s, 's')} ({new}), "
    text += relative(time.old_s, time.new_s)
    if status == "fail":
        text = _("slower than allowed ({max_regression:g}%): {text}").format(
            max_regression=rules.max_regression, text=text
        )
    elif status == "inconclusive":
        text += f"; {in_words(slowdown, status, rules.max_regression, rules.resolution)}"
    return status, text


def _regression(comparison: Comparison, name: str, allowed: float) -> tuple[Status, str]:
    delta = comparison[name]
    if delta.old is None or delta.new is None:
        said = _("{title} is not known on both sides: {reason}")
        return "inconclusive", said.format(title=delta.title, reason=told(delta.reason))
    text = f"{delta.title}: {observed_change(delta)}"
    if why := doubt(delta, partial(_too_bad, allowed=allowed)):
        return "inconclusive", f"{text}; {why}"
    if _too_bad(delta, allowed):
        said = _("worse than allowed ({allowed:g}%): {text}")
        return "fail", said.format(allowed=allowed, text=text)
    return "pass", text


def _too_bad(delta: Delta, allowed: float) -> bool:
    if delta.old is None or delta.new is None or delta.verdict != "worse":
        return False
    old = float(delta.old)
    return abs(float(delta.new) - old) > abs(old) * allowed / 100


def _limit(delta: Delta, sign: str, bound: float) -> tuple[Status, str]:
    if delta.new is None:
        said = _("{title} is not known: {reason}")
        return "inconclusive", said.format(title=delta.title, reason=told(delta.reason))
    text = _("{title} is {new}; it must be {sign} {bound:g}").format(
        title=delta.title, new=quantity(delta.new, delta.unit), sign=sign, bound=bound
    )
    holds = BOUNDS[sign]
    of_new = Chances(old=None, new=delta.chances.new) if delta.chances is not None else None
    alone = replace(delta, old=None, chances=of_new)
    if why := doubt(alone, lambda one: one.new is not None and holds(float(one.new), bound)):
        return "inconclusive", f"{text}; {why}"
    return ("pass" if holds(float(delta.new), bound) else "fail"), text


def turns_gate(turns: Turns, rules: Rules, *, label: str, file: str) -> Gate:
    """The gate of a version that was measured alternately with its earlier state."""
    allowed, resolution = rules.max_regression, rules.resolution
    if turns.slowdown is None:
        return inconclusive(label, file, f"{turns.problem}: {turns.silence}")
    status = verdict(turns.slowdown, allowed, resolution)
    before, after = (quantity(median(times), "s") for times in turns.samples)
    words = in_words(turns.slowdown, status, allowed, resolution)
    text = _("{problem} on {device}: {before} → {after}, {words}").format(
        problem=turns.problem, device=turns.device, before=before, after=after, words=words
    )
    name = _("time on {problem}").format(problem=turns.problem)
    return Gate(label, "regression", name, status, text, file)


def run_gate(
    timing: Timing, runs: Sequence[Estimate], rules: Rules, *, label: str, file: str
) -> Gate:
    """The gate of a recorded time against the runs of a baseline (oldest first)."""
    judged = judge_run(timing.time, runs, rules.max_regression, rules.resolution)
    said = judged_words(judged, timing.time, rules.max_regression, rules.resolution)
    text = _("{problem} on {name}: {said}")
    text = text.format(problem=timing.problem, name=timing.device.name, said=said)
    name = _("baseline of {problem}").format(problem=timing.problem)
    return Gate(label, "regression", name, judged.status, text, file)


def inconclusive(version: str, file: str, reason: str) -> Gate:
    """A step that could not be judged at all."""
    return Gate(version, "comparable", "comparable", "inconclusive", reason, file)


# --- a program ---------------------------------------------------------------------------


def check_programs(
    difference: ProgramDifference, steps: Iterable[KernelStep], rules: Rules
) -> tuple[Gate, ...]:
    """All gates of the step from one capture to another; captures have no expectations.

    `steps` are those of the kernels that matter; they are used if the rules ask for counters.
    """
    label = f"@{difference.new.name}"
    gates = [
        inconclusive(label, "", _("compared with --force: {reason}").format(reason=reason))
        for reason in difference.reasons
    ]
    if rules.timed and difference.tried:
        gates.append(inconclusive(label, "", difference.tried))
    elif rules.timed and difference.timed:
        status, message = _program_time(difference, rules.max_regression)
        gates.append(Gate(label, "regression", _("time on the GPU"), status, message))
    if not difference.timed and not difference.moved:
        from workbench.programs.compared.words import counts_change  # if the feature is installed

        gates.append(Gate(label, "regression", _("counts"), "pass", counts_change(difference)))
    if rules.counters or rules.limits or not difference.timed:
        of_kernels = replace(rules, timed=False, require_expectations=False)
        for step in steps:
            kernel = f"{label}::{step.row.name}"
            if step.comparison is None:
                gates.append(inconclusive(kernel, "", step.silence))
                continue
            gates += check_step(step.comparison, (), of_kernels, version=kernel, file="")
    return tuple(gates)


def _program_time(difference: ProgramDifference, allowed: float) -> tuple[Status, str]:
    """Whether the program became slower by more than `allowed` percent."""
    old, new = difference.totals
    change = difference.change_s
    times = f"{quantity(old.value, 's')} → {quantity(new.value, 's')}"
    text = f"{times}, {relative(old.value, new.value)}"
    if difference.interval_known:
        text += f" ({span(signed(change.low, 's'), signed(change.high, 's'))})"
        worse = change.low
    else:
        text += _(" (one run, no interval)")
        worse = change.value - catalog()["duration"].noise * max(old.value, new.value)
    if worse > old.value * allowed / 100:
        slowest = max(
            difference.rows, key=lambda row: difference.seconds(row)[1] - difference.seconds(row)[0]
        )
        before, after = difference.seconds(slowest)
        said = _("; most of it {name}, {before}")
        text += said.format(name=slowest.name, before=signed(after - before, "s"))
        said = _("slower than allowed ({allowed:g}%): {text}")
        return "fail", said.format(allowed=allowed, text=text)
    return "pass", text


def overall(gates: Sequence[Gate]) -> Status:
    """``fail`` before ``inconclusive`` before ``pass``; without gates, inconclusive."""
    states = {gate.status for gate in gates}
    if "fail" in states:
        return "fail"
    return "pass" if states == {"pass"} else "inconclusive"
