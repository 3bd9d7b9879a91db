"""Measuring versions: what is to be run, verified and profiled, here or by jobs of a cluster.

Which versions are meant comes in as `Named`, where they run as `RunOptions`; a display is told
how far it is. What was found goes to `show`, and then what failed is raised. Each measurement is
kept as it comes, and the error of one version does not keep the others from their turn.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec.structs import replace

from workbench.engines import (
    Engine,
    ProfileOptions,
    RunOptions,
    Say,
    Subject,
    Verdict,
    fresh_seed,
    now,
    silent,
)
from workbench.engines.choice import choose, on_gpu
from workbench.engines.host.job import TimeOptions
from workbench.engines.host.presence import need_sanitizer
from workbench.errors import (
    CountersDeniedError,
    InconclusiveError,
    KernelError,
    MissingError,
    UsageError,
)
from workbench.ladder import recorded_seed
from workbench.measure.experiment import (
    Campaign,
    Display,
    Experiment,
    Failures,
    report_lines,
    runnable,
)
from workbench.measure.plan import Combination, Key, Use, chosen
from workbench.measure.sanitizer import TOOLS, Finding
from workbench.model import COUNTERS_DENIED, Notice, Timing
from workbench.project import Project
from workbench.session.targets import Named
from workbench.specs import Version
from workbench.store import Store
from workbench.study.folder import Study

if TYPE_CHECKING:
    from workbench.cluster.dispatch import JobOrder, PieceOutcome
    from workbench.cluster.fleet import Fleet

NAME_ANOTHER = "Name a version that can run here."


class VersionRuns:
    """Versions of one study that are to be run.

    `named` is which are meant, as they were typed, `picked` what that is. `alone`: one version is
    one piece of runs, whose error is raised as it is.

    Attributes:
        failures: Errors of single versions.
    """

    def __init__(
        self,
        named: Named,
        picked: tuple[Project, Study, list[Version]],
        options: RunOptions,
        display: Display,
        *,
        alone: bool = True,
    ) -> None:
        self.project, self.study, self.versions = picked
        self.named, self.options, self.display = named, options, display
        self._alone = alone
        self.failures = self._new_failures()

    def _new_failures(self) -> Failures:
        broken = self.study.broken if self.named.every else {}
        alone = self._alone and len(self.versions) == 1 and not broken
        return Failures(self.display.say, alone=alone, every=self.named.every, broken=broken)

    def runner(self, engine: Engine) -> Experiment:
        """What runs versions under an engine."""
        say, doing = self.display.say, self.display.doing
        return Experiment(self.project, self.study, engine, say=say, doing=doing)

    def only_under(self, engine: Engine) -> None:
        """Leave out versions that an engine cannot run, where all were asked for."""
        self.versions = runnable(engine, self.versions, self.named.every, self.display.say)
        self.failures = self._new_failures()

    def combinations(self, use: Use, most: int | None = None) -> list[Combination]:
        """Each version on its problems of a use; the error of one that has none is kept."""
        found: list[Combination] = []
        for version in self.versions:
            with self.failures.of(version.id, version):
                found += chosen(self.study, version, self.named.problem, use)[:most]
        return found

    # --- by jobs of a cluster --------------------------------------------------------------

    def only_in_jobs(self, engine: str) -> None:
        """Leave out versions that jobs cannot run; of a GPU only they can say it."""
        if engine == "emulator":
            self.only_under(choose(engine, self.project, self.options))

    @cached_property
    def fleet(self) -> Fleet:
        """The cluster.

        Raises:
            UsageError: wrong settings.
            MissingError: no Slurm, or no submitit.
        """
        from workbench.cluster.fleet import Fleet  # with --on alone

        return Fleet(self.project, self.study, self.display)

    def send(
        self,
        kind: Literal["time", "verify", "profile", "tune"],
        keys: Sequence[Key],
        tell: Callable[[PieceOutcome], None],
        failures: Failures | None = None,
        **asked: Any,
    ) -> JobOrder:
        """Have pieces of work done by jobs, all with the same inputs.

        `tell` is called with each outcome as it comes. `failures` keeps errors of single ones;
        None: those of this work. `asked` are further fields of the order.

        Returns:
            The order as it was carried out (`Fleet.carry_out`).

        Raises:
            MissingError: Slurm is not here, or refuses the jobs.
            WorkbenchError: the error of the only piece of work.
        """
        from workbench.cluster.dispatch import JobOrder

        kept = self.failures if failures is None else failures
        seed = fresh_seed() if self.options.seed is None else self.options.seed
        order = JobOrder(
            kind=kind,
            study=self.study.name,
            words=shlex.join(["workbench", *sys.argv[1:]]),
            submitted=now(),
            run=replace(self.options, on="", seed=seed),
            **asked,
        )

        def one(outcome: PieceOutcome) -> None:
            if outcome.fault is None:
                kept.passed()
            elif not kept.pass_over(self.study.version(outcome.version), outcome.fault.error):
                kept.add(" ".join(outcome.key), outcome.fault.error)
            tell(outcome)

        order = self.fleet.carry_out(order, keys, one)
        kept.raise_alone()
        return order


# --- verify ----------------------------------------------------------------------------------


class Verified(NamedTuple):
    """Versions that were checked, on which inputs; `findings` is None where no sanitizer ran."""

    study: Study
    seed: int
    pairs: list[tuple[Subject, Verdict]]
    findings: list[tuple[str, Finding]] | None = None

    @property
    def texts(self) -> dict[str, str]:
        """Path -> text of the versions' sources, for the lines of findings."""
        built = [subject.built for subject, _ in self.pairs if subject.built]
        return {source.path: source.text or "" for each in built for source in each.sources}


