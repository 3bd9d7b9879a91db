"""The emulator engine: run a version's PTX on the CPU, check it, count, and make a `Profile`.

It needs a compiler (nvcc, or NVRTC from PyPI) and no GPU. Quantities that it cannot know, above all
time, are absent from its profiles and never estimated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path

from msgspec.structs import replace

from workbench import __version__
from workbench.analysis.times.noise import lines_by_timing
from workbench.callers import placed
from workbench.compile.build import BuildResult, build, target
from workbench.compile.image import with_text
from workbench.disk.limits import memory, too_much_memory
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
from workbench.engines.emulated.chips import device_of
from workbench.engines.emulated.emulation import Emulation, built_of, emulate, verified
from workbench.engines.emulated.record import (
    ISSUED,
    TEXTURES_UNCOUNTED,
    launch_records,
    sources_of,
    texture_fetches,
)
from workbench.engines.host.failures import AGAIN, KEPT
from workbench.engines.host.job import Check
from workbench.engines.ncu.collection import Collection
from workbench.errors import (
    HangError,
    InconclusiveError,
    KernelError,
    MissingError,
    UsageError,
    WorkbenchError,
)
from workbench.model import Capture, EngineName, Launch, Notice, Problem, Profile, SourceFile
from workbench.processes.bounds import Deadline, within_memory
from workbench.project import Project
from workbench.specs import Version
from workbench.store import Store
from workbench.study.sources import source_hash
from workbench.units import quantity

#: The default target of compilation: Hopper.
DEFAULT_ARCH = "sm_90"
#: Seconds that a stopped kernel has for reporting its line before its study is interrupted.
_LAST_WORDS_S = 1.0
#: Problems with more instructions than this, over the lanes of warps (ten seconds or more on two
#: cores), are profiled by a sample of this many blocks: better than a study's estimate.
SAMPLE_ABOVE = 2_000_000_000
SAMPLE_BLOCKS = 64
#: Races are sought in a second run of a profiled problem with fewer thread instructions than this,
#: about a second's work; for other problems, on the largest verify problem below it.
_WATCHED_BELOW = 50_000_000
#: A problem with fewer thread instructions is itself run a second time; for others the study's
#: smallest problem is.
_TWICE_BELOW = 400_000
_ERROR_WORDS = {"sectors": "sectors", "wavefronts": "shared wavefronts", "warps": "instructions"}


class EmulatorEngine(Engine):
    """Runs CUDA C++ and Triton on this CPU; `options` gives it seed, architecture and limits."""

    name: EngineName = "emulator"
    verify_line = (
        "engine: emulator, on this machine's CPU, watching for races, out-of-bounds accesses "
        "and uninitialized memory"
    )
    profile_line = (
        "engine: emulator, on this machine's CPU; it cannot know time, stalls, cache hits, "
        "achieved occupancy or SASS"
    )
    under = "in the emulator"

    def __init__(self, project: Project, options: RunOptions, say: Say = silent) -> None:
        self.seed = fresh_seed() if options.seed is None else options.seed
        self._other = fresh_seed()  # results of each version's second run
        self._project = project
        self._arch = options.arch or DEFAULT_ARCH
        self._instructions, self._limit = options.instruction_limit, options.limit
        self._say = say

    def refuses(self, version: Version) -> str:
        """See `Engine.refuses`."""
        return "its library needs a GPU" if version.kind == "python" else ""

    def unheard(self, options: ProfileOptions) -> list[str]:
        """See `Engine.unheard`: options that only ncu uses."""
        asked = options.collection or Collection()
        given = {
            "--set": asked.sets,
            "--section": asked.sections,
            "--metrics": asked.metrics,
            "--clock-control": asked.clock_control != "none",
            "--cache-control": asked.cache_control != "all",
            "--replay-mode": asked.replay_mode != "kernel",
            "--repeat": options.repeats > 1,
            "--raw": options.keep_raw == "always",
        }
        return [option for option, value in given.items() if value]

    def build(self, version: Version) -> BuildResult:
        """Compile; without a compiler, take the PTX of a recorded profile of the same source.

        Raises:
            KernelError: it does not compile.
            MissingError: a Python version; or neither a compiler nor such a profile.
        """
        if version.kind == "python":
            raise MissingError(
                f"{version.id} has no [[launch]]: it runs a library's kernels",
                "Its library needs a GPU: run this command on a machine that has one.",
            )
        if version.image:
            built = build(self._project, version, self._arch)
            if not built.build.ptx:
                raise MissingError(
                    f"{version.id} is machine code without PTX, but the emulator runs PTX",
                    "Use --engine ncu on a machine with a GPU; or build the program with -lineinfo "
                    "or with PTX (-gencode arch=compute_90,code=compute_90) and lift it again.",
                )
            return built
        try:
            return build(self._project, version, self._arch, limit=self._limit)
        except MissingError:
            store = Store.of(self._project)
            for entry in store.find(study=version.study, version=version.id):
                profile = store.load(entry.path)
                if profile.source_hash == source_hash(self._project, version):
                    found = recorded_build(profile)
                    if found is not None and found.build.arch == target(version, self._arch):
                        return found
            raise

    @contextlib.contextmanager
    def _within(self, subject: Subject) -> Iterator[Deadline]:
        """Work on a subject in this process within its time and memory; yield its deadline.

        Raises InconclusiveError if no time was left at the start, HangError if it exceeds a limit.
        """
        limit = self._limit.begun()
        if self._limit.over:
            raise InconclusiveError(
                f"{subject.version.id} was not tried on {subject.problem.name}: {limit} had passed",
                "Allow more with --timeout SECONDS, or name fewer versions.",
            )
        what = f"{subject.version.id} on {subject.problem.name}"

        def late() -> HangError:
            return HangError(
                f"{what} did not end within {limit} in the emulator",
                "If it is only slow (the kernel, or what study.py computes), allow more with "
                "--timeout SECONDS.",
            )

        try:
            with limit.kept(late, _LAST_WORDS_S), within_memory(memory()):
                yield limit
        except MemoryError:
            said, hint = too_much_memory("a version in the emulator")
            raise HangError(f"{what} {said}", f"Choose a smaller problem. {hint}") from None

    def emulate(
        self,
        subject: Subject,
        limit: Deadline | None = None,
        *,
        watch: bool = False,
        blocks: int = 0,
    ) -> Emulation:
        """Run a subject with this engine's seed, and its limits if none is given; see `emulate`."""
        return emulate(
            subject,
            self.seed,
            watch=watch,
            blocks=blocks,
            instructions=self._instructions,
            limit=limit or self._limit,
        )

    def verify(
        self,
        subjects: Sequence[Subject],
        tell: Callable[[int, Verdict], None],
        begin: Callable[[int], None],
    ) -> None:
        """See `Engine.verify`: watched for races, and run twice in one module on other inputs."""
        twice: set[str] = set()
        for place, subject in enumerate(subjects):
            begin(place)
            check: Check | None = None
            error: WorkbenchError | None = None
            try:
                with self._within(subject) as limit:
                    done = self.emulate(subject, limit, watch=True)
                    check = done.check and replace(done.check, notes=tuple(_warnings(done)))
                    verified(done, subject)
                    done = done._replace(check=check)
                    check, error = self._again(subject, done, twice, limit)
            except WorkbenchError as found:
                error = found
            tell(place, Verdict(subject.problem, check, error))

    def _again(
        self, subject: Subject, done: Emulation, twice: set[str], limit: Deadline
    ) -> tuple[Check | None, KernelError | None]:
        """Run loaded code again; return check and error. `twice`: versions already rerun."""
        first, found = done.check, None
        version, work = subject.version.id, sum(each.thread_instructions for each in done.counts)
        if work >= _TWICE_BELOW:
            if version in twice:
                return first, None
            for small in [*self._smaller(subject)][-1:]:
                with contextlib.suppress(KernelError, InconclusiveError):  # an optional check
                    once = self.emulate(small, limit)
                    verified(once, small)
                    subject, done = small, once
        twice.add(version)
        try:
            found = done.again(self._other)
            verified(done._replace(check=found, explain=lambda: None), subject)
        except KernelError as error:
            words = f"{error.message}\n{AGAIN.format(seed=self._other)}"
            if done.kept:
                words += f"\nIt found {', '.join(done.kept)} as the first run left it."
            return found, KernelError(words, KEPT)
        return first and replace(first, fixed=found.fixed), None

    def profile(self, subject: Subject, options: ProfileOptions) -> tuple[Profile, None]:
        """See `Engine.profile`; it refuses what `verify` refuses.

        Races and uninitialized reads are sought on this problem if that is fast, otherwise on a
        smaller one, which also verifies a problem counted by a sample of blocks.
        """
        study, version, problem = subject.study, subject.version, subject.problem
        with self._within(subject) as limit:
            counted = self._counted(subject, options.blocks, limit)
            watched = self._watched(subject, counted)
            judged, whole = subject, counted
            if watched is not None:
                self._say(f"verify {version.id} on {watched.problem.name}")
                seen = self.emulate(watched, limit, watch=True)
                verified(seen, watched)
                counted.counts[0].warnings += tuple(_warnings(seen))
                if counted.check is None:
                    judged, whole = watched, seen
            check = verified(whole, judged)
        built = built_of(subject)
        sources = sources_of(counted.module, built)
        launches = launch_records(
            counted.counts, built, counted.module, device_of(self._arch), study.bytes(problem)
        )
        profile = Profile(
            engine=self.name,
            device=device_of(self._arch),
            captured=now(),
            launches=launches,
            study=study.name,
            version=version.id,
            problem=problem.name,
            parameters=study.parameters(problem),
            tools={"workbench": __version__, "compiler": built.build.compiler},
            capture=Capture(wall_s=counted.seconds),
            sources=sources,
            source_hash=source_hash(self._project, version),
            build=built.build,
            verification=check.verification(judged.problem.name, self.seed),
            notices=(*_notices(counted, launches, sources), *_unwatched(subject, watched)),
        )
        return placed(with_text(profile, version)), None

    def _counted(self, subject: Subject, blocks: int | None, limit: Deadline) -> Emulation:
        """A problem's counters; by default from as many blocks as run in a short time."""
        if blocks is None:
            some = any(prod(each.grid) > SAMPLE_BLOCKS for each in subject.launches)
            if some and next(self._smaller(subject), None) is not None:
                # Blocks whose data skipped blocks would have written may end in faults.
                with contextlib.suppress(KernelError, InconclusiveError):
                    sampled = self.emulate(subject, limit, blocks=SAMPLE_BLOCKS)
                    if sum(each.lanes for each in sampled.counts) > SAMPLE_ABOVE:
                        return sampled
        return self.emulate(subject, limit, blocks=blocks or 0)

    def _smaller(self, subject: Subject) -> Iterator[Subject]:
        """The subject on the problems for `verify` below its own, the largest first."""
        study = subject.study

        def size(problem: Problem) -> tuple[int, int]:
            return study.flops(problem), study.bytes(problem)

        for each in sorted(study.problems_for("verify"), key=size, reverse=True):
            with contextlib.suppress(UsageError):
                study.check_requirements(subject.version, each)
                if size(each) < size(subject.problem):
                    yield subject.on(each)

    def _watched(self, subject: Subject, counted: Emulation) -> Subject | None:
        """Return the subject on the problem to watch for races, or None.

        Raises UsageError if only a sample of blocks ran and no other problem can verify it.
        """
        work = sum(each.thread_instructions for each in counted.counts)
        if counted.check is not None and work < _WATCHED_BELOW:
            return subject
        smaller = next(self._smaller(subject), None)
        if smaller is not None or counted.check is not None:
            return smaller
        raise UsageError(
            f"study {subject.study.name} has no problem on which {subject.version.id} can be "
            "verified",
            "Run all blocks (--blocks 0), or mark a smaller problem for `verify`.",
        )


