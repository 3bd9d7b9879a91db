"""Make a study, or a version of one, from a CUDA program: run it and keep its launches.

The program runs in the emulator (`programs.standin.running`). The memory that its kernels read and
wrote gives the study's inputs and right answer; versions compile the user's own file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from workbench.compile.build import DEFAULT_FLAGS
from workbench.disk.writing import create_files, private_folder, replace_file
from workbench.engines import Say
from workbench.errors import KernelError, UsageError, did_you_mean
from workbench.language import _
from workbench.model import Record
from workbench.programs.standin.running import Program, ProgramOutcome, run_program
from workbench.programs.standin.server import PERSISTING
from workbench.programs.studies.adopting import (
    buffer_uses,
    check_repeatable,
    instantiation,
    tolerance_of,
)
from workbench.programs.studies.calling import runnable
from workbench.programs.studies.fitting import JobData, UnfitLaunchError, fitted, recorded_in
from workbench.programs.studies.headers import OwnHeaders, own_headers
from workbench.programs.studies.recordings import (
    BufferUse,
    ProblemSizes,
    Recording,
    front_matter,
    integers_of,
    plain_name,
    readable,
    study_text,
    told_guesses,
)
from workbench.project import Project
from workbench.study.flags import accepted
from workbench.study.folder import run_study
from workbench.study.frontmatter import KERNEL
from workbench.study.lifted import FOLDER, LiftedLaunch, RecordedLaunch, write_lifted
from workbench.study.mangling import own_name
from workbench.study.parameters import KernelParameter, parameters_of
from workbench.study.scaffold import (
    check_study_free,
    check_study_name,
    ensure_project,
    pair,
    start_version,
    study_name,
    write_study,
)
from workbench.study.sources import include_folders, read_source

_PLAIN = re.compile(r"[\w.+-]+")
#: The most lines of a program's output that a study quotes.
_QUOTED = 8


class FromProgram(Record, frozen=True):
    """The program that becomes a study, as it was typed.

    Attributes:
        file: The source.
        arguments: The program's arguments.
        also: Arguments of further runs, one problem each.
        flags: Flags for nvcc.
        call: A call of a function, for a file without main.
        kernel: The kernel to use; "": those that do most of the work.
        study: The study's name; "": after the file.
        timeout_s: End a run after this time in seconds, and use its records so far; None: never.
    """

    file: Path
    arguments: tuple[str, ...] = ()
    also: tuple[tuple[str, ...], ...] = ()
    flags: tuple[str, ...] = ()
    call: str = ""
    kernel: str = ""
    study: str = ""
    timeout_s: float | None = None

    @property
    def runs(self) -> tuple[tuple[str, ...], ...]:
        """The arguments of all runs."""
        return (self.arguments, *self.also)


class MadeOfProgram(Record, frozen=True):
    """The written study.

    `versions`: ids and kernels. `left`: kernels that are not versions -> the reason.
    """

    study: str
    paths: tuple[str, ...]
    versions: dict[str, str]
    left: dict[str, str]
    notes: tuple[str, ...]


@dataclass
class _Kernel:
    """A kernel of the program: how launches name it, and its launch in each run that has one.

    `uses`: the uses of its buffers, once it has a group.
    """

    name: str
    parameters: Sequence[KernelParameter]
    runs: dict[int, RecordedLaunch]
    work: float
    uses: Sequence[BufferUse] = ()

    @property
    def first(self) -> RecordedLaunch:
        """Its launch in the first run that has one."""
        return self.runs[min(self.runs)]

    @property
    def launches(self) -> list[LiftedLaunch]:
        """Its launches, one per run."""
        return [self.runs[at].launch for at in sorted(self.runs)]


@dataclass
class _Group:
    """Kernels with the same inputs and outputs; v0, which may be `faulty`, is the first."""

    kernels: list[_Kernel]
    asked: Mapping[int, JobData]
    notes: Sequence[str]
    faulty: bool = False
    error: float = 0.0
    left: dict[str, str] = field(default_factory=dict)

    @property
    def work(self) -> float:
        """The amount of its kernels' work in the program."""
        return sum(kernel.work for kernel in self.kernels)


#: Instructions that ptxas supports only for one chip, such as ``sm_90a``.
_ONE_CHIP = re.compile(r"\b(?:wgmma|setmaxnreg|tcgen05)\b")


