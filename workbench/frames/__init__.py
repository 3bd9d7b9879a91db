"""Profiles as tidy pandas frames: one row per fact, typed columns, units beside values.

Every frame carries the columns that say where a row comes from (`KEYS`): device,
engine, study, version, problem, kernel, launch. Values are in base units (seconds,
bytes, percent 0-100). A counter that a profile lacks is a row with NaN and the
reason in `missing`, never zero and never silently absent.

Profiles may come from an iterator (`Store.profiles`): none is held once its rows are
made. `stored` gives the frames of a whole store, a limited number of rows at a time. Of a profile
it decodes only the metrics with the names of the wanted counters or, if these are not enough,
everything. The rows of a profile are kept in the user's cache, by the profile's content, for
programs that ask for the same few counters again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, get_args

from workbench import counters as counting
from workbench.counters import Missing, Reading, bound_broken, catalog, read
from workbench.disk.cache import Cache, KeptByContent, digest_of, entry_name
from workbench.errors import UsageError, did_you_mean
from workbench.frames.columns import Kind, Row, frame_of
from workbench.model import SCHEMA_VERSION, Launch, Profile, Timing, line_counters
from workbench.project import cache_folder
from workbench.store import Entry, Store
from workbench.store.codec import decode, decode_totals, read_record

if TYPE_CHECKING:
    import pandas as pd

_Recorded = TypeVar("_Recorded", Profile, Timing)
TableName = Literal["counters", "lines", "launches", "times"]
#: The tables of `stored`.
TABLES: tuple[TableName, ...] = get_args(TableName)
#: Rows of one frame from `stored`: some tens of megabytes.
ROWS = 250_000

#: Columns that every frame begins with.
KEYS = ("device", "engine", "study", "version", "problem", "kernel", "launch")

#: Columns of `counters`, after `KEYS`.
COUNTER_COLUMNS = ("counter", "ncu", "value", "unit", "group", "better", "missing", "implausible")

#: Columns of `lines`, after `KEYS`.
LINE_COLUMNS = ("file", "line", "counter", "ncu", "value", "text")

# fmt: off
#: Columns of `launches`, after `KEYS`.
LAUNCH_COLUMNS = (
    "captured", "workload", "profiled", "grid_x", "grid_y", "grid_z",
    "block_x", "block_y", "block_z", "dynamic_shared", "signature", "nvtx",
    "ncu_version", "clock_control", "source_hash",
)

#: Columns of `times`: a timing belongs to a version, not to a launch, so it has no kernel.
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


def counters(
    profiles: Profile | Iterable[Profile], metrics: Sequence[str] | None = None
) -> pd.DataFrame:
    """One row per profile, launch and counter.

    `metrics` are catalog ids or raw ncu names to keep, in this order; None: the whole catalog.

    Returns:
        Columns `KEYS` then `COUNTER_COLUMNS`. `value` is float64 and NaN where `missing` says why.
        `implausible` is the counter's bound (`100% at most`) where the value breaks it, else empty.
        `ncu` is the metric or formula from which the value came.
    """
    return frame_of(counter_rows(_each(profiles), metrics), _kinds(KEYS + COUNTER_COLUMNS))


def _each(one_or_more: _Recorded | Iterable[_Recorded]) -> Iterable[_Recorded]:
    return (one_or_more,) if isinstance(one_or_more, Profile | Timing) else one_or_more


def lines(
    profiles: Profile | Iterable[Profile], metrics: Sequence[str] | None = None
) -> pd.DataFrame:
    """One row per profile, launch, source line and line metric that is not zero there.

    `metrics` are catalog ids or ncu line-metric names to keep; None: all.

    Returns:
        Columns `KEYS` then `LINE_COLUMNS`. `file` is empty and `line` 0 for
        instructions to which the compiler gave no line; `text` is the source line at capture, empty
        where the report holds no source. `counter` is the catalog id whose line metric it is, empty
        for metrics outside the catalog.
    """
    return frame_of(_line_rows(_each(profiles), metrics), _kinds(KEYS + LINE_COLUMNS))


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


def launches(profiles: Profile | Iterable[Profile]) -> pd.DataFrame:
    """One row per profile and launch: shapes, capture and provenance.

    Returns:
        Columns `KEYS` then `LAUNCH_COLUMNS`. `captured` is a UTC timestamp, NaT
        where a foreign report does not say.
    """
    return frame_of(_launch_rows(_each(profiles)), _kinds(KEYS + LAUNCH_COLUMNS))


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


def times(timings: Timing | Iterable[Timing]) -> pd.DataFrame:
    """One row per timing: median seconds with its 95% interval, and rates.

    Returns:
        Columns `TIME_COLUMNS`. `flop_rate` (FLOP/s) and `bandwidth` (byte/s, of the
        least traffic the problem needs) are NaN if the study does not state its work.
    """
    return frame_of(_time_rows(_each(timings)), _kinds(TIME_COLUMNS))


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
    """A table of all that a store holds, in frames of at most `rows` rows.

    Profiles are read one by one, and only as far as the table requires: ten thousand of them
    take no more memory than a hundred.

    Args:
        store: Any store.
        table: ``counters``, ``lines``, ``launches`` or ``times``.
        metrics: As for `counters` and `lines`.
        rows: The most rows in one frame.
        where: Keep only this `study`, `version`, `problem`, `engine` or `device` (its slug); a time
            has no engine.

    Yields:
        Frames as from the function with the table's name; without data, a frame without rows.

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
    """The metrics; refuse a misspelt counter."""
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


