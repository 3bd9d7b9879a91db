"""``workbench check``: gates for continuous integration."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from workbench.commands.options import force_option, selection_options

if TYPE_CHECKING:
    from workbench.analysis.gates import Gate, Rules
    from workbench.commands.targets import Selection

_EXIT = {"pass": 0, "fail": 1, "inconclusive": 6}


@click.command()
@click.argument("versions", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="Every version that is recorded.")
@selection_options
@force_option
@click.option(
    "--time/--no-time",
    "timed",
    default=True,
    help="Judge durations; without, nor stalls and utilizations that no profile has.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "json", "junit", "github"]),
    default="table",
    show_default=True,
    help="How to print the answer; github annotates the lines of a pull request.",
)
def command(
    versions: tuple[str, ...],
    all_: bool,
    selection: Selection,
    force: bool,
    timed: bool,
    format_: str,
) -> None:
    """Check a step: expectations, regressions and limits.

    VERSIONS is OLD NEW as for diff (two captures too: @base @new), or one version, which
    is checked against its parent. Without any, and with --all, it is every recorded
    version of the study. Ends with 1 where a gate fails and with 6 where one cannot be
    judged. The rules stand in [tool.workbench.check].
    """
    import msgspec

    from workbench.analysis.gates import overall, read_rules
    from workbench.commands.captures import is_program, program_gates
    from workbench.commands.targets import is_report
    from workbench.errors import UsageError
    from workbench.project import find_project, require_project

    if versions and all_:
        raise UsageError("--all checks every version", "Leave the versions out, or --all.")
    if len(versions) > 2:
        raise UsageError(
            f"check takes OLD NEW or one version, not {len(versions)}", "Or use --all."
        )
    programs = len(versions) == 2 and all(map(is_program, versions))
    for text in versions:
        if is_report(text) and not programs:
            raise UsageError(
                f"{text} is a report, which predicts nothing", "`workbench diff` compares reports."
            )
    project = find_project() if programs else require_project()
    settings = project.settings if project is not None else {}
    rules = msgspec.structs.replace(read_rules(settings), timed=timed)
    if programs:
        gates = program_gates(versions[0], versions[1], rules, force=force)
    else:
        gates = _gates(versions, selection, rules, force)
    from workbench.views.sheets import check as checked

    if format_ == "json":
        from workbench.views.text.documents import dumps

        click.echo(dumps(checked.check_document(gates)), nl=False)
    elif format_ == "junit":
        click.echo(checked.junit(gates), nl=False)
    elif format_ == "github":
        click.echo(checked.github(gates), nl=False)
    else:
        from workbench.views.terminal.console import print_view
        from workbench.views.terminal.tables import check_view

        print_view(check_view(gates))
    if not gates:
        name = selection.study or require_project().default_study
        click.echo(
            f"  hint: No version of {name} is recorded together with its parent; `workbench "
            f"list --study {name}` shows what is, `workbench profile` records more.",
            err=True,
        )
    sys.exit(_EXIT[overall(gates)])


def _gates(
    versions: tuple[str, ...], selection: Selection, rules: Rules, force: bool
) -> list[Gate]:
    from workbench.analysis.gates import inconclusive
    from workbench.project import require_project
    from workbench.store import Store
    from workbench.study.folder import parse_target
    from workbench.study.seen import view_study

    project = require_project()
    store = Store(project.profiles)
    default = selection.study or project.default_study
    if len(versions) == 2:
        return _step(*versions, selection, rules, force)
    wanted: list[tuple[str, str]] = []
    for text in versions:
        study_name, name = parse_target(text, default)
        wanted.append((study_name, view_study(project, study_name).version(name).id))
    if not versions:
        loaded = view_study(project, default)
        recorded = {entry.version for entry in store.find(study=loaded.name)}
        wanted = [
            (loaded.name, version.id)
            for version in loaded.versions.values()
            if version.id in recorded and version.parent in recorded
        ]
    gates: list[Gate] = []
    for study_name, name in wanted:
        version = view_study(project, study_name).version(name)
        label = f"{study_name}/{version.id}"
        if version.parent is None:
            gates.append(inconclusive(label, version.path, "it has no parent to compare with"))
            continue
        gates += _step(f"{study_name}/{version.parent}", label, selection, rules, force)
    return gates


def _step(old: str, new: str, selection: Selection, rules: Rules, force: bool) -> list[Gate]:
    from workbench.analysis.expectations import judge
    from workbench.analysis.gates import check_step, inconclusive
    from workbench.commands.targets import compared, resolve_all
    from workbench.errors import InconclusiveError

    before, after = resolve_all((old, new), selection)
    version = after.version
    assert version is not None  # reports were refused before
    new = f"{version.study}/{version.id}"
    try:
        comparison = compared(before, after, force=force)
    except InconclusiveError as error:
        return [inconclusive(new, version.path, error.message)]
    gates = list(
        check_step(
            comparison,
            judge(version.expectations, comparison),
            rules,
            version=new,
            file=version.path,
        )
    )
    for side in (before, after):
        if side.stale:
            gates.append(inconclusive(new, version.path, f"{side.label}: {side.notes[0]}"))
    return gates
