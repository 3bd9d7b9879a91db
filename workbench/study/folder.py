"""Load a folder ``kernels/<study>/`` as a `Study`: problems, versions, reference.

Versions are discovered by their file names and never registered: ``v3_padded.cu``
is version ``v3``; any other ``.cu`` or ``.py`` file whose front matter says
``baseline = true`` is a library to beat, named by its stem. ``study.py`` is plain Python and gives
everything else; docs/front-matter.md lists what it must define.

Viewing a study runs none of its code (`view_study`), because it may come from someone else.
Versions are only read as text; the rest is kept in a record beside the profiles, written whenever
the study is run on purpose. If that is missing or older, `SeenStudy.note` says so.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from workbench.disk.limits import FACTS, read_regular
from workbench.disk.writing import replace_file
from workbench.errors import MissingError, UsageError, WorkbenchError, did_you_mean
from workbench.model import Problem, Record
from workbench.project import VERSION_SUFFIXES, Project, studies_in
from workbench.specs import Version
from workbench.study.expressions import evaluate
from workbench.study.file import Pointer, StudyFile, compiled
from workbench.study.frontmatter import place
from workbench.study.launches import (
    BufferArg,
    ResolvedLaunch,
    ResolvedScratch,
    ScalarArg,
    check_names,
    defined_integers,
    resolve_launches,
    resolve_scratch,
)
from workbench.study.sources import (
    VERSION_NAME,
    Versions,
    load_versions,
    local_sources,
    read_source,
    source_file,
    source_hash,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "BufferArg",
    "ResolvedLaunch",
    "ResolvedScratch",
    "ScalarArg",
    "Study",
    "load_study",
    "local_sources",
    "parse_target",
    "parse_targets",
    "require_study",
    "resolve_launches",
    "resolve_scratch",
    "source_hash",
    "study_names",
]


class Study:
    """One job with everything that is needed to judge an implementation.

    Attributes:
        title: One line for people.
        folder: ``kernels/<name>``, absolute.
        problems: Name -> problem, in the order of ``study.py``.
        versions: Id -> version: v0, v1, …, then the baselines by name.
        broken: Id -> the error of a version that cannot be used as it is.
        input_names: The buffers that `inputs` gives, in order.
        tolerance: The largest accepted ‖out − ref‖ / ‖ref‖.
        tolerance_why: The reason for that number.
        answering: The version whose results the others must equal (``reference = "v0"``); empty if
            `reference` computes the answer.
    """

    def __init__(self, project: Project, name: str) -> None:
        self.name = name
        self.folder: Path = project.kernels / name
        self._file = StudyFile(self.folder / "study.py", f"kernels/{name}/study.py")
        self.title: str = self._file.text("title")
        self.tolerance: float = self._file.tolerance()
        self.tolerance_why: str = self._file.text("tolerance_why", optional=True)
        self.input_names: tuple[str, ...] = self._file.names("input_names")
        self.problems: dict[str, Problem] = self._file.problems()
        self._file.check_functions()
        self.answering: str = self._file.answering()
        first = next(iter(self.problems.values()))
        self.output_names: tuple[str, ...] = tuple(self.outputs(first))
        self._check_buffers(first)
        self._take(load_versions(project, name), first)

    def _take(self, found: Versions, problem: Problem | None) -> None:
        """Take versions; those whose expressions use names that a problem lacks are broken."""
        self.versions, self.broken = dict(found.sound), dict(found.broken)
        if problem is None:
            return
        for version in found.sound.values():
            try:
                check_names(version, self.buffer_names(version), self.names(version, problem))
            except UsageError as error:
                self.broken[version.id] = error.kept()
                del self.versions[version.id]

    def _check_buffers(self, problem: Problem) -> None:
        parameters = self.parameters(problem)
        buffers = (*self.input_names, *self.output_names)
        for name in buffers:
            if buffers.count(name) > 1 or name in parameters:
                raise self._file.error(
                    f"the name `{name}` is used twice",
                    "Inputs, outputs and parameters must all have different names: rename one.",
                )

    def tolerance_of(self, version: str) -> float:
        """The largest accepted ‖out − ref‖ / ‖ref‖ of a version: its own, or else the study's.

        An earlier state of a version, ``v3@1a2b3c4``, is judged as the version is.
        """
        known = self.versions.get(version.partition("@")[0])
        own = known.tolerance if known is not None else None
        return self.tolerance if own is None else own

    # --- what study.py computes ------------------------------------------------

    def parameters(self, problem: Problem) -> dict[str, int]:
        """The problem's parameters and those that ``derive`` in study.py adds."""
        own = dict(problem.parameters)
        return own | self._file.derive(dict(own))

    def outputs(self, problem: Problem) -> dict[str, tuple[tuple[int, ...], str]]:
        """Output name -> (shape, dtype name)."""
        return self._file.outputs(self.parameters(problem))

    def inputs(
        self, problem: Problem, rng: np.random.Generator
    ) -> dict[str, npt.NDArray[np.generic]]:
        """Fresh inputs, drawn from `rng`, C-contiguous, in the order of `input_names`.

        Raises UsageError: study.py raised, or gave names other than `input_names`.
        """
        return self._file.inputs(self.parameters(problem), rng, self.input_names)

    def pointers(
        self, problem: Problem, inputs: Mapping[str, npt.NDArray[np.generic]]
    ) -> tuple[Pointer, ...]:
        """The addresses inside inputs that point to other buffers (``pointers``)."""
        sizes: dict[str, int | None] = dict.fromkeys(self.output_names)
        sizes |= {name: values.nbytes for name, values in inputs.items()}
        return self._file.pointers(self.parameters(problem), sizes)

    @property
    def not_finite(self) -> bool:
        """True if the reference may hold NaN and infinities (``not_finite = True``)."""
        return self._file.flag("not_finite")

    def reference(
        self, problem: Problem, inputs: Mapping[str, npt.NDArray[np.generic]]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Every output in float64, by the study's own definition."""
        return self._file.reference(
            "reference", self.outputs(problem), self.parameters(problem), dict(inputs)
        )

    @property
    def can_sample(self) -> bool:
        """True if study.py computes single outputs (``reference_at``)."""
        return self._file.has("reference_at")

    def reference_at(
        self,
        problem: Problem,
        inputs: Mapping[str, npt.NDArray[np.generic]],
        indices: Mapping[str, npt.NDArray[np.int64]],
    ) -> dict[str, npt.NDArray[np.float64]]:
        """The outputs at flat `indices` only (output name -> int64 array), in float64."""
        shapes = {name: (indices[name].shape, "float64") for name in self.outputs(problem)}
        return self._file.reference(
            "reference_at", shapes, self.parameters(problem), dict(inputs), dict(indices)
        )

    def flops(self, problem: Problem) -> int:
        """Floating-point operations that the job needs, in any version."""
        return self._count("flops", problem)

    def bytes(self, problem: Problem) -> int:
        """Least traffic to and from memory, in bytes: each input and output once."""
        return self._count("bytes", problem)

    def _count(self, function: str, problem: Problem) -> int:
        return self._file.count(function, self.parameters(problem), problem.name)

    @property
    def work(self) -> Literal["flop", "op"]:
        """The unit of `flops`: ``op`` if all results are integers."""
        kinds = [kind for _, kind in self.outputs(next(iter(self.problems.values()))).values()]
        return "op" if all(kind.startswith(("int", "uint")) for kind in kinds) else "flop"

    # --- finding things by name ------------------------------------------------

    def version(self, name: str) -> Version:
        """A version by its id (``v3``) or file stem (``v3_padded``).

        Raises UsageError: unknown (names the nearest one), or broken.
        """
        match = VERSION_NAME.match(name)
        wrong = self.broken.get(f"v{int(match[1])}" if match else name)
        if wrong is not None:
            raise wrong
        if name in self.versions:
            return self.versions[name]
        for version in self.versions.values():
            if version.name == name:
                return version
        raise UsageError(
            f"study {self.name} has no version `{name}`",
            did_you_mean(name, self.versions, "versions"),
        )

    def problem(self, name: str | None = None, use: str = "profile") -> Problem:
        """A problem by name, or the first one that is meant for `use`.

        Raises UsageError: unknown, or none is meant for `use`.
        """
        if name is None:
            chosen = self.problems_for(use)
            if chosen:
                return chosen[0]
            raise UsageError(
                f"study {self.name} has no problem for `{use}`",
                f'Add "{use}" to the uses of a problem in kernels/{self.name}/study.py.',
            )
        if name not in self.problems:
            raise UsageError(
                f"study {self.name} has no problem `{name}`",
                did_you_mean(name, self.problems, "problems"),
            )
        return self.problems[name]

    def problems_for(self, use: str) -> list[Problem]:
        """The problems that are meant for ``verify``, ``profile`` or ``sweep``."""
        return [problem for problem in self.problems.values() if use in problem.uses]

    @property
    def baseline(self) -> Version | None:
        """The library to beat: the first baseline by name, if there is one."""
        return next((each for each in self.versions.values() if each.baseline), None)

    # --- a version on a problem --------------------------------------------------

    def names(self, version: Version, problem: Problem) -> dict[str, int]:
        """Parameters and integer defines of expressions; UsageError: a define hides a parameter."""
        parameters = self.parameters(problem)
        defines = defined_integers(version)
        for name in version.defines:
            if name in parameters:
                raise UsageError(
                    f"{place(version, f'defines.{name}')}: the define `{name}` hides "
                    "a parameter of the study",
                    "Rename the define.",
                )
        return parameters | defines

    def buffer_names(self, version: Version) -> set[str]:
        """The buffers that the version's arguments may point to."""
        return {*self.input_names, *self.output_names, *(each.name for each in version.scratch)}

    def check_requirements(self, version: Version, problem: Problem) -> None:
        """Refuse a problem that the version's ``requires`` excludes; the UsageError says why."""
        if not version.requires:
            return
        where = place(version, "requires")
        if not evaluate(version.requires, self.names(version, problem), where=where):
            why = version.requires_why or f"it requires {version.requires}"
            raise UsageError(
                f"{version.id} cannot run problem {problem.name}: {why}",
                f"See `requires` at {where}; choose another problem.",
            )


def study_names(project: Project) -> list[str]:
    """Names of the project's studies: the folders in kernels/ that hold a study.py."""
    return studies_in(project.kernels)


def require_study(project: Project, name: str) -> None:
    """Refuse a name without a study; the UsageError names the nearest one."""
    # Compare with the existing names: a file system may refuse a query for another name.
    if name not in (names := study_names(project)):
        raise UsageError(
            f"there is no study `{name}` in {project.kernels}"
            if name
            else "no study was named, and the project has no default study",
            did_you_mean(name, names, "studies") + " `workbench new NAME` starts one.",
        )


def load_study(project: Project, name: str) -> Study:
    """Load and check a study with all its versions; this runs ``study.py``.

    `view_study` gives a study without running it. Raises UsageError: no such study; or
    study.py or the front matter of a version is wrong, with file, line and the nearest right name.
    """
    require_study(project, name)
    return Study(project, name)


def parse_target(text: str, project: Project, study: str | None = None) -> tuple[str, str]:
    """``v3``, ``sgemm/v3`` or ``kernels/sgemm/v3_padded.cu`` -> (study, version).

    If no study is named, `study` is meant, or else the project's default one. Raises UsageError:
    malformed, or no study is named and the project has no default.
    """
    named, slash, version = _without_path(text.strip()).rpartition("/")
    if not version or "/" in named or (slash and not named):
        raise UsageError(f"`{text}` is not a version", "Write v3, or sgemm/v3 with its study.")
    if "@" in version:
        raise UsageError(
            f"`{text}` names a device, which is not accepted here",
            f"Leave out @{version.partition('@')[2]}.",
        )
    found = named or study or project.default_study
    if not found:
        raise UsageError(
            f"`{text}` names no study, and the project has no default study",
            _which(text, version, project),
        )
    return found, version


def parse_targets(
    texts: Sequence[str], project: Project, study: str | None = None
) -> list[tuple[str, str]]:
    """Several targets in one command, like `parse_target`: ``sgemm/v2 v3`` are two of sgemm."""
    found: list[tuple[str, str]] = []
    for text in texts:
        found.append(parse_target(text, project, study))
        study = found[-1][0]
    return found


def _which(text: str, version: str, project: Project) -> str:
    """The hint for a version that names no study."""
    if version[1:].isdigit():
        files = project.kernels.glob(f"*/{version}[._]*")
        names = dict.fromkeys(sorted(f"{file.parent.name}/{version}" for file in files))
        wanted = ", ".join(list(names)[:3]) or f"STUDY/{version}"
        return (
            f"Name its study: {wanted}; or set default_study in the project's settings. "
            "`workbench list` names the studies."
        )
    if text.endswith(".cu"):
        return f"`workbench new --from-cu {shlex.quote(text)}` makes a study from a program."
    return f"A study's version is named {version}/v0; `workbench list` names the studies."


def _without_path(text: str) -> str:
    """``kernels/sgemm/v3_padded.cu``, as a shell completes it -> ``sgemm/v3_padded``."""
    if not text.endswith(VERSION_SUFFIXES):
        return text
    path = Path(text)
    return f"{path.parent.name}/{path.stem}" if path.parent.name else path.stem


# --- a study as it is viewed ------------------------------------------------------------------


class ProblemFacts(Record, frozen=True):
    """The facts that ``study.py`` gives about one problem.

    `derived` are all parameters that expressions may use, `outputs` name -> (shape, dtype).
    """

    problem: Problem
    derived: dict[str, int]
    outputs: dict[str, tuple[tuple[int, ...], str]]
    flops: int
    bytes: int


class StudyFacts(Record, frozen=True):
    """The facts of ``study.py``, without inputs and references; `source`: the file's SHA-256."""

    title: str
    source: str
    tolerance: float
    tolerance_why: str
    input_names: tuple[str, ...]
    problems: tuple[ProblemFacts, ...]
    answering: str = ""
    schema_version: Literal[1] = 1


def facts_of(study: Study) -> StudyFacts:
    """The record of a study that was run; UsageError: study.py raised, or gave an invalid value."""
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
        answering=study.answering,
    )


