"""Records as bytes: zstd around a versioned JSON envelope, checked both ways.

A file is one zstd frame, with its size and a checksum of its content, around
``{"format", "schema_version", "record"}``. The envelope is decoded first, so that
a file of another schema is migrated (or refused) before its record is looked at.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import zstandard

from workbench.disk.limits import RECORD, REPORT, ByteLimit, inflate, read_regular
from workbench.errors import DataError, MissingError
from workbench.model import SCHEMA_VERSION, Launch, Metric, Profile, Timing

#: Within two percent of the smallest size (level 19), in half of the time.
_LEVEL = 17
_MAGIC = b"\x28\xb5\x2f\xfd"
#: No counter comes near this value, and a sum of many such values is still finite.
_MOST = 1e30

_REPORT = "This is a bug in the engine that made the record; nothing was written."

T = TypeVar("T", Profile, Timing)
Json = dict[str, Any]
Format = Literal["workbench-profile", "workbench-timing"]

#: Schema version -> function that turns a record of that version into one of the next.
#: Applied in order, so each entry needs only its own step.
MIGRATIONS: dict[int, Callable[[Json], Json]] = {}


class _Envelope(msgspec.Struct):
    format: str
    schema_version: int
    record: msgspec.Raw


def pack(data: bytes) -> bytes:
    """Compress to one zstd frame with its size and a checksum of its content."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(data)


def unpack(data: bytes, path: Path | str = "the frame", limit: ByteLimit | None = None) -> bytes:
    """Undo `pack`.

    Raises:
        ValueError: not a zstd frame, cut short, damaged, or followed by other bytes. The
            message says which.
        DataError: larger than `limit`, or far too large for its packed size; names `path`.
    """
    return b"".join(inflate(data, path, limit or RECORD))


def pack_raw(raw: Path | bytes) -> bytes:
    """A raw report, compressed; compressed input is returned as it is.

    Raises:
        MissingError: the file cannot be read.
        DataError: it is a pipe or a device, or too large.
    """
    if isinstance(raw, bytes):
        return raw if raw.startswith(_MAGIC) else pack(raw)
    try:
        data = read_regular(raw, REPORT)
    except OSError as error:
        raise MissingError(f"cannot read {raw}: {error.strerror}", "Check the path.") from error
    return data if raw.name.endswith(".zst") else pack(data)


def encode(record: Profile | Timing, path: Path) -> bytes:
    """Envelope, JSON, zstd; refuses a record that could not be read back.

    JSON has no NaN, and a column that contradicts its table would be taken for damage later, when
    the capture cannot be repeated: better to fail here. Raises DataError: NaN, infinity, a table
    that contradicts itself, or a record larger than the limit for reading.
    """
    problem = contradiction(record)
    if problem:
        raise DataError(f"cannot keep {path}: {problem}", _REPORT)
    inner = msgspec.json.encode(record)
    try:
        same = msgspec.json.decode(inner, type=type(record)) == record
    except msgspec.MsgspecError as error:
        raise DataError(f"cannot keep {path}: {error}", _REPORT) from error
    if not same:
        raise DataError(f"cannot keep {path}: the record does not survive JSON", _REPORT)
    envelope = _Envelope(_format(type(record)), record.schema_version, msgspec.Raw(inner))
    data = pack(msgspec.json.encode(envelope))
    unpack(data, path)
    return data


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        f"{path} is damaged: {why}",
        "Restore it (`git checkout -- <file>`), or delete it and record it again.",
    )


def read_record(path: Path) -> bytes:
    """A recorded file's bytes, still compressed.

    Raises:
        MissingError: there is no such file, or it may not be read.
        DataError: it is not a file, damaged on the disk, or too large.
    """
    try:
        return read_regular(path, RECORD)
    except OSError as error:
        if error.errno in (errno.EIO, errno.EISDIR):
            raise _damaged(path, str(error.strerror)) from error
        if path.is_symlink():
            raise _damaged(path, "a link that points to no file") from error
        raise MissingError(f"cannot read {path}: {error.strerror}", "Check the path.") from error


