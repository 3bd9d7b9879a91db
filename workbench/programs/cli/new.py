"""Options of ``workbench new`` that make a study, or a version of one, from a program."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from workbench.compile.build import compiles
from workbench.errors import UsageError
from workbench.language import _, told
from workbench.programs.capture.survey import Invocation
from workbench.programs.cli.behind import program_behind, progress_of
from workbench.programs.session import ProgramMethods
from workbench.programs.studies.brought import FromProgram, add_from_program, start_from_program
from workbench.programs.studies.lifting import Lift, lift_kernel
from workbench.project import Project, require_project
from workbench.session.workspace import is_capture
from workbench.study.folder import parse_target, view_study
from workbench.units import several
from workbench.views.text.safe_output import say

_OF_LAUNCHES = ("target", "number", "name", "limit_gib", "timeout_s")
#: The function that makes a record of the options, and the options; without any: None.
OPTIONS = (
    lambda **given: given if any(given.values()) else None,
    click.option(
        "--from-cu",
        "file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="A program in CUDA C++: it is run without a GPU, and its kernels become a study, or a "
        "VERSION of one. Its arguments follow --.",
    ),
    click.option(
        "--also",
        multiple=True,
        metavar="ARGS",
        help="With --from-cu: run it with these arguments, too, as another problem; repeatable.",
    ),
    click.option(
        "--call",
        default="",
        metavar="CALL",
        help="With --from-cu, for a file without main: call 'solve(float[1<<20], out float[1<<20], "
        "1<<20)'.",
    ),
    click.option("--flags", default="", metavar="FLAGS", help="With --from-cu: more nvcc flags."),
    click.option("--kernel", default="", help="With --from-cu: this kernel's job."),
    click.option(
        "--from-launch",
        "target",
        metavar="@CAPTURE::KERNEL[#N]",
        help="One launch of a captured program's kernel (default: the first of those that take "
        "the most time), with its data. The program follows --, and runs once more.",
    ),
    click.option("--launch", "number", type=click.IntRange(1), hidden=True),
    click.option("--as", "name", hidden=True),
    click.option(
        "--limit",
        "limit_gib",
        type=click.FloatRange(0, min_open=True, max=1024),
        metavar="GIB",
        help="With --from-launch: refuse a launch that holds more memory (default: 2).",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0.1),
        metavar="SECONDS",
        help="End a program that takes longer (default: 120 with --from-cu, else no limit).",
    ),
)


def from_program(
    project: Project,
    version: str | None,
    study: str,
    arguments: tuple[str, ...],
    alone: bool,
    **given: Any,
) -> None:
    """Make a study or a version from a program; not `alone`: other sources were named as well."""
    target, number, name, limit_gib, timeout_s = (given.pop(each, None) for each in _OF_LAUNCHES)
    if target is not None:
        if version or not alone or any(given.values()):
            raise UsageError(
                "--from-launch makes a study of one launch",
                "Write workbench new softmax --from-launch @before::softmax -- python bench.py.",
            )
        target += f"#{number}" if number else ""
        _lift(target, int((limit_gib or 2) * (1 << 30)), study or name, timeout_s)
        return
    if not given.get("file"):
        words = "arguments, --also, --call, --flags and --kernel apply only to a program"
        raise UsageError(words, "Add --from-cu FILE, or --from-launch @CAPTURE::KERNEL.")
    if not alone or (version is not None and given["also"] and not study):
        raise UsageError(
            "--from-cu makes a study, or a version of one",
            "Leave out --from, --title and --example; a study names it, --kernel picks.",
        )
    given["also"] = tuple(tuple(shlex.split(each)) for each in given["also"])
    given["flags"] = tuple(shlex.split(given["flags"]))
    wish = FromProgram(study=study, arguments=arguments, timeout_s=timeout_s or 120.0, **given)
    progress = progress_of("new")
    progress(f"{wish.file} is run without a GPU, on this machine, with your permissions")
    if version is None:
        made = start_from_program(project, wish, progress)
    else:
        study, name = parse_target(version, require_project(), wish.study or None)
        made = add_from_program(project, study, name, wish, progress)
    for path in made.paths:
        say(f"wrote {path}")
    versions = ", ".join(f"{each} = {kernel}" for each, kernel in made.versions.items())
    say(f"{several(len(made.versions), 'version')}: {versions}")
    for why in dict.fromkeys(made.left.values()):
        names = ", ".join(kernel for kernel, said in made.left.items() if said == why)
        say(f"left out {names}: {told(why)}")
    for note in made.notes:
        say(_("note: {text}").format(text=told(note)))
    first = f"{made.study}/{next(iter(made.versions))}"
    if why := compiles(project, view_study(project, made.study).version(first.rpartition("/")[2])):
        say(f"It does not compile here: {why}")
    say(f"Next: read study.py, then `workbench verify {first}`")


def _lift(target: str, limit: int, study: str | None, timeout_s: float | None) -> None:
    """Keep one launch of a program's kernel, with its data, as a study."""
    invocation = Invocation(command=program_behind(), folder=Path.cwd(), timeout_s=timeout_s)
    name, _, kernel = target.partition("::")
    kernel, _, place = kernel.partition("#")
    if not is_capture(target) or not kernel:
        raise UsageError(
            f"{target} names no kernel of a capture",
            "Write @CAPTURE::KERNEL, as in `workbench new --from-launch @before::softmax -- python "
            "bench.py`; `workbench show @before` lists kernels.",
        )
    if place and not (place.isdecimal() and int(place)):
        raise UsageError(f"#{place} is not a launch", "Number launches from 1: `@x::softmax#3`.")
    wish = Lift(kernel=kernel, number=int(place) if place else None, limit=limit, study=study)
    survey = ProgramMethods().program(name).capture.survey
    lift_kernel(require_project(), survey, wish, invocation, progress_of("lift"))
