"""``workbench verify``: check versions against the float64 reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from workbench.commands.options import (
    format_option,
    instruction_limit_option,
    named_options,
    shared_run_options,
)
from workbench.errors import InconclusiveError, UsageError
from workbench.features import FEATURES
from workbench.measure.sanitizer import TOOLS
from workbench.session.api import CoreSession
from workbench.views.shapes.measured import VerifiedProblem
from workbench.views.sheets.verify import verify_sheet
from workbench.views.terminal.progress import Progress
from workbench.views.terminal.tables import print_sheet

if TYPE_CHECKING:
    from workbench.engines import RunOptions
    from workbench.measure.plan import Combination
    from workbench.session.measuring import Judged
    from workbench.session.targets import Named
    from workbench.study.folder import Study


@click.command()
@named_options
@click.option(
    "--engine",
    type=click.Choice(["auto", "gpu", "emulator"]),
    default="auto",
    show_default=True,
    help="What runs the version; auto uses the GPU if there is one, else the emulator.",
)
@instruction_limit_option
@click.option("--sanitize", is_flag=True, help="Also run under compute-sanitizer's four tools.")
@shared_run_options
@format_option
@click.option(
    "--also",
    multiple=True,
    metavar="FORMAT=FILE",
    help="Also write junit, github or markdown, as check does; - is standard output.",
)
def command(
    named: Named,
    engine: str,
    limit: int | None,
    sanitize: bool,
    run: RunOptions,
    format_: str,
    also: tuple[str, ...],
) -> None:
    """Check versions against the float64 reference, with fresh random inputs.

    All problems of the study that are marked "verify", or the one named. The exit
    code is 4 if a result is wrong or compute-sanitizer finds something, and 6 if the emulator
    cannot run it.
    """
    gate = next((each for each in FEATURES if also and each.gates), None)
    if also and not gate:
        raise UsageError(
            "--also writes gates, but this workbench has no feature for gates",
            "Leave it out, or install workbench with all of its features.",
        )
    files = gate.load(gate.gates).targets(also) if gate else ()
    progress = Progress()
    run = replace(run, instruction_limit=limit)
    found = CoreSession().verify(named, engine, run, progress, sanitize=sanitize)
    progress.clear()
    rows = [_row(found.study, *pair) for pair in found.pairs]
    for version, error in found.broken.items():
        row = VerifiedProblem(version, "", ok=False, error=None, tolerance=found.study.tolerance)
        rows.append(replace(row, message=error.message, hint=error.hint or ""))
    if rows:
        tools = () if found.findings is None else TOOLS
        findings = found.findings or ()
        sheet = verify_sheet(found.study.name, found.seed, rows, findings, tools, found.texts)
        print_sheet(sheet, format_)
    if gate:
        gate.load(gate.gates).write_verdicts(found, files)
    if found.fault:
        raise found.fault


def _row(study: Study, piece: Combination, judged: Judged) -> VerifiedProblem:
    check = judged.check
    worst = ""
    if check is not None and check.worst is not None:
        index = ", ".join(str(i) for i in check.worst.index)
        worst = f"{check.worst.output}[{index}] = {check.worst.got}, expected {check.worst.want}"
    return VerifiedProblem(
        version=piece.version.id,
        problem=piece.problem.name,
        ok=judged.error is None,
        error=check.error if check else None,
        tolerance=study.tolerance_of(piece.version.id),
        worst=worst,
        compared=check.compared if check else 0,
        unwritten=check.unwritten if check else 0,
        sampled=check.sampled if check else 0,
        judged=not isinstance(judged.error, InconclusiveError),
        message=judged.error.message if judged.error else "",
        hint=(judged.error.hint or "") if judged.error else "",
        against=study.answering,
        fixed=check is not None and check.fixed,
        notes=check.notes if check else (),
    )
