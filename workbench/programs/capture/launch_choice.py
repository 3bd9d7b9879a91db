"""The kernels that matter, under ncu: the default collection for a few launches of each.

The program runs once more, as a whole; ncu profiles only the picked launches. If ncu fails, the
survey gets a notice and remains valid.

A kernel may be launched in several configurations, the *classes* of its launches (nearly equal
grids are one). The classes with most of its time are profiled, each at least once, and with
``--like`` those that another capture profiled. A notice says if they are too few. If a program
repeats itself, only its iterations' time counts, without a tuner's trials before them.

ncu takes one filter for all kernels of a run: their names, and the numbers of their
invocations. So the same few numbers serve every kernel. They are chosen to represent the durations
of all launches as closely as possible: with k numbers, the k-medians of the durations, each class
weighted by its time (a greedy choice is within a constant factor of the best one: Nemhauser,
Wolsey, Fisher, Mathematical Programming 14, 1978).

A kernel that waits for other processes (`capture.ranks`) is never picked: ncu runs a launch alone
and repeatedly. Only one rank is profiled, the one that works longest: with two, ncu would stop one
of them before a launch while the other waits for it in a collective, and neither would go on.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from msgspec.structs import replace

from workbench.analysis.aggregate import near
from workbench.disk.writing import private_folder
from workbench.engines import Say
from workbench.engines.host.presence import need_ncu
from workbench.engines.host.process import Input
from workbench.engines.ncu.collection import Collection
from workbench.engines.ncu.faults import error_lines, known_fault, permission
from workbench.errors import DataError, KernelError, MissingError, UsageError, WorkbenchError
from workbench.model import COUNTERS_DENIED, Config, Notice, Profile, Record
from workbench.ncurep.child import Standby
from workbench.ncurep.container import RESULT_FUNCTION, RESULT_MANGLED, read_blocks
from workbench.ncurep.files import exported, read_raw
from workbench.ncurep.read import read_report
from workbench.ncurep.wire import text as wire_text
from workbench.programs.capture.ranks import work_waits
from workbench.programs.capture.records import ProgramCapture, Survey, Work
from workbench.programs.capture.survey import Invocation, run_program
from workbench.programs.capture.trace import Trace, spaced, wanted_range
from workbench.study.mangling import spelled
from workbench.units import listed, quantity, several

#: Kernels profiled by default: this many, or fewer if they make up this part of the time.
TOP, ENOUGH = 5, 0.9
#: Launches to profile of each kernel.
LAUNCHES = 3
#: How many classes of a kernel's launches are profiled: fewer if they have this part of its time,
#: at most the last number if the first does not make up `ENOUGH` of it.
CLASSES, MOST_OF_IT, MOST_CLASSES = 6, 0.97, 12
#: Default time limit under ncu for a program whose processes wait for each other: at least this
#: many seconds, and this many times its time without ncu.
LEAST_S, TIMES = 60.0, 4.0
#: A rank with this part of the longest rank's work counts as equally long.
_AS_LONG = 0.95
#: The most invocation numbers, and durations of a kernel, that are compared.
_CANDIDATES, _SAMPLE = 300, 65


class Seen(Record, frozen=True):
    """A class of launches that another capture profiled, by the function's name."""

    name: str
    config: Config


class Wish(Record, frozen=True):
    """A user's choice of kernels to profile. `top` None: as many as take `ENOUGH`, up to `TOP`.

    `rank` None: the one that works longest. `like` are additional classes to profile, if the
    program has them.
    """

    kernel: str | None = None
    top: int | None = None
    launches: int = LAUNCHES
    nvtx: str | None = None
    rank: int | None = None
    like: tuple[Seen, ...] = ()


def seen_in(capture: ProgramCapture, detail: Profile | None) -> tuple[Seen, ...]:
    """The classes that a capture profiled, so that another capture can profile the same.

    Raises UsageError: there are none.
    """
    found = {
        Seen(capture.survey.works[place].name, launch.config): None
        for launch, place in zip(detail.launches if detail else (), capture.detail, strict=True)
        if place >= 0
    }
    if not found:
        raise UsageError(
            f"no kernel of @{capture.name} was profiled",
            "Leave out --like, or capture that one again where ncu can count.",
        )
    return tuple(found)


