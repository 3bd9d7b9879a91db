"""Profiles as tidy pandas frames: one row per fact, typed columns, units beside values.

Every frame carries the columns that say where a row comes from (`KEYS`): device,
engine, study, version, problem, kernel, launch. Values are in base units (seconds,
bytes, percent 0-100). A counter that a profile lacks is a row with NaN and the
reason in `missing`, never zero and never silently absent.

Profiles may come from an iterator (`Store.profiles`): none is held once its rows are
made. `stored` gives the frames of a whole store, a limited number of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, Unpack, get_args

from workbench.counters import catalog
from workbench.errors import UsageError, did_you_mean
from workbench.frames.columns import Kind, Row, frame_of
from workbench.frames.readings import Filters, counter_rows, key_of, stored_rows
from workbench.model import Profile, Timing, line_counters
from workbench.store import Store

if TYPE_CHECKING:
    import pandas as pd

TableName = Literal["counters", "lines", "launches", "times"]
#: The tables of `stored`.
TABLES: tuple[TableName, ...] = get_args(TableName)


#: Rows of one frame of `stored`: some tens of megabytes.
ROWS = 250_000

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

_KINDS: dict[Kind, frozenset[str]] = {
    "category": frozenset((
        "device", "engine", "study", "version", "problem", "kernel", "counter", "ncu", "unit",
        "group", "better", "file", "workload", "cache", "method", "baseline",
    )),
    "float": frozenset((
        "value", "seconds", "low", "high", "first_launch", "flop_rate", "bandwidth",
        "baseline_seconds", "ratio",
    )),
    "int": frozenset((
        "launch", "line", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
        "dynamic_shared", "n", "flops", "bytes",
    )),
    "time": frozenset(("captured",)),
}
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
    return frame_of(counter_rows(profiles, metrics), _kinds(KEYS + COUNTER_COLUMNS))


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
    return frame_of(_line_rows(profiles, metrics), _kinds(KEYS + LINE_COLUMNS))


def _line_rows(profiles: Iterable[Profile], metrics: Sequence[str] | None) -> Iterator[Row]:
    known = catalog()
    chosen: set[str] | None = None
    if metrics is not None:
        chosen = set()
        for name in metrics:
            chosen.update(known[name].lines if name in known else (name,))
    names: dict[str, str] = {}
    for profile in profiles:
        texts = [(file.path, (file.text or "").splitlines()) for file in profile.sources]
        for launch in profile.launches:
            key = key_of(profile, launch)
            for (index, line), values in sorted(line_counters(launch).items()):
                path, text = texts[index] if 0 <= index < len(texts) else ("", [])
                code = text[line - 1] if 0 < line <= len(text) else ""
                for ncu, value in values.items():
                    if chosen is not None and ncu not in chosen:
                        continue
                    if ncu not in names:
                        counter = known.by_line(ncu)
                        names[ncu] = counter.id if counter else ""
                    yield (*key, path, line, names[ncu], ncu, value, code)


def launches(profiles: Iterable[Profile]) -> pd.DataFrame:
    """One row per profile and launch: shapes, capture and provenance.

    Returns:
        Columns `KEYS` then `LAUNCH_COLUMNS`. `captured` is a UTC timestamp, NaT
        where a foreign report does not say.
    """
    return frame_of(_launch_rows(profiles), _kinds(KEYS + LAUNCH_COLUMNS))


def _launch_rows(profiles: Iterable[Profile]) -> Iterator[Row]:
    return (
        (
            *key_of(profile, launch),
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
    )


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
    return frame_of(_time_rows(timings), _kinds(TIME_COLUMNS))


def _time_rows(timings: Iterable[Timing]) -> Iterator[Row]:
    for timing in timings:
        seconds = timing.time.value
        yield (
            *_MEASURED(timing),
            timing.flops / seconds if timing.flops and seconds else None,
            timing.bytes / seconds if timing.bytes and seconds else None,
            timing.baseline,
            timing.baseline_time.value if timing.baseline_time else None,
            timing.ratio.value if timing.ratio else None,
            timing.captured or None,
            timing.source_hash,
        )


def stored(
    store: Store,
    table: TableName,
    metrics: Sequence[str] | None = None,
    rows: int = ROWS,
    **where: Unpack[Filters],
) -> Iterator[pd.DataFrame]:
    """A table of all that a store holds, in frames of at most so many rows.

    Profiles are read one by one, and only as far as the table asks: ten thousand of them
    take no more memory than a hundred.

    Args:
        store: Filters they are.
        table: ``counters``, ``lines``, ``launches`` or ``times``.
        metrics: As of `counters` and `lines`.
        rows: Of one frame, at most.
        where: Of which `study`, `version`, `problem`, `engine` or `device` (its slug) alone;
            a time has no engine.

    Yields:
        Frames as of the function of the table's name; one without rows where there are none.

    Raises:
        UsageError: an unknown metric.
        DataError: a file is damaged.
    """
    found: Iterator[Row]
    columns: tuple[str, ...]
    if table == "times":
        timings = store.timings(
            study=where.get("study"),
            version=where.get("version"),
            problem=where.get("problem"),
            device=where.get("device"),
        )
        found, columns = _time_rows(timings), TIME_COLUMNS
    elif table == "launches":
        found = _launch_rows(store.profiles(**where, whole=False))
        columns = KEYS + LAUNCH_COLUMNS
    elif table == "lines":
        found = _line_rows(store.profiles(**where), _known(metrics))
        columns = KEYS + LINE_COLUMNS
    else:
        found = stored_rows(store, _known(metrics), where)
        columns = KEYS + COUNTER_COLUMNS
    first = True
    while len(frame := frame_of(islice(found, rows), _kinds(columns))) or first:
        yield frame
        first = False


def _known(metrics: Sequence[str] | None) -> Sequence[str] | None:
    """The metrics, none of which is a misspelt counter.

    Raises:
        UsageError: it is.
    """
    ids = [counter.id for counter in catalog()]
    for name in metrics or ():
        if name not in ids and "__" not in name and not catalog().by_name(name):
            known = catalog().by_line(name)
            if known is None:
                raise UsageError(
                    f"there is no counter {name!r}", did_you_mean(name, ids, "counters")
                )
    return metrics


def _kinds(columns: tuple[str, ...]) -> dict[str, Kind]:
    """The kind of each column, by its name."""
    of = {name: kind for kind, names in _KINDS.items() for name in names}
    return {name: of.get(name, "object") for name in columns}
