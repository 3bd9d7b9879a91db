"""``workbench new --from-cu``: a study, or a version of one, of a program."""

from __future__ import annotations

from typing import Any

from workbench.compile.build import compiles
from workbench.language import _, told
from workbench.programs.cli.behind import progress_of
from workbench.programs.studies.brought import FromProgram, add_from_program, start_from_program
from workbench.project import Project, require_project
from workbench.study.folder import parse_target, view_study
from workbench.units import several
from workbench.views.text.safe_output import say


def from_program(project: Project, version: str | None, **wished: Any) -> None:
    """Run the program without a GPU, and make a study or a version of what it launched."""
    wish = FromProgram(**wished)
    progress = progress_of("new")
    progress(f"{wish.file} is run without a GPU, on this machine, with your rights")
    if version is None:
        made = start_from_program(project, wish, progress)
    else:
        study, name = parse_target(version, require_project(), wish.study or None)
        made = add_from_program(project, study, name, wish, progress)
    for path in made.paths:
        say(f"wrote {path}")
    versions = ", ".join(f"{each} = {kernel}" for each, kernel in made.versions.items())
    say(f"{several(len(made.versions), 'version')}: {versions}")
    for why in dict.fromkeys(made.left.values()):
        names = ", ".join(kernel for kernel, said in made.left.items() if said == why)
        say(f"left out {names}: {told(why)}")
    for note in made.notes:
        say(_("note: {text}").format(text=told(note)))
    first = f"{made.study}/{next(iter(made.versions))}"
    if why := compiles(project, view_study(project, made.study).version(first.rpartition("/")[2])):
        say(f"It does not compile here: {why}")
    say(f"Next: read study.py, then `workbench verify {first}`")
