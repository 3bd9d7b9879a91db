"""What stands beside a wait: counts that went with it, the pipe that it held up, the order changed.

A wait says where the time went, not why. Three things can be known besides: a count of its kind
that moved at the same lines; that an arithmetic pipe did the same work in a fuller or emptier
time, so that the wait was in its way; and where the code changed what warps do to wait for one
another, since the samples of such a wait lie on whoever is early and not on the edit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from workbench.analysis.cause.hypotheses import QUIET, WAITS, Behaviour, Hypothesis
from workbench.analysis.cause.places import Origin, ordered_in
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.limit import FULL, RESOURCES
from workbench.analysis.source.tokens import scan
from workbench.analysis.split.attribution import Attribution
from workbench.model import Profile

#: Pipes that do arithmetic: how full one is times its time is the work that it did.
_PIPES = {r.id: r.counter for r in RESOURCES if r.id in ("tensor", "fma", "alu", "xu", "fp64")}
#: How many blocks there are, in CUDA and in Triton.
_GRID = frozenset({"gridDim", "num_programs"})
#: Most hunks that are named.
_MOST = 3
#: A count goes with a wait only where its logarithm moved by this part of the wait's effect.
_ALONG = 0.25
#: Two amounts of work that differ by less than this part are the same.
_SAME = 0.02


def beside_of(
    comparison: Comparison,
    wait: Hypothesis,
    where: Origin,
    place: Callable[[str, str], Origin],
    sides: tuple[Behaviour, Behaviour],
) -> Delta | None:
    """The count that went with a wait at the same hunks; else the pipe that it held up."""
    found = _count(comparison, wait, where.hunks, place) if where.link == "hunk" else None
    return found if found is not None else _pipe(comparison, wait, sides)


def is_pipe(delta: Delta) -> bool:
    """Whether what stands beside a wait is a pipe's share and no count."""
    return delta.id in _PIPES.values()


def place_of_wait(
    comparison: Comparison, wait: Hypothesis, where: Origin, attribution: Attribution, new: Profile
) -> Origin:
    """Where a wait was made.

    Blocks that stay begin and end less often: where the grid came in waves and a hunk lets it step
    through its work, what was waited for in between is the launch's and that hunk's. A wait that
    no hunk made is that of a changed order, if one changed.
    """
    if stays(comparison) and (hunks := _steps(attribution, new)):
        return Origin(link="launch", hunks=hunks)
    if where.link != "elsewhere":
        return where
    return ordered_in(wait.counter, attribution) or where


def waves_of(comparison: Comparison) -> Delta | None:
    """In how many waves the grid came, where that changed by as much as two captures differ."""
    waves = comparison["waves"]
    if not (waves.old and waves.new):
        return None
    return waves if abs(math.log(waves.new / waves.old)) >= QUIET else None


def stays(comparison: Comparison) -> bool:
    """Whether blocks came in waves, and fewer of them of the same size run all at once."""
    waves, blocks = comparison["waves"], comparison["blocks"]
    fewer = bool(blocks.old and blocks.new and blocks.new < blocks.old)
    at_once = bool(waves.old and waves.new and waves.new <= 1.0 < waves.old)
    return fewer and at_once and not comparison["threads_per_block"].moved


def _steps(attribution: Attribution, new: Profile) -> tuple[int, ...]:
    """The first hunks whose new lines say how many blocks there are: they step by it."""
    texts = {s.path: scan(s.text, s.path).tokens for s in new.sources if s.text}
    found = []
    for hunk in attribution.hunks:
        first, last = hunk.new
        lines = texts.get(hunk.new_file, ())[first - 1 : last] if hunk.kind == "code" else ()
        if any(_GRID & set(tokens) for tokens in lines):
            found.append(hunk.id)
    return tuple(found[:_MOST])


def _count(
    comparison: Comparison,
    wait: Hypothesis,
    hunks: tuple[int, ...],
    place: Callable[[str, str], Origin],
) -> Delta | None:
    """The count that rose (or fell) with a wait at the same hunks, the one that moved most."""
    along = [
        delta
        for delta in (comparison[name] for name in WAITS if wait.counter in WAITS[name])
        if delta.moved and (delta.delta or 0) * wait.effect > 0
    ]
    along = [d for d in along if _ratio(d) >= _ALONG * abs(wait.effect)]
    along.sort(key=lambda d: -_ratio(d))
    for delta in along:
        if set(place(delta.id, "count").hunks) & set(hunks):
            return delta
    return None


def _ratio(delta: Delta) -> float:
    """By what factor a count moved, as a logarithm without its sign."""
    if not delta.old or not delta.new:
        return math.inf
    return abs(math.log(delta.new / delta.old))


def _pipe(
    comparison: Comparison, wait: Hypothesis, sides: tuple[Behaviour, Behaviour]
) -> Delta | None:
    """The fullest arithmetic pipe, where it did the same work and was held up less (or more)."""
    share = _worked(comparison, sides)
    if share is None or not share.moved:
        return None
    held = float(share.delta or 0) * wait.effect < 0
    return share if held else None


def held_nothing_up(comparison: Comparison, sides: tuple[Behaviour, Behaviour]) -> bool:
    """Whether no wait can be a cause: a full pipe did the same work, and stayed as full."""
    share = _worked(comparison, sides)
    full = share is not None and min(float(share.old or 0), float(share.new or 0)) >= FULL
    return full and share is not None and not share.moved


def _worked(comparison: Comparison, sides: tuple[Behaviour, Behaviour]) -> Delta | None:
    """The share of the pipe that is the fullest on both sides, where it did the same work."""
    fullest = {max(_PIPES, key=side.share) for side in sides}
    if len(fullest) > 1:
        return None
    share, active = comparison[_PIPES[fullest.pop()]], comparison["active_cycles"]
    if not (share.old and share.new and active.old and active.new):
        return None
    work = (share.new * active.new) / (share.old * active.old)
    return share if abs(work - 1.0) <= _SAME else None
