"""Processes of one program that work together, and which of them waits for which.

A kernel that communicates runs until the other ranks arrive: its duration shows how long it waited,
not how fast it is. ncu repeats a launch while nothing else runs, and such a kernel then never ends.
Only `waits_for` knows these kernels.

A *rank* is a process with a number from its launcher (torchrun, mpirun, srun; the tracer notes it),
one of several processes without numbers that launch communicating kernels, or a device of a process
with several. The n-th launches of a function in all ranks are one collective; among those that
overlap, the others waited for the last to start. All clocks are on one machine.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache

from workbench.programs.capture.records import Rank, TracedLaunch, Work

#: Pattern of a function's name -> the partner that it waits for. The first match wins.
_PATTERNS = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"nccl\w*Kernel|ncclDev|ncclSym", "the other ranks (NCCL)"),
        (r"nvshmem", "the other ranks (NVSHMEM)"),
        # PyTorch's symmetric memory, and inference servers' own kernels.
        (r"(one|two)_?shot_all_?reduce|multimem_(one|two|all|reduce)", "the other ranks"),
        (r"cross_device_reduce|all_?reduce_fusion|(one|two)ShotAllReduce", "the other ranks"),
        (r"deep_ep\d*(intra|inter)node\d*|mscclpp", "the other ranks"),
        (r"(put|wait)_signal_kernel|barrier_all\b", "the other ranks"),
        (r"(^|[\W_\d])(spin|busy)_?wait|(^|[\W_\d])wait_?(for|until)_?[a-z]*(flag|signal|value|peer)",
         "a value that another kernel or process writes"),
    )
)  # fmt: skip
#: A launch of `cudaLaunchCooperativeKernelMultiDevice`.
_MULTI_DEVICE = "its blocks on the other GPUs (a cooperative launch on several)"


@lru_cache(maxsize=4096)
def _by_name(symbol: str) -> str:
    return next((what for pattern, what in _PATTERNS if pattern.search(symbol)), "")


def waits_for(symbol: str, *, multi_device: bool = False) -> str:
    """The peer that a kernel waits for, by its function or name; "" if unknown."""
    return _by_name(symbol) or (_MULTI_DEVICE if multi_device else "")


def work_waits(work: Work) -> str:
    """As `waits_for`, for a kernel of a survey."""
    if work.kind != "kernel":
        return ""
    return waits_for(work.symbol, multi_device=work.multi_device)


class Ranks:
    """The ranks of one run, whose launches are in order; `keys` is empty without ranks."""

    def __init__(self, launches: Sequence[TracedLaunch], numbers: Mapping[int, int]) -> None:
        kernels = [launch for launch in launches if launch.grid[0]]
        talks = {(x.process, x.device) for x in kernels if waits_for(x.symbol)}
        own = {numbers[x.process] for x in kernels if x.process in numbers}
        processes = {process for process, _ in talks}
        #: Launch -> its rank's key: a number, a process, or a device.
        self._key: Callable[[TracedLaunch], int] | None = None
        if len(own) > 1:
            self._key = lambda launch: numbers.get(launch.process, -1)
        elif len(processes) > 1:
            self._key = lambda launch: launch.process
        elif len(talks) > 1:
            self._key = lambda launch: launch.device
        self.numbered = len(own) > 1
        first: dict[int, tuple[int, int]] = {}
        for launch in kernels:
            if self._key is not None:
                first.setdefault(self._key(launch), (launch.device, launch.process))
        # Ranks without numbers, by device.
        order = sorted(first, key=lambda key: (key,) if self.numbered else first[key])
        self.keys = tuple(key for key in order if not self.numbered or key >= 0)
        self._places = {key: place for place, key in enumerate(self.keys)}
        self.devices = tuple(
            tuple(sorted({x.device for x in kernels if self._key and self._key(x) == key}))
            for key in self.keys
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The launchers' numbers of ranks; -1 for those without a number."""
        return self.keys if self.numbered else (-1,) * len(self.keys)

    def place(self, launch: TracedLaunch) -> int:
        """A launch's rank, as an index in `keys`; 0 without ranks, -1 if it belongs to none."""
        return self._places.get(self._key(launch), -1) if self._key is not None else 0


def waits(launches: Iterable[TracedLaunch], ranks: Ranks) -> dict[int, int]:
    """How long each launch of a collective waits for the last rank, in ns, by the launch's `id`.

    Functions that the ranks do not all launch equally often are left out: their launches cannot be
    matched.
    """
    own: dict[str, dict[int, list[TracedLaunch]]] = defaultdict(lambda: defaultdict(list))
    for launch in launches:
        if launch.grid[0] and waits_for(launch.symbol) and ranks.place(launch) >= 0:
            own[launch.symbol][ranks.place(launch)].append(launch)
    out: dict[int, int] = {}
    for sides in own.values():
        if len(sides) < 2 or len({len(side) for side in sides.values()}) > 1:
            continue
        for together in zip(*sides.values(), strict=True):
            for one in together:
                # A launch that ended before another began belongs to a different collective.
                last = max(x.start for x in together if x.start <= one.end and one.start <= x.end)
                out[id(one)] = max(0, last - one.start)
    return out


def rank_of(
    key: tuple[int, tuple[int, ...]],
    parts: Sequence[Sequence[TracedLaunch]],
    waited: Mapping[int, int],
) -> Rank:
    """The record of a rank.

    Args:
        key: Its number (-1 without one), and its devices.
        parts: Its launches by their start, for every run (or iteration).
        waited: The result of `waits`.
    """
    talks = [[x for x in part if x.grid[0] and waits_for(x.symbol)] for part in parts]
    of_all = sum(x.end - x.start for part in talks for x in part)
    known = sum(x.end - x.start for part in talks for x in part if id(x) in waited)
    whole = known == of_all
    return Rank(
        rank=key[0],
        devices=key[1],
        launches=tuple(sum(x.grid[0] > 0 for x in part) for part in parts),
        busy_ns=tuple(union_ns(part) for part in parts),
        work_ns=tuple(
            union_ns(x for x in part if not (x.grid[0] and waits_for(x.symbol))) for part in parts
        ),
        talk_ns=tuple(sum(x.end - x.start for x in part) for part in talks),
        wait_ns=tuple(sum(waited[id(x)] for x in part) for part in talks) if whole else (),
    )


def union_ns(
    launches: Iterable[TracedLaunch],
    of: Callable[[TracedLaunch], Hashable] = lambda launch: launch.device,
) -> int:
    """Nanoseconds in which anything ran, summed over the keys of `of`; launches in order."""
    ends: dict[Hashable, int] = {}
    total = 0
    for launch in launches:
        key = of(launch)
        end = ends.get(key, launch.start)
        total += max(0, launch.end - max(end, launch.start))
        ends[key] = max(end, launch.end)
    return total
