"""Run whole launches: all blocks or a sample of them, on all cores, with counters.

Blocks are independent, so batches of them go to forked processes that share the arena;
each returns its counters. Global atomics are serialised by a lock.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from workbench.emulator.context import Site
from workbench.emulator.ir import Instr, Module
from workbench.emulator.lanes import Geometry, Lanes
from workbench.emulator.launch import BATCH_LANES, Launch, prepare
from workbench.emulator.machine import Program
from workbench.emulator.space import Arena
from workbench.errors import KernelError, WorkbenchError

Blocks = NDArray[np.int64]


@dataclass(slots=True)
class Row:
    """One PTX instruction with what it did. `warps` and `threads`: how often it ran."""

    instr: Instr
    block: int
    warps: int
    threads: int
    site: Site

    @property
    def on(self) -> int:
        """Threads whose guard was true."""
        return self.site.on if self.instr.guard is not None else self.threads


@dataclass(slots=True)
class Outcome:
    """The counters of one launch. `sampled` is the share of blocks that ran (1: all)."""

    launch: Launch
    program: Program
    rows: list[Row] = field(default_factory=list)
    blocks_run: int = 0
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def sampled(self) -> float:
        """Share of the grid's blocks that were run."""
        return self.blocks_run / self.launch.geometry.blocks

    @property
    def thread_instructions(self) -> int:
        """PTX instructions executed, over threads."""
        return sum(row.threads for row in self.rows)


def sample(geometry: Geometry, wanted: int, seed: int = 0) -> Blocks:
    """Blocks to run for counters: corners and edges of the grid, and inner ones at random.

    The grid is cut into strata by whether a block lies at the first or last place of
    each axis; every stratum gives at least two blocks (or all it has).
    """
    total = geometry.blocks
    if wanted >= total:
        return np.arange(total, dtype=np.int64)
    rng = np.random.default_rng(seed)
    chosen = []
    groups = strata(geometry)
    for group in np.unique(groups):
        members = np.nonzero(groups == group)[0]
        count = min(len(members), max(2, round(wanted * len(members) / total)))
        chosen.append(rng.choice(members, count, replace=False))
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def strata(geometry: Geometry) -> NDArray[np.int64]:
    """The stratum of each block: 0, 1, 2 for first, inner and last of each axis."""
    index = np.arange(geometry.blocks)
    out = np.zeros(geometry.blocks, np.int64)
    for axis, extent in enumerate(geometry.grid):
        place = index % extent
        index = index // extent
        where = np.where(place == 0, 0, np.where(place == extent - 1, 2, 1))
        out += where * 3**axis
    return out


def batches(geometry: Geometry, blocks: Blocks, workers: int) -> list[Blocks]:
    """Blocks in batches of about `BATCH_LANES` lanes, at least one for each worker."""
    each = max(1, BATCH_LANES // (geometry.warps * 32))
    count = -(-len(blocks) // each)
    lanes = len(blocks) * geometry.warps * 32
    if count < workers and lanes >= workers * 2048:
        count = workers
    return [part for part in np.array_split(blocks, count) if len(part)]


def _counts(program: Program) -> list[list[int]]:
    blocks = [[code.warps_run, code.lanes_run] for code in program.codes]
    return blocks + [site.counts() for site in program.sites]


def _reset(program: Program) -> None:
    for code in program.codes:
        code.warps_run = code.lanes_run = 0
    for site in program.sites:
        site.reset()


_shared: tuple[Program, Geometry] | None = None


def _work(blocks: Blocks) -> tuple[list[list[int]] | None, tuple[type, str, str] | None]:
    assert _shared is not None
    program, geometry = _shared
    _reset(program)
    try:
        program.run(Lanes(geometry, blocks))
    except WorkbenchError as error:
        return None, (type(error), error.message, error.hint)
    except MemoryError:
        return None, (KernelError, f"kernel {program.ctx.kernel}: out of memory", "")
    return _counts(program), None


@contextmanager
def _sharing(program: Program, geometry: Geometry) -> Iterator[None]:
    global _shared
    _shared = (program, geometry)
    try:
        yield
    finally:
        _shared = None


def workers_here() -> int:
    """Processes to use: the cores this process may run on, where forking exists."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def run(
    module: Module,
    launch: Launch,
    arena: Arena,
    *,
    blocks: Blocks | None = None,
    check: bool = False,
    workers: int | None = None,
) -> Outcome:
    """Run one launch and count.

    Args:
        module: The parsed PTX.
        launch: Kernel, shape and arguments.
        arena: Global memory; the results are left in it.
        blocks: Block numbers to run; None: all.
        check: Watch for races and uninitialised shared memory (slower).
        workers: Processes; None: one for each core.

    Raises:
        KernelError: what the kernel does wrong or the emulator cannot do.
        UsageError: the launch does not fit the kernel.
    """
    program = prepare(module, launch, arena)
    program.rt.check = check
    geometry = launch.geometry
    chosen = np.arange(geometry.blocks, dtype=np.int64) if blocks is None else blocks
    workers = workers_here() if workers is None else workers
    parts = batches(geometry, chosen, workers)
    totals = [_counts(program)]
    with _sharing(program, geometry):
        if workers == 1 or len(parts) == 1:
            answers = map(_work, parts)
            totals += [_accept(answer) for answer in answers]
        else:
            context = multiprocessing.get_context("fork")
            program.rt.lock = context.Lock()
            with context.Pool(min(workers, len(parts))) as pool:
                totals += [_accept(answer) for answer in pool.imap_unordered(_work, parts)]
    _reset(program)
    outcome = Outcome(launch, program, blocks_run=len(chosen))
    _gather(outcome, totals)
    return outcome


def _accept(
    answer: tuple[list[list[int]] | None, tuple[type, str, str] | None],
) -> list[list[int]]:
    counts, failure = answer
    if failure is not None:
        kind, message, hint = failure
        raise kind(message, hint)
    assert counts is not None
    return counts


def _gather(outcome: Outcome, totals: list[list[list[int]]]) -> None:
    program = outcome.program
    split = len(program.codes)
    for counts in totals:
        for code, (warps, lanes) in zip(program.codes, counts[:split], strict=True):
            code.warps_run += warps
            code.lanes_run += lanes
        for site, values in zip(program.sites, counts[split:], strict=True):
            site.add(values)
    sites = iter(program.sites)
    for code in program.codes:
        if code.block.rank < 0:
            continue
        tail = [code.block.last] if code.block.last is not None else []
        for instr in [*code.block.instrs, *tail]:
            row = Row(instr, code.block.index, code.warps_run, code.lanes_run, next(sites))
            outcome.rows.append(row)