class Picked(Record, frozen=True):
    """The kernels (indices in the survey), and the numbers of their invocations, from 1.

    `device` is the profiled one, None if it does not matter; `notices` say what is left out, and
    why.
    """

    works: tuple[int, ...] = ()
    invocations: tuple[int, ...] = ()
    device: int | None = None
    notices: tuple[Notice, ...] = ()


def pick(survey: Survey, trace: Trace, wish: Wish) -> Picked:
    """The launches that ncu should profile.

    Raises UsageError: no kernel has the name in `wish`, or it is not a regular expression; or no
    such rank.
    """
    rank = _rank(survey, wish)
    matching = _matching(survey.works, wish)
    alone = [x for x in matching if not work_waits(survey.works[x])]
    works, share = _kernels(survey, alone, wish)
    notices: list[Notice] = []
    if waiting := [survey.works[x] for x in matching if x not in alone]:
        names = listed(list(dict.fromkeys(work.name for work in waiting)), 2)
        message = (
            f"{names}: only timed, since it waits for "
            f"{work_waits(waiting[0])} while it runs, and ncu runs each launch alone, many times"
        )
        notices.append(Notice("waits-for-others", message))
    device = None
    if rank is not None:
        others = {x for at, own in enumerate(survey.ranks) if at != rank for x in own.devices}
        device = survey.ranks[rank].devices[0]
        if device in others:
            message = (
                "Only the survey was taken: every rank sees its GPU under the same number, and "
                "ncu cannot select one of them. Let each see all GPUs (no "
                "CUDA_VISIBLE_DEVICES of its own)"
            )
            notices.append(Notice("ranks-alike", message))
            return Picked(notices=tuple(notices))
    if wish.top is None and share < ENOUGH:
        number, there, part = len(works), len(alone), quantity(100 * share, "%")
        message = f"{number} of {there} kernels are picked for ncu: {part} of the time (--top N)"
        notices.append(Notice("few-kernels", message))
    who = trace.who
    own: dict[str, dict[Config, dict[int, int]]] = {survey.works[x].symbol: {} for x in works}
    count: Counter[str] = Counter()
    for launch in trace.launches:
        if launch.symbol in own and (rank is None or who.place(launch) == rank):
            count[launch.symbol] += 1
            own[launch.symbol].setdefault(launch.config, {})[count[launch.symbol]] = launch.duration
    classes: list[Mapping[int, int]] = []
    called = {
        work.place: {x.config for x in work.shapes}
        for work in (survey.steady.repeated if survey.steady is not None else ())
    }
    for place in works:
        work = survey.works[place]
        like = [seen.config for seen in wish.like if seen.name == work.name]
        chosen, there, share = heavy(own[work.symbol], like, called.get(place) or None)
        classes += chosen
        if share < ENOUGH:
            name, number, part = work.name, len(chosen), quantity(100 * share, "%")
            message = (
                f"{name}: {number} of {there} configurations are picked for ncu: {part} of its time"
            )
            notices.append(Notice("few-configurations", message))
    return Picked(
        works=works,
        invocations=invocations(classes, wish.launches),
        device=device,
        notices=tuple(notices),
    )


def _rank(survey: Survey, wish: Wish) -> int | None:
    """The index of the profiled rank; None without ranks."""
    ranks = survey.ranks
    if wish.rank is None:
        steady = survey.steady.ranks if survey.steady is not None else ranks
        times = [sum(rank.work_ns) for rank in steady]
        # The first one that works (nearly) as long as the longest.
        return next((at for at, time in enumerate(times) if time > _AS_LONG * max(times)), None)
    numbers = [rank.rank if rank.rank >= 0 else place for place, rank in enumerate(ranks)]
    if wish.rank not in numbers:
        there = f"They are {listed(list(map(str, numbers)), 8)}." if ranks else "It has no ranks."
        raise UsageError(f"the program has no rank {wish.rank}", there)
    return numbers.index(wish.rank)


