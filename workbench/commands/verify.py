"""``workbench verify``: check versions against the float64 reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.measuring import every_option, machine_options
from workbench.commands.options import format_option, study_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.errors import WorkbenchError
    from workbench.experiment import Verdict
    from workbench.sanitizer import Finding
    from workbench.views.measured import VerifyRow


@click.command()
@click.argument("versions", nargs=-1)
@every_option
@study_option
@click.option("--problem", metavar="NAME", help="Problem (default: all that are for verifying).")
@click.option(
    "--engine",
    type=click.Choice(["auto", "gpu", "emulator"]),
    default="auto",
    show_default=True,
    help="What runs the version; auto takes the GPU where there is one, else the emulator.",
)
@click.option("--sanitize", is_flag=True, help="Also run under compute-sanitizer's four tools.")
@machine_options
@format_option
def command(
    versions: tuple[str, ...],
    every: bool,
    study: str | None,
    problem: str | None,
    engine: str,
    sanitize: bool,
    seed: int | None,
    timeout_s: float,
    arch: str,
    launcher: str,
    format_: str,
) -> None:
    """Check versions against the float64 reference, with fresh random inputs.

    All problems of the study that are marked "verify", or the one named. Exit code 4
    where a result is wrong, or compute-sanitizer finds something.
    """
    from workbench.commands.measuring import experiment, pick
    from workbench.engines.client import choose_where
    from workbench.experiment import chosen_problems
    from workbench.views.measured import print_sheet, verify_sheet

    project, loaded, chosen = pick(versions, every, study)
    if engine != "gpu" and not launcher and (engine == "emulator" or _no_gpu()):
        from workbench.commands.emulating import verify_versions

        verify_versions(
            project, loaded, chosen, every=every, problem=problem, seed=seed, arch=arch,
            format_=format_,
        )  # fmt: skip
        return
    where = choose_where(launcher, arch, timeout_s)
    runner = experiment(project, loaded, where, seed)
    rows: list[VerifyRow] = []
    errors = []
    findings: list[tuple[str, Finding]] = []
    texts: dict[str, str] = {}
    tools: tuple[str, ...] = ()
    for version in chosen:
        if every and version.baseline and (reason := _not_here(version.id, version.kind)):
            click.echo(reason, err=True)
            continue
        problems = chosen_problems(loaded, version, problem, "verify")
        subjects = [runner.subject(version, each) for each in problems]
        verdicts = runner.verify(subjects)
        rows += [_row(version.id, verdict, loaded.tolerance) for verdict in verdicts]
        errors += [verdict.error for verdict in verdicts if verdict.error is not None]
        if sanitize and version.kind == "cuda":
            from workbench import sanitizer
            from workbench.engines.presence import need_sanitizer

            program = need_sanitizer()
            tools = sanitizer.TOOLS
            for tool in sanitizer.TOOLS:
                for finding in runner.sanitize(subjects, tool, program):
                    findings.append((version.id, finding))
            built = subjects[0].built
            texts |= {s.path: s.text or "" for s in (built.sources if built else ())}
    print_sheet(verify_sheet(loaded.name, runner.seed, rows, findings, tools, texts), format_)
    _raise(errors, findings)


def _no_gpu() -> bool:
    from workbench.engines import choose_engine

    return choose_engine("auto") == "emulator"


def _not_here(version: str, kind: str) -> str:
    """Why a baseline is passed over with --all; empty where it is to be tried."""
    from importlib.util import find_spec

    if kind == "python" and find_spec("torch") is None:
        return f"{version}: passed over, PyTorch is not installed here"
    return ""


def _row(version: str, verdict: Verdict, tolerance: float) -> VerifyRow:
    from workbench.views.measured import VerifyRow

    check = verdict.check
    worst = ""
    if check is not None and check.worst is not None:
        index = ", ".join(str(i) for i in check.worst.index)
        worst = f"{check.worst.output}[{index}] = {check.worst.got}, expected {check.worst.want}"
    return VerifyRow(
        version=version,
        problem=verdict.problem.name,
        ok=verdict.error is None,
        error=check.error if check else None,
        tolerance=tolerance,
        worst=worst,
        unwritten=check.unwritten if check else 0,
        sampled=check.sampled if check else 0,
        message=verdict.error.message if verdict.error else "",
    )


def _raise(errors: Sequence[WorkbenchError], findings: list[tuple[str, Finding]]) -> None:
    from workbench.errors import KernelError

    if errors:
        first = errors[0]
        if len(errors) == 1:
            raise first
        raise type(first)(f"{len(errors)} checks failed; the first: {first.message}", first.hint)
    if findings:
        total = len(findings)
        raise KernelError(
            f"compute-sanitizer has {total} finding{'s' if total > 1 else ''}",
            "Each stands above with its source line.",
        )
