"""A study as it is looked at: ``study.py`` is not run, what it said when it was run is read.

Looking must not run code of a project that may be somebody else's. Versions are read as text
anyway; the rest of a study (its title, its problems, what follows from their parameters) is
kept in a record beside the profiles, written whenever the study was run on purpose. Where that
is missing or older than the file, `SeenStudy.note` says so, and all else is shown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from workbench.disk.limits import FACTS, read_regular
from workbench.disk.writing import replace_file
from workbench.errors import MissingError, WorkbenchError
from workbench.model import Problem, Record
from workbench.project import Project
from workbench.study.discovery import load_versions
from workbench.study.file import compiled
from workbench.study.folder import Study, load_study, require_study
from workbench.study.launches import check_names
from workbench.study.sources import read_source, source_file


class ProblemFacts(Record, frozen=True):
    """What ``study.py`` says of one problem.

    `derived` are all parameters that expressions may use, `outputs` name -> (shape, dtype).
    """

    problem: Problem
    derived: dict[str, int]
    outputs: dict[str, tuple[tuple[int, ...], str]]
    flops: int
    bytes: int


class StudyFacts(Record, frozen=True):
    """What ``study.py`` says, apart from inputs and references; `source`: the file's SHA-256."""

    title: str
    source: str
    tolerance: float
    tolerance_why: str
    input_names: tuple[str, ...]
    problems: tuple[ProblemFacts, ...]
    schema_version: Literal[1] = 1


def facts_of(study: Study) -> StudyFacts:
    """What is kept of a study that was run.

    Raises:
        UsageError: study.py raised, or gave what it must not.
    """
    return StudyFacts(
        title=study.title,
        source=source_file("study.py", read_source(study.folder / "study.py")).sha256,
        tolerance=study.tolerance,
        tolerance_why=study.tolerance_why,
        input_names=study.input_names,
        problems=tuple(
            ProblemFacts(
                problem=problem,
                derived=study.parameters(problem),
                outputs=study.outputs(problem),
                flops=study.flops(problem),
                bytes=study.bytes(problem),
            )
            for problem in study.problems.values()
        ),
    )


def run_study(project: Project, name: str) -> Study:
    """Load a study by running its ``study.py``, and keep what views need of it.

    Raises:
        UsageError: as `load_study`.
    """
    study = load_study(project, name)
    # A folder that cannot be written, or a flops() that fails for one problem, is told where
    # it matters; here it only means that views go without.
    with contextlib.suppress(WorkbenchError):
        kept = b""
        with contextlib.suppress(OSError, WorkbenchError):
            kept = _kept(project, name)
        data = msgspec.json.format(msgspec.json.encode(facts_of(study)), indent=1) + b"\n"
        if kept != data:
            place = project.facts(name).relative_to(project.profiles).as_posix()
            replace_file(project.profiles, place, data, durable=True)
    return study


class SeenStudy(Study):
    """A study that was not run.

    Attributes:
        note: Why what is told of it may not hold; "" where it does.
    """

    def __init__(self, project: Project, name: str, facts: StudyFacts | None, note: str) -> None:
        self.name = name
        self.folder = project.kernels / name
        self.note = note
        self._known = facts is not None
        self._facts = {each.problem.name: each for each in facts.problems} if facts else {}
        self.title = facts.title if facts else name
        self.tolerance = facts.tolerance if facts else 0.0
        self.tolerance_why = facts.tolerance_why if facts else ""
        self.input_names = facts.input_names if facts else ()
        self.problems = {each: entry.problem for each, entry in self._facts.items()}
        first = next(iter(self._facts.values()), None)
        self.output_names = tuple(first.outputs) if first else ()
        self.versions = load_versions(project, name)
        if first is not None and not note:
            for version in self.versions.values():
                names = self.names(version, first.problem)
                check_names(version, self.buffer_names(version), names)

    def problem(self, name: str | None = None, use: str = "profile") -> Problem:
        """As of `Study`; where no problem is known, any name may be one.

        Raises:
            UsageError: unknown, or none is meant for `use`.
            MissingError: no name is given, and it is not known which there are.
        """
        if self._known:
            return super().problem(name, use)
        if name is None:
            raise self._unknown("its problems")
        return Problem(name=name, parameters={})

    def parameters(self, problem: Problem) -> dict[str, int]:
        """The problem's parameters and what ``derive`` added to them."""
        return dict(self._of(problem).derived)

    def outputs(self, problem: Problem) -> dict[str, tuple[tuple[int, ...], str]]:
        """Output name -> (shape, dtype name)."""
        return dict(self._of(problem).outputs)

    def flops(self, problem: Problem) -> int:
        """Operations that the job needs, whoever does it."""
        return self._of(problem).flops

    def bytes(self, problem: Problem) -> int:
        """Least traffic to and from memory, in bytes."""
        return self._of(problem).bytes

    @property
    def work(self) -> Literal["flop", "op"]:
        """What `flops` counts; operations on floats where that is not known."""
        return super().work if self.output_names else "flop"

    def _of(self, problem: Problem) -> ProblemFacts:
        if problem.name not in self._facts:
            raise self._unknown(f"problem {problem.name}")
        return self._facts[problem.name]

    def _unknown(self, what: str) -> MissingError:
        return MissingError(
            f"nothing is recorded here of study {self.name}: {what} cannot be told without "
            f"running kernels/{self.name}/study.py",
            f"`workbench verify --all --study {self.name}` runs it, and records that.",
        )


def view_study(project: Project, name: str, known: Sequence[ProblemFacts] = ()) -> SeenStudy:
    """A study without running anything of it.

    Args:
        project: Where it lies.
        name: The study's name.
        known: Problems that profiles or times tell of, for a study without a record.

    Raises:
        UsageError: no such study, a study.py that is no Python, or wrong front matter.
    """
    require_study(project, name)
    facts = None
    note = wrong = ""
    try:
        facts = msgspec.json.decode(_kept(project, name), type=StudyFacts)
    except (FileNotFoundError, NotADirectoryError):
        pass  # which is told as what it means
    except (OSError, WorkbenchError, msgspec.MsgspecError, RecursionError) as error:
        shown = project.facts(name).relative_to(project.root).as_posix()
        wrong = f"; {shown} cannot be used: {str(error).replace(str(project.facts(name)), 'it')}"
    again = f"`workbench verify --all --study {name}` runs it"
    file = f"kernels/{name}/study.py"
    text = read_source(project.kernels / name / "study.py", file)
    if facts is None or facts.source != source_file(file, text).sha256:
        compiled(text, project.kernels / name / "study.py", file)
    if facts is None:
        note = f"{file} was not run here, so its title and problems are not known; {again}{wrong}"
        if known:
            facts = StudyFacts(name, "", 0.0, "", (), tuple(known))
    elif facts.source != source_file(file, text).sha256:
        note = (
            f"{file} was edited since it was run; its problems are shown as they were then; {again}"
        )
    return SeenStudy(project, name, facts, note)


def _kept(project: Project, name: str) -> bytes:
    return read_regular(project.facts(name), FACTS)
