"""``workbench import``: keep a report captured elsewhere as a version's profile."""

from __future__ import annotations

import click

from workbench import units
from workbench.commands.options import problem_option, study_option
from workbench.model import Profile
from workbench.session.api import Session
from workbench.session.importing import Import, keep_report
from workbench.views.text.door import say


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
    session = Session()
    wish = Import(report, version_name, study, problem, kernel, device)
    profile, path = keep_report(session, wish, force=force)
    _report(profile, path)


def _report(profile: Profile, where: str) -> None:
    kernels = ", ".join(dict.fromkeys(launch.kernel[:60] for launch in profile.launches))
    n = len(profile.launches)
    say(
        f"kept {profile.study}/{profile.version} {profile.problem} on {profile.device.name} "
        f"(ncu {profile.tools.get('ncu') or 'of unknown version'}, "
        f"{profile.captured or 'date unknown'})"
    )
    say(f"  {units.count(n)} launch{'es' if n > 1 else ''}: {kernels}")
    say(f"  {where}")
    for notice in profile.notices:
        say(f"note: {notice.message}")
