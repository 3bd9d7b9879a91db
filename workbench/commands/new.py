"""``workbench new``: start a version from the one before it, or a study."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from workbench.commands.options import Behind, folded, problem_option, study_option
from workbench.compile.build import compiles
from workbench.errors import UsageError
from workbench.features import FEATURES
from workbench.project import Project, find_project, require_project
from workbench.session.captures import captures
from workbench.session.workspace import Selection, apart
from workbench.study.folder import parse_target, view_study
from workbench.study.scaffold import EXAMPLE, start_example, start_study, start_version
from workbench.views.text.safe_output import say

#: The feature that makes versions from tuned ones.
_TUNED = next((each for each in FEATURES if each.starts), None)
#: The module that makes studies from programs.
_PROGRAMS = next((each.load(each.begins) for each in FEATURES if each.begins), None)


@click.command(
    cls=Behind,
    epilog="workbench new v5 --from v4 · workbench new conv2d · "
    "workbench new --from-cu sgemm.cu -- 1024 · workbench new --example",
)
@click.argument("version", required=False)
@click.option(
    "--from", "parent", metavar="VERSION", help="The version to copy (default: the last)."
)
@click.option(
    "--from-tuned",
    "tuned",
    metavar="VERSION[:PROBLEM]",
    hidden=_TUNED is None,
    help="The version to copy, with the values that `workbench tune` found best (on PROBLEM).",
)
@problem_option
@study_option
@click.option("--example", is_flag=True, help="Start the ladder that comes with workbench.")
@click.option("--title", default="", help="Title of the version.")
@folded("program", *(_PROGRAMS.OPTIONS if _PROGRAMS else (lambda: None,)))
@click.option(
    "--define",
    "defines",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of a constant of a lifted Triton kernel; repeatable.",
)
def command(
    version: str | None,
    parent: str | None,
    tuned: str | None,
    problem: str | None,
    study: str | None,
    example: bool,
    title: str,
    program: Mapping[str, Any] | None,
    defines: tuple[str, ...],
) -> None:
    """Start a new version (or study) from the one before it, or from a program.

    VERSION is v5, v5_some_name or sgemm/v5; any other word starts a study of that name. The
    new file holds its parent's code under front matter of its own, with the change and the
    expectations left to you. A program passed to --from-cu runs with your permissions.
    """
    arguments: tuple[str, ...] = click.get_current_context().obj["program"]
    if version and not study and re.fullmatch(r"(?![a-zA-Z]\d)[a-zA-Z]\w*", version):
        study, version = version, None
    elif version and study and "/" not in version:
        version = f"{study}/{version}"
    begins = program is not None or example  # its study may be a project's first
    project = (find_project() if begins else require_project()) or Project(root=Path.cwd())
    where, tuned_for = Selection(problem=problem), None
    if tuned is not None:
        tuned, where = apart(tuned, where)
        tuned_for = where.problem or ""
    elif problem is not None:
        words = "a problem chooses among the winners of a tuning"
        raise UsageError(words, "Add --from-tuned VERSION.")
    other = parent is not None or begins or defines
    if tuned is not None and (_TUNED is None or version is None or other):
        raise UsageError(
            "--from-tuned makes one version from another",
            "Write workbench new v5 --from-tuned v4, and leave out --from and the like.",
        )
    if program is not None or arguments:
        captures("what follows --")
        assert _PROGRAMS is not None  # else `captures` raised
        alone = parent is None and not title and not example
        begin = _PROGRAMS.from_program
        begin(project, version, study or "", arguments, alone, **program or {})
        return
    if example:
        if version or parent or study or title:
            raise UsageError("--example makes a study of its own", "Combine it with nothing else.")
        files = start_example(project)
        say(f"wrote kernels/{EXAMPLE} and its records from an H200: {len(files)} files")
        say(f"Next: `workbench list {EXAMPLE}`, `workbench show {EXAMPLE}/v1` and")
        say(f"`workbench diff {EXAMPLE}/v0 {EXAMPLE}/v1`, which need no GPU and no compiler.")
        return
    if version is None:
        if study is None or parent is not None or title:
            raise UsageError(
                "name a version, a study or --example to start",
                "A version: workbench new v5 --from v4. A study: workbench new NAME. "
                "A ladder to look at: workbench new --example.",
            )
        for path in start_study(project, study):
            say(f"wrote {path}")
        say(
            f"Next: replace the example with your own job, then "
            f"`workbench verify {study}/v0` and `workbench profile {study}/v0`."
        )
        default = require_project().default_study  # an earlier one, or now this study
        if default == study:
            say(f"As long as it is the only study, v0 alone means {study}/v0.")
        elif not default:
            say(f'To write v0 for short, set default_study = "{study}" in the settings.')
        return
    values = _values(defines)
    _start_version(version, tuned or parent, title, values, tuned_for)


def _values(defines: tuple[str, ...]) -> dict[str, str]:
    pairs = [each.partition("=") for each in defines]
    for name, _mark, value in pairs:
        if not name.isidentifier() or not value:
            raise UsageError(f"--define {name} is not NAME=VALUE", "Write --define BLOCK_M=64.")
    return {name: value for name, _mark, value in pairs}


def _start_version(
    version: str, parent: str | None, title: str, defines: Mapping[str, str], tuned_for: str | None
) -> None:
    project = require_project()
    study_name, name = parse_target(version, project)
    loaded = view_study(project, study_name)
    if parent is None:
        ladder = [each for each in loaded.versions.values() if not each.baseline]
        if not ladder:
            raise UsageError(
                f"study {study_name} has no version to start from",
                f"Write kernels/{study_name}/v0_name.cu; `workbench docs front-matter` shows one.",
            )
        source = ladder[-1]
    else:
        _, parent = parse_target(parent, project, study_name)
        source = loaded.version(parent)
    copied = f"a copy of {source.id} ({source.title})"
    if tuned_for is None or _TUNED is None:
        path = start_version(loaded, project, name, source, title, defines=defines)
    else:
        start = _TUNED.load(_TUNED.starts).start_tuned
        path, copied = start(project, loaded, name, source, tuned_for, title)
    loaded = view_study(project, study_name)
    loaded.version(name)  # the written file must be readable
    new_id = name.partition("_")[0]
    prefix = "" if study_name == project.default_study else f"{study_name}/"
    if source.image:
        say(f"wrote {path}, the source of {source.id}, as it was when the kernel was lifted")
        if why := compiles(project, loaded.version(new_id)):
            say(f"It does not compile here: {why}")
    else:
        say(f"wrote {path}, {copied}")
    say("Next:")
    if tuned_for is None:
        say("  1. change the kernel, and say what you changed in `change`")
    else:
        say("  1. read what `change` says about the values")
    say("  2. predict a counter in [[expect]]")
    say(f"  3. workbench profile {prefix}{new_id}")
    say(f"  4. workbench diff {prefix}{source.id} {prefix}{new_id}")