def verify(
    named: Named,
    engine: str,
    run: RunOptions,
    display: Display,
    show: Callable[[Verified], None],
    *,
    sanitize: bool = False,
) -> None:
    """Check versions against the reference, with fresh random inputs.

    Args:
        named: Which versions, on which problem (None: all that are marked ``verify``).
        engine: ``auto``, ``gpu`` or ``emulator``.
        run: Where and how.
        display: Who is told how far it is.
        show: Called with what was found; after Ctrl-C with what is checked by then.
        sanitize: Run compute-sanitizer's tools over them as well.

    Raises:
        KernelError: a wrong result, or something that compute-sanitizer has found.
        MissingError, UsageError: nothing can run here; nothing was verified.
    """
    if run.on and sanitize:
        raise UsageError(
            "--sanitize does not run on a cluster",
            "Leave out --on, or run this command inside a job.",
        )
    if run.gpus and engine == "emulator":
        raise UsageError("the emulator needs no GPU", "Leave out --gpus or --engine emulator.")
    runs = VersionRuns(named, named.pick(), run, display)
    here = not run.on
    found = _verified(runs, engine, show, sanitize) if here else _verified_by_jobs(runs, engine)
    show(found)
    _raise_worst(found.pairs, runs.failures)
    if not found.pairs:
        raise MissingError("nothing was verified", NAME_ANOTHER)
    if found.findings:
        total = len(found.findings)
        raise KernelError(
            f"compute-sanitizer has {total} finding{'s' if total > 1 else ''}",
            "Each is shown above with its source line.",
        )


def _verified(
    runs: VersionRuns, engine: str, show: Callable[[Verified], None], sanitize: bool
) -> Verified:
    run, say = runs.options, runs.display.say
    taken = choose("gpu" if sanitize or run.gpus else engine, runs.project, run, say)
    path = need_sanitizer() if sanitize else ""
    if taken.verify_line:
        say(taken.verify_line)
    runs.only_under(taken)
    runner = runs.runner(taken)
    broken = runner.build_all(runs.versions)
    subjects: list[Subject] = []
    for version in runs.versions:
        with runs.failures.of(version.id, version):
            able = chosen(runs.study, version, runs.named.problem, "verify")
            if version.id in broken:
                raise broken[version.id]
            subjects += [runner.subject(*each) for each in able]
    verdicts: dict[int, Verdict] = {}

    def found() -> Verified:
        return Verified(runs.study, taken.seed, _judged(subjects, verdicts, runs.failures))

    try:
        runner.verify(subjects, verdicts.__setitem__)
    except KeyboardInterrupt:
        show(found())
        raise
    checked = found()
    if sanitize:
        checked = checked._replace(findings=_findings(runner, checked.pairs, path, runs.failures))
    return checked


