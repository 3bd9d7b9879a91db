"""``workbench verify``: check versions against the float64 reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.options import (
    format_option,
    instruction_limit_option,
    named_options,
    shared_run_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.cluster.dispatch import PieceOutcome
    from workbench.engines import RunOptions, Subject, Verdict
    from workbench.measure.experiment import Experiment, Failures
    from workbench.measure.sanitizer import Finding
    from workbench.session.targets import Named
    from workbench.specs import Version
    from workbench.study.folder import Study
    from workbench.views.sheets.verify import VerifyRow

    Pair = tuple[Subject, Verdict]


@click.command()
@named_options("Problem (default: all that are marked verify).")
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
def command(
    named: Named,
    engine: str,
    limit: int | None,
    sanitize: bool,
    run: RunOptions,
    format_: str,
) -> None:
    """Check versions against the float64 reference, with fresh random inputs.

    All problems of the study that are marked "verify", or the one named. The exit
    code is 4 if a result is wrong or compute-sanitizer finds something.
    """
    import msgspec

    from workbench.commands.progress import Progress
    from workbench.engines.choice import choose
    from workbench.engines.host.presence import need_sanitizer
    from workbench.errors import KernelError, MissingError, UsageError
    from workbench.measure.experiment import Experiment, Failures, runnable

    run = msgspec.structs.replace(run, instruction_limit=limit)
    if run.on:
        if sanitize:
            raise UsageError(
                "--sanitize does not run on a cluster",
                "Leave out --on, or run this command inside a job.",
            )
        _on_cluster(named, engine, run, format_)
        return
    if run.gpus and engine == "emulator":
        raise UsageError("the emulator needs no GPU", "Leave out --gpus or --engine emulator.")
    project, study, versions = named.pick()
    progress = Progress()
    taken = choose("gpu" if sanitize or run.gpus else engine, project, run, progress.say)
    path = need_sanitizer() if sanitize else ""
    if taken.verify_line:
        progress.say(taken.verify_line)
    versions = runnable(taken, versions, named.every, progress.say)
    runner = Experiment(project, study, taken, say=progress.say, step=progress.step)
    failures = Failures(progress.say, alone=len(versions) == 1, every=named.every)
    subjects = _subjects(runner, versions, named.problem, failures)
    verdicts: dict[int, Verdict] = {}

    try:
        runner.verify(subjects, verdicts.__setitem__)
    except KeyboardInterrupt:
        progress.clear()
        # What is checked by then.
        _print(study, taken.seed, _judged(subjects, verdicts, failures), format_)
        raise
    pairs = _judged(subjects, verdicts, failures)
    findings = _findings(runner, pairs, path, failures) if sanitize else None
    progress.clear()
    _print(study, taken.seed, pairs, format_, findings)
    _raise_worst(pairs, failures)
    if not pairs:
        raise MissingError("nothing was verified", "Name a version that can run here.")
    if findings:
        total = len(findings)
        raise KernelError(
            f"compute-sanitizer has {total} finding{'s' if total > 1 else ''}",
            "Each is shown above with its source line.",
        )


def _on_cluster(named: Named, engine: str, run: RunOptions, format_: str) -> None:
    """Verify in jobs of a cluster; the table is the same."""
    from workbench.cluster.fleet import Fleet
    from workbench.commands.oncluster import able, carry_out, ordered
    from workbench.commands.progress import Progress
    from workbench.engines import Subject, Verdict
    from workbench.errors import MissingError
    from workbench.measure.experiment import Failures
    from workbench.measure.plan import Combination, chosen

    project, study, versions = named.pick()
    progress = Progress()
    versions = able(engine, project, run, versions, named.every, progress.say)
    failures = Failures(progress.say, alone=len(versions) == 1, every=named.every)
    combinations: list[Combination] = []
    for version in versions:
        with failures.of(version.id, version):
            combinations += chosen(study, version, named.problem, "verify")
    places = {each.key: place for place, each in enumerate(combinations)}
    subjects = [Subject(study=study, version=v, problem=p, built=None) for v, p in combinations]
    verdicts: dict[int, Verdict] = {}

    def tell(outcome: PieceOutcome) -> None:
        error = outcome.fault.error if outcome.fault else None
        problem = study.problem(outcome.problem)
        verdicts[places[outcome.key]] = Verdict(problem, outcome.check, error)

    # An error of a piece is told in the table, as everywhere.
    silent = Failures(lambda _line: None, alone=False, every=False)
    order = ordered("verify", study, run, engine=engine)
    fleet = Fleet(project, study, progress)
    order = carry_out(fleet, study, order, combinations, silent, tell)
    progress.clear()
    pairs = _judged(subjects, verdicts, failures)
    _print(study, order.run.seed or 0, pairs, format_)
    _raise_worst(pairs, failures)
    if not pairs:
        raise MissingError("nothing was verified", "Name a version that can run here.")


def _subjects(
    runner: Experiment, versions: Sequence[Version], problem: str | None, failures: Failures
) -> list[Subject]:
    """What is to be verified; the error of a version that cannot be is kept.

    Raises:
        WorkbenchError: the error of the only version.
    """
    from workbench.measure.plan import chosen

    broken = runner.build_all(versions)
    subjects: list[Subject] = []
    for version in versions:
        with failures.of(version.id, version):
            combinations = chosen(runner.study, version, problem, "verify")
            if version.id in broken:
                raise broken[version.id]
            subjects += [runner.subject(*each) for each in combinations]
    return subjects


def _judged(
    subjects: Sequence[Subject], verdicts: dict[int, Verdict], failures: Failures
) -> list[Pair]:
    """Subjects that have a verdict, without versions that are passed over for their first one."""
    over: dict[str, bool] = {}
    for place, verdict in sorted(verdicts.items()):
        version = subjects[place].version
        if version.id not in over:
            error = verdict.error
            over[version.id] = error is not None and failures.pass_over(version, error)
    return [
        (subjects[place], verdict)
        for place, verdict in sorted(verdicts.items())
        if not over[subjects[place].version.id]
    ]


def _findings(
    runner: Experiment, pairs: Sequence[Pair], path: str, failures: Failures
) -> list[tuple[str, Finding]]:
    """What compute-sanitizer finds in the CUDA versions, with the version's id."""
    from workbench.measure.sanitizer import TOOLS

    every = [subject for subject, _ in pairs if subject.version.kind != "python"]
    versions = list(dict.fromkeys(subject.version.id for subject in every))
    findings = []
    for tool in TOOLS if every else ():
        # One process for all: only where it has something to say does each version get its
        # own, so that a finding is never laid at another version's door.
        if len(versions) > 1 and runner.clean(every, tool, path):
            continue
        for version in versions:
            with failures.of(f"{version} under {tool}"):
                own = [subject for subject in every if subject.version.id == version]
                findings += [(version, each) for each in runner.sanitize(own, tool, path)]
    return findings


