"""Measuring many combinations: what `workbench sweep` and `workbench time` share.

What is stored of the same sources is taken from there where asked for, the rest is
measured in as few worker processes as faults allow, and each time is stored as it comes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from workbench.commands.measuring import Failures, Progress, pass_over

if TYPE_CHECKING:
    from workbench.engines.host.job import TimeOptions
    from workbench.errors import WorkbenchError
    from workbench.measure.experiment import Experiment, Subject
    from workbench.measure.plan import Combination, Gap, Key
    from workbench.model import Timing, Version


class Shown(Protocol):
    """How a campaign shows how far it is."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def step(self, text: str) -> None:
        """What is being done now."""

    def done(self, count: int) -> None:
        """How many combinations are done."""


class Lines(AbstractContextManager["Lines"]):
    """Plain lines on standard error, where there is no terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def say(self, line: str) -> None:
        """Print it."""
        self._progress.say(line)

    def step(self, text: str) -> None:
        """Nothing: a line for each result says enough."""

    def done(self, count: int) -> None:
        """Nothing, for the same reason."""

    def __exit__(self, *_: object) -> None:
        """Nothing is left open."""


class Bar(AbstractContextManager["Bar"]):
    """A bar below the lines, with the time that is left; on a terminal."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False, emoji=False),
            transient=True,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """Above the bar."""
        self._bar.console.print(line, markup=False, soft_wrap=True)

    def step(self, text: str) -> None:
        """Beside the bar."""
        self._bar.update(self._task, description=text)

    def done(self, count: int) -> None:
        """In the bar."""
        self._bar.update(self._task, completed=count)


class Campaign:
    """One run over combinations of one study.

    Attributes:
        timings: What was measured or taken from the store.
        gaps: Why there is none of a combination: its library is not here, or it failed.
        taken: How many timings came from the store.
    """

    def __init__(
        self,
        runner: Experiment,
        options: TimeOptions,
        *,
        every: bool,
        progress: Progress,
        failures: Failures,
    ) -> None:
        self.timings: dict[Key, Timing] = {}
        self.gaps: dict[Key, Gap] = {}
        self.taken = 0
        self._runner = runner
        self._options = options
        self._every = every
        self._shown: Shown = Lines(progress)
        self._progress = progress
        self._failures = failures
        self._told: set[tuple[str, str]] = set()

    # --- what is there already -------------------------------------------------------

    def take(self, combinations: Sequence[Combination], since: str = "") -> None:
        """Take from the store what still holds, and say how many that are.

        Raises:
            DataError: a stored time is damaged.
            KernelError, MissingError: the launcher leads to no GPU.
        """
        from workbench.measure.plan import recorded
        from workbench.store import Store

        runner = self._runner
        if not Store(runner.project.profiles).timings(study=runner.study.name):
            return
        device = self._device()
        found = recorded(
            runner.project,
            runner.study,
            [each.key for each in combinations],
            device,
            self._options.cache,
            since,
        )
        self.timings |= found.current
        self.taken = len(found.current)
        if self.taken:
            again = sum(each.key in found.stale for each in combinations)
            old = f"; {again} stored ones do not hold any more" if again else ""
            self._progress.say(
                f"{self.taken} of {len(combinations)} are taken from the store"
                f" ({device}, same sources){old}; --again measures all"
            )

    def _device(self) -> str:
        from workbench.engines.host import presence
        from workbench.engines.host.client import describe
        from workbench.store import device_slug

        where = self._runner.where
        if where.launcher:
            return describe(self._runner.project, where).slug
        return device_slug(presence.need_gpu().name)

    # --- measuring ---------------------------------------------------------------------

    def measure(self, combinations: Sequence[Combination]) -> None:
        """Measure what is not there yet; every time is stored as it comes.

        Raises:
            MissingError: no worker can run here.
            WorkbenchError: the error of a single combination, where failures are to be
                raised as they are.
        """
        todo = [each for each in combinations if each.key not in self.timings]
        subjects = self._subjects(todo)
        if not subjects:
            return
        total = len(subjects)
        count = 0

        def begin(subject: Subject) -> None:
            self._shown.step(f"{subject.version.id} {subject.problem.name}")

        def tell(subject: Subject, outcome: Timing | WorkbenchError) -> None:
            nonlocal count
            count += 1
            self._tell(subject, outcome, f"[{count}/{total}]" if total > 1 else "")
            self._shown.done(count)

        what = (
            f"{subjects[0].version.id} on {subjects[0].problem.name}"
            if total == 1
            else f"{total} combinations"
        )
        self._progress.say(f"time {what} ({self._options.cache} caches)")
        with Bar(total) if sys.stderr.isatty() else Lines(self._progress) as shown:
            self._shown = shown
            try:
                self._runner.time_all(subjects, self._options, tell, begin=begin)
            finally:
                self._shown = Lines(self._progress)
        self._failures.raise_alone()

    def _subjects(self, combinations: Sequence[Combination]) -> list[Subject]:
        from workbench.errors import WorkbenchError

        versions: dict[str, Version] = {each.version.id: each.version for each in combinations}
        broken = self._runner.build_all([v for v in versions.values() if v.kind == "cuda"])
        for version_id, error in broken.items():
            names = [each.problem.name for each in combinations if each.version.id == version_id]
            self._failures.add(" ".join((version_id, *names[:1])), error)
            for name in names:
                self._gap((version_id, name), "failed", error)
        self._failures.raise_alone()
        subjects = []
        for version, problem in combinations:
            if version.id in broken:
                continue
            try:
                subjects.append(self._runner.subject(version, problem))
            except WorkbenchError as error:
                self._fail((version.id, problem.name), error)
        self._failures.raise_alone()
        return subjects

    def _tell(self, subject: Subject, outcome: Timing | WorkbenchError, place: str) -> None:
        from workbench.errors import WorkbenchError

        key = subject.version.id, subject.problem.name
        if not isinstance(outcome, WorkbenchError):
            self._failures.passed()
            self.timings[key] = outcome
            if place:
                self._shown.say(f"{place} {_line(outcome, self._runner.study.work)}")
            return
        if not pass_over(subject.version, outcome, self._every):
            self._fail(key, outcome)
            return
        self._gap(key, "unavailable", outcome)
        if (subject.version.id, outcome.message) not in self._told:
            self._told.add((subject.version.id, outcome.message))
            self._shown.say(f"{subject.version.id}: passed over: {outcome.message}")

    def _fail(self, key: Key, error: WorkbenchError) -> None:
        self._gap(key, "failed", error)
        self._failures.add(" ".join(key), error, self._shown.say)

    def _gap(self, key: Key, kind: Any, error: WorkbenchError) -> None:
        from workbench.measure.plan import Gap

        self.gaps[key] = Gap(kind=kind, why=error.message.splitlines()[0])


def _line(timing: Timing, work: Literal["flop", "op"]) -> str:
    """A result in one line: ``v2 n1024: 437 µs, 4.92 TFLOP/s, 0.146× cublas``."""
    from workbench.analysis.roofline import rate, rate_unit
    from workbench.units import factor, quantity

    unit = rate_unit([timing], work)
    parts = [quantity(timing.time.value, "s")]
    if (speed := rate(timing, unit)) is not None:
        parts.append(quantity(speed, unit))
    if timing.ratio is not None:
        parts.append(f"{factor(timing.ratio.value)} {timing.baseline}")
    if not timing.converged:
        parts.append("not converged")
    return f"{timing.version} {timing.problem}: {', '.join(parts)}"
