"""``workbench import``: keep a report captured elsewhere as a version's profile."""

from __future__ import annotations

import click

from workbench import units
from workbench.adopt.importing import Import, keep_report
from workbench.analysis.compare import remarks
from workbench.commands.options import folded, moved_options, version_option
from workbench.model import Profile
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection, apart
from workbench.views.text.safe_output import say


@click.command("import")
@click.argument("report")
@click.argument("target", default="", metavar="[AS]")
@folded("where", Selection, *moved_options)
@version_option
@click.option("--kernel", metavar="NAME", help="Keep only this kernel's launches (default: all).")
@click.option("--force", is_flag=True, help="Replace a profile that is already recorded.")
def command(
    report: str,
    target: str,
    where: Selection,
    version: str | None,
    kernel: str | None,
    force: bool,
) -> None:
    """Keep REPORT (x.ncu-rep, x.ncu-rep::kernel, @before::kernel) as a version's profile.

    AS is sgemm/v3, or names its problem and device as well: sgemm/v3:n4096@a100.
    A study alone, or nothing, also makes a study from the selected kernel: its launch, and its
    source if the report holds it. You write the rest.

    Reports differences in source and launches between the report and the version. Host name and
    network addresses are removed from the copy that is kept.
    """
    session = CoreSession()
    name, where = apart(target, where)
    if "/" in name or name[1:2].isdigit():
        version = name
    study = where.study if version else name or where.study
    wish = Import(report, version, study, where.problem, kernel, where.device)
    kept = keep_report(session, wish, force=force)
    for path in kept.written:
        say(f"wrote {path}")
    _report(kept.profile, kept.path)
    if kept.more:
        say(f"  {kept.more}")
    if kept.written:
        name = f"{kept.profile.study}/{kept.profile.version}"
        say(f"Not in the report: {kept.unknown}. study.py says where to write it.")
        say(f"Next: `workbench show {name}`; `workbench new {kept.profile.study}/v1` to change it.")


def _report(profile: Profile, where: str) -> None:
    kernels = ", ".join(dict.fromkeys(launch.kernel[:60] for launch in profile.launches))
    say(
        f"kept {profile.study}/{profile.version} {profile.problem} on {profile.device.name} "
        f"(ncu {profile.tools.get('ncu') or 'of unknown version'}, "
        f"{profile.captured or 'date unknown'})"
    )
    say(f"  {units.several(len(profile.launches), 'launch', 'launches')}: {kernels}")
    say(f"  {where}")
    for text in remarks(profile):
        say(f"note: {text}")
