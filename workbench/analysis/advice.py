"""Findings on a profile, ncu's and our own, and whether what ncu promised came true.

A finding names its evidence (counters with values), the lines to look at, and the
section of NVIDIA's guide that explains it. Our own rules are few and each says what
it measures; thresholds are the module's constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from workbench.counters import Counter, Reading, catalog, line_metric, read
from workbench.model import Launch, Number, Profile, Record, line_counters
from workbench.units import count, quantity

#: Part of all accesses that must be excessive before a finding is worth a reader's time.
WASTE = 0.2
#: Occupancy below which too few warps may be there to hide latency.
LOW_OCCUPANCY = 50.0
#: Part of the lanes that work, below which divergence is worth a look.
LANES = 0.75
#: A launch whose last wave leaves this part of the machine idle.
TAIL = 0.25
#: Part of the warp samples that one stall must hold.
DOMINANT = 0.4
_LINES = 3
#: A promise counts as kept where this part of it came true.
_KEPT = 0.9


class Evidence(Record, frozen=True):
    """A counter behind a finding."""

    counter: str
    value: Number
    unit: str


class LineRef(Record, frozen=True):
    """A source line behind a finding, with its part of the evidence."""

    file: str
    line: int
    value: Number


class Finding(Record, frozen=True):
    """One piece of advice. `saving` is the part of the duration (0-1) that ncu promises."""

    id: str
    source: Literal["ncu", "workbench"]
    kernel: str
    title: str
    message: str
    evidence: tuple[Evidence, ...]
    lines: tuple[LineRef, ...]
    doc: str
    saving: float | None = None
    scope: Literal["global", "local", "unknown"] = "unknown"


class Score(Record, frozen=True):
    """What a rule promised on the old version, and what the new version gained.

    `promised` and `gained` are parts of the old duration (0-1); `gained` is the whole
    step's gain, whatever made it. `still` is the promise that the same rule makes on
    the new version, None where it says nothing any more. ``open``: the rule promises
    as much as before, so the step did not act on it and its gain is not the rule's.
    """

    rule: str
    title: str
    kernel: str
    promised: float
    gained: float
    still: float | None
    verdict: Literal["kept", "partly", "not kept", "open"]


def findings(profile: Profile) -> tuple[Finding, ...]:
    """All findings, ncu's by promised saving first, then our own."""
    ncu = [_of_rule(launch, n) for launch in profile.launches for n in range(len(launch.rules))]
    told = [finding for finding in ncu if finding is not None]
    told.sort(key=lambda finding: -(finding.saving or 0.0))
    own = [
        finding
        for launch in profile.launches
        if launch.profiled
        for rule in _RULES
        if (finding := rule(profile, launch)) is not None
    ]
    return (*told, *own)


def _of_rule(launch: Launch, number: int) -> Finding | None:
    rule = launch.rules[number]
    if rule.kind not in ("optimization", "warning"):
        return None
    known = catalog()
    evidence = tuple(
        Evidence(
            counter=counter.id if (counter := known.by_name(focus.metric)) else focus.metric,
            value=focus.value,
            unit=counter.unit if counter else "",
        )
        for focus in rule.focus
    )
    doc = next((known[e.counter].doc for e in evidence if e.counter in known), _GUIDE)
    return Finding(
        id=rule.id,
        source="ncu",
        kernel=launch.kernel,
        title=rule.title or rule.name,
        message=rule.message,
        evidence=evidence,
        lines=(),
        doc=doc,
        saving=None if rule.speedup is None else rule.speedup / 100.0,
        scope=rule.scope,
    )


_GUIDE = "https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html"


def _value(launch: Launch, counter: str) -> float | None:
    reading = read(launch, counter)
    return float(reading.value) if isinstance(reading, Reading) else None


def _hot(profile: Profile, launch: Launch, metrics: tuple[str, ...]) -> tuple[LineRef, ...]:
    """Lines with the most of a metric, or of the first less the second."""
    values: list[tuple[Number, int, int]] = []
    for (file, line), counters in line_counters(launch).items():
        value = counters.get(metrics[0], 0) - sum(counters.get(m, 0) for m in metrics[1:])
        if value > 0 and line > 0 and 0 <= file < len(profile.sources):
            values.append((-value, file, line))
    return tuple(
        LineRef(file=profile.sources[file].path, line=line, value=-value)
        for value, file, line in sorted(values)[:_LINES]
    )


def _make(
    launch: Launch,
    rule: str,
    message: str,
    evidence: dict[str, float],
    lines: tuple[LineRef, ...] = (),
) -> Finding:
    known = catalog()
    counters: list[Counter] = [known[name] for name in evidence]
    return Finding(
        id=rule,
        source="workbench",
        kernel=launch.kernel,
        title=_TITLES[rule],
        message=message,
        evidence=tuple(Evidence(counter=c.id, value=evidence[c.id], unit=c.unit) for c in counters),
        lines=lines,
        doc=counters[0].doc,
    )


_TITLES = {
    "bank-conflicts": "Shared memory is read or written in more passes than needed",
    "uncoalesced": "Global accesses touch more sectors than they need",
    "spills": "Registers spill to local memory",
    "occupancy": "Few warps fit on a multiprocessor",
    "divergence": "Many lanes are switched off",
    "tail": "The last wave of blocks leaves much of the chip idle",
    "stall": "One kind of stall dominates",
}


