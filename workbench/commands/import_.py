"""``workbench import``: keep a report captured elsewhere as a version's profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.commands.options import problem_option, study_option

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.model import Problem, Profile
    from workbench.project import Project
    from workbench.specs import Version
    from workbench.study.folder import Study


@click.command("import")
@click.argument("report")
@study_option
@click.option("--version", "version_name", required=True, metavar="NAME", help="Version: v3.")
@problem_option
@click.option("--kernel", metavar="NAME", help="Keep only this kernel's launches (default: all).")
@click.option("--device", metavar="NAME", help="Store it under this device instead of its own.")
@click.option("--force", is_flag=True, help="Replace a profile that is already recorded.")
def command(
    report: str,
    study: str | None,
    version_name: str,
    problem: str | None,
    kernel: str | None,
    device: str | None,
    force: bool,
) -> None:
    """Keep REPORT (x.ncu-rep, x.ncu-rep::kernel, @before::kernel) as a version's profile.

    Says where the report's source or launches differ from the version's. Host name and
    network addresses are removed from the copy that is kept.
    """
    import msgspec

    from workbench.engines.ncu.report import scrub
    from workbench.errors import DataError, UsageError
    from workbench.ncurep.files import read_raw, split_target
    from workbench.ncurep.read import read_report, select_kernels
    from workbench.session.api import Session
    from workbench.session.asked import is_capture
    from workbench.store import Store, device_slug
    from workbench.study.folder import parse_target, run_study

    session = Session()
    project = session.project
    study_name, version_id = parse_target(version_name, study or project.default_study)
    if study and study != study_name:
        raise UsageError(
            f"--study {study} and --version {version_name} name different studies",
            "Name the study only once.",
        )
    found = run_study(project, study_name)
    version = found.version(version_id)
    chosen = found.problem(problem)
    path, inner = split_target(report)
    captured = is_capture(report)
    if captured:
        profile = select_kernels(session.program(report).profile, kernel)
    else:
        profile = select_kernels(read_report(path), kernel or inner)
    if not any(launch.profiled for launch in profile.launches):
        names = ", ".join(launch.kernel[:60] for launch in profile.launches)
        raise DataError(
            f"{path}: {names} is listed, but was never measured", "Choose another --kernel."
        )
    profile = _adopted(profile, project, found, version, chosen)
    if device:
        own = msgspec.structs.replace(profile.device, slug=device_slug(device))
        profile = msgspec.structs.replace(profile, device=own)
    store = Store(project.profiles)
    target = store.profile_path(profile)
    if target.exists() and not force:
        raise UsageError(
            f"{study_name}/{version.id} already has a profile of {chosen.name} on "
            f"{profile.device.slug}: {_shown(target, project.root)}",
            "Replace it with --force, or keep this one apart with --problem or --device.",
        )
    # Of a capture the profile alone was kept.
    store.save(profile, raw=None if captured else scrub(read_raw(path), path))
    _report(profile, _shown(target, project.root))


def _adopted(
    profile: Profile, project: Project, study: Study, version: Version, problem: Problem
) -> Profile:
    """The profile as the version's own."""
    from workbench.ncurep.adopt import adopt
    from workbench.study.folder import local_sources, resolve_launches, source_hash

    return adopt(
        profile,
        version,
        problem=problem.name,
        parameters=study.parameters(problem),
        sources=local_sources(project, version),
        source_hash=source_hash(project, version),
        # A baseline's launches are the library's affair: there is nothing to compare with.
        expected=resolve_launches(study, version, problem) if version.launches else (),
    )


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _report(profile: Profile, where: str) -> None:
    from workbench import units

    kernels = ", ".join(dict.fromkeys(launch.kernel[:60] for launch in profile.launches))
    n = len(profile.launches)
    click.echo(
        f"kept {profile.study}/{profile.version} {profile.problem} on {profile.device.name} "
        f"(ncu {profile.tools.get('ncu') or 'of unknown version'}, "
        f"{profile.captured or 'date unknown'})"
    )
    click.echo(f"  {units.count(n)} launch{'es' if n > 1 else ''}: {kernels}")
    click.echo(f"  {where}")
    for notice in profile.notices:
        click.echo(f"note: {notice.message}")
