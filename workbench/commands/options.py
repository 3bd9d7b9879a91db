"""Click options that several commands share, so that they read and behave alike.

Options that belong together reach a command as one record (`folded`).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from workbench import language
from workbench.errors import KernelError, UsageError
from workbench.features import FEATURES, PLACES
from workbench.session.workspace import Places, Selection
from workbench.views.text.safe_output import say

if TYPE_CHECKING:
    from workbench.engines import RunOptions
    from workbench.engines.host.job import TimeOptions
    from workbench.session.targets import Named

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

FORMATS = ("table", "json", "csv", "markdown")
#: Formats that programs read: they are the same in every language.
_OF_PROGRAMS = ("json", "csv", "junit", "parquet")


def speak_for(*formats: str) -> None:
    """From here on, speak English where a program reads one of the formats."""
    if not set(_OF_PROGRAMS).isdisjoint(formats):
        language.use("en")


def format_chosen(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """The value of ``--format``; sets the language of its reader."""
    speak_for(value)
    return value


def folded(name: str, make: Callable[..., object], *options: Decorator) -> Decorator:
    """Options whose values reach the command as one record.

    `make` makes the record from the values, when the command runs. `options` are as `click.option`
    gives them, in the order of the help.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(**given: Any) -> None:
            record = make(**{own: given.pop(own) for own in owned})
            function(**{name: record}, **given)

        # click lists options in the order of their decorators: the last applied comes first.
        others = len(getattr(command, "__click_params__", ()))
        applied: Any = command
        for option in reversed(options):
            applied = option(applied)
        owned = [parameter.name for parameter in applied.__click_params__[others:]]
        return command

    return decorate


def moved(ctx: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    """Note, once, that a target replaces the option."""
    if value and not (ctx.meta.get(__name__) or ctx.find_root().params.get("json_errors")):
        ctx.meta[__name__] = value
        say(
            "note: instead of --study, --version, --problem, --device use sgemm/v3:n4096@h200",
            err=True,
        )
    return value


#: Options of the last release, which a target replaces.
study_option, version_option, problem_option, device_option = (
    click.option(f"--{name}", hidden=True, callback=moved)
    for name in ("study", "version", "problem", "device")
)
problems_option = click.option("--problem", "problems", multiple=True, hidden=True, callback=moved)
engine_option = click.option(
    "--engine",
    type=click.Choice(["ncu", "emulator"]),
    help="Use the profiles of this engine (default: ncu, if there are any).",
)
languages_option = click.option(
    "--lang",
    "languages",
    type=click.Choice(("en", "zh", "en,zh")),
    callback=lambda _ctx, _parameter, value: tuple(value.split(",")) if value else (),
    help="Language of the pages; en,zh: both, the Chinese ones in the folder zh. By default a "
    "report keeps the languages that it has, or gets that of the output.",
)

format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    callback=format_chosen,
    default="table",
    show_default=True,
    help="Output format.",
)
force_option = click.option(
    "--force", is_flag=True, help="Compare even if not comparable; the output says so."
)
all_option = click.option("--all", "all_", is_flag=True, help="Show every counter of the catalog.")
instruction_limit_option = click.option(
    "--instruction-limit",
    "limit",
    type=click.IntRange(1),
    metavar="N",
    help="Emulator: end a kernel after N instructions of one thread (default: 4 million).",
)


launch_option = click.option(
    "--launch",
    type=click.IntRange(1),
    metavar="N",
    help="Only the N-th launch of each profile, counted from 1.",
)


#: The recorded profiles to use: a `Selection`.
moved_options = (problem_option, study_option, device_option)
_selection = (*moved_options, engine_option)
selection_options = folded("selection", Selection, *_selection)
#: The same, and the choice of a launch.
launch_selection_options = folded("selection", Selection, *_selection, launch_option)


_source_option = click.option(
    "--source",
    metavar="DIR|REV",
    help="Source files that a report names but does not contain: a folder or a Git revision.",
)
#: The places of one report's sources: `workbench.session.workspace.Places`.
source_options = folded("places", Places, _source_option)
#: The same for two reports.
two_source_options = folded(
    "places",
    Places,
    _source_option,
    click.option("--source-old", metavar="DIR|REV", help="The same, for OLD only."),
    click.option("--source-new", metavar="DIR|REV", help="The same, for NEW only."),
)


class Detail(NamedTuple):
    """Detail of a comparison: also the machine code of hunks, or only the memory chart."""

    sass: bool
    memory: bool


memory_option = click.option(
    "--memory",
    is_flag=True,
    help="Show only the flows between the levels of memory, with hit rates and shares of peak.",
)
detail_options = folded(
    "detail",
    Detail,
    click.option(
        "--sass",
        is_flag=True,
        help="Show every hunk's machine code on both sides (terminal, JSON).",
    ),
    memory_option,
)


def _named(**given: Any) -> Named:
    from workbench.project import find_project
    from workbench.session.targets import Named

    return Named.of(find_project(), Named(**given))


