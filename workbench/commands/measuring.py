"""What verify, time and profile share: options, and versions from the command line."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from workbench.engines.host.where import Where
    from workbench.errors import WorkbenchError
    from workbench.measure.experiment import Experiment
    from workbench.model import Version
    from workbench.project import Project
    from workbench.study.folder import Study

F = TypeVar("F", bound=Callable[..., Any])


class Machine(NamedTuple):
    """Where and how a version runs, as it was typed.

    Attributes:
        seed: Of the inputs; None: a fresh one.
        timeout_s: Time limit of a version on a problem, in seconds.
        arch: What to compile for; empty: what the GPU here needs.
        launcher: Command before every other.
    """

    seed: int | None
    timeout_s: float
    arch: str
    launcher: str

    def where(self, *, known: bool = False) -> Where:
        """Settle where to run; see `workbench.engines.host.where.choose_where`."""
        from workbench.engines.host.where import choose_where

        return choose_where(self.launcher, self.arch, self.timeout_s, known=known)


def machine_options(function: Callable[..., None]) -> Callable[..., None]:
    """``--launcher``, ``--arch``, ``--timeout``, ``--seed``, as one `Machine`: ``machine``."""

    @functools.wraps(function)
    def command(
        *, seed: int | None, timeout_s: float, arch: str, launcher: str, **others: Any
    ) -> None:
        function(machine=Machine(seed, timeout_s, arch, launcher), **others)

    for option in (
        click.option(
            "--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of the inputs (default: fresh)."
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(1.0),
            default=300.0,
            show_default=True,
            metavar="SECONDS",
            help="End a version on a problem, and all its processes, after this long.",
        ),
        click.option(
            "--arch",
            default="",
            metavar="sm_XY",
            help="Compile for this chip (default: the GPU's).",
        ),
        click.option(
            "--launcher",
            default="",
            metavar="COMMAND",
            help='Put this before every command, e.g. "srun --gres=gpu:1".',
        ),
    ):
        command = option(command)
    return command


def instruction_limit_option(function: F) -> F:
    """``--instruction-limit``: when the emulator gives a kernel up."""
    return click.option(
        "--instruction-limit",
        "limit",
        type=click.IntRange(1),
        metavar="N",
        help="Emulator: end a kernel after N instructions of one thread (default: 4 million).",
    )(function)


def every_option(function: F) -> F:
    """``--all``: every version of the study instead of naming them."""
    return click.option("--all", "every", is_flag=True, help="Every version of the study.")(
        function
    )


def warm_option(function: F) -> F:
    """``--warm``: how the caches are between two executions."""
    return click.option(
        "--warm", is_flag=True, help="Leave the buffers in the caches between executions."
    )(function)


def limit_option(function: F) -> F:
    """``--limit``: how long to sample."""
    return click.option(
        "--limit",
        "limit_s",
        type=click.FloatRange(0.1),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Sample no longer than this, converged or not.",
    )(function)


def since_option(function: F) -> F:
    """``--since``: which stored times are too old to be taken."""
    return click.option(
        "--since",
        default="",
        metavar="TIME",
        help="Measure again what was stored before this time.",
    )(function)


def check_since(since: str, again: bool | None) -> None:
    """Refuse a time that cannot be compared with those of records.

    Raises:
        UsageError: `since` is no time, or `again` says the opposite.
    """
    from workbench.errors import UsageError

    if since and not re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?Z?)?", since):
        raise UsageError(f"--since {since}: no time", "Write it like 2026-11-21T10:30:00Z (UTC).")
    if again and since:
        raise UsageError("--again and --since cannot stand together", "Leave one out.")


class Progress:
    """Progress on standard error: lines, and on a terminal one that is written over."""

    def __init__(self) -> None:
        self._open = False

    def say(self, line: str) -> None:
        """A line that stays."""
        self.clear()
        click.echo(line, err=True)

    def clear(self) -> None:
        """Take back the line that is written over, if one is open."""
        if self._open:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._open = False

    def step(self, text: str) -> None:
        """A line that the next one replaces; nothing where there is no terminal."""
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)
            self._open = True


class Failures:
    """Errors of single versions, so that the others still have their turn.

    Args:
        progress: Says each error as it comes.
        alone: There is one piece of work only: its error is raised as it is.
    """

    def __init__(self, progress: Progress, *, alone: bool) -> None:
        self._progress = progress
        self._alone = alone
        self._errors: list[tuple[str, WorkbenchError]] = []
        self._begun = 0

    @contextlib.contextmanager
    def of(self, label: str) -> Iterator[None]:
        """Keep the error of what is done in the block, under this label."""
        from workbench.errors import WorkbenchError

        try:
            yield
        except WorkbenchError as error:
            if self._alone:
                raise
            self.add(label, error)
        else:
            self.passed()

    def passed(self) -> None:
        """Count a piece of work that went well."""
        self._begun += 1

    def add(
        self, label: str, error: WorkbenchError, say: Callable[[str], None] | None = None
    ) -> None:
        """Keep an error that was caught already, and say it (on progress, or by `say`)."""
        self._begun += 1
        self._errors.append((label, error))
        if self._alone:
            return  # it will be raised, and said then
        say = say or self._progress.say
        say(f"{label}: error: {error.message}")
        if error.hint:
            say(f"  hint: {error.hint}")

    def raise_alone(self) -> None:
        """Raise the error of the one piece of work there is, as it is.

        Raises:
            WorkbenchError: it failed, and there was nothing else to do.
        """
        if self._alone and self._errors:
            raise self._errors[0][1]

    def finish(self) -> None:
        """End with the worst error's class (and exit code), if there was any.

        Raises:
            WorkbenchError: a summary that names what failed.
        """
        if not self._errors:
            return
        worst = min((error for _, error in self._errors), key=_rank)
        labels = ", ".join(dict.fromkeys(label for label, _ in self._errors))
        raise type(worst)(
            f"{len(self._errors)} of {self._begun} failed: {labels}",
            "Each error stands above with its hint; what went well is kept.",
        )


def _rank(error: WorkbenchError) -> int:
    """Which of several errors decides the exit code: a wrong kernel before all else."""
    order = (4, 5, 3, 1, 6, 2)
    return order.index(error.exit_code) if error.exit_code in order else len(order)


def pass_over(version: Version, error: WorkbenchError, every: bool) -> bool:
    """Whether an error means only that ``--all`` has named what cannot run here.

    That is a baseline whose library is not installed; and, where problems are chosen, a
    version that cannot do any of them (`workbench.commands.choosing.UnableError`).
    """
    from workbench.commands.choosing import UnableError
    from workbench.errors import MissingError

    if isinstance(error, MissingError):
        return every and version.baseline and version.kind == "python"
    return every and isinstance(error, UnableError)


def pick(
    targets: tuple[str, ...], every: bool, study: str | None
) -> tuple[Project, Study, list[Version]]:
    """The project, the study and the versions that a command line means.

    Raises:
        UsageError: no version named, versions of several studies, an unknown name.
    """
    from workbench.errors import UsageError
    from workbench.project import require_project
    from workbench.study.folder import load_study, parse_target

    project = require_project()
    default = study or project.default_study
    if every and targets:
        raise UsageError("versions and --all cannot stand together", "Leave one of them out.")
    if not targets and not every:
        raise UsageError("no version named", "Name one or more, such as v3 or sgemm/v3, or --all.")
    if every:
        if not default:
            raise UsageError("--all of which study?", "Add --study NAME.")
        loaded = load_study(project, default)
        return project, loaded, list(loaded.versions.values())
    pairs = [parse_target(target, default) for target in targets]
    names = list(dict.fromkeys(name for name, _ in pairs))
    if len(names) > 1:
        raise UsageError(
            f"versions of several studies: {', '.join(names)}", "Run the command once a study."
        )
    loaded = load_study(project, names[0])
    versions = {version.id: version for version in (loaded.version(name) for _, name in pairs)}
    return project, loaded, list(versions.values())


def experiment(
    project: Project, study: Study, where: Where, seed: int | None, progress: Progress
) -> Experiment:
    """An experiment that reports its progress on standard error."""
    from workbench.measure.experiment import Experiment

    return Experiment(project, study, where, seed=seed, say=progress.say, step=progress.step)
