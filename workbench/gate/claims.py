"""A claimed speed-up, judged: `check --claim v5 --over v4 --at-least 1.2x`.

Its reasons are gates. It is accepted if each passed and refused if one failed: a wrong result,
different work, a time that no chip can reach, a ratio below the claimed one. If one could not be
checked, it is not judged, and that gate names the command that checks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from msgspec.structs import replace

from workbench.analysis.sameness import asides, doubts, headline, precision_words
from workbench.analysis.times.regression import Status, Turns
from workbench.analysis.times.timing import moved
from workbench.engines import RunOptions
from workbench.engines.choice import choose
from workbench.errors import InconclusiveError, UsageError
from workbench.gate.baselines import DISTURBED
from workbench.gate.earlier import Before, Verified, measure, verified
from workbench.gate.judging import Asked, Past, gates_of, rules_of, wrong
from workbench.gate.rules import Gate, Rules, check_step, overall
from workbench.language import _
from workbench.model import Estimate
from workbench.project import Project
from workbench.session.step import Diff
from workbench.session.targets import resolve
from workbench.session.workspace import Selection, Workspace, apart
from workbench.specs import Version
from workbench.store import Store, device_slug
from workbench.study.sources import source_hash
from workbench.units import factor, joined, listed, quantity, span

#: The clocks of two times that were measured separately may differ by this part.
_CLOCKS = 0.01
#: The part of the saved time that the profiler must see as well.
_AGREES = 0.25
#: Disturbances that an interval does not show.
_DISTURBED = {*DISTURBED} - {"not-converged"}


class Claim(NamedTuple):
    """The options ``--claim``, ``--over``, ``--at-least`` and ``--again``.

    `again`: both are verified now, and run alternately if there is a GPU.
    """

    version: str
    over: str
    at_least: float = 1.0
    again: bool = False


class Ruling(Past, frozen=True, kw_only=True):
    """Whether `version` is believed to be `at_least` times as fast as `over`; `gates`: the reasons.

    `ratio` is the other's time over its own, None if it was not measured; `in_turns`: both ran
    alternately in one process.
    """

    version: str
    over: str
    at_least: float
    problem: str = ""
    device: str = ""
    ratio: Estimate | None = None
    in_turns: bool = False

    @property
    def verdict(self) -> Literal["accepted", "refused", "not judged"]:
        """The verdict that follows from the reasons."""
        status = overall(self.gates)
        return "accepted" if status == "pass" else "refused" if status == "fail" else "not judged"

    @property
    def head(self) -> str:
        """The verdict as a sentence."""
        verdicts = {"accepted": _("Accepted"), "refused": _("Refused")}
        text = _("{verdict}: {new} is at least {factor} as fast as {old}").format(
            verdict=verdicts.get(self.verdict) or _("Not judged"), new=self.version,
            factor=factor(self.at_least), old=self.over,
        )  # fmt: skip
        where = _(" ({problem}, {device})").format(problem=self.problem, device=self.device)
        return text + (where if self.device else "")


def rule(place: Workspace, claim: Claim, wish: Selection, run: RunOptions | None) -> Ruling:
    """Judge a claim.

    Raises:
        UsageError: unknown versions, or an impossible factor.
        DataError: a damaged file.
        MissingError: both have to run, but there is neither a GPU nor a compiler.
    """
    run, (over, wish) = run or RunOptions(), apart(claim.over, wish)
    (name, wish), rules = apart(claim.version, wish), rules_of(place)
    named = Asked((over, name), wish, rules).named
    project, study, versions = named.pick(place.project, run=claim.again)
    if len(versions) != 2 or not 0 < claim.at_least < float("inf"):
        raise UsageError(
            _("a claim compares one version with another, by a factor above 0"),
            _("Write --claim v5 --over v4 --at-least 1.2x."),
        )
    gates, turns, step = list[Gate](), None, None
    old, new = versions
    labels = f"{study.name}/{old.id}", f"{study.name}/{new.id}"
    if claim.again:
        engine = choose(wish.engine or "auto", project, run, place.say)
        for version in versions:
            outcome = verified(engine, study, version, named.problem)
            bad = wrong(version, outcome)
            if version is old:  # a wrong `over` says nothing about the claimed version
                bad = [replace(each, status="inconclusive") for each in bad]
            gates += bad or [_right(version, outcome, engine.seed)]
        if engine.times and all(each.name == "result" for each in gates):
            both, before = (engine, engine), Before(project, old.id)
            ((_new, timed),) = measure(both, study, [(old, new)], before, named.problem)
            if isinstance(timed, Turns):
                turns = timed
                wish = replace(wish, problem=timed.problem, device=device_slug(timed.device))
            else:
                gates += gates_of(new, timed, rules)
    try:
        step = Diff(*resolve(place, labels, wish))
    except (InconclusiveError, UsageError) as error:
        gates.append(_reason(new, "counters", "inconclusive", f"{error.message}. {error.hint}"))
    sides = f"{labels[1]}{f':{named.problem}' if named.problem else ''} --over {labels[0]}"
    command = f"`workbench check --claim {sides} --at-least {claim.at_least:g}x --again`"
    case = _Case(project, (old, new), claim.at_least, step, turns, command)
    gates += case.of_time()
    if step is not None:
        gates += case.recorded(step, place.store, checked=claim.again)
        gates += case.of_counters(step, rules)
    ratio, in_turns = case.ratio
    return Ruling(
        gates=tuple(gates),
        turns=(turns,) if turns else (),
        version=labels[1],
        over=labels[0],
        at_least=claim.at_least,
        problem=turns.problem if turns else step.new.problem if step else "",
        device=turns.device if turns else step.new.device.name if step else "",
        ratio=ratio,
        in_turns=in_turns,
    )


def _reason(version: Version, name: str, status: Status, text: str) -> Gate:
    return Gate(f"{version.study}/{version.id}", "claim", name, status, text, version.path)


def _right(version: Version, outcome: Verified, seed: int) -> Gate:
    """The reason for a version that was verified now and gave no wrong result."""
    assert isinstance(outcome, list)
    names = listed([each.problem.name for each in outcome])
    text = _("now correct on {names}, with seed {seed} and another").format(names=names, seed=seed)
    if any(each.check is not None and each.check.fixed for each in outcome):
        text += _("; inputs() of study.py gives the same for both, so a kept result would not show")
        return _reason(version, "result", "inconclusive", text)
    return _reason(version, "result", "pass", text)


class _Case(NamedTuple):
    """The versions, the claimed one last, and the records or measurements of both.

    `again`: the command that measures what is missing.
    """

    project: Project
    versions: tuple[Version, Version]
    least: float
    step: Diff | None
    turns: Turns | None
    again: str = ""

    @property
    def ratio(self) -> tuple[Estimate | None, bool]:
        """The ratio of times, and whether they were measured alternately; None: not measured."""
        if self.turns is not None and (slow := self.turns.slowdown) is not None:
            return Estimate(value=1 / slow.value, low=1 / slow.high, high=1 / slow.low), True
        time = self.step.comparison.time if self.step else None
        timing, old = self.step.times[1] if self.step else None, self.versions[0]
        beside = timing is not None and (timing.baseline, timing.baseline_hash)
        if timing and timing.ratio and beside == (old.id, source_hash(self.project, old)):
            return timing.ratio, True
        return Estimate(value=time.speedup, low=time.low, high=time.high) if time else None, False

    def of_time(self) -> Iterator[Gate]:
        """Whether the whole interval of the ratio meets the claim, and the clocks of the times."""
        (ratio, in_turns), new = self.ratio, self.versions[1]
        if ratio is None:
            text = self.turns.silence if self.turns else _("a recorded time is missing")
            text = _("{text}; on a machine with a GPU: {again}").format(text=text, again=self.again)
            yield _reason(new, "ratio", "inconclusive", text)
            return
        status: Status = "pass" if ratio.low >= self.least else "inconclusive"
        status = "fail" if ratio.high < self.least else status
        how = _("measured alternately") if in_turns else _("timed separately")
        text = _("{value} ({interval}), claimed {least}; {how}").format(
            value=factor(ratio.value),
            interval=span(factor(ratio.low), factor(ratio.high)),
            least=factor(self.least),
            how=how if status != "inconclusive" else f"{how}, {self.again}",
        )
        yield _reason(new, "ratio", status, text)
        times = [each for each in self.step.times if each] if self.step else []
        states = [each.state for each in (times[-1:] if in_turns else times)]
        states = [self.turns.state] if self.turns else states
        clocks = [clock for each in states if each for clock in each.sm_clock if clock]
        seen = [quantity(each(clocks), "hz") for each in (min, max)] if clocks else [_("unknown")]
        said = {each.message for one in times for each in one.notices if each.code in _DISTURBED}
        steady = clocks and moved(min(clocks), max(clocks)) <= _CLOCKS and not said
        good = clocks and (in_turns or steady)  # alternating, both are disturbed
        text = _("SM clocks {seen}").format(seen=span(seen[0], seen[-1]))
        text = "; ".join((text, *(() if good else (*sorted(said), self.again))))
        yield _reason(new, "clocks", "pass" if good else "inconclusive", text)

    def recorded(self, step: Diff, store: Store, *, checked: bool) -> Iterator[Gate]:
        """Reasons about stale sources, and about recorded checks (unless `checked` now)."""
        for side, version in zip(step.sides, self.versions, strict=True):
            now = source_hash(self.project, version)
            times = store.timings(study=version.study, version=version.id)
            kept = [each.verification for each in times if each.source_hash in ("", now)]
            known = [each for each in (side.profile.verification, *kept) if each]
            checks = {each.problem: f"{each.problem} (seed {each.seed})" for each in known}
            old_time = not self.turns and side.timing and side.timing.source_hash not in ("", now)
            if side.stale or old_time:
                text = _("{path} has been edited since; `workbench profile --time {label}`").format(
                    path=version.path, label=f"{version.study}/{version.id}"
                )
                yield _reason(version, "recorded", "inconclusive", text)
            elif checks and not checked:
                on = listed(list(checks.values()))
                text = _("recorded as right on {problems}").format(problems=on)
                yield _reason(version, "result", "pass", text)
            elif not checked:
                text = _("no check is recorded; {again}").format(again=self.again)
                yield _reason(version, "result", "inconclusive", text)

    def of_counters(self, step: Diff, rules: Rules) -> Iterator[Gate]:
        """Whether the profiler agrees with the clock, whether the work differs, and limits."""
        new, (ratio, _turns) = self.versions[1], self.ratio
        duration = step.comparison["duration"]
        moves = [each.counter for each in step.story.cause.proofs[:2]]
        text = "; ".join(f"{each.title}: {each.words}" for each in (duration, *moves))
        agrees = False
        if duration.old and duration.delta is not None:
            saved = float(duration.old) * (1 - 1 / ratio.value) if ratio else 0.0
            agrees = abs(saved) <= 2 * duration.noise or -float(duration.delta) / saved >= _AGREES
            text = text if agrees else _("the profiler does not agree: {text}").format(text=text)
        yield _reason(new, "counters", "pass" if agrees else "inconclusive", text)
        found = doubts(step.old, step.new, step.labels)
        bad = [each for each in found if each.kind not in ("precision", "kernels")]
        certain = any(each.certain and (each.unlike or each.kind == "debug") for each in bad)
        others = [words for _head, words in asides(found)]
        text = joined((headline(found), precision_words(found), *others))
        status: Status = "fail" if certain else "inconclusive" if bad else "pass"
        yield _reason(new, "work", status, text or _("no counter shows different work"))
        rules_ = replace(rules, timed=False, require_expectations=False)
        label = f"{new.study}/{new.id}"
        for gate in check_step(step.comparison, (), rules_, version=label, file=new.path):
            if gate.kind == "limit" or gate.name in rules.counters:
                yield gate
