"""Profiles as tidy pandas frames: one row per fact, typed columns, units beside values.

Every frame carries the columns that say where a row comes from (`KEYS`): device,
engine, study, version, problem, kernel, launch. Values are in base units (seconds,
bytes, percent 0-100). A counter that a profile lacks is a row with NaN and the
reason in `missing`, never zero and never silently absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from workbench.counters import Missing, catalog, read
from workbench.model import Launch, Profile, Timing, line_counters

if TYPE_CHECKING:
    import pandas as pd

#: Columns that every frame begins with.
KEYS = ("device", "engine", "study", "version", "problem", "kernel", "launch")

#: Columns of `counters`, after `KEYS`.
COUNTER_COLUMNS = ("counter", "ncu", "value", "unit", "group", "better", "missing")

#: Columns of `lines`, after `KEYS`.
LINE_COLUMNS = ("file", "line", "counter", "ncu", "value", "text")

# fmt: off
#: Columns of `launches`, after `KEYS`.
LAUNCH_COLUMNS = (
    "captured", "workload", "profiled", "grid_x", "grid_y", "grid_z",
    "block_x", "block_y", "block_z", "dynamic_shared", "signature", "nvtx",
    "ncu_version", "clock_control", "source_hash",
)

#: Columns of `times`: a timing is of a version, not of a launch, so it has no kernel.
TIME_COLUMNS = (
    "device", "study", "version", "problem", "cache", "method", "seconds", "low", "high", "n",
    "converged", "first_launch", "flops", "bytes", "flop_rate", "bandwidth",
    "baseline", "baseline_seconds", "ratio", "captured", "source_hash",
)

_CATEGORIES = frozenset((
    "device", "engine", "study", "version", "problem", "kernel", "counter", "ncu", "unit",
    "group", "better", "file", "workload", "cache", "method", "baseline",
))
# fmt: on


def counters(profiles: Iterable[Profile], metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per profile, launch and counter.

    Args:
        profiles: Any profiles, of any engines and devices.
        metrics: Catalog ids or raw ncu names to keep, in this order; default: the
            whole catalog.

    Returns:
        Columns `KEYS` then `COUNTER_COLUMNS`. `value` is float64 and NaN where
        `missing` says why. `ncu` is the metric or formula that the value came from.
    """
    wanted = [c.id for c in catalog()] if metrics is None else list(metrics)
    rows: list[tuple[Any, ...]] = []
    for profile in profiles:
        for launch in profile.launches:
            key = _key(profile, launch)
            rows.extend((*key, *_counter(launch, name)) for name in wanted)
    return _frame(rows, KEYS + COUNTER_COLUMNS, floats=("value",))


