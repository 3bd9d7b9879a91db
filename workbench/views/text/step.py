"""The JSON document of ``diff``: what moved, and the story of the step; see docs/json.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.analysis.cause.finding import Cause
from workbench.analysis.compare import Comparison, Side
from workbench.analysis.expectations import Judgement
from workbench.analysis.launches.kernels import KernelChange
from workbench.analysis.machine.code import CodeClass, HunkCode
from workbench.analysis.program import KernelStep
from workbench.analysis.split.attribution import CounterSplit
from workbench.analysis.split.duration import StallDelta, TimePart, TimeSplit
from workbench.analysis.story import Passage, Story, Tie
from workbench.analysis.weight import TELLING
from workbench.model import Number, Spread
from workbench.views.shapes import Json, shaped
from workbench.views.shapes.code import (
    CodeAmount,
    HunkMachineCode,
    OpcodeAmount,
    OpcodeMove,
    ReplacedOpcode,
    StepDocument,
)
from workbench.views.shapes.program import ProgramStep
from workbench.views.shapes.step import (
    AttributedCounter,
    BlamePath,
    CauseFacts,
    CauseProof,
    CounterMove,
    CounterPart,
    EditedHunk,
    FixedValue,
    JudgedExpectation,
    KernelMove,
    MatchedLaunch,
    OccupancyChange,
    RuleScore,
    StallChange,
    StallTime,
    StepSide,
    StoryTold,
    StripStop,
    TimeParts,
    TimeRatio,
    TimeShare,
    ToldCounter,
    ToldHunk,
    ToldLink,
    ToldRest,
    TriedWay,
    Untold,
    ValueSpread,
    WorkDoubt,
)
from workbench.views.text.documents import limit_of


def step_document(
    comparison: Comparison,
    story: Story,
    *,
    notes: Sequence[str] = (),
    stale: tuple[bool, bool] = (False, False),
    codes: Sequence[HunkCode] | None = None,
) -> Json:
    """One step; see `step_of`."""
    return step_of(comparison, story, notes=notes, stale=stale, codes=codes).plain()


def step_of(
    comparison: Comparison,
    story: Story,
    *,
    notes: Sequence[str] = (),
    stale: tuple[bool, bool] = (False, False),
    codes: Sequence[HunkCode] | None = None,
) -> StepDocument:
    """One step.

    Args:
        comparison: `compare` of the two profiles.
        story: `explain` of the two.
        notes: Sentences that must stand beside any number, such as that a side is stale.
        stale: Whether each side's source was edited after its capture.
        codes: What the compiler made of the hunks, where that was asked for.
    """
    old, new, time = comparison.old, comparison.new, comparison.time
    warnings = [f"not comparable: {reason}" for reason in comparison.reasons]
    warnings += [*comparison.warnings, *notes, *story.attribution.words]
    return StepDocument(
        study=new.study or old.study,
        problem=new.problem or old.problem,
        engine=new.engine,
        device=new.device,
        old=_side(old, stale[0]),
        new=_side(new, stale[1]),
        comparable=comparison.comparable,
        warnings=[*warnings, *([story.time_missing] if story.time_missing else [])],
        time=shaped(time, TimeRatio) if time is not None else None,
        counters=[shaped(delta, CounterMove) for delta in comparison.counters],
        hunks=[shaped(hunk, EditedHunk) for hunk in story.attribution.hunks],
        attribution=[_split(split) for split in story.attribution.counters],
        expectations=[_expectation(judgement) for judgement in story.expectations],
        sentence=story.sentence,
        strip=[shaped(stop, StripStop) for stop in story.strip],
        cause=_cause(story.cause),
        side_effects=[delta.id for delta in story.side_effects],
        time_split=_time(story.time) if story.time is not None else None,
        occupancy=[shaped(split, OccupancyChange) for split in story.occupancy],
        launches=[
            MatchedLaunch(old=m.old or None, new=m.new or None, how=m.how, changes=list(m.changes))
            for m in story.attribution.launches
        ],
        rules=[shaped(score, RuleScore) for score in story.scores],
        story=StoryTold(
            threshold=TELLING,
            hunks=[
                ToldHunk(hunk=chapter.hunk.id, links=_links(chapter), left_out=_left_out(chapter))
                for chapter in story.chapters
            ],
            rest=ToldRest(links=_links(story.rest), left_out=_left_out(story.rest)),
        ),
        kernels=[_kernel(kernel) for kernel in comparison.kernels],
        launch_words=list(comparison.launch_words),
        tried=[shaped(one, TriedWay) for one in story.tried],
        machine_code=[_machine(one) for one in codes] if codes is not None else None,
    )


def _expectation(judgement: Judgement) -> JudgedExpectation:
    return JudgedExpectation(
        counter=judgement.counter,
        expected=judgement.expected,
        observed=judgement.observed,
        verdict=judgement.verdict,
        reason=judgement.reason,
        why=judgement.why,
        line=judgement.line or None,
        learned=judgement.learned,
    )


def _cause(cause: Cause) -> CauseFacts:
    return CauseFacts(
        proofs=[
            CauseProof(
                counter=proof.counter.id,
                beside=proof.beside.id if proof.beside is not None else None,
                way=proof.way,
                score=proof.score,
                link=proof.place.link,
                hunks=list(proof.place.hunks),
                share=proof.place.share,
                by=proof.place.by,
            )
            for proof in cause.proofs
        ],
        stalls=[shaped(move, StallChange) for move in cause.stalls],
        limit_old=limit_of(cause.limit_old),
        limit_new=limit_of(cause.limit_new),
        doubts=[shaped(doubt, WorkDoubt) for doubt in cause.doubts],
    )


def _machine(one: HunkCode) -> HunkMachineCode:
    code = one.code
    return HunkMachineCode(
        hunk=one.hunk,
        kernel=code.kernel,
        old=shaped(code.old, CodeAmount),
        new=shaped(code.new, CodeAmount),
        classes=[_class(each) for each in code.classes],
        replaced=[shaped(each, ReplacedOpcode) for each in code.replaced],
        rows=[list(pair) for pair in code.rows],
    )


def _class(one: CodeClass) -> OpcodeMove:
    def side(of: tuple[int, Number, float]) -> OpcodeAmount:
        return OpcodeAmount(instructions=of[0], executed=of[1], seconds=of[2])

    return OpcodeMove(name=one.name, role=one.role, old=side(one.old), new=side(one.new))


def _side(side: Side, stale: bool) -> StepSide:
    return StepSide(
        version=side.version or side.label,
        label=side.label,
        study=side.study,
        problem=side.problem,
        engine=side.engine,
        device=side.device,
        captured=side.captured,
        kernels=list(side.kernels),
        stale=stale,
    )


def _kernel(kernel: KernelChange) -> KernelMove:
    return KernelMove(
        old=kernel.name_old or None,
        new=kernel.name_new or None,
        how=kernel.how,
        launches=list(kernel.samples),
        old_s=kernel.old_s,
        new_s=kernel.new_s,
        spread_old=_spread(kernel.spreads[0]),
        spread_new=_spread(kernel.spreads[1]),
        moved=kernel.moved,
        weight=kernel.weight,
        compared=not kernel.alone,
        values=[shaped(value, FixedValue) for value in kernel.values],
    )


def _spread(spread: Spread | None) -> ValueSpread | None:
    return shaped(spread, ValueSpread) if spread is not None else None


def _links(passage: Passage) -> list[ToldLink]:
    return [_link(tie) for tie in passage.ties]


def _link(tie: Tie) -> ToldLink:
    return ToldLink(
        link=tie.link,
        symbol=tie.symbol,
        note=tie.note,
        weight=tie.weight,
        time_s=tie.time.delta_s if tie.time is not None else None,
        stalls=[stall.stall for stall in tie.stalls],
        counters=[
            ToldCounter(counter=fact.split.id, delta=fact.part.delta, weight=fact.weight)
            for fact in tie.facts
        ],
        hunks=list(tie.hunks),
        symbols=list(tie.symbols),
    )


def _left_out(passage: Passage) -> Untold:
    return shaped(passage.left_out, Untold)


def _split(split: CounterSplit) -> AttributedCounter:
    return AttributedCounter(
        counter=split.id or split.counter,
        old=split.old,
        new=split.new,
        delta=split.delta,
        parts=[shaped(part, CounterPart) for part in split.parts],
        ncu=split.counter,
        unit=split.unit,
        chip_old=split.chip_old,
        chip_new=split.chip_new,
    )


def _time(split: TimeSplit) -> TimeParts:
    return TimeParts(
        old_s=split.old_s,
        new_s=split.new_s,
        delta_s=split.delta_s,
        samples=[split.samples_old, split.samples_new],
        method=split.method,
        parts=[_time_part(part) for part in split.parts],
    )


def _time_part(part: TimePart) -> TimeShare:
    return TimeShare(
        link=part.link,
        hunk=part.hunk,
        symbol=part.symbol,
        delta_s=part.delta_s,
        low_s=part.low_s,
        high_s=part.high_s,
        stalls=[_stall(one) for one in part.stalls],
        note=part.note,
        hunks=list(part.hunks),
        symbols=list(part.symbols),
        waited_s=part.waited_s,
        paths=[shaped(path, BlamePath) for path in part.paths],
    )


def _stall(of: StallDelta) -> StallTime:
    return StallTime(id=of.stall, delta_s=of.delta_s, low_s=of.low_s, high_s=of.high_s)


def steps_of(steps: Iterable[KernelStep]) -> list[ProgramStep]:
    """A document a kernel: its name and fate, and its step, or null and why there is none."""
    out = []
    for step in steps:
        known = step.comparison is not None and step.story is not None
        out.append(
            ProgramStep(
                kernel=step.row.name,
                fate=step.row.fate,
                step=step_of(step.comparison, step.story)
                if step.comparison is not None and step.story is not None
                else None,
                missing=None if known else step.silence,
            )
        )
    return out
