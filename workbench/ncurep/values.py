"""Metric values of the native reader as `workbench.model.Metric`s in base units.

Runs in the child process only. Three reasons for "no number" are distinguished: the reader has no
such metric, it has no value for it, the value is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from functools import cache, lru_cache
from typing import Any

from workbench.model import Launch, Metric, Notice, Number, SourceFile
from workbench.units import listed, several

#: Spellings of ncu 2021 to 2025 -> (base unit, divisor, multiplier). Time is divided, because
#: 433632 / 1e9 is the nearest double to 433.632 µs and 433632 * 1e-9 is not.
_UNITS: dict[str, tuple[str, float, float]] = {
    "second": ("s", 1, 1),
    "msecond": ("s", 1e3, 1),
    "usecond": ("s", 1e6, 1),
    "nsecond": ("s", 1e9, 1),
    "s": ("s", 1, 1),
    "ms": ("s", 1e3, 1),
    "us": ("s", 1e6, 1),
    "ns": ("s", 1e9, 1),
    "sectors": ("sector", 1, 1),
}
_PREFIXES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
for _prefix, _factor in _PREFIXES.items():
    _UNITS[f"{_prefix}byte"] = ("byte", 1, _factor)
    _UNITS[f"{_prefix}hz"] = _UNITS[f"{_prefix}Hz"] = ("hz", 1, _factor)

#: Not measurements of the launch: lists of other metrics, addresses, curves over a
#: hypothetical launch, and samples over time, whose scalar is a sum without meaning.
_DROPPED_PREFIXES = (
    "breakdown:",
    "group:",
    "pmsampling:",
    "warpsampling:",
    "launch__function_pcs",
    "launch__kernel_name",
    "launch__occupancy_per_",
    "derived__pct_occupancy_per_",
    "derived_tempMetric",
)
_DROPPED_PART = ".Triage"

#: Samples of warps by state, and by state in cycles without an issue (``…_not_issued``), have two
#: names: PerfWorks' own, and the one that ncu's sections use and the catalog knows.
_SAMPLED, _KNOWN = "smsp__pcsamp_warp_stall_", "smsp__pcsamp_warps_issue_stalled_"

#: Prefixes of properties of the chip and the launch, known without a measurement.
_STATIC_PREFIXES = (
    "device__",
    "launch__",
    "profiler__",
    "numa__",
    "nvlink__",
    "c2clink__",
    "sm__maximum_warps_",
    "smsp__maximum_warps_",
)


@cache
def is_dropped(name: str) -> bool:
    """True if a metric is not a measurement; such metrics are left out of a profile."""
    return name.startswith(_DROPPED_PREFIXES) or _DROPPED_PART in name


@cache
def is_static(name: str) -> bool:
    """True if a metric is known without running the kernel (chip, launch, profiler)."""
    return name.startswith(_STATIC_PREFIXES)


def known_name(name: str, names: Container[str]) -> str:
    """The catalog's name of a metric, unless the report has a metric of that name as well."""
    known = _KNOWN + name.removeprefix(_SAMPLED)
    return known if name.startswith(_SAMPLED) and known not in names else name


def clean(text: str) -> str:
    """Text without the lone surrogates that replace undecodable bytes; JSON cannot hold them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


@cache
def base_unit(unit: str) -> tuple[str, float, float]:
    """Ncu's unit -> (base unit, divisor, multiplier): ``Kbyte/ns`` -> ``byte/s``."""
    if unit in _UNITS:
        return _UNITS[unit]
    above, slash, below = unit.partition("/")
    if not slash:
        return clean(unit), 1.0, 1.0
    name, divisor, multiplier = _UNITS.get(above, (above, 1.0, 1.0))
    lower, lower_divisor, lower_multiplier = _UNITS.get(below, (below, 1.0, 1.0))
    return clean(f"{name}/{lower}"), divisor * lower_multiplier, multiplier * lower_divisor


def to_base(value: Number, divisor: float, multiplier: float) -> Number:
    """Scale the value; an integer stays an integer if the factor is 1."""
    if divisor != 1:
        value = value / divisor
    if multiplier != 1:
        value = value * multiplier
    return value


def instances(native: Any, count: int) -> list[Any]:
    """The values of a metric's first `count` instances.

    ``IMetric.value`` looks up the kind of each value. ncu gives all values of a metric in one kind,
    so the kind is queried only at both ends, and the values are read by the method of that kind.
    """
    if not count:
        return []
    kind = native.kind(0)
    if kind == native.kind(count - 1):
        if kind in (native.ValueKind_UINT64, native.ValueKind_UINT32):
            return list(map(native.as_uint64, range(count)))
        if kind in (native.ValueKind_DOUBLE, native.ValueKind_FLOAT):
            return list(map(native.as_double, range(count)))
    return [native.value(i) for i in range(count)]