def _verified_by_jobs(runs: VersionRuns, engine: str) -> Verified:
    runs.only_in_jobs(engine)
    combinations = runs.combinations("verify")
    places = {each.key: place for place, each in enumerate(combinations)}
    subjects = [
        Subject(study=runs.study, version=v, problem=p, built=None) for v, p in combinations
    ]
    verdicts: dict[int, Verdict] = {}

    def tell(outcome: PieceOutcome) -> None:
        error = outcome.fault.error if outcome.fault else None
        problem = runs.study.problem(outcome.problem)
        verdicts[places[outcome.key]] = Verdict(problem, outcome.check, error)

    # An error of a piece stands in the table, as everywhere.
    unsaid = Failures(silent, alone=False, every=False)
    order = runs.send("verify", [*places], tell, unsaid, engine=engine)
    pairs = _judged(subjects, verdicts, runs.failures)
    return Verified(runs.study, order.run.seed or 0, pairs)


def _judged(
    subjects: Sequence[Subject], verdicts: dict[int, Verdict], failures: Failures
) -> list[tuple[Subject, Verdict]]:
    """Subjects that have a verdict, without versions that are passed over for their first one."""
    over: dict[str, bool] = {}
    for place, verdict in sorted(verdicts.items()):
        version = subjects[place].version
        if version.id not in over:
            error = verdict.error
            over[version.id] = error is not None and failures.pass_over(version, error)
    return [
        (subjects[place], verdict)
        for place, verdict in sorted(verdicts.items())
        if not over[subjects[place].version.id]
    ]


def _findings(
    runner: Experiment, pairs: Sequence[tuple[Subject, Verdict]], path: str, failures: Failures
) -> list[tuple[str, Finding]]:
    """What compute-sanitizer finds in the CUDA versions, with the version's id."""
    every = [subject for subject, _ in pairs if subject.version.kind != "python"]
    versions = list(dict.fromkeys(subject.version.id for subject in every))
    findings = []
    for tool in TOOLS if every else ():
        # One process for all: only where it has something to say does each version get its
        # own, so that a finding is never laid at another version's door.
        if len(versions) > 1 and runner.clean(every, tool, path):
            continue
        for version in versions:
            with failures.of(f"{version} under {tool}"):
                own = [subject for subject in every if subject.version.id == version]
                findings += [(version, each) for each in runner.sanitize(own, tool, path)]
    return findings


def _raise_worst(pairs: Sequence[tuple[Subject, Verdict]], failures: Failures) -> None:
    """End with the error of what failed, if anything did; details stand in the table's notes."""
    failed = [(subject, verdict.error) for subject, verdict in pairs if verdict.error is not None]
    errors = [error for _, error in failed]
    if errors and len(pairs) == 1:
        raise errors[0]
    if errors:
        worst = min(errors, key=lambda error: (error.exit_code != 4, error.exit_code))
        open_ = isinstance(worst, InconclusiveError)  # all of them are, if the worst is
        names = [
            f"{subject.version.id} {subject.problem.name}"
            for subject, error in failed
            if open_ or not isinstance(error, InconclusiveError)
        ]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if names[6:] else "")
        what = "were not judged" if open_ else "failed"
        raise type(worst)(f"{len(names)} of {len(pairs)} checks {what}: {shown}", worst.hint)
    failures.finish()


# --- profile ----------------------------------------------------------------------------------


def profile(
    named: Named,
    engine: str,
    options: ProfileOptions,
    run: RunOptions,
    display: Display,
    answer: Say,
    show: Callable[[Study, list[Timing]], None],
    *,
    timed: bool = False,
) -> None:
    """Verify and profile versions, and keep the profiles.

    Args:
        named: Which versions, on which problem (None: the first profiled one).
        engine: ``auto``, ``ncu`` or ``emulator``. With ``auto``, where the driver denies access
            to counters, the emulator counts and the GPU measures the time.
        options: What is asked of the engine.
        run: Where and how; without a seed, on the inputs of the study's newest profile.
        display: Who is told how far it is.
        answer: Called with each line that is an answer: the engine, and each profile.
        show: Called with the times, if any were taken.
        timed: Time each version as well.

    Raises:
        KernelError, MissingError, UsageError, DataError: after the others had their turn.
    """
    picked = named.pick()
    runs = VersionRuns(named, picked, _with_seed(run, picked[0], picked[1]), display)
    if run.on:
        count = _profiled_by_jobs(runs, engine, options, answer, timed)
    else:
        runner, done = _profiled(runs, engine, options, answer, timed)
        count = len(done)
        if runner is not None and done:
            # All in one process, after ncu is done with all of them.
            campaign = Campaign(runner, TimeOptions(), display, runs.failures)
            campaign.measure(done)
            if campaign.timings:
                show(runs.study, list(campaign.timings.values()))
    runs.failures.finish()
    if not count:
        raise MissingError("nothing was profiled", NAME_ANOTHER)


