"""The table of ``workbench time``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from workbench.language import N_, _
from workbench.model import Estimate, Timing
from workbench.units import count, factor, quantity, span, symbol, when
from workbench.views.shapes import shaped
from workbench.views.shapes.measured import TimeDocument, TimedVersion
from workbench.views.sheets import Sheet, noted

_METHODS = {N_("events"): N_("CUDA events"), N_("graph"): N_("CUDA graph replay")}


def _margin(estimate: Estimate) -> str:
    """The wider side of the 95% interval, relative to the median."""
    if not estimate.value:
        return ""
    # Two decimals: more precision of a margin is useless.
    return f"±{quantity(round(100 * estimate.error / estimate.value, 2), '%')}"


def _how(timing: Timing) -> str:
    cache = _("warm") if timing.cache == "warm" else _("cold")
    return f"{cache}, {_(timing.method)}"


def caches(cache: str) -> str:
    """The state of the caches of a measurement, in words: ``warm``, else ``cold``."""
    return _("warm caches") if cache == "warm" else _("cold caches")


def _conditions(timing: Timing) -> str:
    if timing.state is None:
        return ""
    low, high = (quantity(clock, "hz") for clock in timing.state.sm_clock)
    clock = span(low, high, " – ")
    power, heat = timing.state.power[1], timing.state.temperature[1]
    return _(", SM clock {clock}, {power}, {heat}").format(
        clock=clock, power=quantity(power, "w"), heat=f"{count(round(heat))}\u00a0°C"
    )


def _cells(timing: Timing, work: str, speed: str) -> dict[str, str]:
    ratio = timing.ratio
    rate = timing.flops / timing.time.value if timing.flops and timing.time.value else None
    return {
        N_("version"): timing.version,
        N_("problem"): timing.problem,
        N_("median"): quantity(timing.time.value, "s"),
        "±": _margin(timing.time),
        speed: f"{factor(ratio.value)} {_margin(ratio)}" if ratio is not None else "—",
        symbol(f"{work}/s"): quantity(rate, f"{work}/s"),
        N_("how"): _how(timing),
        N_("samples"): count(timing.time.n),
        N_("first launch"): quantity(timing.first_launch or None, "s"),
    }


def _captured(timings: Sequence[Timing]) -> str:
    """The dates of the times; some may have come from the store."""
    dates = sorted(timing.captured for timing in timings)
    return span(when(dates[0]), when(dates[-1]))


def flat(timing: Timing) -> dict[str, Any]:
    """A row of ``--format csv``: raw numbers in base units."""
    time, rival, ratio = timing.time, timing.baseline_time, timing.ratio
    return {
        "study": timing.study,
        "version": timing.version,
        "problem": timing.problem,
        "device": timing.device.name,
        "captured": timing.captured,
        "seconds": time.value,
        "low": time.low,
        "high": time.high,
        "samples": time.n,
        "cache": timing.cache,
        "method": timing.method,
        "converged": timing.converged,
        "first_launch": timing.first_launch,
        "flops": timing.flops,
        "bytes": timing.bytes,
        "baseline": timing.baseline or None,
        "baseline_seconds": rival.value if rival else None,
        "ratio": ratio.value if ratio else None,
        "ratio_low": ratio.low if ratio else None,
        "ratio_high": ratio.high if ratio else None,
    }


def _fastest(timings: Sequence[Timing]) -> list[str]:
    """The fastest version for each problem, if there are several versions and problems."""
    best: dict[str, Timing] = {}
    for each in timings:
        held = best.setdefault(each.problem, each)
        best[each.problem] = min(held, each, key=lambda timing: timing.time.value)
    if len(best) < 2 or len({each.version for each in timings}) < 2:
        return []
    won: dict[str, list[str]] = {}
    for problem, each in best.items():
        won.setdefault(each.version, []).append(problem)
    where = _("{version} on {where}")
    parts = [where.format(version=v, where=_(", ").join(names)) for v, names in won.items()]
    return [_("fastest: {versions}").format(versions=_("; ").join(parts))]


def time_sheet(timings: Sequence[Timing], work: Literal["flop", "op"] = "flop") -> Sheet:
    """The table of ``workbench time``; values that all rows share are in its title.

    There is at least one timing, all of one study and device; `work` is the unit of `Timing.flops`.
    """
    first = timings[0]
    notes: list[str] = []
    for timing in timings:
        where = f"{timing.version} {timing.problem}"
        if timing.launches:
            parts = _(", ").join(f"{k} {quantity(s, 's')}" for k, s in timing.launches.items())
            notes.append(_("{where}: {parts}").format(where=where, parts=parts))
        notes += [noted(notice.message, where) for notice in timing.notices]
    if any(timing.first_launch for timing in timings):
        notes.append(
            _("first launch: loading the code and running it once; not part of the median.")
        )
    baselines = {timing.baseline for timing in timings if timing.baseline}
    notes += _fastest([each for each in timings if each.version not in baselines])
    same = len({_how(timing) for timing in timings}) == 1
    how = ""
    if same:
        how = _(", {caches}, by {method}").format(
            caches=caches(first.cache), method=_(_METHODS[first.method])
        )
    speed = _("speed to {name}").format(name=baselines.pop()) if len(baselines) == 1 else "speed"
    rows = [_cells(timing, work, speed) for timing in timings]
    header = tuple(name for name in rows[0] if not (same and name == "how"))
    return Sheet(
        title=(
            _("study {study} on {device}, {dates}").format(
                study=first.study, device=first.device.name, dates=_captured(timings)
            )
            + how
            + _conditions(first),
        ),
        header=header,
        shown=tuple(tuple(row[name] for name in header) for row in rows),
        extra=("samples", "how", "first launch"),
        raw=tuple(flat(timing) for timing in timings),
        document=TimeDocument(
            study=first.study, times=[_timed(timing) for timing in timings]
        ).plain(),
        notes=tuple(notes),
    )


def _timed(timing: Timing) -> TimedVersion:
    return shaped(
        timing,
        TimedVersion,
        device=timing.device.name,
        seconds=timing.time,
        baseline=timing.baseline or None,
        baseline_seconds=timing.baseline_time,
    )
