"""Sentences on two programs, and on one kernel's launches: the leading numbers in words.

The main change comes first: the GPU's waiting if kernels are as fast as before, the time in which
anything ran if works overlap, or the time of an iteration's kernels. Each factor names its subject.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from statistics import fmean
from typing import NamedTuple

from workbench.analysis.naming import shortened
from workbench.counters import catalog
from workbench.language import N_, _, ngettext
from workbench.model import Estimate, Record
from workbench.programs.capture.records import ProgramCapture, Survey
from workbench.programs.compared.counterparts import Fate
from workbench.programs.compared.iterations import tuning_words
from workbench.programs.compared.program import (
    Change,
    ClassChange,
    ProgramDifference,
    WorkChange,
    total,
)
from workbench.programs.compared.skew import RankTime, rank_times, skew_words
from workbench.programs.compared.steps import KernelStep, weighs
from workbench.units import (
    count,
    digits3,
    factor,
    faster,
    listed,
    quantity,
    relative,
    several,
    signed,
    span,
)

#: The most ranks that have a line.
RANKS = 8
#: The fate of kernels -> words for it.
_FATES: dict[Fate, str] = {
    "came": N_("{kernels} added"),
    "went": N_("{kernels} removed"),
    "fused": N_("{kernels} fused into {n}"),
    "split": N_("{kernels} split into {n}"),
    "replaced": N_("{kernels} replaced by {n}"),
}


def survey_words(survey: Survey) -> tuple[str, ...]:
    """Lines on one program: its time, its iterations, its ranks."""
    if not survey.timed:
        return (counts_words(survey),)
    run = survey.runs[0]
    processes = f", {several(run.processes, 'process', 'processes')}" if run.processes > 1 else ""
    gpus = _("{gpus} in ").format(gpus=several(survey.gpus, "GPU")) if survey.gpus > 1 else ""
    lines = (
        _(
            "{time_words} on the GPU in {launches}, busy {busy_ns} of "
            "{gpus}{span_ns}, wall {wall_s}{processes}"
        ).format(
            time_words=time_words(total(survey)),
            launches=several(survey.launches, "launch", "launches"),
            busy_ns=quantity(1e-9 * run.busy_ns, "s"),
            gpus=gpus,
            span_ns=quantity(1e-9 * run.span_ns, "s"),
            wall_s=quantity(run.wall_s, "s"),
            processes=processes,
        ),
        _steady_words(survey),
        *_rank_lines(rank_times(survey)),
        skew_words(survey),
    )
    return tuple(filter(None, lines))


def of_ideal(value: int, ideal: int, words: str = " ({factor})") -> str:
    """``1.05 M (4.00×)``: a count, and its factor over the ideal if it is larger."""
    more = words.format(factor=factor(value / ideal)) if value > ideal > 0 else ""
    return quantity(value) + more


def counts_words(survey: Survey) -> str:
    """The emulator's counts of a program, with a note that it has no times."""
    found, words = survey.counted(), _(" ({factor} ideal)")
    return _(
        "{launches}, counted by the emulator, which measures no times: {instructions} "
        "instructions, global sectors {sectors}, shared wavefronts {wavefronts}"
    ).format(
        launches=several(survey.launches, "launch", "launches"),
        instructions=quantity(found.instructions),
        sectors=of_ideal(found.sectors, found.sectors_ideal, words),
        wavefronts=of_ideal(found.wavefronts, found.wavefronts_ideal, words),
    )


def count_change(old: int | None, new: int | None) -> str:
    """``1.05 M → 262 k (−75.0%)``; one value if both are equal, a dash for a missing one."""
    if old == new:
        return quantity(new)
    change = f" ({relative(old, new)})" if old and new else ""
    return f"{quantity(old)} → {quantity(new)}{change}"


