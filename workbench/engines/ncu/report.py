"""Keep ncu's captures: the raw report small and without names, its profile neutral.

ncu writes host name and network addresses into every report (session records of the file's frame),
whatever folder it is run from, and the whole binary of every kernel. Stored reports are in version
control, so they must be small and name no machine. Paths and the command line stay.
"""

from __future__ import annotations

import posixpath
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec
import zstandard

from workbench.engines.ncu.collection import Keep
from workbench.errors import DataError
from workbench.model import (
    InstructionTable,
    Launch,
    Metric,
    Notice,
    Number,
    Profile,
    Record,
    SourceFile,
    Spread,
)
from workbench.ncurep.container import MAGIC, SESSION, SESSION_HOST, SESSION_SYSTEM, SIZE, parse
from workbench.ncurep.wire import rewrite
from workbench.store.codec import pack
from workbench.units import quantity

#: Compressed bytes up to which a raw report is kept by default.
LIMIT = 100_000

# Fields of the system record: host name, and one entry per network address.
_HOST_NAME, _ADDRESS = 5, 7

_DURATION = "gpu__time_duration.sum"
#: The most names that a notice lists; it counts the rest.
_NAMED = 6
#: Advice by `workbench.ncurep.values` for the user who compiled the kernel.
_FOR_COMPILERS = ("no-line-info", "no-source")


class RawReport(Record, frozen=True):
    """A raw report's compressed bytes, or None and the reason not to keep them."""

    packed: bytes | None = None
    notice: Notice | None = None


def machine_words(root: Path) -> tuple[str, ...]:
    """Return words that a shared file must not contain: the user's folders, the host's name."""
    words = {str(root), socket.gethostname(), f"{tempfile.gettempdir()}/"}
    home = str(Path.home())
    if home not in ("/", "/root"):
        words.add(home)
    return tuple(sorted(words))


def private_words(raw: bytes, words: Sequence[str]) -> tuple[str, ...]:
    """The `words` that a report contains."""
    return tuple(word for word in words if len(word) > 3 and word.encode() in raw)


def scrub(data: bytes, path: Path) -> bytes:
    """The report without host name and network addresses, otherwise identical in every byte.

    `path` is its name, for messages. Raises DataError: not a complete report.
    """
    container = parse(data, path)
    header_end = len(MAGIC) + SIZE.size + SIZE.unpack_from(data, len(MAGIC))[0]
    out = bytearray(data[:header_end])
    for start, end in container.blocks:
        size = SIZE.unpack_from(data, start)[0]
        header_at = start + SIZE.size
        header = rewrite(data[header_at : header_at + size], SESSION, _session)
        out += SIZE.pack(len(header)) + header + data[header_at + size : end]
    return bytes(out)


def _session(session: bytes) -> bytes:
    for record in (SESSION_HOST, SESSION_SYSTEM):
        session = rewrite(session, record, _system)
    return session


def _system(system: bytes) -> bytes:
    return rewrite(rewrite(system, _HOST_NAME, lambda _: b""), _ADDRESS, lambda _: None)


def pack_report(
    raw: bytes, path: Path, keep: Keep, words: Sequence[str], limit: int = LIMIT
) -> RawReport:
    """Take the machine's name out of a report, and compress it if it is kept.

    `path` is its name, for messages. `words` are those that it must not hold, from `machine_words`;
    `limit` is the most compressed bytes for ``auto``. Raises DataError: not a whole report.
    """
    if keep == "never":
        return RawReport()
    nameless = scrub(raw, path)
    if keep == "always":
        return RawReport(packed=pack(nameless))
    if named := private_words(nameless, words):
        return _dropped("raw-not-kept", f"it names {', '.join(named)}")
    # Strong compression takes seconds; a quick one already shows that a report is too large.
    size = len(zstandard.ZstdCompressor(level=3).compress(nameless))
    packed = pack(nameless) if size <= 2 * limit else b""
    size = len(packed) or size
    if size > limit:
        why = f"it takes {quantity(size, 'byte')}, and {quantity(limit, 'byte')} is the limit"
        return _dropped("raw-too-large", why)
    return RawReport(packed=packed)


def _dropped(code: str, why: str) -> RawReport:
    message = f"The raw report was not kept beside the profile, because {why}; --raw keeps it."
    return RawReport(notice=Notice(code, message))


