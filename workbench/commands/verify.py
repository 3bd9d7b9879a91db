"""``workbench verify``: check versions against the float64 reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.measuring import (
    Machine,
    every_option,
    instruction_limit_option,
    machine_options,
)
from workbench.commands.options import format_option, study_option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workbench.commands.measuring import Failures, Progress
    from workbench.errors import WorkbenchError
    from workbench.measure.experiment import Experiment, Subject, Verdict
    from workbench.measure.sanitizer import Finding
    from workbench.model import Version
    from workbench.views.sheets.verify import VerifyRow


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
@instruction_limit_option
@click.option("--sanitize", is_flag=True, help="Also run under compute-sanitizer's four tools.")
@machine_options
@format_option
def command(
    versions: tuple[str, ...],
    every: bool,
    study: str | None,
    problem: str | None,
    engine: str,
    limit: int | None,
    sanitize: bool,
    machine: Machine,
    format_: str,
) -> None:
    """Check versions against the float64 reference, with fresh random inputs.

    All problems of the study that are marked "verify", or the one named. Exit code 4
    where a result is wrong, or compute-sanitizer finds something.
    """
    from workbench.commands.measuring import Failures, Progress, experiment, pick
    from workbench.engines import choose_runner
    from workbench.engines.host.presence import need_sanitizer
    from workbench.errors import KernelError, MissingError
    from workbench.measure.sanitizer import TOOLS
    from workbench.views.sheets.verify import verify_sheet
    from workbench.views.terminal.tables import print_sheet

    project, loaded, chosen = pick(versions, every, study)
    if not machine.launcher and not sanitize and choose_runner(engine) == "emulator":
        from workbench.commands.emulating import verify_versions

        verify_versions(
            project,
            loaded,
            chosen,
            every=every,
            problem=problem,
            seed=machine.seed,
            arch=machine.arch,
            limit=limit,
            format_=format_,
        )
        return
    where = machine.where()
    program = need_sanitizer() if sanitize else ""
    progress = Progress()
    runner = experiment(project, loaded, where, machine.seed, progress)
    failures = Failures(progress, alone=False)
    rows: list[VerifyRow] = []
    errors: list[WorkbenchError] = []
    findings: list[tuple[str, Finding]] = []
    texts: dict[str, str] = {}
    passed_over = _passing_over(progress, every)
    groups = _subjects(runner, chosen, problem, failures, passed_over)
    verdicts = iter(runner.verify([each for _, group in groups for each in group]))
    sanitized: list[tuple[Version, list[Subject]]] = []
    for version, subjects in groups:
        own = [next(verdicts) for _ in subjects]
        if (first := own[0].error) is not None and passed_over(version, first):
            continue
        tolerance = loaded.tolerance_of(version.id)
        rows += [verdict_row(version.id, verdict, tolerance) for verdict in own]
        errors += [verdict.error for verdict in own if verdict.error is not None]
        if sanitize and version.kind == "cuda":
            sanitized.append((version, subjects))
            built = subjects[0].built
            texts |= {s.path: s.text or "" for s in (built.sources if built else ())}
    for tool in TOOLS if sanitized else ():
        everyone = [each for _, subjects in sanitized for each in subjects]
        # One process for all: only where it has something to say does each version get its
        # own, so that a finding is never laid at another version's door.
        if len(sanitized) > 1 and runner.clean(everyone, tool, program):
            continue
        for version, subjects in sanitized:
            with failures.of(f"{version.id} under {tool}"):
                for finding in runner.sanitize(subjects, tool, program):
                    findings.append((version.id, finding))
    if rows:
        tools = TOOLS if sanitize else ()
        print_sheet(verify_sheet(loaded.name, runner.seed, rows, findings, tools, texts), format_)
    raise_worst(rows, errors, failures)
    if not rows:
        raise MissingError("nothing was verified", "Name a version that can run here.")
    if findings:
        total = len(findings)
        raise KernelError(
            f"compute-sanitizer has {total} finding{'s' if total > 1 else ''}",
            "Each stands above with its source line.",
        )


def _passing_over(progress: Progress, every: bool) -> Callable[[Version, WorkbenchError], bool]:
    """Whether a version is passed over for an error, which is said then."""
    from workbench.commands.measuring import pass_over

    def passed_over(version: Version, error: WorkbenchError) -> bool:
        if not pass_over(version, error, every):
            return False
        progress.say(f"{version.id}: passed over: {error.message}")
        return True

    return passed_over


def _subjects(
    runner: Experiment,
    chosen: Sequence[Version],
    problem: str | None,
    failures: Failures,
    passed_over: Callable[[Version, WorkbenchError], bool],
) -> list[tuple[Version, list[Subject]]]:
    """What is to be verified of each version; one that cannot be has its error kept.

    Raises:
        WorkbenchError: the error of the only version.
    """
    from workbench.commands.choosing import chosen_problems
    from workbench.errors import WorkbenchError

    broken = runner.build_all([version for version in chosen if version.kind == "cuda"])
    groups = []
    for version in chosen:
        try:
            problems = chosen_problems(runner.study, version, problem, "verify")
            if version.id in broken:
                raise broken[version.id]
            groups.append((version, [runner.subject(version, each) for each in problems]))
        except WorkbenchError as error:
            if len(chosen) == 1:
                raise
            if not passed_over(version, error):
                failures.add(version.id, error)
    return groups


def verdict_row(version: str, verdict: Verdict, tolerance: float) -> VerifyRow:
    """One line of the table."""
    from workbench.views.sheets.verify import VerifyRow

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
        compared=check.compared if check else 0,
        unwritten=check.unwritten if check else 0,
        sampled=check.sampled if check else 0,
        message=verdict.error.message if verdict.error else "",
    )


def raise_worst(
    rows: Sequence[VerifyRow], errors: Sequence[WorkbenchError], failures: Failures
) -> None:
    """End with the error of what failed, if anything did; details stand in the table's notes."""
    if len(errors) == 1 and len(rows) == 1:
        raise errors[0]
    if errors:
        worst = min(errors, key=lambda error: (error.exit_code != 4, error.exit_code))
        failed = [f"{row.version} {row.problem}" for row in rows if not row.ok]
        shown = ", ".join(failed[:6]) + (f" and {len(failed) - 6} more" if failed[6:] else "")
        raise type(worst)(f"{len(errors)} of {len(rows)} checks failed: {shown}", worst.hint)
    failures.finish()