def run_study(project: Project, name: str) -> Study:
    """Load a study by running its ``study.py``, and keep the facts that views need."""
    study = load_study(project, name)
    # A folder that cannot be written, or a flops() that fails for one problem, is reported where it
    # matters; here it only means that views lack the facts.
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
    """A study that was not run; `note` says why its facts may be wrong; "" if they are right."""

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
        self.answering = facts.answering if facts else ""
        self.problems = {each: entry.problem for each, entry in self._facts.items()}
        first = next(iter(self._facts.values()), None)
        self.output_names = tuple(first.outputs) if first else ()
        self._take(load_versions(project, name), None if first is None or note else first.problem)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the study: why it may be out of date, and which versions are left out."""
        left = (f"{each} is left out: {error.message}" for each, error in self.broken.items())
        return (*([self.note] if self.note else []), *left)

    def problem(self, name: str | None = None, use: str = "profile") -> Problem:
        """As in `Study`; if no problem is known, any name may be one.

        Raises:
            UsageError: unknown, or none is meant for `use`.
            MissingError: no name is given, and the study's problems are unknown.
        """
        if self._known:
            return super().problem(name, use)
        if name is None:
            raise self._unknown("its problems")
        return Problem(name=name, parameters={})

    def parameters(self, problem: Problem) -> dict[str, int]:
        """The problem's parameters and those that ``derive`` added."""
        return dict(self._of(problem).derived)

    def outputs(self, problem: Problem) -> dict[str, tuple[tuple[int, ...], str]]:
        """Output name -> (shape, dtype name)."""
        return dict(self._of(problem).outputs)

    def flops(self, problem: Problem) -> int:
        """Operations that the job needs, in any version."""
        return self._of(problem).flops

    def bytes(self, problem: Problem) -> int:
        """Least traffic to and from memory, in bytes."""
        return self._of(problem).bytes

    @property
    def work(self) -> Literal["flop", "op"]:
        """The unit of `flops`; operations on floats if it is not known."""
        return super().work if self.output_names else "flop"

    def _of(self, problem: Problem) -> ProblemFacts:
        if problem.name not in self._facts:
            raise self._unknown(f"problem {problem.name}")
        return self._facts[problem.name]

    def _unknown(self, what: str) -> MissingError:
        return MissingError(
            f"nothing is recorded here for study {self.name}: {what} is unknown without running "
            f"kernels/{self.name}/study.py",
            f"`workbench verify {self.name}` runs it and records the result.",
        )


