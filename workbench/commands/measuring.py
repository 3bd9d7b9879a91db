"""What verify, time and profile share: options, and versions from the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from workbench.engines.client import Where
    from workbench.experiment import Experiment
    from workbench.model import Version
    from workbench.project import Project
    from workbench.study import Study

F = TypeVar("F", bound=Callable[..., Any])


def machine_options(function: F) -> F:
    """``--launcher``, ``--arch``, ``--timeout``, ``--seed``: where and how a version runs."""
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
            help="End a run and all its processes after this long.",
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
        function = option(function)
    return function


def every_option(function: F) -> F:
    """``--all``: every version of the study instead of naming them."""
    return click.option("--all", "every", is_flag=True, help="Every version of the study.")(
        function
    )


def say(line: str) -> None:
    """A line of progress, on standard error."""
    click.echo(line, err=True)


def pick(
    targets: tuple[str, ...], every: bool, study: str | None
) -> tuple[Project, Study, list[Version]]:
    """The project, the study and the versions that a command line means.

    Raises:
        UsageError: no version named, versions of several studies, an unknown name.
    """
    from workbench.errors import UsageError
    from workbench.project import require_project
    from workbench.study import load_study, parse_target

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


def experiment(project: Project, study: Study, where: Where, seed: int | None) -> Experiment:
    """An experiment that reports its progress on standard error."""
    from workbench.experiment import Experiment

    return Experiment(project, study, where, seed=seed, say=say)