@dataclass(frozen=True)
class _ProgramSource:
    """The program's file: its text, its own headers, and the flags for its versions."""

    text: str
    headers: OwnHeaders
    flags: tuple[str, ...]
    called: bool

    @property
    def whole(self) -> str:
        """All text by the user."""
        return "\n".join((self.text, *self.headers.files.values()))


def start_from_program(project: Project, wish: FromProgram, say: Say) -> MadeOfProgram:
    """Run a program and write a study of its kernels; a folder outside a project becomes one.

    Raises:
        UsageError: the file cannot be read, the study already exists, or no such kernel.
        KernelError: it does not compile, or a study can repeat none of its launches.
        MissingError: there is no nvcc.
    """
    study = wish.study or study_name(wish.file.stem.lower())
    check_study_name(study)
    check_study_free(
        project,
        study,
        f"Nothing was run. `workbench new {study}_2 --from-cu` makes another one; `workbench "
        f"new {study}/v1 --from-cu {wish.file}` adds a version.",
    )
    source, runs = _ran(wish, say)
    group = _chosen(_groups(wish, source, runs), wish.kernel)
    recordings = list(_recordings(wish, group))
    versions = dict(_versions(wish.file, study, source, group, recordings))
    names = {f"v{at}": kernel.name for at, kernel in enumerate(group.kernels)}
    notes = [*group.notes, *_told_of(runs)]

    def make(place: Path) -> dict[str, str]:
        for at, recording in zip(sorted(group.asked), recordings, strict=True):
            write_lifted(place / recording.folder, group.kernels[0].runs[at])
        text = _study(wish, group, recordings, runs, notes)
        return {"study.py": text, **source.headers.files, **versions}

    made = ensure_project(project.root)
    paths = (*made, *write_study(project, study, make))
    run_study(project, study)  # so that lists know its title and problems
    return MadeOfProgram(study, paths, names, group.left, tuple(notes))


def add_from_program(
    project: Project, study: str, version: str, wish: FromProgram, say: Say
) -> MadeOfProgram:
    """Run a program and write a version (``v3``) of a study that was made from a program.

    Raises:
        UsageError: the study has no recorded launches; or as `start_version`.
        KernelError: no kernel has the study's inputs and outputs; else as `start_from_program`.
    """
    loaded = run_study(project, study)
    recorded = recorded_in(loaded, project.kernels / study)
    source, runs = _ran(wish, say)
    left: dict[str, str] = {}
    fits: list[_Kernel] = []
    for kernel in _kernels(source, runs):
        if wish.kernel and own_name(wish.kernel) != own_name(kernel.name):
            continue
        try:
            fits.append(_fitted_anywhere(kernel, recorded))
        except UnfitLaunchError as error:
            left[kernel.name] = str(error)
    if not fits:
        why = "; ".join(f"{name}: {said}" for name, said in left.items())
        raise KernelError(
            f"no kernel of {wish.file} has the inputs and outputs of {study}: {why}",
            "It must be run with the same numbers and sizes; otherwise make a study of its own.",
        )
    kernel = max(fits, key=lambda each: each.work)
    left |= {each.name: _("--kernel NAME selects one") for each in fits if each is not kernel}
    problems = {
        each.parameters.get("recording", 0): each.parameters
        for each in reversed(loaded.problems.values())
    }
    every = [problems[each] for each in range(len(recorded))]
    sizes = ProblemSizes.of(every, tuple(sorted(kernel.runs)))
    text = _version(wish.file, study, source, kernel, sizes, len(recorded))
    headers = {
        f"kernels/{study}/{name}": text.encode()
        for name, text in source.headers.files.items()
        if not _same(project.kernels / study / name, text)
    }
    create_files(project.root, headers)
    stem = version if "_" in version else f"{version}_{_stem(kernel.name)}"
    path = start_version(loaded, project, stem, next(iter(loaded.versions.values())), text=text)
    new = version.partition("_")[0]
    notes = tuple(_told_of(runs))
    return MadeOfProgram(study, (*headers, path), {new: kernel.name}, left, notes)


# --- the run ---------------------------------------------------------------------------------


