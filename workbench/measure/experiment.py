"""The experiment: build → verify → (time) → profile → save. Nothing unverified is kept.

With many versions in one run, the errors of single versions are collected so that others still run
(`Failures`). Many combinations are timed in as few worker processes as faults allow, and each time
is stored as soon as it arrives.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol

import msgspec

from workbench.compile.build import BuildResult, remarks
from workbench.engines import Engine, ProfileOptions, Say, Subject, Verdict
from workbench.engines.emulated.record import check_launches
from workbench.engines.host import presence
from workbench.engines.host.client import describe
from workbench.engines.host.failures import failure_error, hang
from workbench.engines.host.job import Job, Result, TimeOptions
from workbench.engines.host.process import Finished
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import MissingError, UsageError, WorkbenchError
from workbench.measure import sanitizer
from workbench.measure.plan import Combination, UnableError
from workbench.measure.sanitizer import Finding, Tool
from workbench.model import COMPILER, Notice, Problem, Profile, Timing
from workbench.project import Project
from workbench.specs import Version
from workbench.store import Store, device_slug
from workbench.study.folder import Study
from workbench.study.launches import ScalarArg
from workbench.units import digits3, quantity


def report_lines(
    profile: Profile, engine: Engine, path: str, said: Sequence[Notice] = ()
) -> tuple[str, ...]:
    """Return the lines about a stored profile: one, plus one for each notice not yet `said`.

    ``v3 n1024: sgemm, error 2.1e-07, seed 7, 12.3 s under ncu -> profiles/…``
    """
    kernels = ", ".join(dict.fromkeys(launch.kernel for launch in profile.launches))
    check = profile.verification
    error = f", error {digits3(check.error)}, seed {check.seed}" if check else ""
    seconds = quantity(profile.capture.wall_s, "s")
    head = f"{profile.version} {profile.problem}: {kernels}{error}, {seconds}"
    notes = [
        f"note: {profile.version}: {notice.message}"
        for notice in profile.notices
        if notice.code != "emulated" and notice not in said  # the engine's first line reports it
    ]
    return f"{head} {engine.under} -> {path}", *notes


#: An access to global memory, in PTX.
_GLOBAL = re.compile(r"\b(?:ld|st)\.global|\bcp\.async\.c")


class Display(Protocol):
    """Receives progress of long operations as it comes; this class shows nothing."""

    def say(self, line: str) -> None:
        """Receive a line that stays on the screen."""
        del line

    def answer(self, line: str) -> None:
        """Receive a line that is part of the answer."""
        del line

    def doing(self, text: str) -> None:
        """Receive the current activity."""
        del text

    def counting(self, total: int) -> AbstractContextManager[None]:
        """While the context is open, `done` counts up to `total`."""
        del total
        return contextlib.nullcontext()

    def done(self, count: int) -> None:
        """Receive the number of finished combinations."""
        del count

    def prepare(self) -> None:
        """Called when the workers have all work and are busy: load the code that prints results."""
        return

    def timing(self, place: str, timing: Timing, work: Literal["flop", "op"]) -> None:
        """Receive a result, with its place among all (``[2/6]``) and the study's unit of work."""
        del place, timing, work


class Silent(Display):
    """Shows nothing."""


SILENT = Silent()