def counts_change(difference: ProgramDifference) -> str:
    """The change of the emulator's counts, with a note that nothing was timed."""
    old, new = (side.survey.counted() for side in (difference.old, difference.new))
    parts = (
        _("instructions {change}").format(change=count_change(old.instructions, new.instructions)),
        _("global sectors {change}").format(change=count_change(old.sectors, new.sectors)),
        _("shared wavefronts {change}").format(change=count_change(old.wavefronts, new.wavefronts)),
    )
    return _("{counts}; counted by the emulator, which measures no times").format(
        counts=_(", ").join(parts)
    )


def _rank_lines(times: Sequence[RankTime]) -> list[str]:
    """One line per rank; the first ones of many."""
    lines = []
    for one in times[:RANKS]:
        gpu = _("GPU {map}").format(map=", ".join(map(str, one.gpus)))
        line = _("{label} ({gpu}): works {work_s}, ").format(
            label=one.label, gpu=gpu, work_s=quantity(one.work_s, "s")
        )
        line += _("communicates {talk_s}").format(talk_s=quantity(one.talk_s, "s"))
        if one.wait_s is not None:
            line += _(", {wait_s} of it waiting").format(wait_s=quantity(one.wait_s, "s"))
        lines.append(
            _("{line}; {alone_s} with nothing else running").format(
                line=line, alone_s=quantity(one.alone_s, "s")
            )
        )
    if len(times) > RANKS:
        lines.append(_("{ranks} more ranks (--format json)").format(ranks=len(times) - RANKS))
    return lines


def _steady_words(survey: Survey) -> str:
    """A line on the iterations; "" if there are none."""
    steady = survey.steady
    if steady is None:
        return ""
    each = fmean(map(sum, zip(*(work.total_ns for work in steady.repeated), strict=True)))
    launches = fmean(map(sum, zip(*(work.launches for work in steady.repeated), strict=True)))
    text = _("{iterations} of {launches}, {each} each, and {warm} before the first").format(
        iterations=several(round(fmean(steady.iterations)), "iteration"),
        launches=several(round(launches), "launch", "launches"),
        each=quantity(1e-9 * each, "s"),
        warm=quantity(1e-9 * fmean(steady.warm_ns), "s"),
    )
    tuning = tuning_words(survey)
    return text + _(", of which {tuning}").format(tuning=tuning) if tuning else text


def program_words(difference: ProgramDifference) -> tuple[str, ...]:
    """Lines on two programs: their change, ranks, copies, kernels added and removed.

    Every view prints all of them, in this order.
    """
    if not difference.timed:
        counted = counts_change(difference), fate_words(difference), calls_words(difference)
        return tuple(filter(None, counted))
    sides = difference.old, difference.new
    repeats = [(x.name, words) for x in sides if (words := _steady_words(x.survey))]
    alone = _("only @{name} has iterations: {words}")
    lines = (
        *(alone.format(name=name, words=words) for name, words in repeats if len(repeats) == 1),
        waiting_words(difference),
        change_words(difference) + _most(difference) + _without_interval(difference),
        *_rank_changes(difference),
        beside_words(difference),
        fate_words(difference),
        range_words(difference),
        calls_words(difference),
    )
    return tuple(filter(None, lines))


#: The least part of the change for a kernel to be named.
_MOST = 0.5


def _most(difference: ProgramDifference) -> str:
    """The kernel with most of the change; "" if the change is spread over many."""
    row = difference.rows[0] if difference.rows and difference.first.moved else None
    if row is None or row.fate != "same" or row.name.startswith("["):
        return ""
    before, after = difference.seconds(row)
    if (difference.share(after - before) or 0.0) < _MOST:
        return ""
    return _("; most of it in {kernel}, {before} → {after}").format(
        kernel=shortened(row.name), before=quantity(before, "s"), after=quantity(after, "s")
    )


