"""Send a command's work to a cluster, wait for it, and collect the results.

A command that requests the task of an earlier one joins that dispatch. So a user can leave it
(Ctrl-C) and return by running the same command again.

A piece's own file decides its state; the queue is asked only if there is no file yet. An element
that has ended without an outcome for a piece is *lost*: its pieces are sent again, up to three
times, but not to a node that has failed.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from workbench.cluster.dispatch import (
    LOG,
    Array,
    Dispatch,
    JobOrder,
    PieceOutcome,
    Standing,
    begin,
    dispatches,
    known_devices,
    learn_devices,
    unpacked,
)
from workbench.cluster.slurm import (
    Element,
    JobWork,
    Slot,
    SlurmQueue,
    SlurmSettings,
    read_settings,
)
from workbench.engines import fresh_seed, now
from workbench.errors import MissingError, WorkbenchError
from workbench.measure.experiment import Display
from workbench.measure.plan import Combination, Key
from workbench.model import Timing
from workbench.project import Project
from workbench.session.runners import R, Task, Tell
from workbench.study.folder import Study, source_hash
from workbench.units import several

#: The most times that a piece is sent.
TRIES = 3
#: The most elements of an array: Slurm's own default limit is 1,001.
MOST_ELEMENTS = 1000
#: Seconds between two polls: at first, and after some minutes.
_SOON_S, _LATE_S = 1.0, 5.0
#: Seconds between two checks of the nodes, and between two lines about progress.
_NODES_S, _TOLD_S = 5.0, 10.0
#: Minutes for a tuning's job on top of its budget: to start, and to profile its results.
_BESIDE_MIN = 15
#: Job states that mean a failure of the node, not of the job.
_NODE_WORDS = {"NODE_FAIL", "BOOT_FAIL"}


class Watch:
    """Sends one dispatch and waits for it; the caller holds the lock of `dispatch`.

    `tell` gets each final outcome, once.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        task: Task[Any],
        queue: SlurmQueue,
        settings: SlurmSettings,
        display: Display,
        tell: Callable[[PieceOutcome], None],
    ) -> None:
        self._dispatch, self._task = dispatch, task
        self._queue = queue
        self._settings = settings
        self._display = display
        self._tell = tell
        self._pieces: list[Key] = dispatch.pieces
        self._final: dict[int, PieceOutcome] = {}
        self._avoid: dict[str, str] = {}
        self._missing: dict[Slot, float] = {}
        self._ended: dict[int, str] = {}
        self._at: dict[Slot, str] = {}
        self._restarts: Counter[Slot] = Counter()
        self._waits: dict[Slot, str] = {}
        self._seen: set[str] = set()
        self._named: dict[str, str] = {}
        self._next_nodes = 0.0
        self._next_line = 0.0
        self._last_line = ""

    def run(self) -> None:
        """Send the unsent pieces, and wait for all.

        Raises MissingError: the queue refuses the jobs the first time.
        """
        begin = time.monotonic()
        sent = self._tries()
        self._send([number for number in range(len(self._pieces)) if not sent[number]])
        with self._display.counting(len(self._pieces)):
            while True:
                self._look()
                if len(self._final) == len(self._pieces):
                    return
                time.sleep(_SOON_S if time.monotonic() - begin < 120 else _LATE_S)

    # --- sending -------------------------------------------------------------------------

    def _send(self, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        dispatch, task = self._dispatch, self._task
        size = 1 if task.seconds else self._settings.per_job
        size = max(size, -(-len(numbers) // MOST_ELEMENTS))
        works = [tuple(numbers[at : at + size]) for at in range(0, len(numbers), size)]
        array = dispatch.plan_array(works)
        try:
            job = self._queue.submit(
                array.name,
                [JobWork(str(dispatch.root), dispatch.name, task, work) for work in works],
                dispatch.folder,
                exclusive=task.timed,
                minutes=-int(-size * task.seconds // 60) + _BESIDE_MIN if task.seconds else None,
                avoid=list(self._avoid),
            )
        except MissingError:
            self._dispatch.unsent(array)
            raise
        dispatch.sent(array, job)
        many = len(numbers)
        what = several(many, "tuning") if task.seconds else several(many, "combination")
        self._display.say(f"sent {several(len(works), 'job')} for {what}: Slurm's array {job}")

    def _tries(self) -> Counter[int]:
        """Count how often each piece was sent."""
        arrays = self._dispatch.arrays
        return Counter(number for array in arrays for work in array.works for number in work)

    def _again(self, lost: dict[int, str]) -> None:
        """Send lost pieces once more, or report that it was the last time."""
        tries = self._tries()
        again = []
        for number, why in lost.items():
            if tries[number] < TRIES and not why.startswith("CANCELLED"):
                again.append(number)
            else:
                self._give_up(number, why, tries[number])
        try:
            self._send(again)
        except MissingError as error:
            for number in again:
                self._give_up(number, f"{lost[number]}; {error.message}", tries[number])

    def _give_up(self, number: int, why: str, tries: int) -> None:
        version, problem = self._pieces[number]
        left = self._dispatch.outcome(number)  # the error: nothing can run there
        times = f"after {tries} tries " if tries > 1 else ""
        error = MissingError(
            f"{version} has no result on {problem} {times}({why})",
            f"The jobs' own output is in {self._shown}/{LOG}. The same command tries again.",
        )
        node = left.node if left else ""
        self._settle(number, PieceOutcome(version=version, problem=problem, node=node, error=error))

    @property
    def _shown(self) -> str:
        return self._dispatch.folder.relative_to(self._dispatch.root).as_posix()

    # --- looking --------------------------------------------------------------------------

    def _look(self) -> None:
        # First the queue, then the files: a piece that ends in between has its file.
        arrays = self._dispatch.arrays
        elements = self._queue.elements([array.name for array in arrays])
        lost = self._read()
        if elements is None:
            self._once("Slurm does not answer; waiting for it")
            if lost:
                self._again(lost)
            return
        self._notice(elements)
        lost |= self._lost(arrays, elements)
        if lost:
            self._again(lost)
        self._look_at_nodes()
        self._progress(elements)

    def _read(self) -> dict[int, str]:
        """Take in new outcomes; a piece is lost if its outcome is that its node runs nothing."""
        lost: dict[int, str] = {}
        for number in range(len(self._pieces)):
            if number in self._final:
                continue
            outcome = self._dispatch.outcome(number)
            if outcome is None:
                continue
            if self._elsewhere(outcome):
                assert outcome.error is not None
                self._fail_node(outcome.node, outcome.error.message)
                self._dispatch.reopen(number)
                lost[number] = f"{outcome.node}: {outcome.error.message}"
            else:
                self._settle(number, outcome)
        return lost

    def _elsewhere(self, outcome: PieceOutcome) -> bool:
        """True if an error may be the node's: then the piece is sent to another node, once."""
        if not isinstance(outcome.error, MissingError) or not outcome.node:
            return False
        return not self._avoid or outcome.node in self._avoid

    def _settle(self, number: int, outcome: PieceOutcome) -> None:
        self._final[number] = outcome
        self._tell(outcome)
        self._display.done(len(self._final))

    def _lost(self, arrays: Sequence[Array], elements: dict[Slot, Element]) -> dict[int, str]:
        """Pieces without an outcome whose element is over, and the queue's word for its state."""
        lost: dict[int, str] = {}
        latest = {
            number: (Slot(array.name, at), work)
            for array in arrays
            for at, work in enumerate(array.works)
            for number in work
        }
        now = time.monotonic()
        for number, (place, _) in latest.items():
            if number in self._final or number in lost:
                continue
            element = elements.get(place)
            if element is not None and element.stuck:
                self._queue.end(place)
                self._fail_node(self._at.get(place, ""), element.reason)
                lost[number] = element.reason
            elif element is not None and element.phase != "ended":
                self._missing.pop(place, None)
            elif now - self._missing.setdefault(place, now) >= self._patience(element):
                lost[number] = self._word(element)
        return lost

    def _patience(self, element: Element | None) -> float:
        """Seconds that a file from another node may still take to appear."""
        if element is not None and element.word not in ("COMPLETED", "UNKNOWN"):
            return min(_SOON_S, self._settings.patience)  # the job had no time to write one
        return self._settings.patience

    def _word(self, element: Element | None) -> str:
        if element is None:
            return "ended without a message"
        if element.word in _NODE_WORDS:
            self._fail_node(element.node, element.word)
        return f"{element.word} on {element.node}" if element.node else element.word

    # --- saying ------------------------------------------------------------------------------

    def _notice(self, elements: dict[Slot, Element]) -> None:
        """Report the pieces that were requeued or are blocked, and the nodes where pieces run."""
        for place, element in elements.items():
            # A job above one of the cluster's limits may wait for ever without being refused.
            limited = element.phase == "queued" and element.reason.endswith("Limit")
            if limited and self._waits.get(place) != element.reason:
                self._waits[place] = why = element.reason
                self._display.say(f"{self._names(place)}: waits; Slurm's reason: {why}")
            # By the queue's count: between two polls it may have started again.
            if element.restarts > self._restarts[place]:
                self._restarts[place] = element.restarts
                where = f" (it had run on {self._at[place]})" if place in self._at else ""
                self._display.say(f"{self._names(place)}: was requeued{where}")
            if element.phase == "running" and element.node:
                self._at[place] = element.node
                self._seen.add(element.node)

    def _names(self, place: Slot) -> str:
        return ", ".join(self._labels(place)) or f"{place.array} {place.number}"

    def _labels(self, place: Slot) -> Iterator[str]:
        for array in self._dispatch.arrays:
            if array.name == place.array:
                for number in array.works[place.number]:
                    if number not in self._final:
                        yield " ".join(self._pieces[number])

    def _fail_node(self, node: str, why: str) -> None:
        if node and node not in self._avoid:
            self._avoid[node] = why
            self._display.say(f"node {node} failed: {why}; its work goes to other nodes")

    def _look_at_nodes(self) -> None:
        """Report once each node that did work of ours and no longer takes any."""
        if time.monotonic() < self._next_nodes:
            return
        self._next_nodes = time.monotonic() + _NODES_S
        for node, why in self._queue.troubled().items():
            if node in self._seen and self._named.get(node) != why:
                self._named[node] = why
                self._display.say(f"node {node} is {why}: waiting work goes to other nodes")

    def _once(self, line: str) -> None:
        if line != self._last_line:
            self._last_line = line
            self._display.say(line)

    def _progress(self, elements: dict[Slot, Element]) -> None:
        phases: Counter[str] = Counter()
        for place, element in elements.items():
            if element.phase != "ended":
                phases[element.phase] += sum(1 for _ in self._labels(place))
        failed = sum(outcome.error is not None for outcome in self._final.values())
        line = (
            f"{phases['queued']} queued, {phases['running']} running, "
            f"{len(self._final) - failed} done, {failed} failed"
        )
        self._display.doing(line)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _TOLD_S
            self._once(line)


class Fleet:
    """Does pieces of work in a cluster's jobs; a `workbench.session.runners.Runner`.

    The project's root is at the same path on all nodes.

    Raises:
        UsageError: wrong settings, with their line.
        MissingError: no Slurm, or no submitit.
    """

    def __init__(self, project: Project, study: Study, display: Display) -> None:
        self.settings: SlurmSettings = read_settings(project)
        self.seed = 0
        self._project = project
        self._study = study
        self._display = display
        self._queue = SlurmQueue(self.settings)

    @property
    def _where(self) -> str:
        settings = self.settings
        return "|".join((settings.partition, settings.constraint, settings.gres))

    @property
    def devices(self) -> Sequence[str]:
        """Slugs of the devices that jobs of these settings were given so far."""
        return known_devices(self._project.root, self._where)

    def run(self, task: Task[R], pieces: Sequence[Combination], tell: Tell[R]) -> None:
        """Have pieces done, and wait; join an earlier dispatch of them. `tell` gets results.

        Raises:
            BusyError: another command waits for the same pieces.
            MissingError: Slurm refuses the jobs.
        """
        dispatch = self._open(task)
        task = dispatch.order.read(task)
        self.seed = task.run.seed or 0
        with dispatch.watched():
            there = dispatch.pieces if (dispatch.folder / "pieces.json").exists() else []
            self._drop_stale(dispatch, there)
            wanted = {piece.key: piece for piece in pieces}
            dispatch.add([key for key in wanted if key not in there])
            faults, devices, notes = 0, set[str](), set[str]()

            def one(outcome: PieceOutcome) -> None:
                nonlocal faults
                faults += outcome.error is not None
                for note in outcome.notes:
                    if note not in notes:
                        notes.add(note)
                        self._display.say(note)
                for data in outcome.found:
                    found: R = unpacked(data, task.result)
                    timing = getattr(found, "timing", found)
                    devices.update([timing.device.slug] if isinstance(timing, Timing) else [])
                    if outcome.key in wanted:
                        tell(wanted[outcome.key], found)
                if outcome.error is not None and outcome.key in wanted:
                    tell(wanted[outcome.key], outcome.error)

            watch = Watch(dispatch, task, self._queue, self.settings, self._display, one)
            try:
                watch.run()
            except (KeyboardInterrupt, SystemExit):
                self._display.say(
                    "The jobs go on without this command. The same command, run again, rejoins "
                    "them; `workbench list jobs` shows them, and `workbench list jobs "
                    f"{dispatch.name} --cancel` ends them."
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

    def _open(self, task: Task[Any]) -> Dispatch:
        """The dispatch of an earlier command for the same task, or a new one."""
        for dispatch in dispatches(self._project.root):
            if dispatch.order.is_for(self._study.name, task):
                if not dispatch.closed:
                    self._display.say(f"joining {dispatch.name}, which an earlier command has sent")
                    return dispatch
                dispatch.remove()  # its errors were reported
        seed = fresh_seed() if task.run.seed is None else task.run.seed
        task = replace(task, run=replace(task.run, seed=seed))
        words = shlex.join(["workbench", *sys.argv[1:]])
        return begin(self._project.root, JobOrder.of(task, self._study.name, words, now()))

    def _drop_stale(self, dispatch: Dispatch, keys: Sequence[Key]) -> None:
        """Delete outcomes of versions that were edited since."""
        for number, (version, _) in enumerate(keys):
            outcome = dispatch.outcome(number)
            known = self._study.versions.get(version)
            if outcome is None or known is None or not outcome.source_hash:
                continue
            if outcome.source_hash != source_hash(self._project, known):
                dispatch.reopen(number)


def standing(dispatch: Dispatch, queue: SlurmQueue) -> Standing:
    """Count the pieces of a dispatch without changing it."""
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
            counts["failed" if outcome.error else "done"] += 1
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


def cancel(dispatch: Dispatch, queue: SlurmQueue) -> None:
    """End a dispatch's jobs and delete it; results that are already stored stay."""
    queue.cancel([array.name for array in dispatch.arrays])
    dispatch.remove()


#: For ``--on slurm``.
runner = Fleet