#: Raised whenever a profile's file is decoded differently.
EDITION = 1
#: Beyond this many bytes, the oldest entries are dropped; three counters of a profile take 600.
_LIMIT = 64 << 20
#: More counters than this are not kept: they would take as much room as the profiles themselves.
_MOST = 16

#: A row of `workbench.frames.counters`, as decoded from JSON.
_Kept = tuple[str, str, str, str, str, str, int, str, str, float | None, str, str, str, str, str]


class Filters(TypedDict, total=False):
    """Filters of a store's records; `device` is a slug."""

    study: str | None
    version: str | None
    problem: str | None
    engine: str | None
    device: str | None


def stored_rows(store: Store, metrics: Sequence[str] | None, where: Filters) -> Iterator[Row]:
    """The rows of `workbench.frames.counters` for all profiles that match, profile by profile.

    Raises DataError: a file is damaged.
    """
    if metrics is None:
        for entry in store.find(**where):
            yield from counter_rows([store.unfolded(entry.path)], None)
        return
    for shelf, entries in groupby(store.find(**where), lambda x: (x.device, x.study)):
        kept = _kept(store.root, shelf, metrics, where)
        for entry in entries:
            yield from _rows_of(entry, metrics, kept)
        kept.keep()


def _kept(
    root: Path, shelf: tuple[str, str], metrics: Sequence[str], where: Filters
) -> KeptByContent[list[_Kept]]:
    """The cached rows of a study's profiles on a device."""
    filters = [f"{name}={value}" for name, value in sorted(where.items()) if value is not None]
    how = _how_read()
    words = (how, str(root.resolve()), *shelf, str(len(filters)), *filters, *metrics)
    few = how and len(metrics) <= _MOST
    name = entry_name(digest_of(*words), SCHEMA_VERSION, EDITION) if few else ""
    return KeptByContent(Cache(cache_folder("frames"), _LIMIT), name, list[_Kept])


@cache
def _how_read() -> str:
    """A hash of all that decides a counter's value: the catalog, its reader, and this file."""
    reader = Path(counting.__file__)
    texts = (reader, reader.with_name("data") / "counters.toml", Path(__file__))
    try:
        return digest_of(*(text.read_text(encoding="utf-8") for text in texts))
    except OSError:  # only compiled code: nothing distinguishes one edition from the next
        return ""


def _rows_of(
    entry: Entry, metrics: Sequence[str], kept: KeptByContent[list[_Kept]]
) -> Sequence[Row]:
    data = read_record(entry.path)

    def rows() -> list[Any]:
        return list(counter_rows([_enough(entry.path, data, metrics)], metrics))

    return kept.of(data, rows)


def _enough(path: Path, data: bytes, metrics: Sequence[str]) -> Profile:
    """A profile; with its instructions (of any line) if a counter is computed from them."""
    names = [_direct(name) for name in metrics]
    if all(names):
        totals = decode_totals(path, data, frozenset().union(*names))
        if all(_told(each, name) for each in totals.launches for name in metrics):
            return totals
    return decode(path, Profile, data)


def _direct(name: str) -> tuple[str, ...]:
    """The ncu names of a counter, or the name itself; empty if these do not suffice."""
    if name not in catalog():
        return (name,)
    counter = catalog()[name]
    return () if counter.touching or counter.needs or counter.rest else counter.names


def _told(launch: Launch, name: str) -> bool:
    """True if a launch's counter is ncu's own metric, not one made from its instructions."""
    if not launch.profiled or name not in catalog():
        return True
    reading = read(launch, catalog()[name])
    return isinstance(reading, Reading) and reading.ncu in catalog()[name].names


def counter_rows(profiles: Iterable[Profile], metrics: Sequence[str] | None) -> Iterator[Row]:
    """The rows of `workbench.frames.counters`."""
    wanted = [c.id for c in catalog()] if metrics is None else list(metrics)
    for profile in profiles:
        for launch in profile.launches:
            key = key_of(profile, launch)
            for name in wanted:
                yield (*key, *_counter(launch, name))


def key_of(profile: Profile, launch: Launch) -> tuple[Any, ...]:
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
            return ("", name, None, "", "", "", reason, "")
        return ("", name, float(metric.value), metric.unit, "", "", "", "")
    counter = known[name]
    reading = read(launch, counter)
    start = (counter.id,)
    end = (counter.unit, counter.group, counter.better)
    if isinstance(reading, Missing):
        return (*start, counter.origin, None, *end, reading.reason, "")
    bound = bound_broken(name, reading.value)
    return (*start, reading.ncu, float(reading.value), *end, "", bound)
