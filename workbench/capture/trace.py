"""What the tracer wrote (``data/tracer.c`` has the format), read process by process.

A process that was killed leaves a file that stops somewhere: what is whole is taken, and that
it was cut is told.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from workbench.capture.ranges import Range, read_ranges
from workbench.errors import DataError
from workbench.model import Dim3, Record

SUFFIX = ".trace"
MAGIC = b"WBTRACE2"
HEADER = struct.Struct("<8sII")
#: kind, and behind it: the number of a name and its length.
NAME = struct.Struct("<III")
KIND = struct.Struct("<I")
#: kind; name, device, stream, graph; start, end; grid, block; static, dynamic; bytes; correlation.
WORK = struct.Struct("<IIIIIQQ3I3IIIQII")
END = struct.Struct("<IIQ")
#: kind, correlation, name: the NVTX ranges of the launch of that correlation.
INSIDE = struct.Struct("<III")
_NAMED, _WORKED, _ENDED, _INSIDE = 1, 2, 3, 4


class TracedLaunch(NamedTuple):
    """One kernel, copy or fill. Times in nanoseconds of one clock; `graph`: of a CUDA graph."""

    symbol: str
    process: int
    device: int
    stream: int
    graph: bool
    start: int
    end: int
    grid: Dim3 = (0, 0, 0)
    block: Dim3 = (0, 0, 0)
    dynamic_shared: int = 0
    bytes: int = 0
    ranges: tuple[Range, ...] = ()

    @property
    def duration(self) -> int:
        """Nanoseconds from start to end."""
        return self.end - self.start


class Trace(Record, frozen=True):
    """One run of a program: all launches by their start. `cut` processes did not end themselves.

    `dropped` launches are those that CUPTI says it lost.
    """

    launches: tuple[TracedLaunch, ...]
    processes: int
    cut: int = 0
    dropped: int = 0


def read_traces(folder: Path) -> Trace:
    """All processes that wrote into `folder`.

    Raises:
        DataError: a file that the tracer did not write.
    """
    launches: list[TracedLaunch] = []
    processes = cut = dropped = 0
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        data = path.read_bytes()
        if len(data) < HEADER.size:
            continue  # killed before its first word
        found, lost = _read(data, path)
        processes += 1
        if lost is None:
            cut += bool(found)  # one that launched nothing has nothing to lose
        else:
            dropped += lost
        launches += found
    launches.sort(key=lambda launch: (launch.start, launch.end))
    return Trace(launches=tuple(launches), processes=processes, cut=cut, dropped=dropped)


def _read(data: bytes, path: Path) -> tuple[list[TracedLaunch], int | None]:
    """The launches of one process, and how many CUPTI lost; None where the file just stops."""
    magic, process, _ = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise DataError(f"{path} is not a trace (it starts with {magic!r})", "Capture again.")
    names: dict[int, str] = {}
    inside: dict[int, int] = {}  # correlation -> name
    out: list[TracedLaunch] = []
    correlations: list[int] = []
    lost: int | None = None
    at, size = HEADER.size, len(data)
    while at + KIND.size <= size:
        (kind,) = KIND.unpack_from(data, at)
        if kind == _WORKED and at + WORK.size <= size:
            values = WORK.unpack_from(data, at)
            _, name, device, stream, graph, start, end, *rest = values
            if name not in names or end < start:
                raise DataError(f"{path} is damaged at byte {at:,}", "Capture again.")
            shared, moved = rest[7], rest[8]
            correlations.append(rest[9])
            grid, block = (rest[0], rest[1], rest[2]), (rest[3], rest[4], rest[5])
            out.append(
                TracedLaunch(
                    names[name], process, device, stream, bool(graph),
                    start, end, grid, block, shared, moved,
                )
            )  # fmt: skip
            at += WORK.size
        elif kind == _NAMED and at + NAME.size <= size:
            _, number, length = NAME.unpack_from(data, at)
            at += NAME.size
            if at + length > size:
                break
            names[number] = data[at : at + length].decode("utf-8", "replace")
            at += length
        elif kind == _INSIDE and at + INSIDE.size <= size:
            _, correlation, name = INSIDE.unpack_from(data, at)
            if name not in names:
                raise DataError(f"{path} is damaged at byte {at:,}", "Capture again.")
            inside[correlation] = name
            at += INSIDE.size
        elif kind == _ENDED and at + END.size <= size:
            lost = int(END.unpack_from(data, at)[2])
            break
        elif kind in (_NAMED, _WORKED, _ENDED, _INSIDE):
            break
        else:
            raise DataError(f"{path} is damaged at byte {at:,}", "Capture again.")
    if inside:  # a launch may be read before its ranges are
        paths = {name: read_ranges(names[name]) for name in set(inside.values())}
        for place, correlation in enumerate(correlations):
            if correlation in inside:
                out[place] = out[place]._replace(ranges=paths[inside[correlation]])
    return out, lost


def busy_ns(launches: Iterable[TracedLaunch]) -> int:
    """Nanoseconds in which a device had something to do, summed over devices."""
    ends: dict[int, int] = {}
    total = 0
    for launch in launches:  # by start
        end = ends.get(launch.device, launch.start)
        total += max(0, launch.end - max(end, launch.start))
        ends[launch.device] = max(end, launch.end)
    return total
