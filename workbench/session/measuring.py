"""Verify and profile versions.

`Named` selects the versions, and `RunOptions` says where they run; a display receives the progress.
Each measurement is stored when it arrives, and the error of one version does not stop the others: a
result has `fault`, which the caller raises after showing the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from workbench.engines import ProfileOptions, RunOptions, Say, Subject, Verdict
from workbench.engines.choice import choose, on_gpu
from workbench.engines.host.job import Check, TimeOptions
from workbench.engines.host.presence import need_sanitizer
from workbench.errors import (
    CountersDeniedError,
    InconclusiveError,
    KernelError,
    MissingError,
    UsageError,
    WorkbenchError,
)
from workbench.ladder import recorded_seed
from workbench.measure.experiment import SILENT, Display, Experiment, Failures, report_lines
from workbench.measure.plan import Combination, Key, chosen
from workbench.measure.sanitizer import TOOLS, Finding
from workbench.model import COUNTERS_DENIED, Notice, Record, Timing
from workbench.project import Project
from workbench.session.runners import NAME_ANOTHER, Here, Task, Tell, VersionRuns
from workbench.session.targets import Named
from workbench.store import Store
from workbench.study.folder import Study


class Judged(Record, frozen=True):
    """A version's results on a problem against the reference, and the error if any is wrong."""

    check: Check | None
    error: WorkbenchError | None = None


class Verified(NamedTuple):
    """Versions that were checked, and their inputs.

    `findings` is None if no sanitizer ran; `texts` has the sources that they name, by path.
    `broken`: errors of requested versions whose files cannot be used.
    """

    study: Study
    seed: int
    pairs: list[tuple[Combination, Judged]]
    findings: list[tuple[str, Finding]] | None = None
    texts: dict[str, str] = {}  # noqa: RUF012 - never changed
    fault: BaseException | None = None
    broken: dict[str, UsageError] = {}  # noqa: RUF012 - never changed


class Verifying(Task[Judged], frozen=True, kw_only=True):
    """Check versions against the reference."""

    kind = "verify"
    result = Judged

    def do(self, here: Here, pieces: Sequence[Combination], tell: Tell[Judged]) -> None:
        """See `Task.do`."""
        if line := here.engine.verify_line:
            here.display.say(line)

        def said(piece: Combination, error: WorkbenchError | None, check: Check | None) -> None:
            # A missing tool is not a verdict.
            tell(piece, error if isinstance(error, MissingError) else Judged(check, error))

        def one(place: int, verdict: Verdict) -> None:
            piece = Combination(subjects[place].version, subjects[place].problem)
            said(piece, verdict.error, verdict.check)

        subjects = here.subjects(pieces, lambda piece, error: said(piece, error, None))
        here.verify(subjects, one)


def verify(
    project: Project,
    named: Named,
    engine: str,
    run: RunOptions | None,
    display: Display | None,
    *,
    sanitize: bool = False,
) -> Verified:
    """See `workbench.session.api.CoreSession.verify`."""
    run, display = run or RunOptions(), display or SILENT
    if run.on and sanitize:
        raise UsageError(
            "--sanitize does not run on a cluster",
            "Leave out --on, or run this command inside a job.",
        )
    if run.gpus and engine == "emulator":
        raise UsageError("the emulator needs no GPU", "Leave out --gpus or --engine emulator.")
    broken: dict[str, UsageError] = {}
    runs = VersionRuns(named, named.pick(project, broken=broken), run, display)
    path = need_sanitizer() if sanitize else ""
    task = Verifying(run=run, engine="gpu" if sanitize or run.gpus else engine)
    (runner,) = runs.runners(task)
    pieces = runs.combinations("verify")
    found: dict[Key, Judged] = {}
    fault: BaseException | None = None
    try:
        runs.carry_out(runner, task, pieces, lambda one, judged: found.update({one.key: judged}))
    except KeyboardInterrupt as stop:
        fault = stop
    pairs = [(each, found[each.key]) for each in pieces if each.key in found]
    verified = Verified(runs.study, runner.seed, pairs, fault=fault, broken=broken)
    if sanitize and fault is None:
        assert isinstance(runner, Here)
        verified = _sanitized(verified, runner, path, runs.failures)
    unread = next((each for each in broken.values() if not named.every), None)
    return verified._replace(fault=fault or _worst(verified, runs.failures) or unread)


