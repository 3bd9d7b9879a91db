"""Every recorded step: what its named stall holds of the change, and what its screen contradicts.

No label is needed for that. The sentence of a step names a counter, a place and a stall; tables
beside it split the same amounts exactly, over hunks, over the causes of occupancy and over warp
states. What the one says and the other denies is a contradiction, whatever is true.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.recordings import opened
from workbench.analysis.cause.finding import Proof
from workbench.analysis.limits.limit import RESOURCES, Limit
from workbench.analysis.story import Step, Story
from workbench.ladder import find_ladders
from workbench.model import Record
from workbench.store import Store

#: The part of the change that a stall must hold to be named.
LEAST = 0.25
#: A unit that limits both sides and did less (or more) work by this factor is the cause.
_LESS_WORK = 0.8
#: What fills a unit: the counters that speak of it.
_FILLS = {
    "issue": {"instructions", "issue_active"},
    "l1_data": {"shared_wavefronts", "shared_accesses", "global_load_requests", "l1_throughput",
                "global_load_sectors", "global_store_sectors", "local_sectors"},
    "l2": {"l2_read_sectors", "global_load_sectors", "global_store_sectors", "global_atomics",
           "l2_throughput", "dram_bytes"},
    "dram": {"dram_bytes", "dram_throughput", "l2_read_sectors", "local_sectors"},
    "tensor": {"tensor_utilization"},
}  # fmt: skip
_OCCUPIED = {
    "registers": "registers",
    "threads_per_block": "block size",
    "static_shared": "shared memory",
    "dynamic_shared": "shared memory",
}


class Shown(Record, frozen=True):
    """One step. `share` is the named stall's part of the change of the time, None without one."""

    step: str
    stall: str
    share: float | None
    against: tuple[str, ...]

    @property
    def low(self) -> bool:
        """Whether the stall that is named holds too little of the change."""
        return bool(self.stall) and (self.share is None or self.share < LEAST)


def shown(name: str, step: Step) -> Shown:
    """What the screen of one step says."""
    story = step.story
    stall = next((stop.counter for stop in story.strip if stop.kind == "stall"), "")
    share = next((move.share for move in story.cause.stalls if move.stall == stall), None)
    return Shown(step=name, stall=stall, share=share, against=tuple(_against(step, story)))


def _against(step: Step, story: Story) -> Iterator[str]:
    cause = story.cause
    speed = step.comparison.speed
    if not cause.proofs or cause.other_work or (speed is not None and not speed.moved):
        return
    proof = cause.proofs[0]
    if proof.way == "occupancy":
        yield from _occupied(step, story)
    if proof.way == "count":
        yield from _placed(story, proof)
        yield from _limited(step, proof, cause.limit_old, cause.limit_new)


def _occupied(step: Step, story: Story) -> Iterator[str]:
    """Resources that are named, and have no part in the table; unless a block an SM is all."""
    new = step.new.launches[0]
    blocks = step.comparison["blocks"]
    sms = step.new.device.sms or 0
    if blocks.old and blocks.new and max(blocks.old, blocks.new) <= sms * len(step.new.launches):
        return
    way = step.comparison["achieved_occupancy"].delta or 0
    points: dict[str, float] = defaultdict(float)
    for split in story.occupancy:
        for cause, amount in split.causes.items():
            points[cause] += amount * (1 if way > 0 else -1)
    most = max(points.values(), default=0.0)
    named = {_OCCUPIED[delta.id] for delta in story.cause.room if delta.id in _OCCUPIED}
    if named and most > 0 and not any(points[cause] > 0 for cause in named):
        yield f"occupancy by {', '.join(sorted(named))} ({new.kernel}: {dict(points)})"


def _placed(story: Story, proof: Proof) -> Iterator[str]:
    """Hunks that hold less of the change than the launch or code that nobody edited."""
    split = next((s for s in story.attribution.counters if s.id == proof.counter.id), None)
    if split is None or proof.place.link != "hunk" or not split.delta:
        return
    parts: dict[str, float] = defaultdict(float)
    for part in split.parts:
        own = part.link in ("hunk", "symbol")
        parts[part.link if not own else "hunk"] += float(part.delta) / float(split.delta)
    other = max((link for link in parts if link != "hunk"), key=lambda k: parts[k], default="")
    told = other == "launch" and proof.place.launch is not None
    if other and not told and parts[other] > 0.5 and (proof.place.share or 0) < parts[other]:
        yield f"{proof.counter.id} in hunks, {parts[other]:.0%} of it in {other}"


def _limited(step: Step, proof: Proof, old: Limit | None, new: Limit | None) -> Iterator[str]:
    """A counter of another unit than the one that limits both sides and has less to do."""
    if old is None or new is None or old.id != new.id or old.id not in _FILLS:
        return
    resource = next(r for r in RESOURCES if r.id == old.id)
    share, cycles = step.comparison[resource.counter], step.comparison["active_cycles"]
    if not (share.old and share.new and cycles.old and cycles.new):
        return
    work = share.new * cycles.new / (share.old * cycles.old)
    took = step.comparison["duration"].delta or 0
    along = (work <= _LESS_WORK and took < 0) or (work >= 1 / _LESS_WORK and took > 0)
    if along and proof.counter.id not in _FILLS[old.id]:
        yield f"{proof.counter.id}, where {old.id} limits and has {work:.2f} of the work"


def recorded(root: Path) -> Iterator[tuple[str, Step]]:
    """All steps of all ladders of a project that ncu profiled, on every device and problem."""
    project = opened(root)
    for ladder in find_ladders(Store(project.profiles), project):
        for old, new, engine in ladder.steps:
            if engine == "ncu":
                name = f"{ladder.name}/{old}..{new} {ladder.problem} {ladder.device}"
                yield name, ladder.step(old, new, engine)


def rows(steps: Iterable[Shown]) -> str:
    """The steps that fall short, one a line."""
    return "".join(
        f"{each.step}: {'; '.join((*each.against, *([each.stall] if each.low else [])))}\n"
        for each in steps
        if each.against or each.low
    )


def totals(steps: Iterable[Shown]) -> tuple[str, bool]:
    """What holds of all, and whether the goals are reached."""
    every = list(steps)
    named = [each for each in every if each.stall]
    low = [each for each in every if each.low]
    false = [each for each in every if each.against]
    words = (
        f"{len(every)} recorded steps: a stall is named of {len(named)}, of them with less than "
        f"{LEAST:.0%} of the change: {len(low)} (goal 0); a table beside it contradicts the "
        f"sentence: {len(false)} (goal 0)"
    )
    return words, not low and not false
