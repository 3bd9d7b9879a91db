"""Commands followed by ``-- PROGRAM ARGS``: parsing and help."""

from __future__ import annotations

import click

from workbench.commands.options import Behind
from workbench.engines import Say
from workbench.errors import UsageError
from workbench.views.text.safe_output import say

#: Option for the time limit of each run.
run_timeout = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="End a run that takes longer (default: no limit).",
)

_BEFORE_DASHES = {"run": "v0", "capture": "before", "new": "--from-launch @before::softmax"}


class Launching(Behind):
    """A command that starts the program after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say where the program belongs, if its arguments were taken for the command's own."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "--" in args or isinstance(error, click.MissingParameter):
                raise
            raise UsageError(error.format_message(), _behind(ctx)) from error

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add the program to the usage line."""
        return [*super().collect_usage_pieces(ctx)[:-1], "-- COMMAND"]


def _behind(ctx: click.Context) -> str:
    words = f"{ctx.info_name} {_BEFORE_DASHES[ctx.info_name or '']}"
    return f"Write the command after --, as in `workbench {words} -- python bench.py`."


def progress_of(command: str) -> Say:
    """Print lines of progress; standard output is the program's."""
    return lambda line: say(line, err=True, head=f"{command}: ")


def program_behind() -> tuple[str, ...]:
    """The program after ``--``; raises an error without one."""
    ctx = click.get_current_context()
    program: tuple[str, ...] = ctx.obj["program"]
    if not program:
        raise UsageError("no command to run was given", _behind(ctx))
    return program