def _sanitized(verified: Verified, runner: Experiment, path: str, failures: Failures) -> Verified:
    """The same, with compute-sanitizer's findings in the CUDA versions."""
    pieces = [piece for piece, _ in verified.pairs if piece.version.kind != "python"]
    every = [runner.subject(*piece) for piece in pieces]
    versions = list(dict.fromkeys(subject.version.id for subject in every))
    findings = []
    for tool in TOOLS if every else ():
        # One process for all: only if it has findings does each version get a process of its own,
        # so that a finding is never ascribed to another version.
        if len(versions) > 1 and runner.clean(every, tool, path):
            continue
        for version in versions:
            with failures.of(f"{version} under {tool}"):
                own = [subject for subject in every if subject.version.id == version]
                findings += [(version, each) for each in runner.sanitize(own, tool, path)]
    built = [subject.built for subject in every if subject.built]
    texts = {source.path: source.text or "" for each in built for source in each.sources}
    return verified._replace(findings=findings, texts=texts)


def _worst(verified: Verified, failures: Failures) -> WorkbenchError | None:
    """The error for the failures, if there are any; details are in the table's notes."""
    pairs = verified.pairs
    failed = [(piece, judged.error) for piece, judged in pairs if judged.error is not None]
    errors = [error for _, error in failed]
    if errors and len(pairs) == 1:
        return errors[0]
    if errors:
        worst = min(errors, key=lambda error: (error.exit_code != 4, error.exit_code))
        open_ = isinstance(worst, InconclusiveError)  # if the worst one is a missing tool, all are
        names = [
            " ".join(piece.key)
            for piece, error in failed
            if open_ or not isinstance(error, InconclusiveError)
        ]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if names[6:] else "")
        what = "were not judged" if open_ else "failed"
        return type(worst)(f"{len(names)} of {len(pairs)} checks {what}: {shown}", worst.hint)
    if error := failures.ended():
        return error
    if not pairs:
        return MissingError("nothing was verified", NAME_ANOTHER)
    if total := len(verified.findings or ()):
        return KernelError(
            f"compute-sanitizer has {total} finding{'s' if total > 1 else ''}",
            "Each is shown above with its source line.",
        )
    return None


class Profiled(Record, frozen=True):
    """The lines that report a stored profile, or the time that was taken with it."""

    lines: tuple[str, ...] = ()
    timing: Timing | None = None


class ProfiledVersions(NamedTuple):
    """Versions that were profiled, and the times that were taken with it."""

    study: Study
    pieces: list[Combination]
    timings: list[Timing]
    fault: WorkbenchError | None = None


class Profiling(Task[Profiled], frozen=True, kw_only=True):
    """Verify and profile versions.

    With ``auto``, if the driver denies access to counters, the emulator counts and the GPU measures
    the time.
    """

    kind = "profile"
    result = Profiled
    alone = True

    options: ProfileOptions = ProfileOptions()

    def do(self, here: Here, pieces: Sequence[Combination], tell: Tell[Profiled]) -> None:
        """See `Task.do`."""
        counting, say = here, here.display.say
        self._say_engine(here)
        denied: tuple[Notice, ...] = ()
        done: list[Combination] = []
        for one in pieces:
            try:
                try:
                    found = self._profiled(counting, one, denied)
                except CountersDeniedError as error:
                    if self.engine != "auto":
                        raise
                    denied = (_denied(error, say),)
                    emulator = choose("emulator", here.project, self.run, say)
                    counting = Here(here.project, here.study, emulator, here.display)
                    found = self._profiled(counting, one, denied)
            except WorkbenchError as error:
                tell(one, error)
                continue
            done.append(one)
            if found is not None:
                tell(one, found)
        if done and here.engine.times and (self.timed or denied):
            # All are timed in one process, after ncu is done with all of them.
            def timed(one: Combination, found: Timing | WorkbenchError) -> None:
                tell(one, found if isinstance(found, WorkbenchError) else Profiled(timing=found))

            here.time(done, TimeOptions(), timed)

    def _say_engine(self, here: Here) -> None:
        taken = here.engine
        apart = taken.times and not self.timed
        here.display.answer(taken.profile_line + (", by `workbench time`" if apart else ""))
        unheard = ["--time"] if self.timed and not taken.times else []
        if unheard := unheard + taken.unheard(self.options):
            here.display.say(f"note: ignored by the {taken.name}: {', '.join(unheard)}")

    def _profiled(self, here: Here, one: Combination, notices: Sequence[Notice]) -> Profiled | None:
        """Profile one version; None if the emulator, used instead of ncu, cannot run it."""
        version, root = one.version, here.project.root
        if refused := here.engine.refuses(version) if notices else "":
            here.display.say(f"{version.id}: timed, but not counted: {refused}")
            return None
        kept, path = here.profile(here.subject(*one), self.options, notices)
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        return Profiled(report_lines(kept, here.engine, shown.as_posix(), notices))


