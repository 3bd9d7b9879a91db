"""``workbench run``: an unmodified CUDA program on the CPU, checked and counted."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from workbench.commands.options import format_option
from workbench.engines.emulated.chips import chips
from workbench.errors import UsageError
from workbench.programs.capture.capture_store import check_name, find_shelf
from workbench.programs.capture.counted import counted_capture, keep_counted
from workbench.programs.cli.behind import Launching, progress_of, run_timeout
from workbench.programs.documents import RunDocument
from workbench.programs.shown.ran import run_sheet, workflow_commands
from workbench.programs.shown.sheets import program_sheet
from workbench.programs.standin.running import Program, ProgramOutcome, run_program
from workbench.views.shapes import shaped
from workbench.views.sheets import Sheet
from workbench.views.terminal.tables import print_sheet
from workbench.views.text.safe_output import write

_SOURCE = ".cu"
_say = progress_of("run")


@click.command(
    cls=Launching,
    epilog="workbench run v0.cu · workbench run v0 v0.cu -- 1024 · workbench run -- make test",
)
@click.argument("words", metavar="[NAME] [FILE.cu]", nargs=-1)
@click.option("--flags", default="", metavar="FLAGS", help="More nvcc flags for FILE.cu.")
@click.option(
    "--check/--no-check",
    default=True,
    help="Look for races and reads of unwritten memory (on by default; slower).",
)
@click.option(
    "--chip",
    type=click.Choice(chips()),
    default=chips()[0],
    show_default=True,
    help="The GPU that the program sees.",
)
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="End after N million thread instructions.",
)
@run_timeout
@format_option
def command(
    words: tuple[str, ...],
    flags: str,
    check: bool,
    chip: str,
    budget: float | None,
    timeout_s: float | None,
    format_: str,
) -> None:
    """Run a CUDA program without a GPU: check its kernels, and count what they do.

    The program is FILE.cu, which is compiled, with the arguments after --; or the
    COMMAND after --, which may also build it (make, cmake --build, ctest). It runs with your
    permissions, as it does without workbench. With NAME the run is kept as a capture: `show @NAME`,
    `diff @v0 @v1`. The exit code is the program's own, or 4 if a kernel has a fault.
    """
    program: tuple[str, ...] = click.get_current_context().obj["program"]
    name, source = _named(words)
    if name is not None:
        check_name(name)
    if source is None and not program:
        raise UsageError(
            "no program to run was given",
            "A source: `workbench run v0.cu`. A command: `workbench run -- ./program`.",
        )
    wanted = Program(
        folder=Path.cwd(),
        command=() if source is not None else program,
        source=source,
        arguments=program if source is not None else (),
        flags=tuple(shlex.split(flags)),
        check=check,
        timeout_s=timeout_s,
        budget=budget * 1e6 if budget is not None else None,
        chip=chip,
        quiet_output=format_ != "table",
    )
    _say("no GPU is used; the program runs here with your permissions (`workbench docs run`)")
    run = run_program(wanted, _say)
    _show(run, name, format_)
    if name is not None:
        taken = keep_counted(run.counted, find_shelf(), name)
        _say(f"kept @{taken.capture.name}: `workbench show @{taken.capture.name}`")
    if run.exit_code:
        click.get_current_context().exit(run.exit_code)


def _named(words: Sequence[str]) -> tuple[str | None, Path | None]:
    """The capture's name and the source; both are optional."""
    sources = [word for word in words if word.endswith(_SOURCE)]
    names = [word for word in words if not word.endswith(_SOURCE)]
    if len(sources) > 1 or len(names) > 1:
        raise UsageError(
            f"{' '.join(words)}: at most one name and one source",
            "Write `workbench run v0 v0.cu`; the program's own arguments follow --.",
        )
    source = Path(sources[0]) if sources else None
    if source is not None and not source.is_file():
        raise UsageError(f"{source} does not exist", "Check the path.")
    return (names[0] if names else None), source


def _show(run: ProgramOutcome, name: str | None, format_: str) -> None:
    """Print one screen, or the document; on a GitHub runner, annotations as well."""
    kernels: Sheet | None = None
    if run.counted.launches:
        capture, detail = counted_capture(run.counted, name or "run")
        kernels = program_sheet(capture, detail)
    document = shaped(run, RunDocument, program=None if kernels is None else kernels.document)
    print_sheet(run_sheet(document, kernels), format_)
    if os.environ.get("GITHUB_ACTIONS") and format_ == "table":
        write(workflow_commands(document.faults, Path.cwd()), commands=True)