def heavy(
    own: Mapping[Config, Mapping[int, int]],
    like: Sequence[Config] = (),
    called: Container[Config] | None = None,
) -> tuple[list[Mapping[int, int]], int, float]:
    """The classes that take most of a kernel's time, and those of `like`.

    Args:
        own: For each configuration, durations by number of invocation, from 1.
        like: Configurations to include, however short.
        called: Configurations in iterations, as others are not profiled; None: all.

    Returns:
        Also the number of classes, and the part (0-1) of their time that was chosen.
    """
    inside = {x for x in own if called is None or x in called}
    classes, others = (
        _classes({x: own[x] for x in part}) for part in (inside, own.keys() - inside)
    )
    whole = sum(sum(each.values()) for each in classes.values())
    taken = 0
    out: dict[Config, Mapping[int, int]] = {}
    for config, each in classes.items():
        few = len(out) < CLASSES and taken < MOST_OF_IT * whole
        if few or (len(out) < MOST_CLASSES and taken < ENOUGH * whole):
            taken += sum(each.values())
            out[config] = each
    wanted = {x: each for x, each in (others | classes).items() if any(_alike(x, y) for y in like)}
    taken += sum(sum(each.values()) for x, each in wanted.items() if x in classes and x not in out)
    return [*(out | wanted).values()], len(classes | wanted), taken / whole if whole else 1.0


def _classes(own: Mapping[Config, Mapping[int, int]]) -> dict[Config, Mapping[int, int]]:
    """Durations by class, the longest first; a class's key is its longest configuration."""
    found: dict[Config, Mapping[int, int]] = {}
    for config in sorted(own, key=lambda x: -sum(own[x].values())):
        first = next((x for x in found if _alike(config, x)), config)
        found[first] = {**found.get(first, {}), **own[config]}
    return dict(sorted(found.items(), key=lambda item: -sum(item[1].values())))


def _alike(config: Config, other: Config) -> bool:
    """True if launches in two configurations belong to one class."""
    return config[1:] == other[1:] and near(config[0], other[0])


def _matching(works: Sequence[Work], wish: Wish) -> list[int]:
    """The kernels whose names match the user's choice; all without a choice."""
    kernels = [place for place, work in enumerate(works) if work.kind == "kernel"]
    if wish.kernel is None:
        return kernels
    names = {place: works[place].signature or works[place].name for place in kernels}
    # A name copied from ncu's output or a source is plain text: its brackets are not groups.
    found = [x for x in kernels if spelled(wish.kernel) in spelled(names[x])]
    try:
        pattern = re.compile(wish.kernel)
    except re.error as error:
        if found:
            return found
        raise UsageError(
            f"--kernel {wish.kernel!r} is not a regular expression: {error}", "Correct it."
        ) from error
    found = [x for x in kernels if x in found or pattern.search(names[x])]
    if not found:
        hinted = [works[place] for place in kernels if not work_waits(works[place])][:8]
        words = ", ".join(dict.fromkeys(shlex.quote(_pattern(work, works)) for work in hinted))
        raise UsageError(
            f"no kernel of the program matches --kernel {wish.kernel!r}",
            f"The kernels with the most time: {words}.",
        )
    return found


_WORDS = re.compile(r"\w+")


def _pattern(work: Work, works: Sequence[Work]) -> str:
    """The --kernel pattern for a kernel: its name, and a word in its arguments that others lack."""
    others = [x for x in works if x.name == work.name and x.signature != work.signature]
    known = {word for other in others for word in _WORDS.findall(other.signature)}
    own = [word for word in _WORDS.findall(work.signature) if word not in known]
    return f"{re.escape(work.name)[:60]}.*{own[0]}" if others and own else work.name[:60]


def _kernels(survey: Survey, kernels: Sequence[int], wish: Wish) -> tuple[tuple[int, ...], float]:
    """The classes of some kernels to profile, and their share (0-1) of the time."""
    works = survey.works
    asked = {seen.name for seen in wish.like}
    like = [place for place in kernels if works[place].name in asked]
    steady = survey.steady.repeated if survey.steady is not None else ()
    times = {work.place: sum(work.total_ns) for work in steady if work.place in kernels}
    if not times:
        times = {place: sum(works[place].total_ns) for place in kernels}
    kernels = sorted(kernels, key=lambda place: -times.get(place, 0))
    whole, most = sum(times.values()), wish.top
    if most is None:
        reached = accumulate(times.get(place, 0) for place in kernels)
        most = min(TOP, 1 + sum(taken < ENOUGH * whole for taken in reached))
    out = tuple(dict.fromkeys([*kernels[:most], *like]))
    return out, sum(times.get(place, 0) for place in out) / whole if whole else 1.0


