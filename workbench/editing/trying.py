"""Try a version's saved file in the emulator: a program that ends in time.

It stores nothing, and prints each result at once as a line of JSON: the counters of the largest
problem to verify, the changes since the version was recorded, then the errors with their places. It
runs ``study.py`` and compiles the version with the user's rights: the caller must have the user's
consent.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from workbench.editing.opened import Tried
from workbench.engines import ProfileOptions, RunOptions, Verdict
from workbench.engines.choice import choose
from workbench.errors import WorkbenchError
from workbench.language import _, use
from workbench.measure.experiment import Experiment
from workbench.measure.plan import chosen
from workbench.model import Problem, Profile
from workbench.project import require_project
from workbench.session.api import CoreSession
from workbench.session.step import Diff
from workbench.session.targets import Named, Target
from workbench.specs import Description, Version
from workbench.study import frontmatter


def attempt(root: Path, target: str, seconds: float, say: Callable[[Tried], None]) -> None:
    """Try a version (``sgemm/v3``) on the problems to verify, and count on the largest of them.

    `say` gets each result as it comes. `seconds` include compiling.
    """
    project = require_project(root)
    try:
        _project, study, (version,) = Named(versions=(target,)).pick(project)
        engine = choose("emulator", project, RunOptions(seed=0).within(seconds))
        runner = Experiment(project, study, engine)
        problems = [each.problem for each in chosen(study, version, None, "verify")]
        problems.sort(key=study.flops, reverse=True)

        def counted(which: Version, problem: Problem) -> Profile:
            return engine.profile(runner.subject(which, problem), ProfileOptions(blocks=0))[0]

        profile = counted(version, problems[0])
        say(Tried(profile=profile))
        # The recorded text is tried as well: ncu's counts cannot be compared with the emulator's.
        with contextlib.suppress(WorkbenchError):
            recorded = CoreSession(root).profile(target)
            before = _as_recorded(version, recorded)
            if before is not None:
                runner = Experiment(project, study, engine)  # it keeps one build per version
                labels = _("{version} as recorded"), _("{version} now")
                both = zip(labels, (counted(before, problems[0]), profile), strict=True)
                sides = [
                    Target(label=label.format(version=version.id), profile=each)
                    for label, each in both
                ]
                say(Tried(moved=Diff(*sides).sentence))
        runner = Experiment(project, study, engine)
        subjects = [runner.subject(version, each) for each in problems]
        # Most faults show on every problem; the smallest shows them soonest.
        found: list[str] = []

        def tell(_place: int, verdict: Verdict) -> None:
            if verdict.error is not None:
                found.append(verdict.error.message)

        engine.verify(subjects[::-1], tell, lambda _place: None)
        say(Tried(faults=tuple(dict.fromkeys(found))))
    except WorkbenchError as error:
        say(Tried(faults=(error.message,)))


def _as_recorded(version: Version, profile: Profile) -> Version | None:
    """The version as it was recorded, front matter included; None if it is unchanged."""
    text = next((each.text for each in profile.sources if each.path == version.path), None)
    if not text or text == version.text:
        return None
    then = frontmatter.parse(text, path=version.path, kind=version.kind)
    said = {name: getattr(then, name) for name in Description.__struct_fields__}
    return replace(version, text=text, **(said | {"parent": version.parent}))


def _print(piece: Tried) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(piece) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    use(sys.argv[4])
    attempt(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), _print)
