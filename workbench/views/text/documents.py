"""The JSON documents of ``show`` and of ``diff``; docs/json.md describes them.

The shapes (`workbench.views.shapes`) are a stable interface: keys are never renamed or removed,
and an unknown value is null, an empty list or an entry in ``missing``, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.analysis.aggregate import main_launch
from workbench.analysis.cause.finding import Cause
from workbench.analysis.compare import Comparison, Side, remarks
from workbench.analysis.duration import TimeSplit
from workbench.analysis.kernels import KernelChange
from workbench.analysis.limits.headroom import Panel, line_at, panel_of
from workbench.analysis.limits.limit import HotLine, Limit, sampled_lines
from workbench.analysis.listing import HunkCode
from workbench.analysis.misread import opinions
from workbench.analysis.story import Story
from workbench.analysis.weight import TELLING
from workbench.analysis.wording import Passage
from workbench.counters import PTX, Missing, catalog, line_metric, read_all
from workbench.model import Launch, LineKey, Number, Profile, Timing, line_counters
from workbench.views.shapes import Json, shaped, show, step

#: The most lines in `hot_lines`: as many as ``show --all`` prints.
_HOT_LINES = 24


def show_document(
    profile: Profile,
    timing: Timing | None = None,
    *,
    stale: bool = False,
    notes: Sequence[str] = (),
) -> Json:
    """One profile: every launch with its counters, lines and rules."""
    seed = None if profile.verification is None else profile.verification.seed
    return shaped(
        profile,
        show.ShowDocument,
        device=profile.device.name,
        launches=[_launch(profile, launch) for launch in profile.launches],
        build=shaped(build, show.BuildFacts, kernels=build.resources)
        if (build := profile.build)
        else show.BuildFacts(),
        time=_time(timing),
        stale=stale,
        notices=[*notes, *remarks(profile)],
        seed=seed,
        headroom=headroom_of(profile, panel_of(profile)),
        hot_lines=_hot_lines(profile),
    ).plain()


def headroom_of(profile: Profile, panel: Panel | None) -> show.Headroom | None:
    """The limit of a profile, its hottest line, and ways to try."""
    if panel is None:
        return None
    ways = [
        shaped(way, show.WayToTry, line=_place(profile, way.line) if way.line else None)
        for way in panel.ways
    ]
    hottest = None
    if (hot := panel.hot) is not None:
        share, state = 100.0 * hot.share, hot.stalls[0][0].id if hot.stalls else None
        hottest = show.HottestLine(**_place(profile, hot.key), share=share, stall=state)
    return show.Headroom(limit=limit_of(panel.limit), hottest=hottest, ways=ways)


def limit_of(limit: Limit | None) -> show.LimitFacts | None:
    """A limit, with the other resources that are full."""
    if limit is None:
        return None
    others = [show.LoadShare(id=each.resource.id, share=each.active) for each in limit.others]
    return shaped(limit, show.LimitFacts, others=others)


def _hot_lines(profile: Profile) -> show.HotLines | None:
    launch = main_launch(profile)
    if launch is None:
        return None
    hot = [line for line in sampled_lines(launch) if line.telling][:_HOT_LINES]
    counters = line_counters(launch)
    if hot:
        lines = [_hot_line(profile, launch, counters, line) for line in hot]
        return show.HotLines(by="samples", lines=lines)
    name = line_metric(launch, catalog()["instructions"]) or PTX
    counted = {key: own.get(name, 0) for key, own in counters.items()}
    whole = sum(counted.values())
    known = [key for key in counted if key[1] > 0 and counted[key]]
    lines = [
        _hot_line(profile, launch, counters, HotLine(key, 0, counted[key] / whole))
        for key in sorted(known, key=lambda key: -counted[key])[:_HOT_LINES]
    ]
    return show.HotLines(by="instructions", lines=lines)


def _hot_line(
    profile: Profile,
    launch: Launch,
    counters: Mapping[LineKey, Mapping[str, Number]],
    line: HotLine,
) -> show.HotSource:
    names = [line_metric(launch, catalog()[f"global_sectors{part}"]) for part in ("", "_ideal")]
    own = counters.get(line.key, {})
    # A launch's count for a line without an entry is 0.
    sectors, ideal = (None if name is None else own.get(name, 0) for name in names)
    return show.HotSource(
        **_place(profile, line.key),
        share=100.0 * line.share,
        stalls=[show.StallShare(id=state.id, share=100.0 * share) for state, share in line.stalls],
        sectors=sectors,
        sectors_excess=None if sectors is None or ideal is None else sectors - ideal,
    )


def _place(profile: Profile, key: LineKey) -> dict[str, Any]:
    path, text = line_at(profile, key)
    return {"file": path, "line": key[1], "text": text}


def _launch(profile: Profile, launch: Launch) -> show.ShownLaunch:
    counters: dict[str, show.ReadingValue] = {}
    missing: dict[str, str] = {}
    for name, reading in read_all(launch).items():
        if isinstance(reading, Missing):
            missing[name] = reading.reason
        else:
            counters[name] = show.ReadingValue(**reading._asdict())
    return shaped(
        launch,
        show.ShownLaunch,
        counters=counters,
        missing=missing,
        lines=_lines(profile, launch),
        opinions=[shaped(each, show.SecondOpinion) for each in opinions(launch)],
        signature=launch.signature or launch.kernel,
    )


def _lines(profile: Profile, launch: Launch) -> list[show.LineCounters]:
    texts = [(file.path, (file.text or "").splitlines()) for file in profile.sources]
    out = []
    for (index, line), counters in sorted(line_counters(launch).items()):
        path, text = texts[index] if 0 <= index < len(texts) else ("", [])
        shown = text[line - 1] if 0 < line <= len(text) else ""
        out.append(show.LineCounters(file=path, line=line, text=shown, counters=counters))
    return out


def _time(timing: Timing | None) -> show.TimeFacts:
    if timing is None:
        return show.TimeFacts()
    return shaped(
        timing,
        show.TimeFacts,
        seconds=timing.time.value,
        low=timing.time.low,
        high=timing.time.high,
        n=timing.time.n,
        ratio=timing.ratio.value if timing.ratio else None,
    )


def step_of(
    comparison: Comparison,
    story: Story,
    *,
    notes: Sequence[str] = (),
    stale: tuple[bool, bool] = (False, False),
    codes: Sequence[HunkCode] | None = None,
) -> step.StepDocument:
    """One step, from the results of `compare` and `explain`.

    `notes` must accompany every number, such as that a side is `stale`: edited after its capture.
    `codes` is the machine code of the hunks, if requested.
    """
    old, new = comparison.old, comparison.new
    warnings = [f"not comparable: {reason}" for reason in comparison.reasons]
    warnings += [*comparison.warnings, *notes, *story.attribution.words]
    return shaped(
        story,
        step.StepDocument,
        study=new.study or old.study,
        problem=new.problem or old.problem,
        engine=new.engine,
        device=new.device,
        old=_side(old, stale[0]),
        new=_side(new, stale[1]),
        comparable=comparison.comparable,
        warnings=[*warnings, *([story.time_missing] if story.time_missing else [])],
        time=comparison.time,
        counters=comparison.counters,
        hunks=story.attribution.hunks,
        attribution=[
            shaped(each, step.AttributedCounter, counter=each.id or each.counter, ncu=each.counter)
            for each in story.attribution.counters
        ],
        expectations=[
            shaped(judgement, step.JudgedExpectation, line=judgement.line or None)
            for judgement in story.expectations
        ],
        cause=_cause(story.cause),
        side_effects=[delta.id for delta in story.side_effects],
        time_split=_time_split(story.time) if story.time is not None else None,
        launches=[
            shaped(match, step.MatchedLaunch, old=match.old or None, new=match.new or None)
            for match in story.attribution.launches
        ],
        rules=story.scores,
        story=step.StoryTold(
            threshold=TELLING,
            hunks=[
                shaped(chapter, step.ToldHunk, hunk=chapter.hunk.id, links=_links(chapter))
                for chapter in story.chapters
            ],
            rest=shaped(story.rest, step.ToldRest, links=_links(story.rest)),
        ),
        kernels=[_kernel(kernel) for kernel in comparison.kernels],
        launch_words=comparison.launch_words,
        machine_code=[_machine(one) for one in codes] if codes is not None else None,
    )


def _side(side: Side, stale: bool) -> step.StepSide:
    return shaped(side, step.StepSide, version=side.version or side.label, stale=stale)


def _cause(cause: Cause) -> step.CauseFacts:
    proofs = [
        shaped(
            proof.place,
            step.CauseProof,
            counter=proof.counter.id,
            beside=proof.beside.id if proof.beside is not None else None,
            way=proof.way,
            score=proof.score,
        )
        for proof in cause.proofs
    ]
    limits = limit_of(cause.limit_old), limit_of(cause.limit_new)
    return shaped(cause, step.CauseFacts, proofs=proofs, limit_old=limits[0], limit_new=limits[1])


def _machine(one: HunkCode) -> step.HunkMachineCode:
    def side(of: tuple[int, Number, float]) -> step.OpcodeAmount:
        return step.OpcodeAmount(instructions=of[0], executed=of[1], seconds=of[2])

    classes = [
        shaped(each, step.OpcodeMove, old=side(each.old), new=side(each.new))
        for each in one.code.classes
    ]
    return shaped(one.code, step.HunkMachineCode, hunk=one.hunk, classes=classes)


def _kernel(kernel: KernelChange) -> step.KernelMove:
    return shaped(
        kernel,
        step.KernelMove,
        old=kernel.name_old or None,
        new=kernel.name_new or None,
        launches=kernel.samples,
        spread_old=kernel.spreads[0],
        spread_new=kernel.spreads[1],
        compared=not kernel.alone,
    )


def _links(passage: Passage) -> list[step.ToldLink]:
    return [
        shaped(
            tie,
            step.ToldLink,
            time_s=tie.time.delta_s if tie.time is not None else None,
            stalls=[stall.stall for stall in tie.stalls],
            counters=[
                step.ToldCounter(counter=fact.split.id, delta=fact.part.delta, weight=fact.weight)
                for fact in tie.facts
            ],
        )
        for tie in passage.ties
    ]


def _time_split(split: TimeSplit) -> step.TimeParts:
    parts = [
        shaped(
            part,
            step.TimeShare,
            stalls=[shaped(one, step.StallTime, id=one.stall) for one in part.stalls],
        )
        for part in split.parts
    ]
    samples = split.samples_old, split.samples_new
    return shaped(split, step.TimeParts, samples=samples, parts=parts)