def _ran(wish: FromProgram, say: Say) -> tuple[_ProgramSource, list[ProgramOutcome]]:
    """The source, and the result of each of its runs."""
    text = read_source(wish.file)
    run_text = runnable(text, str(wish.file), wish.call)
    folders = [Path(each) for each in include_folders(wish.flags)]
    headers = own_headers(wish.file, text, folders)
    file, flags, runs = wish.file, wish.flags, list[ProgramOutcome]()
    with private_folder() as holder:
        # nvcc passes names to a shell.
        if wish.call or not _PLAIN.fullmatch(wish.file.name):
            file = Path(holder) / "program.cu"
            replace_file(file.parent, file.name, run_text.encode())
            flags = (*flags, f"-I{wish.file.parent.absolute()}")
        for arguments in wish.runs:
            program = Program(
                folder=Path.cwd(),
                source=file,
                arguments=arguments,
                flags=flags,
                timeout_s=wish.timeout_s,
                quiet_output=True,
            )
            runs.append(run_program(program, say, record=True))
    kept = tuple(each for each in accepted(wish.flags) if each not in DEFAULT_FLAGS)
    return _ProgramSource(text, headers, kept, bool(wish.call)), runs


def _kernels(source: _ProgramSource, runs: Sequence[ProgramOutcome]) -> Iterator[_Kernel]:
    """The kernels of all runs, in the order of their first launches.

    Raises KernelError: there are no kernels.
    """
    found: dict[str, dict[int, RecordedLaunch]] = {}
    for at, run in enumerate(runs):
        for each in run.recorded:
            found.setdefault(each.launch.kernel, {})[at] = _own(each, source.whole)
    if not found and not any(run.unrecorded for run in runs):
        printed = [f"  | {line}" for line in runs[0].output.splitlines()[-_QUOTED:]]
        said = "\n".join((*printed, *runs[0].notices))
        raise KernelError(
            f"the program launched no kernel (exit code {runs[0].code})\n{said}".rstrip(),
            "Give it the arguments that it needs, after --; `workbench run` shows what it does.",
        )
    work: Counter[str] = Counter()
    for run in runs:
        for launch in run.counted.launches:
            work[launch.symbol] += launch.counted.instructions * launch.times
    names = Counter(readable(symbol) for symbol in found)
    for symbol, launches in found.items():
        lifted = next(iter(launches.values())).launch
        name = readable(symbol)
        parameters = parameters_of(
            own_name(name), lifted.demangled, source.whole, len(lifted.arguments)
        )
        name = name if names[name] == 1 and KERNEL.match(name) else symbol
        yield _Kernel(name, parameters, launches, work[symbol])


def _own(recorded: RecordedLaunch, text: str) -> RecordedLaunch:
    """A launch without its compiled code, and without variables that its source does not use."""
    launch = recorded.launch
    kept = [
        each
        for each in launch.buffers
        if each.symbol is None or re.search(rf"\b{re.escape(own_name(each.symbol))}\b", text)
    ]
    names = {each.name for each in kept}
    leading = [
        each
        for each in launch.pointers
        if each.target in names and (each.buffer is None or each.buffer in names)
    ]
    launch = msgspec.structs.replace(
        launch, buffers=tuple(kept), pointers=tuple(leading), image=None, ptx=None
    )
    files = {name: recorded.files[name] for each in kept for name in each.files}
    return recorded._replace(launch=launch, files=files)


# --- kernels that do the same job --------------------------------------------------------------


def _groups(
    wish: FromProgram, source: _ProgramSource, runs: Sequence[ProgramOutcome]
) -> list[_Group]:
    """Groups of kernels that do the same job; each lists the others with a reason in `left`.

    Raises KernelError: no study can repeat any kernel.
    """
    groups: list[_Group] = []
    kernels = list(_kernels(source, runs))
    left = {readable(name): why for run in runs for name, why in run.unrecorded.items()}
    hint = (
        "Give it less work: pass arguments after --, or use smaller sizes in a copy of the file."
        if left
        else "A study compares the array that a kernel writes. `workbench run FILE.cu` checks and "
        "counts a program without one."
    )
    if stopped := [run.stopped for run in runs if run.stopped]:
        hint = f"{hint} The run ended early: {stopped[0]}; --timeout SECONDS allows more."
    for kernel in kernels:
        if not any(_joined(group, kernel) for group in groups):
            try:
                groups.append(_begun(kernel))
            except KernelError as error:
                left[kernel.name] = error.message
    if not groups:
        why = "; ".join(f"{name}: {said}" for name, said in left.items())
        raise KernelError(f"no study can be made from {wish.file}: {why}", hint)
    wrong = {fault.kernel for run in runs for fault in run.faults}
    another = _("another job; `workbench new STUDY --kernel NAME` makes a study of one")
    for group in groups:
        own = {kernel.name for kernel in group.kernels}
        group.faulty = own_name(group.kernels[0].first.launch.kernel) in wrong
        others = {each.name: another for each in kernels}
        group.left = {name: why for name, why in (others | left).items() if name not in own}
    return groups