def read_metric(name: str, native: Any) -> Metric | str:
    """One ``ncu_report.IMetric`` by ncu's name, or the reason why it has no number."""
    if native is None:
        return "not collected for this launch"
    return _read(name, native.value(), native.unit() or "")


def _read(name: str, value: Any, native_unit: str) -> Metric | str:
    if value is None or value == "":
        return "no value"
    unit, divisor, multiplier = base_unit(native_unit)
    if isinstance(value, str):
        return Metric(value=clean(value), unit=unit)
    if isinstance(value, float):
        if not math.isfinite(value):
            return "infinite" if math.isinf(value) else "NaN"
        if _is_whole(name) and value.is_integer():
            value = int(value)
    if divisor == 1 == multiplier:
        return Metric(value=value, unit=unit)
    return Metric(value=to_base(value, divisor, multiplier), unit=unit)


@cache
def _is_whole(name: str) -> bool:
    """True if a metric is a whole number: until 2022, ncu gave those of the launch as doubles."""
    of_launch = name.startswith(("launch__", "device__"))
    return of_launch and "waves" not in name and "pct" not in name


def read_metrics(action: Any) -> tuple[dict[str, Metric], dict[str, str]]:
    """All metrics of one launch, and why the others have no number.

    One metric that the native reader cannot give must not lose the report, so every exception is
    caught for each metric.
    """
    metrics: dict[str, Metric] = {}
    absent: dict[str, str] = {}
    by_name = action.metric_by_name
    for raw, name in _measurements(tuple(action.metric_names())):
        try:
            found = read_metric(name, by_name(raw))
        except Exception as error:
            found = f"unreadable: {clean(str(error))[:200]}"
        if isinstance(found, str):
            absent[name] = found
        else:
            metrics[name] = found
    return metrics, absent


# Launches of one kernel have the same metrics.
@lru_cache(maxsize=64)
def _measurements(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The metrics of a launch that are measurements: the reader's name and ours."""
    kept = set(names)
    return tuple((raw, clean(known_name(raw, kept))) for raw in sorted(kept) if not is_dropped(raw))


# --- what a report lacks, and what that means for its reader ------------------------------------
#
# Judged from the records alone, so that it can be repeated for a part of a report's launches.

#: The codes that `lacks` gives.
CODES = (
    "unprofiled-launch",
    "nan-launch",
    "nan-counters",
    "no-instruction-metrics",
    "no-line-info",
    "no-sass",
    "no-source",
    "no-rules",
)


def _listed(launches: Sequence[Launch]) -> str:
    names = [f"{x.kernel[:60] or '?'} (launch {x.index})" for x in launches[:3]]
    return ", ".join(names) + (f" and {len(launches) - 3} more" if len(launches) > 3 else "")


def _mostly_nan(launch: Launch) -> bool:
    nan = sum(reason == "NaN" for reason in launch.absent.values())
    return nan > 0 and nan > sum(not is_static(name) for name in launch.metrics)


def lacks(launches: Sequence[Launch], sources: Sequence[SourceFile]) -> tuple[Notice, ...]:
    """One notice for each thing that these launches do not have."""
    found: list[Notice] = []
    measured = [x for x in launches if x.profiled]
    unprofiled = [x for x in launches if not x.profiled]
    if unprofiled:
        found.append(
            Notice("unprofiled-launch", f"listed but never measured: {_listed(unprofiled)}")
        )
    nan = [x for x in measured if _mostly_nan(x)]
    if nan:
        found.append(
            Notice("nan-launch", f"most values are NaN, so nothing was measured for {_listed(nan)}")
        )
    partly = [x.absent for x in measured if not _mostly_nan(x)]
    names = sorted({name for absent in partly for name, why in absent.items() if why == "NaN"})
    if names:
        found.append(
            Notice(
                "nan-counters",
                f"NaN instead of a number for {several(len(names), 'metric')}, which are "
                f"unknown (an ncu older than the chip gives these): {listed(names, 6)}",
            )
        )
    kernels = [x for x in measured if x.workload == "kernel"]
    tables = [x for x in kernels if x.instructions.address]
    bare = [x for x in kernels if not x.instructions.address]
    if bare:
        which = _listed(bare)
        found.append(
            Notice("no-instruction-metrics", f"no counters per instruction or line: {which}")
        )
    if tables and not any(any(x.instructions.line) for x in tables):
        found.append(
            Notice("no-line-info", "instructions without source lines: compile with -lineinfo")
        )
    if tables and not any(any(x.instructions.text) for x in tables):
        found.append(Notice("no-sass", "the native reader no longer disassembles this chip's code"))
    if not any(source.text for source in sources):
        found.append(
            Notice("no-source", "no source text in the report: capture with --import-source yes")
        )
    if measured and not any(x.rules for x in measured):
        found.append(
            Notice("no-rules", "no rule results: ncu's own advice was not part of the capture")
        )
    return tuple(found)