def _without_interval(difference: ProgramDifference) -> str:
    """A clause on missing intervals; "" if all sides have one, or no factor is given."""
    alone = [f"@{s.name}" for s in (difference.old, difference.new) if len(s.survey.runs) < 2]
    if not alone or difference.tried:
        return ""
    if difference.steady:
        text = _("; for the iterations of {names}, only the mean is known")
        return text.format(names=listed(alone))
    if len(alone) > 1:
        return _("; single run; use --repeat 5 for an interval")
    return _("; one run of {name} has no interval; use --repeat 5 for one").format(name=alone[0])


def time_words(estimate: Estimate, noun: str = "run") -> str:
    """``4.20 ms (4.10 ms to 4.30 ms, 5 runs)``."""
    text = quantity(estimate.value, "s")
    if estimate.n < 2:
        return text
    return (
        f"{text} ({span(quantity(estimate.low, 's'), quantity(estimate.high, 's'))}, "
        f"{several(estimate.n, noun)})"
    )


def waiting_words(difference: ProgramDifference) -> str:
    """``the GPU waits for launches 69.7% → 7.92% of an iteration, …``; "" if that did not move."""
    if (waits := _waits(difference)) is None or difference.spans is None:
        return ""
    told = " → ".join(quantity(100 * part, "%") for part in waits)
    begins = " → ".join(quantity(side.value, "s") for side in difference.spans)
    ratio = difference.spans[0].value / difference.spans[1].value
    tracer = _(" under the tracer") * (difference.old.survey.way == "trace")
    nodes = [
        all(side.survey.works[x].graph for row in difference.rows for x in (row.old, row.new)[n])
        for n, side in enumerate((difference.old, difference.new))
    ]
    text = _(
        "the GPU waits for launches {told} of an iteration, which starts every "
        "{begins}{tracer}: {ratio}"
    ).format(told=told, begins=begins, tracer=tracer, ratio=faster(ratio))
    if nodes[0] != nodes[1]:
        text += _("; its kernels are launched as nodes of a CUDA graph in @")
        text += f"{(difference.new if nodes[1] else difference.old).name} alone"
    return text


def _waits(difference: ProgramDifference) -> tuple[float, float] | None:
    """The part (0-1) of an iteration in which nothing ran, before and after.

    None if it is unknown or not the main change. It is the main change if the same kernels are
    launched as often on both sides, and their time changed less.
    """
    same = all(
        row.fate == "same" and len(set(difference.launches(row))) == 1
        for row in difference.rows
        if not row.name.startswith("[")
    )
    idle, spans = _idle(difference), difference.spans
    if not same or idle is None or spans is None:
        return None
    return idle[0] / spans[0].value, idle[1] / spans[1].value


def _idle(difference: ProgramDifference) -> tuple[float, float] | None:
    """Seconds of an iteration in which nothing ran, if they are most of the change."""
    if difference.spans is None or difference.together is not None:
        return None
    works, spans = ([side.value for side in both] for both in (difference.totals, difference.spans))
    old, new = (span - own for own, span in zip(works, spans, strict=True))
    least = max(abs(works[1] - works[0]), catalog()["duration"].noise * max(spans))
    return (old, new) if min(old, new) >= 0 and abs(new - old) > least else None


def change_words(difference: ProgramDifference) -> str:
    """``22.6 ms → 14.8 ms on the GPU: 1.53× faster, −7.80 ms``, with its interval if any.

    It covers kernels only, if there are also copies: copies of the host's memory vary with the
    host. It covers the time in which anything ran, if they overlap, and one iteration, if both
    sides repeat themselves.
    """
    together = difference.together
    busy = None if together is not None else difference.busy
    part = difference.first
    copies = together is None and busy is None and difference.of_copies is not None
    noun = "iteration" if difference.steady else "run"
    waits = _waits(difference) is not None
    of = _("busy ") if busy is not None else _("kernels ") if copies or waits else ""
    if together is not None:
        of = _("{ranks} ranks together: ").format(ranks=len(difference.new.survey.ranks))
    text = f"{of}{time_words(part.old, noun)} → {time_words(part.new, noun)}"
    where = "" if copies or together is not None else _(" on the GPU")
    text += _(" an iteration") * difference.steady + where + _(": ")
    change = part.change_s
    if difference.tried:
        return f"{text}{difference.tried}"
    if not part.moved:
        within = change.n > 1 and change.low <= 0 <= change.high
        noise = _("its interval contains zero") if within else _("within a duration's usual noise")
        return _("{text}no measurable change ({value}, {noise})").format(
            text=text, value=signed(change.value, "s"), noise=noise
        )
    text += _("{speed}, {change}").format(
        speed=faster(part.old.value / max(part.new.value, 1e-12)),
        change=signed(change.value, "s"),
    )
    if change.n > 1:
        text += f" ({span(signed(change.low, 's'), signed(change.high, 's'))})"
    return text


