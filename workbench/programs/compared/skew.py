"""Processes that work together: the work of each, and which one waits for which.

The duration of a kernel that communicates depends on the slowest rank. So ranks differ in their
work, and each waits for another one's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import sub
from statistics import fmean, median

from workbench.analysis.naming import shortened
from workbench.language import _
from workbench.model import Record
from workbench.programs.capture.ranks import work_waits
from workbench.programs.capture.records import Rank, Survey
from workbench.units import listed, quantity

#: Ranks are unbalanced if their work differs by more than this part of the longest.
APART = 0.05
#: The part of the difference that the named kernels must explain.
_MOST_OF_IT, _NAMED = 0.7, 3


class RankTime(Record, frozen=True):
    """Seconds of one rank: the mean of runs, the median of iterations; `wait_s` None: unknown.

    `work_s`: a kernel ran that waits for no rank; `alone_s`: only communication ran; `talk_s`: the
    sum of kernels that communicate; `wait_s`: the part of it before the last rank arrived.
    """

    rank: int
    label: str
    gpus: tuple[int, ...]
    work_s: float
    alone_s: float
    talk_s: float
    wait_s: float | None


def rank_times(survey: Survey) -> tuple[RankTime, ...]:
    """Every rank of a program, per iteration if it repeats itself; empty without ranks."""
    if survey.steady is None:
        return tuple(_time(rank, place, fmean) for place, rank in enumerate(survey.ranks))
    return tuple(_time(rank, place, median) for place, rank in enumerate(survey.steady.ranks))


def _time(rank: Rank, place: int, middle: Callable[[Iterable[float]], float]) -> RankTime:
    alone = map(sub, rank.busy_ns, rank.work_ns)
    return RankTime(
        rank=rank.rank,
        label=_("rank {rank}").format(rank=rank.rank)
        if rank.rank >= 0
        else _("process {place}").format(place=place + 1),
        gpus=rank.devices,
        work_s=1e-9 * middle(rank.work_ns),
        alone_s=1e-9 * middle(alone),
        talk_s=1e-9 * middle(rank.talk_ns),
        wait_s=1e-9 * middle(rank.wait_ns) if rank.wait_ns else None,
    )


def skew_words(survey: Survey) -> str:
    """A sentence on the rank that the others wait for, and its difference; "" without ranks."""
    times = rank_times(survey)
    if not times:
        return ""
    each = _("an iteration") if survey.steady is not None else _("a run")
    slow, fast = (pick(times, key=lambda x: x.work_s) for pick in (max, min))
    if slow.work_s - fast.work_s <= APART * slow.work_s:
        return _(
            "{times} ranks work alike ({work_s} to {work_s2} {each}), apart from communication, "
            "which takes at most {times2}"
        ).format(
            times=len(times),
            work_s=quantity(fast.work_s, "s"),
            work_s2=quantity(slow.work_s, "s"),
            each=each,
            times2=quantity(max(x.alone_s for x in times), "s"),
        )
    text = _("{label} works {work_s} {each}, {label2} {work_s2}").format(
        label=slow.label,
        work_s=quantity(slow.work_s, "s"),
        each=each,
        label2=fast.label,
        work_s2=quantity(fast.work_s, "s"),
    )
    if fast.wait_s:
        text += _(" and waits {wait_s} for it while communicating").format(
            wait_s=quantity(fast.wait_s, "s")
        )
    more = _more(survey, times.index(slow), times.index(fast))
    return text + (
        _("; {label} does more {more}").format(label=slow.label, more=more) if more else ""
    )


def _more(survey: Survey, slow: int, fast: int) -> str:
    """The kernels in which a rank spends more time than another one; "" if they are many."""
    own: list[tuple[int, str]] = []
    for work in survey.works:
        if len(work.ranks_ns) > max(slow, fast) and not work_waits(work):
            own.append((work.ranks_ns[slow] - work.ranks_ns[fast], work.name))
    own.sort(reverse=True)
    whole = sum(more for more, __ in own if more > 0)
    named = own[:_NAMED]
    if sum(more for more, __ in named if more > 0) < _MOST_OF_IT * whole or not whole:
        return ""
    return listed([shortened(name) for more, name in named if more > 0.1 * whole], _NAMED)


def together_s(survey: Survey, *, steady: bool) -> list[float]:
    """Wall time of all ranks in seconds, not the sum of theirs; empty without ranks.

    For iterations, from the start of one to that of the next; for runs, the time in which anything
    ran on the longest rank.
    """
    if not survey.ranks:
        return []
    if steady and survey.steady is not None:
        return [1e-9 * ns for ns in survey.steady.spans_ns]
    runs = zip(*(rank.busy_ns for rank in survey.ranks), strict=True)
    return [1e-9 * max(run) for run in runs]