def _waste(
    profile: Profile, launch: Launch, rule: str, total_id: str, ideal_id: str, what: str
) -> Finding | None:
    total, ideal = _value(launch, total_id), _value(launch, ideal_id)
    if not total or ideal is None or (total - ideal) / total < WASTE:
        return None
    names = [line_metric(launch, catalog()[name]) for name in (total_id, ideal_id)]
    lines = _hot(profile, launch, (names[0], names[1])) if names[0] and names[1] else ()
    part = 100.0 * (total - ideal) / total
    message = f"{count(total - ideal)} of {count(total)} {what} ({part:.0f}%) are above the ideal."
    return _make(launch, rule, message, {total_id: total, ideal_id: ideal}, lines)


def _bank_conflicts(profile: Profile, launch: Launch) -> Finding | None:
    names = ("shared_wavefronts", "shared_wavefronts_ideal")
    return _waste(profile, launch, "bank-conflicts", *names, "wavefronts")


def _uncoalesced(profile: Profile, launch: Launch) -> Finding | None:
    names = ("global_sectors", "global_sectors_ideal")
    return _waste(profile, launch, "uncoalesced", *names, "sectors")


def _spills(profile: Profile, launch: Launch) -> Finding | None:
    sectors = _value(launch, "local_sectors")
    if not sectors:
        return None
    name = line_metric(launch, catalog()["local_sectors"])
    message = f"{count(sectors)} sectors of local memory were read or written."
    lines = _hot(profile, launch, (name,)) if name else ()
    return _make(launch, "spills", message, {"local_sectors": sectors}, lines)


def _occupancy(profile: Profile, launch: Launch) -> Finding | None:
    from workbench.analysis.occupancy import occupancy, resources
    from workbench.gpus import chip_for

    chip, need = chip_for(profile.device), resources(launch)
    value = _value(launch, "theoretical_occupancy")
    if value is None or value >= LOW_OCCUPANCY or chip is None or need is None:
        return None
    limiters = " and ".join(occupancy(chip, need).limiters)
    message = f"Occupancy cannot exceed {quantity(value, '%')}; the limit is {limiters}."
    return _make(launch, "occupancy", message, {"theoretical_occupancy": value})


def _divergence(profile: Profile, launch: Launch) -> Finding | None:
    del profile
    active, warps = _value(launch, "thread_instructions"), _value(launch, "instructions")
    if not active or not warps or active / (32 * warps) >= LANES:
        return None
    message = f"Of 32 lanes {active / warps:.1f} work, on the mean of all instructions."
    return _make(
        launch, "divergence", message, {"thread_instructions": active, "instructions": warps}
    )


def _tail(profile: Profile, launch: Launch) -> Finding | None:
    del profile
    waves = _value(launch, "waves")
    if not waves or waves > 8:
        return None
    whole = -(-waves // 1)
    idle = 1.0 - waves / whole
    if idle < TAIL:
        return None
    message = f"{waves:.2f} waves of blocks take the time of {whole:.0f}."
    return _make(launch, "tail", message, {"waves": waves})


def _stall(profile: Profile, launch: Launch) -> Finding | None:
    from workbench.analysis.stalls import breakdown

    found = breakdown(launch)
    top = found.top
    if top is None or found.source != "samples" or top.share < DOMINANT:
        return None
    name = line_metric(launch, top.state)
    lines = _hot(profile, launch, (name,)) if name else ()
    message = f"{100 * top.share:.0f}% of the warp samples wait for {top.state.title}."
    value = top.cycles if top.cycles is not None else (top.samples or 0)
    return _make(launch, "stall", message, {top.state.id: float(value)}, lines)


_RULES: tuple[Callable[[Profile, Launch], Finding | None], ...] = (
    _bank_conflicts,
    _uncoalesced,
    _spills,
    _occupancy,
    _divergence,
    _tail,
    _stall,
)


def score(old: Profile, new: Profile, speedup: float) -> tuple[Score, ...]:
    """Score ncu's promises on the old version by what the step gained.

    Args:
        old: The version on which the rules spoke.
        new: The version after it.
        speedup: Old time over new time, measured outside of the profiler if possible.
    """
    gained = 1.0 - 1.0 / speedup
    later = {
        (finding.id, finding.title): finding.saving
        for finding in findings(new)
        if finding.source == "ncu"
    }
    out = []
    for finding in findings(old):
        if finding.source != "ncu" or finding.saving is None:
            continue
        verdict: Literal["kept", "partly", "not kept", "open"] = "not kept"
        still = later.get((finding.id, finding.title))
        if still is not None and still >= _KEPT * finding.saving:
            verdict = "open"
        elif gained >= _KEPT * finding.saving:
            verdict = "kept"
        elif gained > 0:
            verdict = "partly"
        out.append(
            Score(
                rule=finding.id,
                title=finding.title,
                kernel=finding.kernel,
                promised=finding.saving,
                gained=gained,
                still=still,
                verdict=verdict,
            )
        )
    return tuple(out)