def beside_words(difference: ProgramDifference) -> str:
    """The copies and the whole programs, if the change covers kernels or iterations."""
    parts: list[str] = []
    together = difference.together is not None
    overlap, kernels = together or difference.busy is not None, difference.of_kernels
    if overlap:
        old, new = (quantity(side.value, "s") for side in (kernels.old, kernels.new))
        parts.append(
            _("kernels {old} → {new}").format(old=old, new=new)
            + _(", all ranks and their waiting") * together
        )
    if (copies := difference.of_copies) is not None:
        old, new = (quantity(side.value, "s") for side in (copies.old, copies.new))
        both = [quantity(side.value, "s") for side in difference.totals]
        end = (
            ""
            if overlap
            else _(", together {both_0} → {both_1} on the GPU").format(
                both_0=both[0], both_1=both[1]
            )
        )
        parts.append(_("copies {old} → {new}{end}").format(old=old, new=new, end=end))
    if overlap and not together:
        parts.append(_overlap_words(difference))
    if (spans := difference.spans) is not None and not together and not _waits(difference):
        begins = " → ".join(quantity(side.value, "s") for side in spans)
        busy = [
            quantity(100 * min(gpu.value / side.value, 1.0), "%")
            for gpu, side in zip(difference.totals, spans, strict=True)
        ]
        ratio = spans[0].value / max(spans[1].value, 1e-12)
        # The tracer adds host time to every launch; this matters if the GPU waits for the host.
        tracer = _("under the tracer ") if difference.old.survey.way == "trace" else ""
        parts.append(
            _(
                "{tracer}an iteration starts every {begins} ({ratio}), and the GPU is "
                "busy for {busy} of that"
            ).format(tracer=tracer, begins=begins, ratio=faster(ratio), busy=" → ".join(busy))
        )
    if difference.whole is not None and not together:
        sides = [side.survey for side in difference.whole]
        states = [side.steady for side in sides if side.steady is not None]
        numbers = [several(round(fmean(each.iterations)), "iteration") for each in states]
        warm = [quantity(1e-9 * fmean(each.warm_ns), "s") for each in states]
        times = [quantity(total(side).value, "s") for side in sides]
        copied = any(work.kind == "copy" for side in sides for work in side.works)
        what = _("kernels and copies") if copied else "kernels"
        parts.append(
            _(
                "{what} of the whole program together {times_0} → {times_1} on the GPU, "
                "of which {warm_0} → {warm_1} before its {fromkeys}"
            ).format(
                what=what,
                times_0=times[0],
                times_1=times[1],
                warm_0=warm[0],
                warm_1=warm[1],
                fromkeys=" → ".join(dict.fromkeys(numbers)),
            )
        )
        parts += [
            _("before the iterations of @{name}, {words}").format(name=side.name, words=words)
            for side in difference.whole
            if (words := tuning_words(side.survey))
        ]
    return _("; ").join(parts)