def _begun(kernel: _Kernel) -> _Group:
    """The group with a kernel as v0."""
    first = kernel.first
    for launch in kernel.launches:
        check_repeatable(launch)
    uses, notes = buffer_uses(first.content, first.launch, kernel.parameters, first.stored)
    names = {each.name for each in first.launch.buffers}
    runs = {
        at: each
        for at, each in kernel.runs.items()
        if {buffer.name for buffer in each.launch.buffers} == names
    }
    asked = {at: JobData.of(uses, each) for at, each in runs.items()}
    return _Group([replace(kernel, runs=runs, uses=uses)], asked, notes)


def _joined(group: _Group, kernel: _Kernel) -> bool:
    """True if a kernel does a group's job; then it is added to the group."""
    runs = {at: each for at, each in kernel.runs.items() if at in group.asked}
    try:
        if not runs:
            return False
        for launch in kernel.launches:
            check_repeatable(launch)
        found = [fitted(group.asked[at], runs[at], kernel.parameters) for at in sorted(runs)]
    except (UnfitLaunchError, KernelError):
        return False
    uses = found[0][0]
    if any(_named(each) != _named(uses) for each, _error in found):
        return False
    group.kernels.append(replace(kernel, runs=runs, uses=uses))
    group.error = max(group.error, *(error for _uses, error in found), 0.0)
    return True


def _named(uses: Sequence[BufferUse]) -> list[tuple[str, str, str]]:
    return [(use.buffer.name, use.name, use.role) for use in uses]


def _fitted_anywhere(kernel: _Kernel, asked: Sequence[JobData]) -> _Kernel:
    """A kernel with its launches, by the number of the recording that each fits.

    Raises UnfitLaunchError: none fits.
    """
    found: dict[int, RecordedLaunch] = {}
    uses: Sequence[BufferUse] = ()
    why = ""
    for run in kernel.runs.values():
        for at, each in enumerate(asked):
            try:
                fit, _error = fitted(each, run, kernel.parameters)
            except UnfitLaunchError as error:
                why = why or str(error)
                continue
            if at not in found and (not uses or _named(uses) == _named(fit)):
                found[at], uses = run, fit
                break
    if not found:
        raise UnfitLaunchError(why)
    return replace(kernel, runs=found, uses=uses)


def _chosen(groups: Sequence[_Group], kernel: str) -> _Group:
    """The group of a kernel, or the one with most work; one whose v0 has no fault comes first."""
    if not kernel:
        return max(groups, key=lambda group: (not group.faulty, group.work))
    for group in groups:
        if own_name(kernel) in {own_name(each.name) for each in group.kernels}:
            return group
    known = {own_name(each.name) for group in groups for each in group.kernels}
    why = groups[0].left.get(kernel, "")
    raise UsageError(
        f"no study can be made from a kernel `{kernel}` of the program{': ' * bool(why)}{why}",
        did_you_mean(kernel, sorted(known), "kernels"),
    )


# --- the written files -------------------------------------------------------------------------


def _recordings(wish: FromProgram, group: _Group) -> Iterator[Recording]:
    """The problems of the study: one for each run that launched its v0."""
    kernel = group.kernels[0]
    names = {name for use in kernel.uses for name in (use.name, use.given)}
    integers = {
        name: values
        for name, values in integers_of(kernel.launches, kernel.parameters)
        if name not in names
    }
    taken: set[str] = set()
    for place, at in enumerate(sorted(group.asked)):
        words = wish.runs[at]
        name = re.sub(r"\W+", "_", "_".join(("args", *words)), flags=re.ASCII).strip("_")[:40]
        name = name if words else "recorded"
        while name in taken:
            name += "_2"
        taken.add(name)
        parameters = {each: values[place] for each, values in integers.items()}
        folder = FOLDER if not place else f"{FOLDER}_{place + 1}"
        yield Recording(kernel.runs[at].launch, folder, name, parameters, " ".join(words))