class Experiment:
    """Runs versions of one study under one engine."""

    def __init__(
        self, project: Project, study: Study, engine: Engine, display: Display = SILENT
    ) -> None:
        self.project = project
        self.study = study
        self.engine = engine
        self.store = Store.of(project)
        self.display = display
        self._built: dict[str, BuildResult | None] = {}

    @property
    def gpu(self) -> GpuEngine:
        """The engine, if it has a GPU; MissingError: it has none."""
        if not isinstance(self.engine, GpuEngine):
            raise MissingError(
                f"this needs a GPU, which the engine {self.engine.name} does not have",
                "Run it on a machine with a GPU, or reach one with --launcher.",
            )
        return self.engine

    @property
    def device(self) -> str:
        """The slug of the GPU that runs versions; KernelError, MissingError: there is none."""
        where = self.gpu.where
        if where.launcher:
            return describe(self.project, where).slug
        return device_slug(where.device or presence.need_gpu().name)

    def subject(self, version: Version, problem: Problem) -> Subject:
        """Compile a version for a problem that it can do (`workbench.measure.plan`).

        Raises:
            KernelError, MissingError: it does not compile, or there is no compiler.
            UsageError: a launch that no chip can run, or that the target chip cannot run.
        """
        subject = Subject.of(self.study, version, problem, self._build)
        if subject.built is not None:
            check_launches(version, subject.launches, subject.built.build)
        return subject

    def subjects(
        self, pieces: Sequence[Combination], tell: Callable[[Combination, WorkbenchError], None]
    ) -> list[Subject]:
        """Compile versions in parallel, and bind each to its problems.

        `tell` is called with the error of each that cannot run; a version that does not compile has
        one error for all of its problems.
        """
        versions = {each.version.id: each.version for each in pieces}
        broken = self.build_all(list(versions.values()))
        subjects = []
        for one in pieces:
            if one.version.id in broken:
                tell(one, broken[one.version.id])
                continue
            try:
                subjects.append(self.subject(*one))
            except WorkbenchError as error:
                tell(one, error)
        return subjects

    def build_all(self, versions: Sequence[Version]) -> dict[str, WorkbenchError]:
        """Compile versions in parallel, one process per core; return the errors of failed ones."""
        failed: dict[str, WorkbenchError] = {}

        def one(version: Version) -> None:
            try:
                self._build(version)
            except WorkbenchError as error:
                failed[version.id] = error

        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            list(pool.map(one, versions))
        return failed

    def _build(self, version: Version) -> BuildResult | None:
        if version.id not in self._built:
            # Once per version, whatever the number of its problems.
            self._built[version.id] = self.engine.build(version)
        return self._built[version.id]

    def verify(
        self,
        subjects: Sequence[Subject],
        tell: Callable[[int, Verdict], None] = lambda _place, _verdict: None,
    ) -> list[Verdict]:
        """Check versions on problems; return one verdict per subject, in their order.

        A failure does not stop the others. `tell` is called with each place and verdict as they
        arrive, perhaps from another thread. Raises MissingError: nothing can run here.
        """
        verdicts: dict[int, Verdict] = {}
        shown = ""

        def begin(place: int) -> None:
            nonlocal shown
            version = subjects[place].version.id
            names = [each.problem.name for each in subjects if each.version.id == version]
            if version != shown:
                what = names[0] if len(names) == 1 else f"{len(names)} problems"
                self.display.say(f"verify {version} on {what}")
                for said in _remarks(subjects[place]):
                    self.display.say(f"note: {version}: {said.message}")
                shown = version
            name, total = subjects[place].problem.name, len(names)
            at = names.index(name) + 1
            self.display.doing(f"verify {version} on {name} ({at} of {total})")

        def one(place: int, verdict: Verdict) -> None:
            verdicts[place] = verdict
            tell(place, verdict)

        self.engine.verify(subjects, one, begin)
        return [verdicts[place] for place in range(len(subjects))]

    def sanitize(self, subjects: Sequence[Subject], tool: Tool, path: str) -> list[Finding]:
        """Run one version on several problems under one tool of compute-sanitizer.

        Raises:
            KernelError: a hang, or errors that name no kernel.
            MissingError: compute-sanitizer does not run here.
        """
        jobs, results, finished = self._under(subjects, tool, path)
        if finished.timed_out:
            raise hang(jobs[min(len(results), len(jobs) - 1)], self.gpu.where)
        failed = next((result for result in results if result.failure), None)
        # A crash is a finding; any other error kept the kernels from running.
        if failed is not None and failed.failure and failed.failure.kind != "crash":
            raise failure_error(jobs[results.index(failed)], failed.failure)
        kernels = {launch.kernel for subject in subjects for launch in subject.launches}
        return sanitizer.judge(tool, finished.output, finished.code, kernels)

    def clean(self, subjects: Sequence[Subject], tool: Tool, path: str) -> bool:
        """Test whether a tool runs on all versions, in one process, without any finding.

        False says nothing about any of them: `sanitize` checks each.
        """
        jobs, results, finished = self._under(subjects, tool, path)
        whole = len(results) == len(jobs) and not any(result.failure for result in results)
        return whole and not finished.timed_out and sanitizer.reported(finished.output) == 0

    def _under(
        self, subjects: Sequence[Subject], tool: Tool, path: str
    ) -> tuple[list[Job], list[Result], Finished]:
        names = list(dict.fromkeys(subject.version.id for subject in subjects))
        self.display.say(f"{tool} {names[0] if len(names) == 1 else f'{len(names)} versions'}")
        return self.gpu.verify_under(subjects, sanitizer.arguments(path, tool))

    def time(
        self,
        pieces: Sequence[Combination],
        options: TimeOptions,
        tell: Callable[[Combination, Timing | WorkbenchError], None],
    ) -> None:
        """Compile and time versions on problems, each in turn with the study's baseline.

        Pieces are in the order of measuring; those on the same problem should be adjacent, since
        they share inputs and reference. There are as few worker processes as faults allow. `tell`
        is called once for each, when its timing (already stored by then) or its error arrives;
        perhaps from another thread. Raises MissingError: no worker can run here.
        """
        with self.gpu.ready(self.study.name):
            # This precedes the first timing: compilers on all of the host's cores would disturb it.
            subjects = self.subjects(pieces, tell)
            if subjects:
                self._time(subjects, options, tell)

    def _time(
        self,
        subjects: Sequence[Subject],
        options: TimeOptions,
        tell: Callable[[Combination, Timing | WorkbenchError], None],
    ) -> None:
        beside = [self._baseline(subject) for subject in subjects]
        total, counts = len(subjects), itertools.count(1)

        def begin(place: int) -> None:
            self.display.doing(f"{subjects[place].version.id} {subjects[place].problem.name}")

        def one(place: int, outcome: Timing | WorkbenchError) -> None:
            if isinstance(outcome, Timing):
                notices = (*beside[place][1], *outcome.notices)
                outcome = msgspec.structs.replace(outcome, notices=notices)
                try:
                    self.store.save_timing(outcome)
                except WorkbenchError as error:
                    outcome = error
            tell(Combination(subjects[place].version, subjects[place].problem), outcome)
            self.display.done(next(counts))

        what = (
            f"{subjects[0].version.id} on {subjects[0].problem.name}"
            if total == 1
            else f"{total} combinations"
        )
        self.display.say(f"time {what} ({options.cache} caches)")
        pairs = [(subject, rival) for subject, (rival, _) in zip(subjects, beside, strict=True)]
        with self.display.counting(total):
            self.gpu.time(pairs, options, one, begin, self.display.prepare)

    def _baseline(self, subject: Subject) -> tuple[Subject | None, list[Notice]]:
        baseline = self.study.baseline
        if baseline is None or baseline.id == subject.version.id:
            return None, []
        try:
            return self.subject(*Combination.of(self.study, baseline, subject.problem)), []
        except UsageError as error:
            why = f"The baseline {baseline.id} was not timed: {error.message}."
            return None, [Notice("no-baseline", why)]

    def profile(
        self,
        subject: Subject,
        options: ProfileOptions = ProfileOptions(),  # noqa: B008 - frozen
        notices: Sequence[Notice] = (),
    ) -> tuple[Profile, Path]:
        """Verify and profile one version, and store the profile; return it and its path.

        `notices` are known circumstances, to be stored with the profile. Raises KernelError,
        MissingError, UsageError, DataError: nothing was stored; an earlier profile stays.
        """
        profile, raw = self.engine.profile(subject, options)
        own = self._not_divisible(subject), _remarks(subject)
        notices = (*notices, *profile.notices, *own[0], *own[1])
        profile = msgspec.structs.replace(profile, notices=notices)
        return profile, self.store.save(profile, raw)

    def _not_divisible(self, subject: Subject) -> tuple[Notice, ...]:
        """Report multiples of 16 that Triton's compiler would have used, had it known them."""
        version, built = subject.version, subject.built
        if version.kind != "triton" or built is None:
            return ()
        (spec,), (launch,) = version.launches, subject.launches
        even = {
            text: each.value
            for text, each in zip(spec.args, launch.args, strict=False)
            if isinstance(text, str) and isinstance(each, ScalarArg) and each.value
            if isinstance(each.value, int) and each.value % 16 == 0
        }
        known = spec.divisible_by_16
        every = tuple(dict.fromkeys((*known, *even)))
        if every == known:
            return ()
        other = msgspec.structs.replace(spec, divisible_by_16=every)
        better = self.engine.build(msgspec.structs.replace(version, launches=(other,)))
        now, then = (len(_GLOBAL.findall(each.build.ptx)) for each in (built, better) if each)
        if then >= now:
            return ()
        values = ", ".join(f"{text} = {even[text]}" for text in every if text not in known)
        names = ", ".join(f'"{text}"' for text in every)
        message = (
            "Triton does not know that these are multiples of 16, as it does in a program's call "
            f"({values}): {now} instructions access global memory instead of {then}. Write "
            f"divisible_by_16 = [{names}] under [[launch]]."
        )
        return (Notice("not-divisible", message),)


