"""Click options that several commands share, so that they read and behave alike."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "json", "csv", "markdown")


def study_option(function: F) -> F:
    """``--study``: the study of versions that are written without one."""
    return click.option(
        "--study",
        metavar="NAME",
        help="Study of versions written without one (default: the project's default_study).",
    )(function)


def problem_option(function: F) -> F:
    """``--problem``: a named size of the study."""
    return click.option(
        "--problem", metavar="NAME", help="Problem (default: the study's first profiled one)."
    )(function)


def device_option(function: F) -> F:
    """``--device``: whose recorded profiles."""
    return click.option(
        "--device",
        metavar="NAME",
        help="Device whose profiles are meant (default: the one with the newest profile).",
    )(function)


def engine_option(function: F) -> F:
    """``--engine``: ncu or emulator."""
    return click.option(
        "--engine",
        type=click.Choice(["ncu", "emulator"]),
        help="Engine whose profiles are meant (default: ncu where there is one).",
    )(function)


def selection_options(function: Callable[..., None]) -> Callable[..., None]:
    """``--problem``, ``--study``, ``--device``, ``--engine``, as one `Selection`: ``selection``."""

    @functools.wraps(function)
    def command(
        *,
        problem: str | None,
        study: str | None,
        device: str | None,
        engine: str | None,
        **others: Any,
    ) -> None:
        from workbench.commands.targets import Selection

        selection = Selection(study=study, problem=problem, device=device, engine=engine)
        function(selection=selection, **others)

    # click lists options in the order of their decorators: the last applied comes first.
    for option in (engine_option, device_option, study_option, problem_option):
        command = option(command)
    return command


def format_option(function: F) -> F:
    """``--format``: how to print the answer."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print the answer.",
    )(function)


def force_option(function: F) -> F:
    """``--force``: compare what is not comparable."""
    return click.option(
        "--force", is_flag=True, help="Compare what is not comparable; the answer says so."
    )(function)


def all_option(function: F) -> F:
    """``--all``: every counter instead of the telling ones."""
    return click.option("--all", "all_", is_flag=True, help="Show every counter of the catalog.")(
        function
    )