def lines(profiles: Iterable[Profile], metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per profile, launch, source line and line metric that is not zero there.

    Args:
        profiles: Any profiles.
        metrics: Catalog ids or ncu line-metric names to keep; default: all.

    Returns:
        Columns `KEYS` then `LINE_COLUMNS`. `file` is empty and `line` 0 for
        instructions that the compiler gave no line; `text` is the source line as it
        was at capture, empty where the report holds no source. `counter` is the
        catalog id whose line metric it is, empty for metrics outside the catalog.
    """
    known = catalog()
    chosen: set[str] | None = None
    if metrics is not None:
        chosen = set()
        for name in metrics:
            chosen.update(known[name].lines if name in known else (name,))
    names: dict[str, str] = {}
    rows = []
    for profile in profiles:
        texts = [(file.path, (file.text or "").splitlines()) for file in profile.sources]
        for launch in profile.launches:
            key = _key(profile, launch)
            for (index, line), values in sorted(line_counters(launch).items()):
                path, text = texts[index] if 0 <= index < len(texts) else ("", [])
                code = text[line - 1] if 0 < line <= len(text) else ""
                for ncu, value in values.items():
                    if chosen is not None and ncu not in chosen:
                        continue
                    if ncu not in names:
                        counter = known.by_line(ncu)
                        names[ncu] = counter.id if counter else ""
                    rows.append((*key, path, line, names[ncu], ncu, value, code))
    return _frame(rows, KEYS + LINE_COLUMNS, floats=("value",), integers=("line",))


def launches(profiles: Iterable[Profile]) -> pd.DataFrame:
    """One row per profile and launch: shapes, capture and provenance.

    Returns:
        Columns `KEYS` then `LAUNCH_COLUMNS`. `captured` is a UTC timestamp, NaT
        where a foreign report does not say.
    """
    rows = [
        (
            *_key(profile, launch),
            profile.captured or None,
            launch.workload,
            launch.profiled,
            *launch.grid,
            *launch.block,
            launch.dynamic_shared,
            launch.signature,
            " ".join(launch.nvtx),
            profile.tools.get("ncu", ""),
            profile.capture.clock_control,
            profile.source_hash,
        )
        for profile in profiles
        for launch in profile.launches
    ]
    shape = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "dynamic_shared")
    return _frame(rows, KEYS + LAUNCH_COLUMNS, integers=shape, times=("captured",))


_MEASURED = attrgetter(
    *("device.name", "study", "version", "problem", "cache", "method"),
    *("time.value", "time.low", "time.high", "time.n"),
    *("converged", "first_launch", "flops", "bytes"),
)


def times(timings: Iterable[Timing]) -> pd.DataFrame:
    """One row per timing: median seconds with its 95% interval, and rates.

    Returns:
        Columns `TIME_COLUMNS`. `flop_rate` (FLOP/s) and `bandwidth` (byte/s, of the
        least traffic the problem needs) are NaN where the study states no work.
    """
    rows = []
    for timing in timings:
        seconds = timing.time.value
        rows.append(
            (
                *_MEASURED(timing),
                timing.flops / seconds if timing.flops and seconds else None,
                timing.bytes / seconds if timing.bytes and seconds else None,
                timing.baseline,
                timing.baseline_time.value if timing.baseline_time else None,
                timing.ratio.value if timing.ratio else None,
                timing.captured or None,
                timing.source_hash,
            )
        )
    floats = ("seconds", "low", "high", "first_launch", "flop_rate", "bandwidth")
    return _frame(
        rows,
        TIME_COLUMNS,
        floats=(*floats, "baseline_seconds", "ratio"),
        integers=("n", "flops", "bytes"),
        times=("captured",),
    )


def _key(profile: Profile, launch: Launch) -> tuple[Any, ...]:
    """The values of `KEYS`."""
    of = attrgetter("device.name", "engine", "study", "version", "problem")(profile)
    return (*of, launch.kernel, launch.index)


def _counter(launch: Launch, name: str) -> tuple[Any, ...]:
    known = catalog()
    if name not in known and ("__" in name or name in launch.metrics or known.by_name(name)):
        # A raw ncu name: exactly that metric, whatever counter it may belong to.
        metric = launch.metrics.get(name)
        if metric is None or isinstance(metric.value, str):
            reason = launch.absent.get(name) or "this profile does not hold it as a number"
            return ("", name, None, "", "", "", reason)
        return ("", name, float(metric.value), metric.unit, "", "", "")
    counter = known[name]
    reading = read(launch, counter)
    start = (counter.id,)
    end = (counter.unit, counter.group, counter.better)
    if isinstance(reading, Missing):
        first = counter.names[0] if counter.names else counter.formulas[0]
        return (*start, first, None, *end, reading.reason)
    return (*start, reading.ncu, float(reading.value), *end, "")


def _frame(
    rows: list[tuple[Any, ...]],
    columns: tuple[str, ...],
    *,
    floats: Sequence[str] = (),
    integers: Sequence[str] = (),
    times: Sequence[str] = (),
) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame.from_records(rows, columns=list(columns))
    types: dict[str, str] = dict.fromkeys(floats, "float64")
    types.update(dict.fromkeys(integers, "int64"))
    types.update({name: "int64" for name in ("launch",) if name in columns})
    types.update({name: "category" for name in columns if name in _CATEGORIES})
    frame = frame.astype(types)
    for name in times:
        frame[name] = pd.to_datetime(frame[name], utc=True)
    return frame