def _overlap_words(difference: ProgramDifference) -> str:
    """``copies and kernels overlap: 0 s → 61.1 ms of their sum, 136 ms → 140 ms, …``."""
    busy = difference.busy
    assert busy is not None  # the caller found an overlap
    sums = [side.value for side in difference.totals]
    # An overlap below a hundredth is rounding.
    beside = [
        quantity(whole - own.value if whole - own.value > 0.01 * whole else 0.0, "s")
        for whole, own in zip(sums, (busy.old, busy.new), strict=True)
    ]
    what = _("copies and kernels") if difference.of_copies is not None else "kernels"
    both = " → ".join(quantity(whole, "s") for whole in sums)
    text = _("{what} overlap: {beside} of their sum, {both}").format(
        what=what, beside=" → ".join(beside), both=both
    )
    return _("{text}, ran at the same time as others").format(text=text)


def _rank_changes(difference: ProgramDifference) -> list[str]:
    """Work and waiting of every rank before and after; empty if the sides' ranks differ."""
    sides = [
        rank_times(side.survey) for side in difference.whole or (difference.old, difference.new)
    ]
    if [x.label for x in sides[0]] != [x.label for x in sides[1]]:
        return [
            _("{sides_0} ranks before, {sides_1} after").format(
                sides_0=len(sides[0]), sides_1=len(sides[1])
            )
        ]
    lines = []
    for old, new in list(zip(*sides, strict=True))[:RANKS]:
        work, talk = (
            f"{quantity(a, 's')} → {quantity(b, 's')}"
            for a, b in ((old.work_s, new.work_s), (old.talk_s, new.talk_s))
        )
        line = _("{label}: works {work}, communicates {talk}").format(
            label=old.label, work=work, talk=talk
        )
        if old.wait_s is not None and new.wait_s is not None:
            line += _(" ({wait_s} → {wait_s2} waiting)").format(
                wait_s=quantity(old.wait_s, "s"), wait_s2=quantity(new.wait_s, "s")
            )
        lines.append(line)
    return lines


def fate_words(difference: ProgramDifference) -> str:
    """``4 kernels added, 3 kernels fused into 1 and 9 kernels replaced by 2``; "" where all stayed.

    Also "" if a tuner ran: its additional launches are not the program's calls.
    """
    if difference.tried:
        return ""
    old: Counter[Fate] = Counter()
    new: Counter[Fate] = Counter()
    for row in difference.rows:
        old[row.fate] += _kernels(difference.old, row.old)
        new[row.fate] += _kernels(difference.new, row.new)
    words = []
    for fate in dict.fromkeys(row.fate for row in difference.rows):
        if fate != "same" and (number := old[fate] or new[fate]):
            kernels = several(number, "kernel")
            words.append(_(_FATES[fate]).format(kernels=kernels, n=new[fate]))
    return listed(words, 8) if words else ""


def range_words(difference: ProgramDifference) -> str:
    """``in attention 20 kernels (47.0 ms) gave way to 2 (4.00 ms)``, for NVTX ranges."""
    told = []
    for row in difference.rows:
        if row.inside and weighs(difference, row):
            before, after = (f"({quantity(side, 's')})" for side in difference.seconds(row))
            gone = several(_kernels(difference.old, row.old), "kernel")
            come = _kernels(difference.new, row.new)
            told.append(
                _("in {inside_words} {gone} {before} gave way to {come} {after}").format(
                    inside_words=inside_words(row), gone=gone, before=before, come=come, after=after
                )
            )
    return _("; ").join(told)


#: The least factor between numbers of launches to be mentioned.
_OFTEN = 1.5


def calls_words(difference: ProgramDifference) -> str:
    """``796 fewer launches an iteration (1,138 → 342)``, and the GPU's waiting for launches."""
    surveys = difference.old.survey, difference.new.survey
    old, new = (
        round(sum(sum(x.launches) for x in side.works if x.kind == "kernel") / len(side.runs))
        for side in surveys
    )
    if difference.tried or max(old, new) < _OFTEN * min(old, new) or not min(old, new):
        return ""
    number = abs(new - old)
    more = ngettext("{n} more launch", "{n} more launches", number)
    fewer = ngettext("{n} fewer launch", "{n} fewer launches", number)
    text = (more if new > old else fewer).format(n=count(number))
    text += f"{_(' an iteration') * difference.steady} ({count(old)} → {count(new)})"
    idle = _idle(difference)
    if idle is None or (idle[1] - idle[0]) * (new - old) < 0:
        return text
    waits = (_("{time} more") if new > old else _("{time} less")).format(
        time=quantity(abs(idle[1] - idle[0]), "s")
    )
    tracer = _("under the tracer ") * (difference.old.survey.way == "trace")
    return _("{text}; {tracer}the GPU waits {waits} between them").format(
        text=text, tracer=tracer, waits=waits
    )


