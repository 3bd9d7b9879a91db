"""A command's work on a cluster, from what is asked to what became of it; and what is under way.

A command that asks for what an earlier one has sent joins that dispatch, so that leaving
it (Ctrl-C) and coming back is running the same command again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from workbench.cluster import Queue, Standing
from workbench.cluster.dispatch import (
    Dispatch,
    JobOrder,
    PieceOutcome,
    begin,
    dispatches,
    known_devices,
    learn_devices,
)
from workbench.cluster.settings import SlurmSettings, read_settings
from workbench.cluster.slurm import SlurmQueue
from workbench.cluster.watch import Watch
from workbench.errors import WorkbenchError
from workbench.measure.campaign import Display
from workbench.measure.plan import Key
from workbench.project import Project
from workbench.study.folder import Study, source_hash


class Fleet:
    """A project's work on a cluster.

    Args:
        project: Its root is at the same path on all nodes.
        study: The study.
        display: Where it is said what happens.

    Raises:
        UsageError: wrong settings, with their line.
        MissingError: no Slurm, or no submitit.
    """

    def __init__(self, project: Project, study: Study, display: Display) -> None:
        self.settings: SlurmSettings = read_settings(project)
        self._project = project
        self._study = study
        self._display = display
        self._queue: Queue = SlurmQueue(self.settings, project.root)

    @property
    def _where(self) -> str:
        settings = self.settings
        return "|".join((settings.partition, settings.constraint, settings.gres))

    @property
    def devices(self) -> list[str]:
        """Slugs of the devices that jobs of these settings were given so far."""
        return known_devices(self._project.root, self._where)

    def carry_out(
        self, order: JobOrder, keys: Sequence[Key], tell: Callable[[PieceOutcome], None]
    ) -> JobOrder:
        """Have pieces done, and wait for them; or join who was sent for the same.

        Args:
            order: What is asked.
            keys: Versions on problems.
            tell: Called with each outcome as it comes.

        Returns:
            The order as it was carried out: an earlier one, where it was joined.

        Raises:
            BusyError: another command waits for the same.
            MissingError: Slurm refuses the jobs.
        """
        dispatch = self._open(order)
        order = dispatch.order
        with dispatch.watched():
            there = dispatch.pieces if (dispatch.folder / "pieces.json").exists() else []
            self._drop_stale(dispatch, there)
            dispatch.add([key for key in keys if key not in there])
            wanted, faults, devices = set(keys), 0, set()

            def one(outcome: PieceOutcome) -> None:
                nonlocal faults
                faults += outcome.fault is not None
                devices.update([outcome.device] if outcome.device else [])
                if outcome.key in wanted:
                    tell(outcome)

            watch = Watch(dispatch, self._queue, self.settings, self._display, one)
            try:
                watch.run()
            except (KeyboardInterrupt, SystemExit):
                self._display.say(
                    "The jobs go on without this command. The same command, run again, rejoins "
                    f"them; `workbench jobs` shows them, and `workbench jobs {dispatch.name} "
                    "--cancel` ends them."
                )
                raise
            except WorkbenchError:
                if not dispatch.arrays:
                    dispatch.remove()  # nothing was sent
                raise
            finally:
                if devices:
                    learn_devices(self._project.root, self._where, sorted(devices))
            dispatch.close(keep=bool(faults))
        return order

    def _open(self, order: JobOrder) -> Dispatch:
        """The dispatch of an earlier command that asked the same, or a new one."""
        for dispatch in dispatches(self._project.root):
            if dispatch.order.same_as(order):
                if not dispatch.closed:
                    self._display.say(f"joining {dispatch.name}, which an earlier command has sent")
                    return dispatch
                dispatch.remove()  # its errors were told
        return begin(self._project.root, order)

    def _drop_stale(self, dispatch: Dispatch, keys: Sequence[Key]) -> None:
        """Forget outcomes of versions that were edited since."""
        for number, (version, _) in enumerate(keys):
            outcome = dispatch.outcome(number)
            known = self._study.versions.get(version)
            if outcome is None or known is None or not outcome.source_hash:
                continue
            if outcome.source_hash != source_hash(self._project, known):
                dispatch.reopen(number)


def standing(dispatch: Dispatch, queue: Queue) -> Standing:
    """How far a dispatch is, without changing anything of it."""
    order, arrays = dispatch.order, dispatch.arrays
    elements = queue.elements([array.name for array in arrays]) or {}
    phase: dict[int, str] = {}
    for array in arrays:
        for at, work in enumerate(array.works):
            found = next(
                (e for p, e in elements.items() if p.array == array.name and p.number == at), None
            )
            phase |= dict.fromkeys(work, found.phase if found else "ended")
    counts: Counter[str] = Counter()
    for number in range(len(dispatch.pieces)):
        outcome = dispatch.outcome(number)
        if outcome is not None:
            counts["failed" if outcome.fault else "done"] += 1
        else:
            counts[phase.get(number, "ended")] += 1
    return Standing(
        name=dispatch.name,
        words=order.words,
        submitted=order.submitted,
        jobs=tuple(array.job for array in arrays),
        queued=counts["queued"],
        running=counts["running"],
        done=counts["done"],
        failed=counts["failed"],
        lost=counts["ended"],
    )


def cancel(dispatch: Dispatch, queue: Queue) -> None:
    """End a dispatch's jobs and forget it; what is stored by then stays."""
    queue.cancel([array.name for array in dispatch.arrays])
    dispatch.remove()