def invocations(classes: Sequence[Mapping[int, int]], most: int) -> tuple[int, ...]:
    """Up to `most` numbers of invocations that represent the durations of every class.

    Each class has at least one of them, even if that takes more numbers than `most`.

    Args:
        classes: For each class, durations, in any unit, by number of invocation, from 1.
        most: The wanted number of launches of a kernel.
    """
    own = [each for each in classes if each]
    if not own:
        return ()
    numbers = sorted({number for each in own for number in _candidates(sorted(each), len(own))})
    samples = [spaced(sorted(each.values()), _SAMPLE) for each in own]
    # The error of a class without a profiled launch is its whole duration.
    nearest = [[float(value) for value in sample] for sample in samples]
    chosen: list[int] = []
    while len(chosen) < most or any(each.keys().isdisjoint(chosen) for each in own):
        best, gain = 0, 0.0
        for number in numbers:
            won = 0.0
            for each, sample, offs in zip(own, samples, nearest, strict=True):
                if number in each:
                    scale = len(each) / len(sample)
                    won += scale * sum(
                        max(0.0, off - abs(value - each[number]))
                        for value, off in zip(sample, offs, strict=True)
                    )
            if won > gain:
                best, gain = number, won
        if not best:
            best = next((x for x in numbers if x not in chosen), 0)
            if not best:
                break
        chosen.append(best)
        numbers.remove(best)
        for each, sample, offs in zip(own, samples, nearest, strict=True):
            if best in each:
                offs[:] = [
                    min(off, abs(value - each[best]))
                    for value, off in zip(sample, offs, strict=True)
                ]
    return tuple(sorted(chosen))


