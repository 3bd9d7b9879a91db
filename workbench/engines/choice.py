"""Choose an engine: the GPU's if it can run, else the emulator."""

from __future__ import annotations

import workbench.processes.following  # noqa: F401 - its processes end with this one
from workbench.compile import compilers
from workbench.engines import Engine, RunOptions, Say, silent
from workbench.engines.host import presence
from workbench.engines.host.worker_pool import Crew
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import MissingError
from workbench.project import Project


def choose(
    wanted: str,
    project: Project,
    options: RunOptions,
    say: Say = silent,
    *,
    profiling: bool = False,
) -> Engine:
    """Return the GPU's engine if it can run, else the emulator.

    `wanted` is ``auto``, ``emulator``, or any other word for the GPU's engine. A GPU behind a
    launcher is not queried from here. `profiling`: ncu is needed as well.

    Raises:
        MissingError: the GPU's engine was requested and cannot run here; or neither it nor a
            compiler for the emulator is here. It says what is missing and what works without it.
        UsageError: see `workbench.engines.host.presence.choose_where`.
    """
    if wanted != "emulator":
        try:
            return on_gpu(project, options, say, profiling=profiling)
        except MissingError:
            if wanted != "auto" or options.launcher or not compilers.available():
                raise
    from workbench.engines.emulated.engine import EmulatorEngine

    return EmulatorEngine(project, options, say)


def on_gpu(
    project: Project,
    options: RunOptions,
    say: Say = silent,
    *,
    profiling: bool = False,
    known: bool = False,
) -> GpuEngine:
    """Return the engine of the GPU here, or behind a launcher.

    `profiling`: ncu is needed as well. `known`: nothing will be run (``--dry-run``): the
    architecture is enough.

    Raises:
        MissingError: no GPU, PyCUDA or ncu, and something must be run here.
        UsageError: see `workbench.engines.host.presence.choose_where`.
    """
    ncu = ""
    if profiling and not options.launcher and not known:
        presence.need_gpu()
        ncu = presence.need_ncu()
    elif profiling:
        found = None if options.launcher else presence.find_tool("ncu", "WORKBENCH_NCU")
        ncu = found or "ncu"
    where = presence.choose_where(options, known=known)
    return GpuEngine(project, where, seed=options.seed, ncu=ncu, say=say)


def on_gpus(
    project: Project, options: RunOptions, say: Say = silent, workers: Crew | None = None
) -> list[GpuEngine]:
    """An engine for each model among the requested GPUs; only to verify and time.

    `workers` that were started already are passed to the engine of their GPUs. Raises MissingError,
    UsageError: see `workbench.engines.host.presence.choose_hosts`.
    """
    wheres = presence.choose_hosts(options)
    engines = [
        GpuEngine(
            project,
            where,
            seed=options.seed,
            say=say,
            workers=workers if workers is not None and workers.where == where else None,
        )
        for where in wheres
    ]
    for where in wheres if options.gpus else ():
        count = len(where.gpus)
        say(f"{count} GPU{'s' if count > 1 else ''}: {where.device} ({', '.join(where.gpus)})")
    return engines