#: The versions and the problem to use: a `Named`.
named_options = folded(
    "named",
    _named,
    click.argument("versions", nargs=-1, metavar="[STUDY | VERSION][:PROBLEM]..."),
    click.option("--all", "every", is_flag=True, help="Every version of the study."),
    study_option,
    problem_option,
)


def _run_options(**given: Any) -> RunOptions:
    from workbench.engines import RunOptions

    places = [f"--{name}" for name in ("launcher", "gpus", "on") if given.get(name)]
    if len(places) > 1:
        raise UsageError(
            f"{' and '.join(places)} cannot be used together",
            "Each says where the work runs: use only one of them.",
        )
    seconds, on = given.pop("timeout_s"), given.pop("on", None) or ""
    return RunOptions(**given, on=on).within(seconds)


#: Seconds for a command to finish its output after its time limit.
_LAST_WORDS_S = 5.0


def _in_time(options: Decorator) -> Decorator:
    """The same options, for a command that ends when its ``--timeout`` is over."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(run: RunOptions, **given: Any) -> None:
            def error() -> KernelError:
                return KernelError(
                    f"the command did not end within {run.limit}, and was stopped",
                    "Finished work is kept; raise --timeout to allow more.",
                )

            with contextlib.ExitStack() as held:
                if run.limit.end is not None:
                    held.enter_context(run.limit.kept(error, _LAST_WORDS_S))
                function(run=run, **given)

        return options(command)

    return decorate


_RUN = (
    click.option(
        "--launcher",
        default="",
        metavar="COMMAND",
        help='Run every command through this launcher, e.g. "srun --gres=gpu:1".',
    ),
    click.option(
        "--arch",
        default="",
        metavar="sm_XY",
        help="Compile for this architecture (default: the GPU's).",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(1.0, 1e9),
        metavar="SECONDS",
        help="Stop after this time, compiling included (default: 300 s to compile a version and "
        "300 s on each problem; with --on, this sets those).",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**32 - 1),
        help="Seed of the inputs (default: a new one; of profile, the newest profile's).",
    ),
)
#: The places to which a feature can send the work.
_on_option = (
    (
        click.option(
            "--on",
            type=click.Choice(list(PLACES)),
            help="Send the work to a cluster as one array of jobs, and wait for it.",
        ),
    )
    if PLACES
    else ()
)
_gpus_option = click.option(
    "--gpus",
    default="",
    metavar="all|0,2",
    help="Share the work among these GPUs of this host, one measurement per GPU.",
)
#: Where and how versions run: `workbench.engines.RunOptions`.
run_options = _in_time(folded("run", _run_options, *_RUN, *_on_option))
#: The same, for work that several GPUs can share.
shared_run_options = _in_time(folded("run", _run_options, *_RUN, _gpus_option, *_on_option))


def _time_options(warm: bool, limit_s: float) -> TimeOptions:
    from workbench.engines.host.job import TimeOptions

    return TimeOptions(cache="warm" if warm else "cold", limit_s=limit_s)


#: How long to measure, and the state of the caches: a `TimeOptions`.
time_options = folded(
    "sampling",
    _time_options,
    click.option(
        "--warm", is_flag=True, help="Leave the buffers in the caches between executions."
    ),
    click.option(
        "--limit",
        "limit_s",
        type=click.FloatRange(0.1),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Stop sampling after this time, converged or not.",
    ),
)


class Stored(NamedTuple):
    """The choice of stored times: none (`again`), or those that are not older than `since`."""

    again: bool | None
    since: str


def _stored(again: bool | None, since: str) -> Stored:
    """The choice; refuses a time that cannot be compared with those of records."""
    if since and not re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?Z?)?", since):
        raise UsageError(
            f"--since {since} is not a time", "Write it like 2026-11-21T10:30:00Z (UTC)."
        )
    if again and since:
        raise UsageError("--again and --since cannot be used together", "Use only one of them.")
    return Stored(again, since)


def stored_options(default: bool | None, again_help: str) -> Decorator:
    """``--again/--resume`` and ``--since``, as one `Stored`: ``stored``."""
    return folded(
        "stored",
        _stored,
        click.option("--again/--resume", default=default, help=again_help),
        click.option(
            "--since",
            default="",
            metavar="TIME",
            help="Repeat measurements that were stored before this time (UTC).",
        ),
    )


class Above(click.Command):
    """A command with subcommands that features add, like ``serve mcp`` below ``serve``."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands after the options."""
        super().format_options(ctx, formatter)
        every = [row for each in FEATURES for row in each.commands.items()]
        head = f"{ctx.info_name} "
        if below := [(x.removeprefix(head), text) for x, (_, text) in every if x.startswith(head)]:
            with formatter.section("Commands"):
                formatter.write_dl(below)


class Behind(click.Command):
    """A command followed by ``-- PROGRAM ARGS``; PROGRAM's arguments are not parsed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Separate the program before the options are parsed."""
        at = args.index("--") if "--" in args else len(args)
        ctx.obj = {**(ctx.obj or {}), "program": tuple(args[at + 1 :])}
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add the program to the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGS]"]