def _print(
    study: Study,
    seed: int,
    pairs: Sequence[Pair],
    format_: str,
    findings: Sequence[tuple[str, Finding]] | None = None,
) -> None:
    """The table, if there is a row; `findings` is None where no sanitizer ran."""
    from workbench.measure.sanitizer import TOOLS
    from workbench.views.sheets.verify import verify_sheet
    from workbench.views.terminal.tables import print_sheet

    rows = [_row(*pair) for pair in pairs]
    built = [subject.built for subject, _ in pairs if subject.built]
    texts = {source.path: source.text or "" for each in built for source in each.sources}
    tools = () if findings is None else TOOLS
    if rows:
        print_sheet(verify_sheet(study.name, seed, rows, findings or (), tools, texts), format_)


def _row(subject: Subject, verdict: Verdict) -> VerifyRow:
    """One line of the table."""
    from workbench.views.sheets.verify import VerifyRow

    check = verdict.check
    worst = ""
    if check is not None and check.worst is not None:
        index = ", ".join(str(i) for i in check.worst.index)
        worst = f"{check.worst.output}[{index}] = {check.worst.got}, expected {check.worst.want}"
    return VerifyRow(
        version=subject.version.id,
        problem=verdict.problem.name,
        ok=verdict.error is None,
        error=check.error if check else None,
        tolerance=subject.study.tolerance_of(subject.version.id),
        worst=worst,
        compared=check.compared if check else 0,
        unwritten=check.unwritten if check else 0,
        sampled=check.sampled if check else 0,
        message=verdict.error.message if verdict.error else "",
    )


def _raise_worst(pairs: Sequence[Pair], failures: Failures) -> None:
    """End with the error of what failed, if anything did; details stand in the table's notes."""
    failed = [(subject, verdict.error) for subject, verdict in pairs if verdict.error is not None]
    errors = [error for _, error in failed]
    if errors and len(pairs) == 1:
        raise errors[0]
    if errors:
        worst = min(errors, key=lambda error: (error.exit_code != 4, error.exit_code))
        names = [f"{subject.version.id} {subject.problem.name}" for subject, _ in failed]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if names[6:] else "")
        raise type(worst)(f"{len(errors)} of {len(pairs)} checks failed: {shown}", worst.hint)
    failures.finish()
