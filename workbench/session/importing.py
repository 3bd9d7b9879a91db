"""A report captured elsewhere, kept as a version's profile."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from workbench.engines.ncu.report import scrub
from workbench.errors import DataError, UsageError
from workbench.model import Problem, Profile, Record
from workbench.ncurep.adopt import adopt
from workbench.ncurep.files import read_raw, split_target
from workbench.ncurep.read import read_report, select_kernels
from workbench.project import Project
from workbench.session.asked import Workspace, is_capture
from workbench.session.reports import open_capture
from workbench.specs import Version
from workbench.store import device_slug
from workbench.study.folder import (
    Study,
    local_sources,
    parse_target,
    resolve_launches,
    run_study,
    source_hash,
)


class Import(Record, frozen=True):
    """Which report is kept as what, as it was typed; `device` stands for the report's own."""

    report: str
    version: str
    study: str | None = None
    problem: str | None = None
    kernel: str | None = None
    device: str | None = None


def keep_report(place: Workspace, wish: Import, *, force: bool = False) -> tuple[Profile, str]:
    """Keep a report (or kernels of a captured program) as the profile of a version.

    Args:
        place: Where the project is.
        wish: The report and the version.
        force: Replace a profile that is already recorded.

    Returns:
        The profile as it is kept, with notices where it differs from the version, and its path.

    Raises:
        UsageError: no such version, problem or kernel; or there is a profile already.
        DataError: a damaged report, or one of launches that were never measured.
    """
    project = place.project
    study_name, version_id = parse_target(wish.version, wish.study or project.default_study)
    if wish.study and wish.study != study_name:
        raise UsageError(
            f"--study {wish.study} and --version {wish.version} name different studies",
            "Name the study only once.",
        )
    study = run_study(project, study_name)
    version = study.version(version_id)
    problem = study.problem(wish.problem)
    path, inner = split_target(wish.report)
    captured = is_capture(wish.report)
    if captured:
        profile = select_kernels(open_capture(place.shelf, wish.report).profile, wish.kernel)
    else:
        profile = select_kernels(read_report(path), wish.kernel or inner)
    if not any(launch.profiled for launch in profile.launches):
        names = ", ".join(launch.kernel[:60] for launch in profile.launches)
        raise DataError(
            f"{path}: {names} is listed, but was never measured", "Choose another --kernel."
        )
    profile = _adopted(profile, project, study, version, problem)
    if wish.device:
        own = replace(profile.device, slug=device_slug(wish.device))
        profile = replace(profile, device=own)
    target = place.store.profile_path(profile)
    shown = _shown(target, project.root)
    if target.exists() and not force:
        raise UsageError(
            f"{study_name}/{version.id} already has a profile of {problem.name} on "
            f"{profile.device.slug}: {shown}",
            "Replace it with --force, or keep this one apart with --problem or --device.",
        )
    # Of a capture the profile alone was kept.
    place.store.save(profile, raw=None if captured else scrub(read_raw(path), path))
    return profile, shown


def _adopted(
    profile: Profile, project: Project, study: Study, version: Version, problem: Problem
) -> Profile:
    """The profile as the version's own."""
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