def profile(
    project: Project,
    named: Named,
    engine: str,
    options: ProfileOptions | None,
    run: RunOptions | None,
    display: Display | None,
    *,
    timed: bool = False,
) -> ProfiledVersions:
    """See `workbench.session.api.CoreSession.record`."""
    picked = named.pick(project)
    run, display = _with_seed(run or RunOptions(), project, picked[1]), display or SILENT
    runs = VersionRuns(named, picked, run, display)
    task = Profiling(run=run, engine=engine, options=options or ProfileOptions(), timed=timed)
    (runner,) = runs.runners(task)
    pieces = runs.combinations("profile", 1)
    kept = ProfiledVersions(runs.study, [], [])

    def tell(piece: Combination, found: Profiled) -> None:
        if found.timing is not None:
            kept.timings.append(found.timing)
            runs.say_timing(found.timing, len(pieces))
            return
        kept.pieces.append(piece)
        display.answer(found.lines[0])
        for note in found.lines[1:]:
            display.say(note)

    runs.carry_out(runner, task, pieces, tell)
    fault = runs.failures.ended()
    if fault is None and not kept.pieces and not kept.timings:
        fault = MissingError("nothing was profiled", NAME_ANOTHER)
    return kept._replace(fault=fault)


def ncu_commands(
    named: Named, engine: str, options: ProfileOptions, run: RunOptions, say: Say
) -> Iterator[str]:
    """The exact ncu command of each version; neither it nor any file of a version is run.

    Raises UsageError: the engine is the emulator.
    """
    if engine == "emulator":
        raise UsageError(
            "--dry-run prints ncu's command, but the emulator has none",
            "Use only one of them; --engine ncu --dry-run needs no GPU.",
        )
    project, study, versions = named.pick(run=False)
    gpu = on_gpu(project, _with_seed(run, project, study), say, profiling=True, known=True)
    runner = Experiment(project, study, gpu)
    for version in versions:
        one = chosen(study, version, named.problem, "profile")[0]
        if version.kind == "triton":
            say(
                f"note: {version.id} is not compiled, because Triton compiles by running "
                f"{version.path}: whether it builds is not tested, and the job has no cubin yet"
            )
            subject = Subject.of(study, *one, lambda _version: None)
        else:
            subject = runner.subject(*one)
        yield gpu.command(subject, options).shell


def _with_seed(run: RunOptions, project: Project, study: Study) -> RunOptions:
    """Without ``--seed``, use the seed of the study's newest profile, so both are comparable."""
    if run.seed is not None:
        return run
    return replace(run, seed=recorded_seed(Store.of(project), study.name))


def _denied(error: CountersDeniedError, say: Say) -> Notice:
    """Say once that counters come from the emulator from now on."""
    say(f"note: [{COUNTERS_DENIED}] {error.message}. {error.hint}")
    say("counters are the emulator's from here on; times are measured on the GPU")
    message = f"{error.message}: counted in the emulator, its time measured on a GPU"
    return Notice(COUNTERS_DENIED, message)
