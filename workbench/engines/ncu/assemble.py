"""From what ncu captured to the profile that is kept: repeats folded, names neutral.

Pure: everything here works on records that were already read.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from statistics import median

import msgspec

from workbench.errors import DataError
from workbench.model import (
    InstructionTable,
    Launch,
    Metric,
    Notice,
    Number,
    Profile,
    SourceFile,
    Spread,
)

_DURATION = "gpu__time_duration.sum"
#: As many names as a notice lists before it only counts.
_NAMED = 6


def fold_repeats(profile: Profile, repeats: int, program: int = 0) -> Profile:
    """One launch for each launch of the version, from several executions of it.

    Of the captures of a launch the one with the median duration is kept whole, so that
    its counters, lines and rules belong together; how each metric varied stands in
    `Launch.spreads`.

    Args:
        profile: As read; launches in the order in which they ran.
        repeats: How often the version was executed in its range.
        program: Launches of one execution, where that is known; 0: unknown.

    Raises:
        DataError: the launches do not divide evenly over the executions.
    """
    launches = [launch for launch in profile.launches if launch.profiled]
    if repeats <= 1:
        return profile
    if not launches or len(launches) % repeats or (program and len(launches) != program * repeats):
        raise DataError(
            f"ncu profiled {len(launches)} launches in {repeats} executions of the version",
            "Every execution must launch the same kernels; otherwise leave out --repeat.",
        )
    each = len(launches) // repeats
    folded = []
    for position in range(each):
        group = launches[position::each]
        if len({launch.kernel for launch in group}) > 1:
            names = ", ".join(sorted({launch.kernel for launch in group}))
            raise DataError(
                f"launch {position + 1} was a different kernel each time: {names}",
                "Every execution must launch the same kernels; otherwise leave out --repeat.",
            )
        kept = sorted(group, key=_duration)[(len(group) - 1) // 2]
        folded.append(msgspec.structs.replace(kept, index=position, spreads=_spreads(group)))
    return msgspec.structs.replace(profile, launches=tuple(folded))


def _number(metric: Metric | None) -> Number | None:
    if metric is None or isinstance(metric.value, str):
        return None
    return metric.value


def _duration(launch: Launch) -> float:
    return float(_number(launch.metrics.get(_DURATION)) or 0.0)


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


def own_sources(profile: Profile, sources: Sequence[SourceFile]) -> Profile:
    """Name the version's files as the project does, with the text that was compiled.

    A report names files as the compiler saw them, perhaps with a folder of the machine
    before the project's path. Files that are not the version's keep their base name
    only, unless they are the toolkit's own.
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
        elif posixpath.isabs(path) and not path.startswith(("/usr/", "/opt/nvidia/")):
            renamed.append(msgspec.structs.replace(recorded, path=posixpath.basename(path)))
        else:
            renamed.append(recorded)
    # Two recorded paths may be the same file of ours: tables then point to the first.
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
    """What was asked for and did not come, and what came without a number.

    ncu itself says nothing of a name that it does not know.

    Args:
        profile: As read.
        asked: Names that the user gave to ``--metrics``, perhaps with ncu's prefixes
            (``regex:``, ``group:``), which name no single metric.
        expected: Names that the default collection asked for.
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
                code="missing-metric",
                message=f"ncu gave no value for {', '.join(gone)}: this chip or this version "
                "of ncu does not have it, or the name is misspelt.",
            )
        )
    if gone := [name for name in expected if name not in stems and name not in asked]:
        notices.append(
            Notice(
                code="missing-counter",
                message=f"This chip or this version of ncu does not have {_listed(gone)}; "
                "the counters that need it are missing.",
            )
        )
    if empty:
        notices.append(Notice(code="nan-metric", message=f"ncu gave NaN for {_listed(empty)}."))
    return tuple(notices)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    rest = len(names) - _NAMED
    return f"{shown} and {rest} more" if rest > 0 else shown


#: Advice of `workbench.ncurep.values` to whoever compiled the kernel.
_FOR_COMPILERS = ("no-line-info", "no-source")


def library_notices(notices: Sequence[Notice], version: str) -> tuple[Notice, ...]:
    """For a Python version, say once that its kernels come without source.

    They are a library's, compiled by others: advice on compiling them would lead nowhere.
    """
    kept = [notice for notice in notices if notice.code not in _FOR_COMPILERS]
    if len(kept) < len(notices):
        message = (
            f"The kernels of {version} are a library's: the report has no source of them, so "
            "counters are known per instruction and not per source line."
        )
        kept.append(Notice(code="library-kernel", message=message))
    return tuple(kept)
