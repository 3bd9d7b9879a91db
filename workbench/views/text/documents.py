"""The JSON document of ``show``, and what all documents share; docs/json.md describes them.

The shapes (`workbench.views.shapes`) are a stable interface: keys are never renamed or removed,
and a value that is not known is null, an empty list or an entry in ``missing``, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workbench.analysis.aggregate import main_launch
from workbench.analysis.headroom import Panel, Way, line_at, panel_of, waited_most
from workbench.analysis.limit import Limit
from workbench.analysis.remarks import remarks
from workbench.analysis.stalls import HotLine, sampled_lines
from workbench.counters import Missing, catalog, line_metric, read_all
from workbench.model import Build, Launch, LineKey, Profile, Timing, line_counters
from workbench.views.shapes import Json, shaped
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

#: Lines of `hot_lines`, as many as ``show --all`` prints.
_HOT_LINES = 24


def dumps(document: Json) -> str:
    """Pretty JSON with a final newline, keys in their documented order."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


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