def inside_words(row: WorkChange) -> str:
    """The name of the innermost range around a row, without its domain."""
    return row.inside.rpartition("/")[2].rpartition("@")[2]


def _kernels(capture: ProgramCapture, places: Sequence[int]) -> int:
    """The number of kernels among works: fills belong to a group and are not kernels."""
    return sum(capture.survey.works[place].kind == "kernel" for place in places)


# --- a single kernel ---------------------------------------------------------------------------


def launch_words(difference: ProgramDifference, row: Change) -> str:
    """``1 launch``, ``800 → 4 launches``, in one run."""
    told = list(dict.fromkeys(round(number) for number in difference.launches(row)))
    text = ngettext("{n} launch", "{n} launches", told[0] if len(told) == 1 else 2)
    return text.format(n=" → ".join(map(count, told)))


def share_words(difference: ProgramDifference, row: Change) -> str:
    """``27.5% of the change``, of the leading change; "" if that is not a change of a sum."""
    before, after = difference.seconds(row)
    share, kernels = difference.share(after - before), difference.of_kernels
    if share is None:
        return ""
    if difference.of_copies is None:
        return _("{share} of the change").format(share=quantity(100 * share, "%"))
    if not kernels.moved:
        return ""
    own = quantity(100 * (after - before) / kernels.change_s.value, "%")
    if not 0 < share < 1.005:  # copies changed in the opposite direction
        return _("{share} of the kernels' change").format(share=own)
    return _("{before} of the kernels' change, {share} of all of it").format(
        before=own, share=quantity(100 * share, "%")
    )


#: The least factor between numbers of blocks to say that each does more or less work.
_OTHER_TILE = 1.5


def tile_words(difference: ProgramDifference, row: WorkChange) -> str:
    """A sentence if equally many launches of a kernel have fewer or more blocks; else "".

    It is unknown whether a launch does the same work; the sentence states that assumption.
    """
    often = difference.launches(row)
    if len(row.classes) != 1 or row.fate != "same" or often[0] != often[1]:
        return ""
    old, new = row.classes[0].old, row.classes[0].new
    if old is None or new is None:
        return ""
    blocks = [prod(side.shapes[0].grid) for side in (old, new)]
    shared = [side.shapes[0].dynamic_shared for side in (old, new)]
    if max(blocks) < _OTHER_TILE * min(blocks) or not all(blocks):
        return ""
    size = "larger" if blocks[1] < blocks[0] else "smaller"
    more = digits3(blocks[0] / blocks[1])
    text = _(
        "if a launch does the same work, a block does {more} × as much of it (a {size} tile)"
    ).format(more=more, size=size)
    if all(shared) and shared[0] != shared[1]:
        text += _(", with {shared_0} × the shared memory").format(
            shared_0=digits3(shared[1] / shared[0])
        )
    return text


#: The most configurations of a kernel that are listed.
_CONFIGURATIONS = 6


class ClassRow(NamedTuple):
    """A launch configuration of a kernel: its time before and after."""

    words: str
    before: str = ""
    after: str = ""
    change: str = ""