def view_study(project: Project, name: str, known: Sequence[ProblemFacts] = ()) -> SeenStudy:
    """A study without running its code.

    `known` are problems that profiles or times name, for a study without a record. Raises
    UsageError: no such study, a study.py that is not Python, or wrong front matter.
    """
    require_study(project, name)
    facts = None
    note = wrong = ""
    try:
        facts = msgspec.json.decode(_kept(project, name), type=StudyFacts)
    except (FileNotFoundError, NotADirectoryError):
        pass  # `note` reports the missing record
    except (OSError, WorkbenchError, ValueError, RecursionError) as error:
        shown = project.facts(name).relative_to(project.root).as_posix()
        wrong = f"; {shown} cannot be used: {str(error).replace(str(project.facts(name)), 'it')}"
    again = f"`workbench verify {name}` runs it"
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


# --- The texts of a study that may be missing, without an error ---
# Records outlive their study; a report of them needs at most the study's texts.


class StudyInfo:
    """A study's texts, or the reason why there are none; records need neither.

    Attributes:
        study: None if it is gone or broken.
        error: Why the study could not be loaded; None if it was, or does not exist.
        work: The unit of a job's work: ``flop``, or ``op`` if results are integers.
        default: Whether a command that names no study means this one.
        device: The project's default device; "" if it has none.
    """

    def __init__(self, project: Project | None, name: str, study: Study | None = None) -> None:
        self.name = name
        self.study = study
        self.error: WorkbenchError | None = None
        self.work = "flop"
        self.default = project is not None and project.default_study == name
        self.device = project.default_device if project is not None else ""
        self._project = project
        self._hashes: dict[str, str] = {}
        if project is None or study or not (project.kernels / name / "study.py").exists():
            return
        try:
            study = view_study(project, name)
        except WorkbenchError as error:
            # A study that is broken today is no reason to withhold measurements.
            self.error = error
            return
        self.study = study
        self.work = study.work

    @property
    def problem(self) -> str:
        """The loading error in words; "" if the study was loaded, or does not exist."""
        return self.error.message if self.error else ""

    @property
    def title(self) -> str:
        """The study's title; its name if it has none."""
        return self.study.title if self.study else self.name

    @property
    def versions(self) -> dict[str, Version]:
        """Its versions by id, in ladder order."""
        return self.study.versions if self.study else {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Names of its problems, those that are meant for profiling first."""
        if self.study is None:
            return ()
        first = [problem.name for problem in self.study.problems_for("profile")]
        return tuple(dict.fromkeys([*first, *self.study.problems]))

    @property
    def places(self) -> tuple[str, ...]:
        """The paths, from the project's root, of other files that its sources depend on.

        Includes were looked for there. Not all exist: a file may be added.
        """
        found: set[str] = set()
        for version in self.versions.values() if self._project is not None else ():
            assert self._project is not None
            looked: dict[str, bool] = {}
            local_sources(self._project, version, looked)
            found |= {path for path, there in looked.items() if there or not self._project.closed}
        return tuple(sorted(found))

    def source_hash(self, version: str) -> str:
        """The hash of a version's current source; "" if there is none."""
        found = self.versions.get(version)
        if found is None or self._project is None:
            return ""
        if version not in self._hashes:
            self._hashes[version] = source_hash(self._project, found)
        return self._hashes[version]
