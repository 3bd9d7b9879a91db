"""``workbench check``: gates for continuous integration."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from workbench.analysis.story import explain
from workbench.commands.options import (
    folded,
    force_option,
    format_chosen,
    run_options,
    selection_options,
    speak_for,
)
from workbench.disk.writing import replace_file
from workbench.errors import UsageError
from workbench.gate import judging as gates
from workbench.gate import shown as check
from workbench.gate.claims import Claim, Ruling, rule
from workbench.gate.judging import Keeping, Past
from workbench.gate.rules import overall
from workbench.project import find_project
from workbench.session.api import CoreSession
from workbench.session.workspace import Selection, apart, of_one_problem
from workbench.views.shapes import dumps
from workbench.views.terminal.console import print_view
from workbench.views.terminal.progress import Progress
from workbench.views.text.markdown import step_markdown
from workbench.views.text.safe_output import say, write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.engines import RunOptions
    from workbench.session.measuring import Verified

    Files = list[tuple[str, Path]]

_FORMATS = ("table", "json", "junit", "github", "markdown")
_EXIT = {"pass": 0, "fail": 1, "inconclusive": 6}


def _factor(_context: click.Context, _option: click.Parameter, text: str) -> float:
    """``1.2x`` as a number."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[x×]?\s*", text)
    if match is None:
        raise UsageError(f"--at-least {text}: not a factor", "Write it as 1.2x.")
    return float(match[1])


@click.command()
@click.argument("versions", nargs=-1)
@click.option(
    "--all",
    "all_",
    is_flag=True,
    help="Check every recorded version; with --against, unchanged ones too.",
)
@click.option(
    "--against",
    default="",
    metavar="DIR|REV",
    help="Measure versions alternately with their earlier state, from a folder or a Git "
    "revision (without a GPU: count both).",
)
@click.option(
    "--baseline",
    is_flag=False,
    flag_value="main",
    default="",
    metavar="[NAME]",
    help="Compare recorded times with the last good runs kept under this name.",
)
@folded(
    "keeping",
    Keeping,
    click.option("--keep", is_flag=True, help="Add runs that do not fail to the baseline."),
    click.option(
        "--accept",
        is_flag=True,
        help="Start the baseline again with these runs; with --against, accept changed limits and "
        "removed versions.",
    ),
    click.option(
        "--run",
        "run_name",
        default="",
        metavar="NAME",
        help="Name of the runs to keep; runs of the same name are replaced (default: their time).",
    ),
)
@folded(
    "claim",
    Claim,
    click.option(
        "--claim",
        "version",
        default="",
        metavar="VERSION",
        help="Judge a claimed speed-up: accepted, refused or not judged.",
    ),
    click.option("--over", default="", metavar="VERSION", help="The slower version of --claim."),
    click.option(
        "--at-least", default="1x", metavar="1.2x", callback=_factor, help="The claimed factor."
    ),
    click.option(
        "--again", is_flag=True, help="Verify both versions of --claim now, and time them on a GPU."
    ),
)
@selection_options
@force_option
@click.option(
    "--time/--no-time",
    "timed",
    default=True,
    help="Whether to judge durations; --no-time also skips stalls and utilizations that no profile "
    "has.",
)
@click.option("--passed", is_flag=True, help="List everything that passed, too.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    callback=format_chosen,
    default="table",
    show_default=True,
    help="Output format; github annotates the lines of a pull request.",
)
@click.option(
    "--also",
    multiple=True,
    metavar="FORMAT=FILE",
    help="Also write the answer to a file; may be repeated.",
)
@run_options
def command(
    versions: tuple[str, ...],
    all_: bool,
    against: str,
    baseline: str,
    keeping: Keeping,
    claim: Claim,
    selection: Selection,
    force: bool,
    timed: bool,
    passed: bool,
    format_: str,
    also: tuple[str, ...],
    run: RunOptions,
) -> None:
    """Check a step: expectations, regressions and limits.

    VERSIONS is OLD NEW as for diff (two reports or captures too: @base @new), or one version,
    which is checked against its parent. Without VERSIONS, or with --all, it checks every recorded
    version of the study, or of all studies if none is the default. With --against or --baseline,
    versions are checked against their own past. The exit code is 1 if a gate fails and 6 if one
    cannot be judged. The rules are in [tool.workbench.check].
    """
    session = CoreSession(listener=Progress())
    versions, selection = of_one_problem(versions, selection)
    if len(versions) == 1 and session.is_study(apart(versions[0])[0]):
        name, selection = apart(versions[0], selection)
        versions, selection = (), replace(selection, study=name)
    if versions and all_:
        raise UsageError("--all checks every version", "Leave out the versions, or --all.")
    if against and baseline:
        raise UsageError("--against and --baseline are separate gates", "Run each separately.")
    claimed = bool(claim.version or claim.over)
    if claimed and (versions or all_ or against or baseline):
        raise UsageError("--claim cannot be combined with other checks", "Run each separately.")
    if (keeping.keep or (keeping.accept and not against)) and not baseline:
        raise UsageError("--keep and --accept need --baseline", "Add --baseline.")
    files = targets(also)
    speak_for(*dict(files))
    rules = gates.rules_of(session, timed=timed)
    asked = gates.Asked(versions, selection, rules, every=all_)
    past: Past
    if claimed:
        past = rule(session, claim, selection, run)
    elif against:
        past = gates.against(session, asked, against, run, accept=keeping.accept)
    elif baseline:
        past = gates.beside_baseline(session, asked, baseline, keeping)
    else:
        past = gates.of_recorded(session, asked, force=force)
    _write_also(past, files)
    if format_ == "table":
        print_view(check.check_view(past.gates, passed=passed, head=_head(past)))
    else:
        write(_text(past, format_), commands=format_ == "github")
    if not past.gates:
        study = selection.study or session.project.default_study
        say(f"  hint: {_nothing(study, against or baseline)}", err=True)
    sys.exit(_EXIT[overall(past.gates)])