class KernelWords(Record, frozen=True):
    """The words on a kernel, in the order of a screen.

    `seconds` is its time in the program, `of_it` its launches and its share of the change.
    `configurations` are its launch configurations, if several or changed; `warnings` may change a
    verdict. `launch` is the factor of one launch, `profiler` its times under the profiler;
    `sentences` explain its launches, or say why they cannot.
    """

    seconds: str
    of_it: str
    configurations: tuple[ClassRow, ...]
    warnings: tuple[str, ...]
    launch: str
    profiler: str
    sentences: tuple[str, ...]

    @property
    def program(self) -> str:
        """Its time in the program, in words."""
        return f"{self.seconds} {self.of_it}"

    @property
    def launches(self) -> tuple[str, ...]:
        """Lines on its launches."""
        rows = (" ".join(filter(None, row)) for row in self.configurations)
        return (*rows, *filter(None, [f"{self.launch} {self.profiler}".strip()]))

    @property
    def said(self) -> tuple[str, ...]:
        """All lines."""
        return (self.program, *self.launches, *self.warnings, *self.sentences)


def step_words(step: KernelStep, difference: ProgramDifference) -> KernelWords:
    """The change of a kernel, in the words that every view prints."""
    row = step.row
    spent, unit = _spent(difference, row)
    before, after = (quantity(side, unit) for side in spent)
    whose = _("of an iteration") if difference.steady else _("of the program")
    if not difference.timed:
        whose = _("instructions in the program")
    parts = whose, launch_words(difference, row), share_words(difference, row)
    told, speed = step.story is not None, step.comparison.speed if step.comparison else None
    launch, profiler = "", ""
    if told and not difference.timed:
        launch = step.near.words
    elif told and speed is None:
        launch = _("no duration on both sides")
    elif told and speed is not None:
        launch = (step.near.words or _("a launch")) + _(": ")
        launch += faster(speed.speedup) if speed.moved else _("as fast")
        profiler = _("{old_s} → {new_s} under the profiler").format(
            old_s=quantity(speed.old_s, "s"), new_s=quantity(speed.new_s, "s")
        )
    if step.story is None or step.comparison is None:
        sentences: tuple[str, ...] = (tile_words(difference, row), step.silence)
    elif speed is not None and not speed.moved:
        # Its number of launches changed, which its lines do not explain: no line is named.
        sentences = ()
    else:
        sentences = (step.story.sentence, step.opposed_words)
    return KernelWords(
        seconds=f"{before} → {after}",
        of_it=_(", ").join(filter(None, parts)),
        configurations=tuple(_class_rows(row, difference)),
        warnings=(step.doubt.words,) if told and step.doubt is not None else (),
        launch=launch,
        profiler=profiler,
        sentences=tuple(filter(None, sentences)),
    )


def _spent(
    difference: ProgramDifference, row: ClassChange | WorkChange
) -> tuple[tuple[float, float], str]:
    """A row's time before and after with its unit; its instructions if nothing was timed."""
    if difference.timed:
        return difference.seconds(row), "s"
    old, new = difference.counted(row)
    return (old.instructions, new.instructions), ""


def _class_rows(row: WorkChange, difference: ProgramDifference) -> list[ClassRow]:
    """The launch configurations of a kernel, if there are several or they changed.

    For a tuner's kernel, all are listed, with times per launch.
    """
    if len(row.classes) < 2:
        moved = (one.words for one in row.classes if one.old and one.new and "→" in one.words)
        return [ClassRow(_("launched with {words}").format(words=words)) for words in moved]
    most = len(row.classes) if difference.tried else _CONFIGURATIONS
    out = []
    for one in row.classes[:most]:
        (old, new), unit = _spent(difference, one)
        if difference.tried:
            often = (max(number, 1) for number in difference.launches(one))
            old, new = (side / next(often) for side in (old, new))
        before, after = (quantity(side, unit) if side else "—" for side in (old, new))
        alone = "" if difference.tried else _("added") if new else _("removed")
        change = relative(old, new) if old and new else alone
        words = _("{words}: a launch").format(words=one.words) if difference.tried else one.words
        out.append(ClassRow(words, before, after, change))
    left = len(row.classes) - most
    return [
        *out,
        *([ClassRow(_("{left} more configurations").format(left=left))] if left > 0 else []),
    ]