def recorded_build(profile: Profile) -> BuildResult | None:
    """The PTX and resources in a recorded profile; None if it has no PTX."""
    if profile.build is None or not profile.build.ptx:
        return None
    return BuildResult(cubin=Path(), build=profile.build, sources=profile.sources, cached=True)


def _unwatched(subject: Subject, watched: Subject | None) -> tuple[Notice, ...]:
    """Return the notice for a profile whose own problem was not watched for races."""
    name, version = subject.problem.name, subject.version
    if watched is not None and watched.problem.name == name:
        return ()
    words = f"were looked for on {watched.problem.name}, not on {name}." if watched else (
        f"were not looked for: `workbench verify {version.study}/{version.id}:{name} "
        "--engine emulator` does."
    )  # fmt: skip
    message = f"Races and reads of uninitialized memory {words}"
    return (Notice("not-watched", message),)


def _warnings(emulation: Emulation) -> list[str]:
    """List, each once, operations that run on a chip but are likely mistakes."""
    return list(dict.fromkeys(words for each in emulation.counts for words in each.warnings))


def _notices(
    emulation: Emulation, launches: Sequence[Launch], sources: Sequence[SourceFile]
) -> tuple[Notice, ...]:
    notices = list[Notice]()

    def add(code: str, message: str) -> None:
        notices.append(Notice(code, message))

    add(
        "emulated",
        "Counted on a CPU from the version's PTX: exact where it follows from "
        "addresses; nothing is known about time, stalls and caches. Counters whose names "
        "contain ptx__ count PTX instructions, not machine instructions.",
    )
    if not emulation.module.assembled:
        add(
            "no-machine-code",
            "The machine code of this PTX is unknown here: loads and stores that it "
            "would join are counted one by one, and the number of machine instructions is "
            "missing.",
        )
    for words in _warnings(emulation):
        add("unwritten" if "uninitialized" in words else "unordered", f"{words}.")
    for counts, launch in zip(emulation.counts, launches, strict=True):
        if left := launch.absent.get(ISSUED[0], ""):
            add("not-counted", f"{launch.kernel}: machine instructions are {left}.")
        if fetches := texture_fetches(counts.rows):
            places = dict.fromkeys(emulation.module.place(row.instr) for row in fetches)
            lines = ", ".join(f"{path}:{line}" for path, line in [*places][:3])
            lines += f" and {len(places) - 3} more" if len(places) > 3 else ""
            add("not-counted", f"{launch.kernel}: {TEXTURES_UNCOUNTED} ({lines}).")
        named, many = lines_by_timing([launch], sources)
        if many:
            run, lines = ("runs", "this line") if many == 1 else ("run", "these lines")
            hold = "contain it" if many == 1 else "contain them"
            add(
                "depends-on-timing",
                f"{launch.kernel}: how often {named} {run} may depend on "
                f"which warps meet on a chip; counts of {lines}, and totals that {hold}, "
                "are those of one possible order.",
            )
        if counts.sampled < 1:
            add(
                "sampled",
                f"{counts.launch.kernel}: {counts.blocks_run} of "
                f"{counts.launch.geometry.blocks} blocks were run, every edge of the grid "
                "included, and counters scaled up from them; standard error "
                + ", ".join(
                    f"{quantity(100 * counts.error[name], '%')} of {words}"
                    for name, words in _ERROR_WORDS.items()
                )
                + ".",
            )
    return tuple(notices)
