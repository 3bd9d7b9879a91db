"""``workbench capture``: survey and profile any program, and keep it under a name."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict, replace

from workbench import units
from workbench.commands.options import folded
from workbench.engines.host.presence import find_gpus
from workbench.errors import KernelError, ProgramError, UsageError
from workbench.programs.capture.capture_store import Shelf, check_name, find_shelf
from workbench.programs.capture.counted import keep_counted
from workbench.programs.capture.launch_choice import Wish, seen_in
from workbench.programs.capture.survey import Invocation
from workbench.programs.capture.taking import Order, Taken, build_command, checked_out, take
from workbench.programs.cli.behind import Launching, program_behind, progress_of, run_timeout
from workbench.programs.recalled import open_capture
from workbench.programs.standin import running
from workbench.project import find_project

_say = progress_of("capture")
_wish_options = folded(
    "wish",
    Wish,
    click.option("--kernel", metavar="RE", help="Profile only kernels whose name matches RE."),
    click.option(
        "--top",
        type=click.IntRange(1),
        metavar="N",
        help="Profile the N kernels with the most time (default: 5, or fewer that make up 90%).",
    ),
    click.option(
        "--launches",
        type=click.IntRange(1),
        default=3,
        show_default=True,
        metavar="N",
        help="Profile N launches of each, chosen to cover their durations.",
    ),
    click.option(
        "--nvtx",
        metavar="RANGE",
        help="Capture only launches inside this NVTX range, written as for ncu.",
    ),
    click.option(
        "--rank",
        type=click.IntRange(0),
        metavar="N",
        help="With torchrun, mpirun or srun: profile this rank (default: the busiest).",
    ),
)


@click.command(cls=Launching)
@click.argument("name", required=False)
@_wish_options
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Survey N runs, for a confidence interval of the time.",
)
@click.option(
    "--like",
    metavar="@NAME",
    help="Also profile the kernels and launch configurations that this capture profiled.",
)
@click.option(
    "--source", metavar="DIR|REV", help="The source files (default: those of the working tree)."
)
@click.option(
    "--at", "revision", metavar="REV", help="Capture this Git revision, in a worktree of its own."
)
@click.option(
    "--survey",
    type=click.Choice(["auto", "trace", "ncu"]),
    default="auto",
    show_default=True,
    help="How to time all launches: by tracing, or by ncu with one metric (slow).",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "ncu", "emulator"]),
    default="auto",
    show_default=True,
    help="ncu needs a GPU; the emulator runs the program without one, and gives only counts.",
)
@click.option("--no-detail", is_flag=True, help="Only the survey: no run under ncu.")
@run_timeout
def command(name: str | None, wish: Wish, **given: Any) -> None:
    """Capture the program COMMAND as @NAME: its kernels, and counters for the slowest.

    COMMAND runs unchanged, twice: under a tracer, and under ncu. Without a GPU it runs once, in
    the emulator (`workbench run` checks it as well). Without NAME the capture is named after the
    Git commit (and the uncommitted change on top of it). To compare two:
    `workbench diff @before @after`, `workbench diff @HEAD~1 @HEAD`.
    """
    program = program_behind()
    if name is not None:
        check_name(name)
    emulated = given["engine"] == "emulator" or (given["engine"] == "auto" and not find_gpus()[0])
    if emulated:
        _refuse(wish, given)
    shelf = find_shelf()
    first = not shelf.folder.is_dir()
    if given["like"] is not None:
        other = open_capture(shelf, given["like"])
        wish = replace(wish, like=seen_in(other.capture, other.detail))
    project = find_project()
    invocation = Invocation(
        command=program,
        folder=Path.cwd(),
        repeat=given["repeat"],
        timeout_s=given["timeout_s"],
    )
    with contextlib.ExitStack() as held:
        if given["revision"] is not None:
            build = build_command(project.settings if project is not None else {})
            invocation = held.enter_context(checked_out(invocation, given["revision"], build, _say))
        order = Order(
            invocation=invocation,
            wish=wish,
            name=name,
            source=given["source"],
            survey=given["survey"],
            detailed=not given["no_detail"],
        )
        taken = _emulated(order, shelf) if emulated else take(order, shelf, _say)
    _tell(taken, shelf.root if first else None)
    if taken.broken:
        raise KernelError(
            taken.broken.removeprefix("Only the survey was taken: "),
            f"The survey is kept as @{taken.capture.name}.",
        )


def _refuse(wish: Wish, given: dict[str, Any]) -> None:
    """Refuse options that mean nothing to the emulator."""
    asked = {f"--{name}": value for name, value in asdict(wish).items()}
    asked |= {f"--{name}": given[name] for name in ("repeat", "survey")}
    asked |= {"--like": given["like"], "--no-detail": given["no_detail"]}
    usual = {"--launches": Wish().launches, "--repeat": 1, "--survey": "auto", "--no-detail": False}
    for option, value in asked.items():
        if value and value != usual.get(option):
            raise UsageError(
                f"{option} does not apply to the emulator, which counts every launch",
                "Leave it out, or capture where there is a GPU (--engine ncu).",
            )


def _emulated(order: Order, shelf: Shelf) -> Taken:
    """Run the program in the emulator and keep what it counts.

    Raises:
        ProgramError: the program failed by itself.
        KernelError: it did not end in time.
    """
    asked = order.invocation
    program = running.Program(
        folder=asked.folder, command=asked.command, check=False, timeout_s=asked.timeout_s
    )
    run = running.run_program(program, _say)
    if run.code:
        raise ProgramError(
            f"the program ended with exit code {run.code}", "Nothing was kept.", run.code
        )
    if run.stopped:
        raise KernelError(
            f"the program did not run to its end: {run.stopped}",
            "Nothing was kept. Give it more time with --timeout.",
        )
    taken = keep_counted(run.counted, shelf, order.name, order.source)
    if not run.faults:
        return taken
    faults = units.several(len(run.faults), "fault")
    return replace(taken, broken=f"{faults} in its kernels; `workbench run` says where")


def _tell(taken: Taken, first: Path | None) -> None:
    """Print the kept captures and the next commands."""
    capture = taken.capture
    survey = capture.survey
    kernels = units.several(sum(work.kind == "kernel" for work in survey.works), "kernel")
    launches = units.several(survey.launches, "launch", "launches")
    how = "counted by the emulator"
    if survey.timed:
        total = sum(survey.totals) / len(survey.runs) * 1e-9
        how = f"{units.quantity(total, 's')} on the GPU"
        how += f", {len(capture.detail)} of them profiled" if capture.detail else ""
    done = "replaced" if taken.replaced else "kept"
    _say(f"{done} @{capture.name}: {launches} of {kernels}, {how}")
    for notice in capture.notices:
        _say(f"note: [{notice.code}] {notice.message}")
    if first is not None:
        _say(f"captures are kept in {first / '.workbench'}; for .gitignore: /.workbench/")
    _say(f"next: `workbench show @{capture.name}`, `workbench diff @OLD @{capture.name}`")