def write_verdicts(found: Verified, files: Files) -> None:
    """Write the results of `verify` to files."""
    speak_for(*dict(files))
    _write_also(gates.of_verified(found), files)


def _write_also(past: Past, files: Files) -> None:
    for kind, path in files:
        if path == Path("-"):
            write(_text(past, kind), commands=kind == "github")
        else:
            whole = path.absolute()
            replace_file(whole.parent, whole.name, _text(past, kind).encode())


def _nothing(name: str, past: str) -> str:
    """Explain that nothing was checked of a study (without a name: of any)."""
    of, only = (name, f" {name}") if name else ("any study", " --all")
    if past:
        return f"Nothing is recorded for {of} to compare; `workbench time{only}` measures times."
    return (
        f"No version of {of} is recorded together with its parent; `workbench "
        f"list` shows the records, `workbench profile` records more."
    )


def targets(also: Iterable[str]) -> Files:
    """Split each ``markdown=gate.md`` into format and path."""
    files = []
    for text in also:
        kind, _, name = text.partition("=")
        if kind not in _FORMATS[1:] or not name:
            what = f"`{kind}` is not one of its formats" if name else "not FORMAT=FILE"
            raise UsageError(
                f"--also {text}: {what}",
                f"Formats are {', '.join(_FORMATS[1:])}: --also junit=check.xml.",
            )
        files.append((kind, Path(name)))
    return files


def _text(past: Past, kind: str) -> str:
    if kind == "json":
        return dumps(check.check_document(past))
    if kind == "markdown":
        steps = [step_markdown(*each, explain(*each)) for each in past.counted]
        return check.gates_markdown(past.gates, steps, _head(past))
    if kind == "junit":
        return check.junit(past.gates, past.command)
    return check.github(past.gates, _below_workspace())


def _head(past: Past) -> str:
    return past.head if isinstance(past, Ruling) else ""


def _below_workspace() -> str:
    """The project's folder in the checkout that annotations refer to: ``perf/``, or ""."""
    project, root = find_project(), os.environ.get("GITHUB_WORKSPACE", "")
    if project is None or not root or not project.root.is_relative_to(Path(root).resolve()):
        return ""
    folder = project.root.relative_to(Path(root).resolve()).as_posix()
    return "" if folder == "." else f"{folder}/"
