"""The JSON documents of ``show`` and of ``diff``; docs/json.md describes them.

The shapes (`workbench.views.shapes`) are a stable interface: keys are never renamed or removed,
and a value that is not known is null, an empty list or an entry in ``missing``, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.analysis.aggregate import main_launch
from workbench.analysis.attribution import CounterSplit
from workbench.analysis.cause.finding import Cause
from workbench.analysis.compare import Comparison, Side
from workbench.analysis.duration import StallDelta, TimePart, TimeSplit
from workbench.analysis.expectations import Judgement
from workbench.analysis.headroom import Panel, Way, line_at, panel_of, waited_most
from workbench.analysis.launches import KernelChange
from workbench.analysis.limit import HotLine, Limit, sampled_lines
from workbench.analysis.listing import CodeClass, HunkCode
from workbench.analysis.program import KernelStep
from workbench.analysis.remarks import remarks
from workbench.analysis.story import Story
from workbench.analysis.weight import TELLING
from workbench.analysis.wording import Passage, Tie
from workbench.counters import Missing, catalog, line_metric, read_all
from workbench.model import Build, Launch, LineKey, Number, Profile, Spread, Timing, line_counters
from workbench.views.shapes import Json, shaped
from workbench.views.shapes.program import ProgramStep
from workbench.views.shapes.show import (
    BuildFacts,
    BuiltKernel,
    Headroom,
    HotLines,
    HotSource,
    HottestLine,
    LimitFacts,
    LineCounters,
    LoadShare,
    ReadingValue,
    RuleFinding,
    ShowDocument,
    ShownLaunch,
    SourcePlace,
    StallShare,
    TimeFacts,
    WayToTry,
)
from workbench.views.shapes.step import (
    AttributedCounter,
    BlamePath,
    CauseFacts,
    CauseProof,
    CodeAmount,
    CounterMove,
    CounterPart,
    EditedHunk,
    FixedValue,
    HunkMachineCode,
    JudgedExpectation,
    KernelMove,
    MatchedLaunch,
    OccupancyChange,
    OpcodeAmount,
    OpcodeMove,
    ReplacedOpcode,
    RuleScore,
    StallChange,
    StallTime,
    StepDocument,
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

#: Lines of `hot_lines`, as many as ``show --all`` prints.
_HOT_LINES = 24


def show_document(
    profile: Profile,
    timing: Timing | None = None,
    *,
    stale: bool = False,
    notes: Sequence[str] = (),
) -> Json:
    """One profile: every launch with its counters, lines and rules."""
    return ShowDocument(
        study=profile.study,
        version=profile.version,
        problem=profile.problem,
        engine=profile.engine,
        device=profile.device.name,
        launches=[_launch(profile, launch) for launch in profile.launches],
        build=_build(profile.build),
        time=_time(timing),
        captured=profile.captured,
        stale=stale,
        parameters=profile.parameters,
        tools=profile.tools,
        notices=[*notes, *remarks(profile)],
        seed=None if profile.verification is None else profile.verification.seed,
        headroom=headroom_of(profile, panel_of(profile)),
        hot_lines=_hot_lines(profile),
    ).plain()


def headroom_of(profile: Profile, panel: Panel | None) -> Headroom | None:
    """What limits a profile, its hottest line, and what can be tried."""
    if panel is None:
        return None
    return Headroom(
        limit=limit_of(panel.limit),
        hottest=_hottest(profile, panel),
        ways=[_way(profile, way) for way in panel.ways],
    )


def _hottest(profile: Profile, panel: Panel) -> HottestLine | None:
    if panel.hot is None:
        return None
    path, text = line_at(profile, panel.hot.key)
    stall = waited_most(panel.hot)
    return HottestLine(
        file=path,
        line=panel.hot.key[1],
        text=text,
        share=100.0 * panel.hot.share,
        stall=stall[0].id if stall is not None else None,
    )


def limit_of(limit: Limit | None) -> LimitFacts | None:
    """A limit, with the other resources that are full."""
    if limit is None:
        return None
    others = [LoadShare(id=each.resource.id, share=each.active) for each in limit.others]
    return LimitFacts(id=limit.id, words=limit.words, share=limit.share, others=others)


def _way(profile: Profile, way: Way) -> WayToTry:
    return WayToTry(
        kind=way.kind,
        words=way.words,
        saves=way.saves,
        speedup=way.speedup,
        because=way.because,
        effort=way.effort,
        counter=way.counter,
        line=_line_of(profile, way.line) if way.line is not None else None,
    )


def _hot_lines(profile: Profile) -> HotLines | None:
    launch = main_launch(profile)
    if launch is None:
        return None
    hot = [line for line in sampled_lines(launch) if line.telling][:_HOT_LINES]
    if hot:
        return HotLines(by="samples", lines=[_hot_line(profile, line) for line in hot])
    name = line_metric(launch, catalog()["instructions"]) or ""
    counted = {key: own.get(name, 0) for key, own in line_counters(launch).items()}
    whole = sum(counted.values())
    known = [key for key in counted if key[1] > 0 and counted[key]]
    lines = [
        _hot_line(profile, HotLine(key=key, samples=0, share=counted[key] / whole))
        for key in sorted(known, key=lambda key: -counted[key])[:_HOT_LINES]
    ]
    return HotLines(by="instructions", lines=lines)


def _hot_line(profile: Profile, line: HotLine) -> HotSource:
    path, text = line_at(profile, line.key)
    return HotSource(
        file=path,
        line=line.key[1],
        text=text,
        share=100.0 * line.share,
        stalls=[StallShare(id=state.id, share=100.0 * share) for state, share in line.stalls],
    )


def _line_of(profile: Profile, key: LineKey) -> SourcePlace:
    path, text = line_at(profile, key)
    return SourcePlace(file=path, line=key[1], text=text)


def _launch(profile: Profile, launch: Launch) -> ShownLaunch:
    counters: dict[str, ReadingValue] = {}
    missing: dict[str, str] = {}
    for name, reading in read_all(launch).items():
        if isinstance(reading, Missing):
            missing[name] = reading.reason
        else:
            counters[name] = ReadingValue(value=reading.value, unit=reading.unit, ncu=reading.ncu)
    return ShownLaunch(
        kernel=launch.kernel,
        grid=list(launch.grid),
        block=list(launch.block),
        counters=counters,
        missing=missing,
        lines=_lines(profile, launch),
        rules=[shaped(rule, RuleFinding) for rule in launch.rules],
        index=launch.index,
        workload=launch.workload,
        profiled=launch.profiled,
        signature=launch.signature or launch.kernel,
    )


def _lines(profile: Profile, launch: Launch) -> list[LineCounters]:
    texts = [(file.path, (file.text or "").splitlines()) for file in profile.sources]
    out = []
    for (index, line), counters in sorted(line_counters(launch).items()):
        path, text = texts[index] if 0 <= index < len(texts) else ("", [])
        shown = text[line - 1] if 0 < line <= len(text) else ""
        out.append(LineCounters(file=path, line=line, text=shown, counters=counters))
    return out


def _build(build: Build | None) -> BuildFacts:
    if build is None:
        return BuildFacts()
    return BuildFacts(
        compiler=build.compiler,
        arch=build.arch,
        flags=list(build.flags),
        kernels=[shaped(kernel, BuiltKernel) for kernel in build.resources],
    )


def _time(timing: Timing | None) -> TimeFacts:
    if timing is None:
        return TimeFacts()
    return TimeFacts(
        seconds=timing.time.value,
        low=timing.time.low,
        high=timing.time.high,
        n=timing.time.n,
        cache=timing.cache,
        method=timing.method,
        converged=timing.converged,
        captured=timing.captured,
        flops=timing.flops,
        bytes=timing.bytes,
        baseline=timing.baseline,
        ratio=timing.ratio.value if timing.ratio else None,
    )


# --- diff ---


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
        time_split=_time_split(story.time) if story.time is not None else None,
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


def _time_split(split: TimeSplit) -> TimeParts:
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