def ncu_commands(
    named: Named, engine: str, options: ProfileOptions, run: RunOptions, say: Say
) -> Iterator[str]:
    """The exact ncu command of each version, which is not run; nor is any file of a version.

    Raises:
        UsageError: the emulator was asked for.
    """
    if engine == "emulator":
        raise UsageError(
            "--dry-run prints ncu's command, and the emulator has none",
            "Use only one of them; --engine ncu --dry-run needs no GPU.",
        )
    project, study, versions = named.pick(run=False)
    gpu = on_gpu(project, _with_seed(run, project, study), say, profiling=True, known=True)
    runner = Experiment(project, study, gpu)
    for version in versions:
        one = chosen(study, version, named.problem, "profile")[0]
        if version.kind == "triton":
            say(
                f"note: {version.id} is not compiled, since Triton's compiler runs {version.path}: "
                "whether it builds is not tried, and the command's job has no cubin yet"
            )
            subject = Subject.of(study, *one, lambda _version: None)
        else:
            subject = runner.subject(*one)
        yield gpu.command(subject, options).shell


def _with_seed(run: RunOptions, project: Project, study: Study) -> RunOptions:
    """Without ``--seed``, the inputs of the study's newest profile, so that both compare."""
    if run.seed is not None:
        return run
    return replace(run, seed=recorded_seed(Store.of(project), study.name))


def _profiled(
    runs: VersionRuns, engine: str, options: ProfileOptions, answer: Say, timed: bool
) -> tuple[Experiment | None, list[Combination]]:
    """What was profiled, and what is to time it; None: nothing."""
    say = runs.display.say
    taken = choose(engine, runs.project, runs.options, say, profiling=True)
    answer(taken.profile_line + (", by `workbench time`" if taken.times and not timed else ""))
    unheard = ["--time"] if timed and not taken.times else []
    if unheard := unheard + taken.unheard(options):
        say(f"note: ignored by the {taken.name}: {', '.join(unheard)}")
    runs.only_under(taken)
    runner = counting = runs.runner(taken)
    denied: tuple[Notice, ...] = ()
    done: list[Combination] = []
    for version in runs.versions:
        with runs.failures.of(version.id, version):
            one = chosen(runs.study, version, runs.named.problem, "profile")[0]
            try:
                _profile(counting, one, options, denied, (answer, say))
            except CountersDeniedError as error:
                if engine != "auto":
                    raise
                denied = (_denied(error, say),)
                counting = runs.runner(choose("emulator", runs.project, runs.options, say))
                _profile(counting, one, options, denied, (answer, say))
            done.append(one)
    return (runner if taken.times and (timed or denied) else None), done


def _profile(
    runner: Experiment,
    one: Combination,
    options: ProfileOptions,
    notices: Sequence[Notice],
    heard: tuple[Say, Say],
) -> None:
    """Profile one version, and say where its profile is kept: an answer, its notes beside it."""
    answer, say = heard
    version, root = one.version, runner.project.root
    if refused := runner.engine.refuses(version) if notices else "":
        say(f"{version.id}: timed, but not counted: {refused}")
        return
    kept, path = runner.profile(runner.subject(*one), options, notices)
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    _say_lines(report_lines(kept, runner.engine, shown.as_posix(), notices), answer, say)


def _denied(error: CountersDeniedError, say: Say) -> Notice:
    """Say once that counters come from elsewhere from now on."""
    say(f"note: [{COUNTERS_DENIED}] {error.message}. {error.hint}")
    say("counters are the emulator's from here on; times are measured on the GPU")
    message = f"{error.message}: counted in the emulator, its time measured on a GPU"
    return Notice(COUNTERS_DENIED, message)


def _profiled_by_jobs(
    runs: VersionRuns, engine: str, options: ProfileOptions, answer: Say, timed: bool
) -> int:
    """Profile in jobs of a cluster; a line comes as each is done. How many there were."""
    count = 0

    def tell(outcome: PieceOutcome) -> None:
        nonlocal count
        if outcome.lines:
            count += 1
            _say_lines(outcome.lines, answer, runs.display.say)

    runs.only_in_jobs(engine)
    combinations = runs.combinations("profile", 1)
    runs.send(
        "profile",
        [each.key for each in combinations],
        tell,
        engine=engine,
        profiling=options,
        timed=timed,
    )
    return count


def _say_lines(lines: Sequence[str], answer: Say, say: Say) -> None:
    answer(lines[0])
    for note in lines[1:]:
        say(note)
