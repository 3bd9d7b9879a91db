"""The progress of a command, on standard error."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Literal

import click

from workbench.language import _, told
from workbench.units import factor, quantity
from workbench.views.text.safe_output import quoted, say, visible

if TYPE_CHECKING:
    from rich.progress import Progress as ProgressBar
    from rich.progress import TaskID

    from workbench.model import Timing


class Progress:
    """Lines of progress; on a terminal also a line that is overwritten, or a bar below them."""

    def __init__(self) -> None:
        self._open = False
        self._far = ""
        self._bar: tuple[ProgressBar, TaskID] | None = None

    def say(self, line: str) -> None:
        """Print a line that stays, above the bar if there is one."""
        if self._bar is not None:
            self._bar[0].console.print(quoted(told(line)), markup=False, soft_wrap=True)
            return
        self.clear()
        say(line, err=True)

    def answer(self, line: str) -> None:
        """Print a line on standard output."""
        self.clear()
        say(line)

    def clear(self) -> None:
        """Erase the line that is overwritten, if there is one."""
        if self._open:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._open = False

    def doing(self, text: str) -> None:
        """Show a line that the next one replaces; nothing without a terminal."""
        text = visible(told(text))
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, description=text)
        elif sys.stderr.isatty():
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)
            self._open = True

    @contextlib.contextmanager
    def slowly(self, what: str) -> Iterator[None]:
        """On a terminal, show the operation, its time and its progress after the first second."""
        seconds = 0

        def tell(*_: object) -> None:
            nonlocal seconds
            seconds += 1
            # The signal may arrive during a write to the stream; this must not cause a failure.
            with contextlib.suppress(RuntimeError, OSError, ValueError):
                self.doing(f"{told(what)} … {seconds} s{self._far}")

        # No thread: a process that forks (to write pages) must not have one.
        alone = not hasattr(signal, "setitimer") or current_thread() is not main_thread()
        if alone or not sys.stderr.isatty():
            yield
            return
        before = signal.signal(signal.SIGALRM, tell)
        signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
            self.clear()

    def count(self, done: int, planned: int) -> None:
        """Set the progress of the operation in `slowly`."""
        self._far = f", {done}/{planned}"

    @contextlib.contextmanager
    def counting(self, total: int) -> Iterator[None]:
        """On a terminal, show a bar up to `total` below the lines, with the remaining time."""
        if not sys.stderr.isatty():
            yield
            return
        from rich import progress
        from rich.console import Console

        bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False, emoji=False),
            transient=True,
        )
        with bar:
            self._bar = bar, bar.add_task("", total=total)
            try:
                yield
            finally:
                self._bar = None

    def done(self, count: int) -> None:
        """Show the number of finished pieces in the bar."""
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=count)

    def prepare(self) -> None:
        """Load the modules for tables: importing them takes as long as the start."""
        import workbench.views.terminal.tables  # noqa: F401

    def timing(self, place: str, timing: Timing, work: Literal["flop", "op"]) -> None:
        """A result in one line: ``[1/6] v2 n1024: 437 µs, 4.92 TFLOP/s, 0.146× cublas``."""
        from workbench.analysis.limits.roofline import rate, rate_unit

        unit = rate_unit([timing], work)
        parts = [quantity(timing.time.value, "s")]
        if (speed := rate(timing, unit)) is not None:
            parts.append(quantity(speed, unit))
        if timing.ratio is not None:
            parts.append(f"{factor(timing.ratio.value)} {timing.baseline}")
        if not timing.converged:
            parts.append(_("not converged"))
        self.say(f"{place} {timing.version} {timing.problem}: {_(', ').join(parts)}")
