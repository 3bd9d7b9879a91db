"""Counters as rows, read from profiles, or from what was kept of them.

Of a stored profile only the metrics are decoded that the wanted counters are called by; where
these are not enough, all of it. What came out of a profile is kept in the user's cache, by the
profile's content, for programs that ask for the same few counters again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, TypedDict

from workbench import counters
from workbench.counters import Missing, Reading, catalog, read
from workbench.disk.cache import Cache, KeptByContent, digest_of, entry_name
from workbench.frames.columns import Row
from workbench.model import SCHEMA_VERSION, Launch, Profile
from workbench.project import cache_folder
from workbench.store import Entry, Store
from workbench.store.codec import decode, decode_totals, read_record

#: Raised with every change of what a profile's file is decoded to.
EDITION = 1
#: Oldest entries are dropped beyond this many bytes; three counters of a profile have 600.
_LIMIT = 64 << 20
#: Of more counters nothing is kept: it would take the room of the profiles themselves.
_MOST = 16

#: A row of `workbench.frames.counters`, as JSON gives it back.
_Kept = tuple[str, str, str, str, str, str, int, str, str, float | None, str, str, str, str]


class Filters(TypedDict, total=False):
    """Which records of a store are meant; `device` is a slug."""

    study: str | None
    version: str | None
    problem: str | None
    engine: str | None
    device: str | None


def stored_rows(store: Store, metrics: Sequence[str] | None, where: Filters) -> Iterator[Row]:
    """The rows of `workbench.frames.counters` of all profiles that match, profile by profile.

    Args:
        store: Where they are.
        metrics: Catalog ids or raw ncu names; None: the whole catalog.
        where: Which profiles are meant.

    Raises:
        DataError: a file is damaged.
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
    """What was kept of a study's profiles on a device."""
    filters = [f"{name}={value}" for name, value in sorted(where.items()) if value is not None]
    how = _how_read()
    words = (how, str(root.resolve()), *shelf, str(len(filters)), *filters, *metrics)
    few = how and len(metrics) <= _MOST
    name = entry_name(digest_of(*words), SCHEMA_VERSION, EDITION) if few else ""
    return KeptByContent(Cache(cache_folder("frames"), _LIMIT), name, list[_Kept])


@cache
def _how_read() -> str:
    """A hash of what decides on a counter's value: the catalog, its reader, and this."""
    reader = Path(counters.__file__)
    texts = (reader, reader.with_name("data") / "counters.toml", Path(__file__))
    try:
        return digest_of(*(text.read_text(encoding="utf-8") for text in texts))
    except OSError:  # compiled alone: nothing tells one edition from the next
        return ""


def _rows_of(
    entry: Entry, metrics: Sequence[str], kept: KeptByContent[list[_Kept]]
) -> Sequence[Row]:
    data = read_record(entry.path)

    def rows() -> list[Any]:
        return list(counter_rows([_enough(entry.path, data, metrics)], metrics))

    return kept.of(data, rows)


def _enough(path: Path, data: bytes, metrics: Sequence[str]) -> Profile:
    """A profile, with instructions (whatever their lines) where a counter follows from those."""
    names = [_direct(name) for name in metrics]
    if all(names):
        totals = decode_totals(path, data, frozenset().union(*names))
        if all(_told(each, name) for each in totals.launches for name in metrics):
            return totals
    return decode(path, Profile, data)


def _direct(name: str) -> tuple[str, ...]:
    """What ncu calls a counter, or the name itself; nothing where that is not all of it."""
    if name not in catalog():
        return (name,)
    counter = catalog()[name]
    return () if counter.touching or counter.needs or counter.rest else counter.names


def _told(launch: Launch, name: str) -> bool:
    """Whether a counter of a launch is what ncu called so, whatever its instructions say."""
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
            return ("", name, None, "", "", "", reason)
        return ("", name, float(metric.value), metric.unit, "", "", "")
    counter = known[name]
    reading = read(launch, counter)
    start = (counter.id,)
    end = (counter.unit, counter.group, counter.better)
    if isinstance(reading, Missing):
        return (*start, counter.origin, None, *end, reading.reason)
    return (*start, reading.ncu, float(reading.value), *end, "")