def fold_repeats(profile: Profile, repeats: int, launched: int = 0) -> Profile:
    """Merge several executions of the version into one launch for each of its launches.

    For each launch, the capture with the median duration is kept whole, so that its counters, lines
    and rules belong together; `Launch.spreads` says how each metric varied. `repeats`: the number
    of the version's executions in its range. `launched`: launches of one execution; 0: unknown.
    Raises DataError: the launches do not divide evenly over the executions.
    """
    launches = [launch for launch in profile.launches if launch.profiled]
    if repeats <= 1:
        return profile
    each, odd = divmod(len(launches), repeats)
    if odd or not each or launched not in (0, each):
        raise DataError(
            f"ncu profiled {len(launches)} launches in {repeats} executions of the version",
            "Every execution must launch the same kernels; otherwise leave out --repeat.",
        )
    folded = []
    for position in range(each):
        group = launches[position::each]
        if len({launch.kernel for launch in group}) > 1:
            names = ", ".join(sorted({launch.kernel for launch in group}))
            raise DataError(
                f"launch {position + 1} was a different kernel each time: {names}",
                "Every execution must launch the same kernels; otherwise leave out --repeat.",
            )
        by_time = sorted(group, key=lambda x: float(_number(x.metrics.get(_DURATION)) or 0.0))
        kept = by_time[(len(group) - 1) // 2]
        folded.append(msgspec.structs.replace(kept, index=position, spreads=_spreads(group)))
    return msgspec.structs.replace(profile, launches=tuple(folded))


def _number(metric: Metric | None) -> Number | None:
    if metric is None or isinstance(metric.value, str):
        return None
    return metric.value


def _spreads(group: Sequence[Launch]) -> dict[str, Spread]:
    spreads = {}
    for name in group[0].metrics:
        values = [
            value for launch in group if (value := _number(launch.metrics.get(name))) is not None
        ]
        if len(values) < 2:
            continue
        ordered = sorted(values)
        middle: Number = ordered[len(ordered) // 2] if len(ordered) % 2 else median(ordered)
        spreads[name] = Spread(n=len(values), low=ordered[0], median=middle, high=ordered[-1])
    return spreads


def own_sources(
    profile: Profile, sources: Sequence[SourceFile], *, closed: bool = False
) -> Profile:
    """Name the version's files as the project does, with the text that was compiled.

    A report names files as the compiler saw them, perhaps with a folder of the machine
    before the project's path. Files that are not the version's keep their base name
    only, unless they are the toolkit's own. If the project is `closed`, they lose their text: a
    source may name any file for its lines (``#line``), and ncu reads that file.
    """
    by_path = {source.path: source for source in sources}
    renamed: list[SourceFile] = []
    for recorded in profile.sources:
        path = posixpath.normpath(recorded.path.replace("\\", "/"))
        ours = next(
            (own for name, own in by_path.items() if path == name or path.endswith("/" + name)),
            None,
        )
        if ours is not None:
            renamed.append(ours)
        elif path.startswith(("/usr/", "/opt/nvidia/")):
            renamed.append(recorded)
        elif closed:
            bare = posixpath.basename(path)
            renamed.append(msgspec.structs.replace(recorded, path=bare, text=None))
        elif posixpath.isabs(path):
            renamed.append(msgspec.structs.replace(recorded, path=posixpath.basename(path)))
        else:
            renamed.append(recorded)
    # Two recorded paths may be the same file of ours: tables then point to the first path.
    index: dict[str, int] = {}
    kept: list[SourceFile] = []
    moves: list[int] = []
    for source in renamed:
        if source.path not in index:
            index[source.path] = len(kept)
            kept.append(source)
        moves.append(index[source.path])
    for source in sources:
        if source.path not in index:
            index[source.path] = len(kept)
            kept.append(source)
    launches = tuple(_moved(launch, moves) for launch in profile.launches)
    return msgspec.structs.replace(profile, sources=tuple(kept), launches=launches)


def _moved(launch: Launch, moves: Sequence[int]) -> Launch:
    if all(old == new for old, new in enumerate(moves)):
        return launch
    table = launch.instructions
    files = tuple(moves[file] if file >= 0 else file for file in table.file)
    moved: InstructionTable = msgspec.structs.replace(table, file=files)
    return msgspec.structs.replace(launch, instructions=moved)


def metric_notices(
    profile: Profile, asked: Sequence[str], expected: Sequence[str] = ()
) -> tuple[Notice, ...]:
    """Report requested metrics that are missing, and those without a number.

    ncu itself ignores unknown names. `asked` are names that the user gave to ``--metrics``, perhaps
    with ncu's prefixes (``regex:``, ``group:``), which name no single metric; `expected` are those
    of the default collection.
    """
    empty = sorted(
        {name for launch in profile.launches for name, why in launch.absent.items() if why == "NaN"}
    )
    have = {name for launch in profile.launches for name in launch.metrics} | set(empty)
    # A name without its suffix (".sum") stands for all its first-level forms.
    stems = have | {name.rpartition(".")[0] for name in have}
    notices = []
    if gone := [name for name in asked if ":" not in name and name not in stems]:
        notices.append(
            Notice(
                "missing-metric",
                f"ncu gave no value for {', '.join(gone)}: this chip or this version "
                "of ncu does not have it, or the name is misspelt.",
            )
        )
    if gone := [name for name in expected if name not in stems and name not in asked]:
        notices.append(
            Notice(
                "missing-counter",
                f"This chip or this version of ncu does not have {_listed(gone)}; "
                "the counters that need it are missing.",
            )
        )
    if empty:
        notices.append(Notice("nan-metric", f"ncu gave NaN for {_listed(empty)}."))
    return tuple(notices)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    rest = len(names) - _NAMED
    return f"{shown} and {rest} more" if rest > 0 else shown


def library_notices(notices: Sequence[Notice], version: str) -> tuple[Notice, ...]:
    """For a Python version, report once that its kernels have no source.

    They belong to a library, compiled by others: advice on compiling them would not help.
    """
    kept = [notice for notice in notices if notice.code not in _FOR_COMPILERS]
    if len(kept) < len(notices):
        message = (
            f"The kernels of {version} are a library's: the report has no source of them, so "
            "counters are known per instruction and not per source line."
        )
        kept.append(Notice("library-kernel", message))
    return tuple(kept)