def _remarks(subject: Subject) -> list[Notice]:
    """The compiler's remarks on a version's kernels, as notices of its profile."""
    kernels = [each.kernel for each in subject.launches]
    said = remarks(subject.built.build, kernels) if subject.built else ()
    return [Notice(COMPILER, words) for words in said]


class Failures:
    """Collects errors of single versions, so that the others still have their turn.

    `say` shows each error as it occurs. `alone`: there is only one piece of work; its error is not
    shown, but returned by `ended`. `every`: versions were not named (``--all``), so those that
    cannot run here are skipped. `broken`: errors of other selected versions, which could not be
    run.
    """

    def __init__(
        self,
        say: Say,
        *,
        alone: bool,
        every: bool,
        broken: Mapping[str, WorkbenchError] = MappingProxyType({}),
    ) -> None:
        self._broken = broken
        self._say = say
        self._alone = alone
        self._every = every
        self._errors: list[tuple[str, WorkbenchError]] = []
        self._begun: set[str] = set()
        self._skipped: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def of(self, label: str, version: Version | None = None) -> Iterator[None]:
        """Collect the error of the block, unless it means that `version` is skipped."""
        try:
            yield
        except WorkbenchError as error:
            if version is not None and self.pass_over(version, error):
                self.passed(label)
            else:
                self.add(label, error)
        else:
            self.passed(label)

    def passed(self, label: str) -> None:
        """Count a piece of work that succeeded."""
        self._begun.add(label)

    def add(self, label: str, error: WorkbenchError) -> None:
        """Collect an error that was already caught, and show it unless it was shown before."""
        for known, each in self._errors:
            if error is each or (known == label and error.message == each.message):
                return
        self._begun.add(label)
        self._errors.append((label, error))
        if self._alone:
            return  # it will be raised, and shown then
        self._say(f"{label}: error: {error.message}")
        if error.hint:
            self._say(f"  hint: {error.hint}")

    def pass_over(self, version: Version, error: WorkbenchError) -> bool:
        """Test whether an error means only that ``--all`` includes a version that cannot run here.

        Such a version is a baseline whose library is not installed; or, if problems are chosen, one
        that cannot do any of them (`UnableError`). Report it then, once.
        """
        if not self._every:
            return False
        if isinstance(error, MissingError):
            over = version.baseline and version.kind == "python"
        else:
            over = isinstance(error, UnableError)
        if over and (version.id, error.message) not in self._skipped:
            self._skipped.add((version.id, error.message))
            self._say(f"{version.id}: skipped: {error.message}")
        return over

    def ended(self) -> WorkbenchError | None:
        """The error of the only piece of work; or a summary, of the class of the worst error."""
        for label, error in self._broken.items():
            self.add(label, error)
        if not self._errors:
            return None
        if self._alone:
            return self._errors[0][1]
        worst = min((error for _, error in self._errors), key=_rank)
        labels = dict.fromkeys(label for label, _ in self._errors)
        return type(worst)(
            f"{len(labels)} of {len(self._begun)} failed: {', '.join(labels)}",
            "Each error is shown above with its hint; everything that succeeded is kept.",
        )

    def finish(self) -> None:
        """Raise `ended`, if anything failed: the only error, or a summary that names each."""
        if error := self.ended():
            raise error


def _rank(error: WorkbenchError) -> int:
    """Rank errors by their priority for the exit code: a wrong kernel comes before all others."""
    order = (4, 5, 3, 1, 6, 2)
    return order.index(error.exit_code) if error.exit_code in order else len(order)
