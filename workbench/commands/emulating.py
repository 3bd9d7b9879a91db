"""``profile`` and ``verify`` under the emulator engine: no GPU is touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from workbench.emulator.state.context import Limits
    from workbench.errors import WorkbenchError
    from workbench.model import Version
    from workbench.project import Project
    from workbench.study.folder import Study
    from workbench.views.sheets.verify import VerifyRow


def _seed(seed: int | None) -> int:
    from workbench.engines.host.client import fresh_seed

    return fresh_seed() if seed is None else seed


def _limits(limit: int | None) -> Limits | None:
    from workbench.emulator.state.context import Limits

    return None if limit is None else Limits(limit)


def _runnable(versions: Sequence[Version], every: bool) -> list[Version]:
    """The CUDA versions; Python ones are passed over where all were asked for."""
    chosen = []
    for version in versions:
        if version.kind != "cuda" and every:
            click.echo(f"{version.id}: passed over, its library needs a GPU", err=True)
        else:
            chosen.append(version)
    return chosen


def profile_versions(
    project: Project,
    study: Study,
    versions: Sequence[Version],
    *,
    every: bool,
    problem: str | None,
    seed: int | None,
    arch: str,
    blocks: int | None,
    limit: int | None,
    unheard: Sequence[str] = (),
) -> None:
    """Verify, count and keep a profile of each version.

    `unheard` are the options given that mean something to ncu alone: they are named, so
    that nobody waits for what does not come.

    Raises:
        WorkbenchError: the first version that cannot be profiled.
    """
    from workbench.commands.choosing import chosen_problem
    from workbench.commands.measuring import Failures, Progress
    from workbench.engines.emulated import engine as emulated
    from workbench.errors import MissingError
    from workbench.store import Store
    from workbench.units import digits3, quantity

    click.echo(f"engine: emulator, on this machine's CPU; {emulated.CANNOT_KNOW}")
    if unheard:
        click.echo(f"note: of no effect in the emulator: {', '.join(unheard)}", err=True)
    store = Store(project.profiles)
    progress = Progress()
    chosen = _runnable(versions, every)
    failures = Failures(progress, alone=len(chosen) == 1)
    for version in chosen:
        with failures.of(version.id):
            where = chosen_problem(study, version, problem)
            made = emulated.profile(
                project,
                study,
                version,
                where,
                seed=_seed(seed),
                arch=arch or emulated.DEFAULT_ARCH,
                blocks=blocks,
                limits=_limits(limit),
                say=progress.say,
            )
            path = store.save(made)
            shown = path.relative_to(project.root) if path.is_relative_to(project.root) else path
            kernels = ", ".join(dict.fromkeys(launch.kernel for launch in made.launches))
            error = digits3(made.verification.error) if made.verification else "—"
            click.echo(
                f"{version.id} {where.name}: {kernels}, error {error}, "
                f"{quantity(made.capture.wall_s, 's')} in the emulator -> {shown.as_posix()}"
            )
            for notice in made.notices:
                if notice.code == "sampled":
                    progress.say(f"note: {version.id}: {notice.message}")
    failures.finish()
    if not chosen:
        raise MissingError("nothing was profiled", "Name a version that can run here.")


def verify_versions(
    project: Project,
    study: Study,
    versions: Sequence[Version],
    *,
    every: bool,
    problem: str | None,
    seed: int | None,
    arch: str,
    limit: int | None,
    format_: str,
) -> None:
    """Check versions on the CPU, with races and uninitialised reads looked for.

    Ctrl-C shows what is checked by then, and ends.

    Raises:
        WorkbenchError: at the end, if a check failed or a version does not compile; at
            once, if it is the only one.
    """
    from workbench.commands.choosing import chosen_problems
    from workbench.commands.measuring import Failures, Progress
    from workbench.commands.verify import raise_worst, verdict_row
    from workbench.engines.emulated import engine as emulated
    from workbench.errors import MissingError, WorkbenchError
    from workbench.measure.experiment import Verdict
    from workbench.views.sheets.verify import verify_sheet
    from workbench.views.terminal.tables import print_sheet

    click.echo(
        "engine: emulator, on this machine's CPU, watching for races, accesses out of bounds "
        "and uninitialised memory",
        err=True,
    )
    chosen_seed = _seed(seed)
    arch = arch or emulated.DEFAULT_ARCH
    progress = Progress()
    failures = Failures(progress, alone=len(versions) == 1)
    rows: list[VerifyRow] = []
    errors: list[WorkbenchError] = []

    def show() -> None:
        if rows:
            print_sheet(verify_sheet(study.name, chosen_seed, rows, [], (), {}), format_)

    try:
        for version in _runnable(versions, every):
            # Compiled once: what does not compile is no error of each problem.
            with failures.of(version.id):
                built = emulated.compiled(project, study, version, arch)
                problems = chosen_problems(study, version, problem, "verify")
                many = f"{len(problems)} problems" if problems[1:] else problems[0].name
                progress.say(f"verify {version.id} on {many}")
                for where in problems:
                    progress.step(f"verify {version.id} on {where.name}")
                    check = None
                    try:
                        done = emulated.emulate(
                            project, study, version, where,
                            seed=chosen_seed, arch=arch, watch=True, limits=_limits(limit),
                            built=built,
                        )  # fmt: skip
                        check = done.check
                        verdict = Verdict(where, emulated.verified(done, version, where))
                    except WorkbenchError as error:
                        verdict = Verdict(where, check, error)
                        errors.append(error)
                    rows.append(verdict_row(version.id, verdict, study.tolerance_of(version.id)))
    except KeyboardInterrupt:
        show()
        raise
    progress.clear()
    show()
    raise_worst(rows, errors, failures)
    if not rows:
        raise MissingError("nothing was verified", "Name a version that can run here.")
