"""What commands share that send their work to a cluster."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from workbench.cluster.dispatch import JobOrder, PieceOutcome
    from workbench.cluster.fleet import Fleet
    from workbench.engines import RunOptions, Say
    from workbench.measure.experiment import Failures
    from workbench.measure.plan import Combination
    from workbench.project import Project
    from workbench.specs import Version
    from workbench.study.folder import Study


def ordered(
    kind: Literal["time", "verify", "profile"], study: Study, run: RunOptions, **asked: Any
) -> JobOrder:
    """What jobs are asked; they run where they are, all with the same inputs.

    Args:
        kind: What is done.
        study: The study.
        run: Where and how, as it was typed.
        asked: Further fields of the order.
    """
    import msgspec

    from workbench.cluster.dispatch import JobOrder
    from workbench.engines import fresh_seed, now

    seed = fresh_seed() if run.seed is None else run.seed
    return JobOrder(
        kind=kind,
        study=study.name,
        words=shlex.join(["workbench", *sys.argv[1:]]),
        submitted=now(),
        run=msgspec.structs.replace(run, on="", seed=seed),
        **asked,
    )


def able(
    engine: str,
    project: Project,
    run: RunOptions,
    versions: Sequence[Version],
    every: bool,
    say: Say,
) -> list[Version]:
    """The versions that jobs can run under an engine; see `runnable`."""
    from workbench.engines.emulated.engine import EmulatorEngine
    from workbench.measure.experiment import runnable

    if engine != "emulator":
        return list(versions)
    return runnable(EmulatorEngine(project, run), versions, every, say)


def carry_out(
    fleet: Fleet,
    study: Study,
    order: JobOrder,
    combinations: Sequence[Combination],
    failures: Failures,
    tell: Callable[[PieceOutcome], None],
) -> JobOrder:
    """Have combinations done by jobs; errors of single ones are kept as they come.

    Returns:
        The order as it was carried out (`Fleet.carry_out`).

    Raises:
        MissingError: Slurm is not here, or refuses the jobs.
        WorkbenchError: the error of the only piece of work.
    """

    def one(outcome: PieceOutcome) -> None:
        if outcome.fault is None:
            failures.passed()
        elif not failures.pass_over(study.version(outcome.version), outcome.fault.error):
            failures.add(" ".join(outcome.key), outcome.fault.error)
        tell(outcome)

    order = fleet.carry_out(order, [each.key for each in combinations], one)
    failures.raise_alone()
    return order
