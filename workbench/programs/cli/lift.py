"""``workbench lift``: one launch of a captured program's kernel, kept with its data."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.errors import UsageError
from workbench.programs.capture.survey import Invocation
from workbench.programs.cli.behind import Launching, program_behind, progress_of, run_timeout
from workbench.programs.session import ProgramMethods
from workbench.programs.studies.lifting import Lift, lift_kernel
from workbench.project import require_project
from workbench.session.workspace import is_capture


@click.command(
    cls=Launching,
    epilog="workbench lift @before::softmax -- python bench.py · "
    "workbench lift @before::softmax --launch 3 --as softmax3 -- python bench.py",
)
@click.argument("target", metavar="@CAPTURE::KERNEL")
@click.option(
    "--launch",
    "number",
    type=click.IntRange(1),
    metavar="N",
    help="Its N-th launch, from 1 (default: the first of those that take most time).",
)
@click.option(
    "--limit",
    "limit_gib",
    type=click.FloatRange(0, min_open=True, max=1024),
    default=2.0,
    show_default=True,
    metavar="GIB",
    help="Keep at most so much memory; a launch that holds more is refused.",
)
@click.option("--as", "study", metavar="STUDY", help="Name of the study (default: the kernel's).")
@run_timeout
def command(
    target: str, number: int | None, limit_gib: float, study: str | None, timeout_s: float | None
) -> None:
    """Keep one launch of a program's kernel, with its data, as a study.

    COMMAND runs once more, as it was captured. Of one launch of KERNEL its arguments, the memory
    that they lead to, before and after, and its machine code are kept in kernels/STUDY/captured.
    """
    program = program_behind()
    name, _, kernel = target.partition("::")
    if not is_capture(target) or not kernel:
        raise UsageError(
            f"{target} names no kernel of a capture",
            "Write @CAPTURE::KERNEL, as in `workbench lift @before::softmax -- python bench.py`; "
            "`workbench show @before` lists kernels.",
        )
    kernel, _, place = kernel.partition("#")
    if place:
        if not place.isdecimal() or number is not None or not int(place):
            raise UsageError(
                f"#{place} is not a launch", "Number launches from 1, once: `--launch 3` or `#3`."
            )
        number = int(place)
    capture = ProgramMethods().program(name).capture
    invocation = Invocation(command=program, folder=Path.cwd(), timeout_s=timeout_s)
    wish = Lift(kernel=kernel, number=number, limit=int(limit_gib * (1 << 30)), study=study)
    lift_kernel(require_project(), capture.survey, wish, invocation, progress_of("lift"))