def decode(path: Path, type_: type[T], data: bytes | None = None) -> T:
    """Read one record.

    `data` is the result of `read_record` for the file; None: it is read.

    Raises:
        MissingError: there is no such file, or it may not be read.
        DataError: the file is damaged, foreign, too large, or of a newer schema.
    """
    data = read_record(path) if data is None else data
    try:
        record = _open(path, unpack(data, path), type_)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        # msgspec's errors are ValueErrors; a migration of a damaged record may miss a key.
        raise _damaged(path, str(error)) from error
    problem = contradiction(record)
    if problem:
        raise _damaged(path, problem)
    return record


def _part(of: type[msgspec.Struct], without: set[str], **types: Any) -> type[msgspec.Struct]:
    """A record type with some of the fields, which decodes no others."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(of):
        if field.name in without:
            continue
        kind = types.get(field.name, field.type)
        given = {"default": field.default, "default_factory": field.default_factory}
        rest = () if field.required else (msgspec.field(**given),)
        fields.append((field.name, kind, *rest))
    return msgspec.defstruct(of.__name__, fields)


@lru_cache(maxsize=64)
def _totals_envelope(metrics: frozenset[str] | None) -> type[Any]:
    kinds = {}
    if metrics is not None:
        # One field per metric, so that the thousand others are skipped.
        named = {f"m{place}": name for place, name in enumerate(sorted(metrics))}
        fields: list[Any] = [(field, Metric | msgspec.UnsetType, msgspec.UNSET) for field in named]
        with contextlib.suppress(ValueError):  # an invalid field name: all are decoded
            kinds["metrics"] = msgspec.defstruct("Metrics", fields, rename=named)
    launch = _part(Launch, {"instructions", "by_timing", "timeline", "rules"}, **kinds)
    passed = {"sources", "build", "notices"}
    record = _part(Profile, passed, launches=tuple[launch, ...])  # type: ignore[valid-type]
    return _part(_Envelope, set(), record=record)


def decode_totals(
    path: Path, data: bytes | None = None, metrics: frozenset[str] | None = None
) -> Profile:
    """Read a profile without its instructions, sources, rules and build: in half of the time.

    Damage of skipped parts is found where it breaks the file's checksum or its JSON. `data`: as for
    `decode`. `metrics` are the only ones to read, by ncu's names, in a third of that time. Raises
    MissingError, DataError: as `decode`.
    """
    data = read_record(path) if data is None else data
    with contextlib.suppress(ValueError):  # `decode` reports any fault
        envelope = msgspec.json.decode(unpack(data, path), type=_totals_envelope(metrics))
        if (envelope.format, envelope.schema_version) == (_format(Profile), SCHEMA_VERSION):
            profile = _of_totals(envelope.record)
            if not contradiction(profile):
                return profile
    return decode(path, Profile, data)


@lru_cache(maxsize=1)
def _sources_envelope() -> type[Any]:
    record = _part(Profile, {"launches", "build", "notices"})
    return _part(_Envelope, set(), record=record)


def decode_sources(path: Path) -> Profile:
    """A profile without its launches, build and notices: in a fifth of the time.

    Damage of skipped parts is found as by `decode_totals`. Raises MissingError, DataError: as
    `decode`.
    """
    data = read_record(path)
    with contextlib.suppress(ValueError):  # `decode` reports any fault
        envelope = msgspec.json.decode(unpack(data, path), type=_sources_envelope())
        if (envelope.format, envelope.schema_version) == (_format(Profile), SCHEMA_VERSION):
            return Profile(**{**msgspec.structs.asdict(envelope.record), "launches": ()})
    return decode(path, Profile, data)


def _of_totals(record: Any) -> Profile:
    launches = []
    for launch in record.launches:
        given = msgspec.structs.asdict(launch)
        if not isinstance(metrics := given["metrics"], dict):
            names, each = metrics.__struct_encode_fields__, msgspec.structs.astuple(metrics)
            own = zip(names, each, strict=True)
            given["metrics"] = {name: x for name, x in own if x is not msgspec.UNSET}
        launches.append(Launch(**given))
    return Profile(**{**msgspec.structs.asdict(record), "launches": tuple(launches)})


def _open(path: Path, plain: bytes, type_: type[T]) -> T:
    envelope = msgspec.json.decode(plain, type=_Envelope)
    if envelope.format != _format(type_):
        raise ValueError(f"holds a {envelope.format!r}, not a {_format(type_)!r}")
    if envelope.schema_version > SCHEMA_VERSION:
        raise DataError(
            f"{path} was written by a newer workbench (schema {envelope.schema_version}; "
            f"this one reads up to {SCHEMA_VERSION})",
            "Update workbench: pull its repository and run `make demo`.",
        )
    if envelope.schema_version == SCHEMA_VERSION:
        return msgspec.json.decode(envelope.record, type=type_)
    # Checked before the record is decoded: untyped, it can take a hundred times its size.
    for step in range(envelope.schema_version, SCHEMA_VERSION):
        if step not in MIGRATIONS:
            raise ValueError(f"schema {step} is unknown")
    raw = msgspec.json.decode(envelope.record, type=Json)
    return msgspec.convert(_migrate(raw, envelope.schema_version), type=type_)


def _migrate(record: Json, version: int) -> Json:
    for step in range(version, SCHEMA_VERSION):
        record = MIGRATIONS[step](record)
    record["schema_version"] = SCHEMA_VERSION
    return record


def contradiction(record: Profile | Timing) -> str:
    """Describe a contradiction in a record; empty if it is consistent.

    Decoding checks types. This checks conditions that types cannot express; otherwise they would
    surface as an index error far from the damaged file.
    """
    if isinstance(record, Timing):
        known = filter(None, (record.time, record.baseline_time, record.ratio))
        wrong = next((each.value for each in known if not 0 < each.value <= _MOST), None)
        return "" if wrong is None else f"{wrong} is not a time"
    files = len(record.sources)
    return next(filter(None, (_table_fault(launch, files) for launch in record.launches)), "")


def _table_fault(launch: Launch, files: int) -> str:
    for name, metric in launch.metrics.items():
        if not isinstance(metric.value, str) and not -_MOST <= metric.value <= _MOST:
            return f"launch {launch.index}: {name} is {metric.value:g}, impossible for a counter"
    table = launch.instructions
    n = len(table.address)
    where = f"launch {launch.index} ({launch.kernel[:60]})"
    if not len(table.text) == len(table.file) == len(table.line) == n:
        return f"{where}: the instruction table's columns differ in length"
    if len(table.ptx) not in (0, n):
        return f"{where}: PTX for {len(table.ptx)} of {n} instructions"
    if n and not -1 <= min(table.file) <= max(table.file) < files:
        return f"{where}: instructions of a source file that is not there"
    for name, column in table.columns.items():
        if len(column.rows) != len(column.values):
            return f"{where}: {name} has {len(column.rows)} rows and {len(column.values)} values"
        if column.values and not -_MOST <= min(column.values) <= max(column.values) <= _MOST:
            return f"{where}: {name} holds impossible values"
        if column.rows and not 0 <= min(column.rows) <= max(column.rows) < n:
            return f"{where}: {name} refers to instructions that the table does not have"
    timed = launch.by_timing
    if timed is not None and not all(0 <= row < n for row in timed.rows):
        return f"{where}: instructions depend on timing that the table does not have"
    known = timed.without.values() if timed is not None else ()
    if not all(value is None or -_MOST <= value <= _MOST for value in known):
        return f"{where}: impossible values in the counts without timing-dependent instructions"
    return ""


def _format(type_: type[Profile] | type[Timing]) -> Format:
    return "workbench-profile" if type_ is Profile else "workbench-timing"