def _candidates(numbers: list[int], classes: int) -> list[int]:
    """Some numbers of a class: its first ones, which other kernels share, and spaced ones."""
    most = max(2, _CANDIDATES // classes)
    return [*numbers[:most], *spaced(numbers, most)]


def matched(profile_symbols: Sequence[str], survey: Survey) -> tuple[int, ...]:
    """The work of each launch of a report, by its function in the machine code; -1: none."""
    places = {work.symbol: place for place, work in enumerate(survey.works)}
    return tuple(places.get(symbol, -1) for symbol in profile_symbols)


#: The hint on the uses of a capture without counters.
_WITHOUT = (
    "Everything that needs only times works without it: `diff` of two captures, `check`, "
    "--repeat. Kernels that are written as a study are counted by the emulator: `workbench "
    "profile --engine emulator`"
)
#: Seconds that reading a report with few launches may take.
_READ_S = 300.0


class KernelDetail(Record, frozen=True):
    """The result of a run under ncu. `profile` None: see `notice`; `broken`: it failed.

    `works` has the work (its index in the survey) of every launch of the profile.
    """

    profile: Profile | None = None
    works: tuple[int, ...] = ()
    notice: Notice | None = None
    broken: bool = False


def ncu_arguments(survey: Survey, picked: Picked, wish: Wish, export: str, log: str) -> list[str]:
    """The arguments between ncu and the program.

    Args:
        survey: The program's launches.
        picked: The launches to profile.
        wish: The user's choice, for its NVTX range.
        export: The report's path.
        log: The path for ncu's messages, apart from the program's output.
    """
    symbols = sorted({survey.works[place].symbol for place in picked.works})
    names = "|".join(re.escape(symbol) for symbol in symbols)
    words = [*Collection().words, "--target-processes", "all", "--log-file", log]
    words += ["--kernel-name-base", "mangled"]
    if picked.device is not None:
        words += ["--devices", str(picked.device)]
    if wish.nvtx is not None:
        # Invocations are counted over the whole program, not only in the range.
        words += wanted_range(wish.nvtx).ncu_words
        words += ["--kernel-name", f"regex:^({names})$"]
        words += ["--launch-count", str(wish.launches * len(picked.works))]
    else:
        numbers = "|".join(map(str, picked.invocations))
        words += ["--kernel-id", f"::regex:^({names})$:{numbers}"]
    return [*words, "--force-overwrite", "--export", export]


def take_detail(
    invocation: Invocation,
    given: Input,
    survey: Survey,
    picked: Picked,
    wish: Wish,
    say: Say,
) -> KernelDetail:
    """Run the program under ncu and read what it collected.

    A timeout becomes a notice, like every failure of ncu: the survey already exists.
    Raises KeyboardInterrupt: Ctrl-C.
    """
    try:
        ncu = need_ncu()
    except MissingError as error:
        return _without("no-ncu", error)
    asked = invocation.timeout_s is not None
    if survey.ranks and not asked:
        limit = LEAST_S + TIMES * survey.runs[-1].wall_s
        say(f"detail: ranks may wait for each other: ncu ends after {limit:.0f} s (--timeout)")
        invocation = replace(invocation, timeout_s=limit)
    say(
        f"detail: ncu profiles {several(len(picked.works), 'kernel')}, "
        f"{several(len(picked.invocations), 'launch', 'launches')} of each"
    )
    # The reader warms up while ncu runs.
    with private_folder() as holder, Standby() as standby:
        report, log = Path(holder) / "report.ncu-rep", Path(holder) / "ncu.log"
        argv = [ncu, *ncu_arguments(survey, picked, wish, str(report), str(log))]
        try:
            ended = run_program([*argv, *invocation.command], invocation, given)
        except KernelError:
            said = log.read_text("utf-8", "replace") if log.is_file() else ""
            # Our own limit is not an error: with ranks, ncu may wait for ever.
            late = _too_slow(invocation, survey, said)
            return _without("detail-timeout", late, broken=asked or not survey.ranks)
        report = exported(report)
        said = log.read_text("utf-8", "replace") if log.is_file() else ""
        if "ERR_NVGPUCTRPERM" in said:
            return _without(COUNTERS_DENIED, permission(_WITHOUT))
        if not report.is_file():
            return _nothing(said, ended.exit_code)
        if ended.code or "LaunchFailed" in said:
            how = f"ended with exit code {ended.exit_code}" if ended.code else "crashed"
            why = f"the program {how} under ncu, but not without it{_quoted(said)}"
            fault = KernelError(why, "Its report was not kept.")
            return _without("detail-failed", fault, broken=True)
        try:
            profile = read_report(report, timeout_s=_READ_S, standby=standby)
            symbols = report_symbols(read_raw(report), report)
        except (DataError, MissingError) as error:
            return _without("detail-unread", error, broken=isinstance(error, DataError))
    return KernelDetail(profile=profile, works=matched(symbols[: len(profile.launches)], survey))


#: ncu's line on the launch that it profiles.
_AT = re.compile(r'^==PROF== Profiling "(.+?)"', re.MULTILINE)


def _too_slow(invocation: Invocation, survey: Survey, said: str) -> KernelError:
    seen = _AT.findall(said)
    where = f" (it had reached {seen[-1]}, launch {len(seen)} of those picked)" if seen else ""
    hint = "Give it more time with --timeout, or leave such a kernel out with --kernel or --nvtx"
    if survey.ranks:
        hint = "--rank N looks at another rank, --timeout gives it more time, --no-detail skips it"
    return KernelError(
        f"under ncu the program did not end within {invocation.timeout_s:g} s, and was "
        f"stopped{where}",
        "ncu runs each profiled launch some 40 times, and a launch that waits for another kernel, "
        f"or for another process, never ends. {hint}",
    )


def report_symbols(data: bytes, path: Path) -> list[str]:
    """The machine code's function for every result of a report, in order."""
    return [
        wire_text(result, RESULT_MANGLED) or wire_text(result, RESULT_FUNCTION)
        for block in read_blocks(data, path)
        for result in block.results
    ]


def _nothing(said: str, code: int) -> KernelDetail:
    error: WorkbenchError | None = known_fault(said)
    if not error_lines(said) and (error is not None or not code):
        # ncu only reports that it profiled no kernel.
        error = MissingError(
            "under ncu the program launched none of the kernels that were picked",
            "Its launches may depend on timing, or on a range (--nvtx) that is never entered; "
            "--kernel and --launches pick others.",
        )
    elif error is None:
        error = MissingError(
            f"ncu ended with exit code {code} and without a report{_quoted(said)}",
            "`workbench doctor` shows what is missing.",
        )
    return _without("detail-empty", error, broken=bool(code))


def _quoted(said: str) -> str:
    lines: Sequence[str] = error_lines(said)[:4]
    return "".join(f"\n  {line}" for line in lines)


def _without(code: str, error: WorkbenchError, *, broken: bool = False) -> KernelDetail:
    message = f"Only the survey was taken: {error.message}. {error.hint}"
    return KernelDetail(notice=Notice(code, message), broken=broken)