def _versions(
    file: Path, study: str, source: _ProgramSource, group: _Group, recordings: Sequence[Recording]
) -> Iterator[tuple[str, str]]:
    """The files of the study's versions."""
    runs = sorted(group.asked)
    for number, kernel in enumerate(group.kernels):
        have = tuple(runs.index(at) for at in sorted(kernel.runs))
        sizes = ProblemSizes.of([each.parameters for each in recordings], have)
        text = _version(file, study, source, kernel, sizes, len(runs))
        yield f"v{number}_{_stem(kernel.name)}.cu", text


def _stem(kernel: str) -> str:
    return re.sub(r"\W+", "_", own_name(kernel), flags=re.ASCII).strip("_")[:60] or "kernel"


def _version(
    file: Path,
    study: str,
    source: _ProgramSource,
    kernel: _Kernel,
    sizes: ProblemSizes,
    count: int,
) -> str:
    """The text of a version: its launch, and the user's own file."""
    first = kernel.launches[0]
    change = _("as {file} launches it").format(file=file.name)
    head = pair("title", plain_name(first), 6) + pair("change", change, 6)
    folders = [f"-Ikernels/{study}/{each}" for each in source.headers.folders]
    if flags := [*source.flags, *folders]:
        head += pair("flags", flags, 6)
    if _ONE_CHIP.search(source.whole):
        head += pair("arch_specific", True)
    if len(sizes.recordings) < count:
        head += pair("requires", " or ".join(f"recording == {at}" for at in sizes.recordings))
        head += pair("requires_why", _("the program did not launch it with that size"))
    front = front_matter(head, kernel.launches, kernel.uses, kernel.parameters, sizes, kernel.name)
    end = f"\n{instantiation(first)}\n" if source.called and instantiation(first) else ""
    return f"/* ---\n{front}--- */\n{source.text}{end}"


def _study(
    wish: FromProgram,
    group: _Group,
    recordings: Sequence[Recording],
    runs: Sequence[ProgramOutcome],
    notes: Sequence[str],
) -> str:
    """``study.py``."""
    uses, lifted = group.kernels[0].uses, group.kernels[0].launches[0]
    head = _("{kernel}, as {file} launches it.").format(
        kernel=plain_name(lifted), file=wish.file.name
    )
    how = _(
        "Recorded in the emulator: the first launch of each kernel, its arguments, its memory "
        "before and after. The output of v0 is the right answer. The data are in {folder}, which "
        "Git ignores."
    ).format(folder=", ".join(f"{each.folder}/" for each in recordings))
    said = []
    for at, each in zip(sorted(group.asked), recordings, strict=True):
        words = " ".join((wish.file.name, each.said)).strip()
        ended = _("Its own check: `{words}` ended with exit code {code}, and printed last:")
        said.append(ended.format(words=words, code=runs[at].code))
        lines = runs[at].output.splitlines()[-_QUOTED:] or [_("nothing")]
        said.append("\n".join(f"  | {line[:200]}" for line in lines))
    bound, why = tolerance_of(lifted, uses)
    if group.error > bound / 2:
        bound = float(f"{2 * group.error:.0e}")
        why = _("Twice the difference between the program's own kernels, {error}").format(
            error=f"{group.error:.1e}"
        )
    title = _("{kernel} of {file}").format(kernel=plain_name(lifted), file=wish.file.name)
    paragraphs = [head, how, *said, *told_guesses(uses, notes)]
    return study_text(title, paragraphs, recordings, uses, (bound, why))


def _told_of(runs: Sequence[ProgramOutcome]) -> Iterator[str]:
    """Notes on the runs."""
    if any(PERSISTING in run.notices for run in runs):
        yield PERSISTING
    for run in runs:
        if run.code:
            yield (
                f"The program ended with exit code {run.code}: its own check may have failed. The "
                "recorded result is still the right answer."
            )
        if run.stopped:
            yield (
                f"The run ended early: {run.stopped}. Later launches are missing; allow "
                "more with --timeout SECONDS."
            )
        if run.faults:
            fault = run.faults[0]
            yield (
                f"{fault.kernel} has a fault: {fault.message}. Its versions do not "
                "verify until that is corrected."
            )


def _same(path: Path, text: str) -> bool:
    """True if the header exists; UsageError: it has another text."""
    if not path.exists():
        return False
    if read_source(path) != text:
        raise UsageError(
            f"{path} is a different header of that name", "Rename one of them in its program."
        )
    return True
