"""Why warps waited: shares of warp time by state, per launch and per source line.

Two sources say it, and a report may hold either. *Samples* (``smsp__pcsamp_*``)
count, at a fixed interval, the state of one warp per scheduler: a sum over
instructions, so it can be split by source line. *Ratios* (cycles per issued
instruction) are exact, for the whole launch. Shares come from samples where there
are enough (`LEAST_SAMPLES`), so that the lines add up to the bar above them, otherwise from
the ratios.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from workbench.analysis.aggregate import Recent, value_of
from workbench.analysis.weight import TELLING, WELL
from workbench.counters import Counter, catalog, line_metric
from workbench.model import Launch, LineKey, Number, Profile, Record, line_counters

#: Catalog ids: the group of warp states, and the samples.
GROUP = "stalls"
SAMPLES = "warp_samples"
#: Warps that wait for the others of their block; the four of a warpgroup wait for their products
#: (``wgmma.wait_group``) in the same state.
BARRIER = "barrier_stall"

#: What a warp did in the states that are no stalls.
_WELL_WORDS = {"selected": "issuing", "not_selected": "ready"}


def stall_words(state: str) -> str:
    """A state inside of a sentence: ``barrier stalls``, ``MIO throttle stalls``, ``issuing``."""
    return _WELL_WORDS.get(state) or f"{catalog()[state].phrase.removesuffix(' stall')} stalls"


#: Fewer samples prove nothing, and no estimate is made of them. Six against none are the first
#: that chance does not explain (two-sided sign test: 2/2⁶ = 3%), if samples are independent;
#: but all schedulers are looked at in the same cycle, and neighbouring warps do the same.
#: So it takes twice as many.
LEAST_SAMPLES = 12


class Share(Record, frozen=True):
    """One state's part of all warp time: `share` in 0-1, `cycles` per issued instruction."""

    state: Counter
    share: float
    samples: Number | None = None
    cycles: Number | None = None

    @property
    def stalled(self) -> bool:
        """Whether the warp waited; in the two other states it issued, or was ready to."""
        return self.state.id not in WELL

    @property
    def title(self) -> str:
        """The state's title, which says of the two other states that they are no stalls."""
        return title_of(self.state.id)


class Breakdown(Record, frozen=True):
    """All states of a launch, largest first. `source` says what the shares are made of."""

    source: Literal["samples", "ratios", ""]
    shares: tuple[Share, ...] = ()
    samples: Number = 0

    @property
    def top(self) -> Share | None:
        """The largest real stall, which is where to look first."""
        return next((share for share in self.shares if share.stalled), None)


class HotLine(Record, frozen=True):
    """A source line with its part of the samples and its stalls (shares of the line)."""

    key: LineKey
    samples: Number
    share: float
    stalls: tuple[tuple[Counter, float], ...] = ()

    @property
    def telling(self) -> bool:
        """False for a handful of samples, be the launch short or the line."""
        return self.share >= TELLING and self.samples >= LEAST_SAMPLES


def title_of(state: str) -> str:
    """A warp state's title, which says of the two that are no stalls that they are none."""
    title = catalog()[state].title
    return f"{title} ({_WELL_WORDS[state]})" if state in WELL else title


def breakdown(launch: Launch) -> Breakdown:
    """Split a launch's warp time over the warp states of the catalog.

    Returns:
        Shares that add up to 1; no shares and source "" where the report holds
        neither samples nor ratios.
    """
    return _breakdowns(launch)


def _broken_down(launch: Launch) -> Breakdown:
    states = catalog().group(GROUP)
    columns = launch.instructions.columns
    sampled: dict[str, Number] = {}
    for state in states:
        name = line_metric(launch, state)
        sampled[state.id] = sum(columns[name].values) if name else 0
    cycles = {state.id: value_of(launch, state.id) for state in states}
    total = sum(sampled.values())
    if total < LEAST_SAMPLES and any(cycles.values()):
        total = 0
    weights = sampled if total else {key: value or 0 for key, value in cycles.items()}
    whole = sum(weights.values())
    if not whole:
        return Breakdown(source="")
    shares = [
        Share(
            state=state,
            share=weights[state.id] / whole,
            samples=sampled[state.id] if total else None,
            cycles=cycles[state.id],
        )
        for state in states
        if weights[state.id]
    ]
    shares.sort(key=lambda share: -share.share)
    return Breakdown(source="samples" if total else "ratios", shares=tuple(shares), samples=total)


def sampled_lines(launch: Launch) -> tuple[HotLine, ...]:
    """The source lines on which warp samples fell, most samples first.

    Instructions without a source line are left out of the list, but not of the
    total that shares refer to.
    """
    return _lines(launch)


def _sampled(launch: Launch) -> tuple[HotLine, ...]:
    # Reports of ncu 2021 hold the states without their total: they add up to it.
    samples = line_metric(launch, catalog()[SAMPLES])
    every = [
        (state, name)
        for state in catalog().group(GROUP)
        if (name := line_metric(launch, state)) is not None
    ]
    parts = [samples] if samples else [name for _, name in every]
    if not parts:
        return ()
    states = [(state, name) for state, name in every if state.id not in WELL]
    lines = line_counters(launch)
    counts = {key: sum(own.get(name, 0) for name in parts) for key, own in lines.items()}
    total = sum(counts.values())
    out = []
    for key, counters in lines.items():
        count = counts[key]
        if key[1] <= 0 or not count:
            continue
        # States may have been counted in another pass than all samples, and be more of them.
        whole = max(count, sum(counters.get(name, 0) for _, name in every))
        stalls = [(state, counters[name] / whole) for state, name in states if name in counters]
        stalls.sort(key=lambda item: -item[1])
        out.append(HotLine(key=key, samples=count, share=count / total, stalls=tuple(stalls)))
    out.sort(key=lambda line: (-line.samples, line.key))
    return tuple(out)


def barrier_waits(launch: Launch) -> tuple[float, LineKey | None]:
    """The part (0-1) of the barrier samples that are no warpgroup's, and the line with most.

    1 and no line where no samples are known by instruction.
    """
    table = launch.instructions
    name = line_metric(launch, catalog()[BARRIER])
    column = table.columns.get(name) if name else None
    whole: Number = 0
    lines: dict[LineKey, Number] = defaultdict(int)
    for row, count in zip(column.rows, column.values, strict=True) if column else ():
        whole += count
        if "WARPGROUP." not in table.text[row]:
            lines[table.file[row], table.line[row]] += count
    known = {key: count for key, count in lines.items() if key[1] > 0 and count}
    best = max(known, key=lambda key: known[key], default=None)
    return (sum(lines.values()) / whole if whole else 1.0), best


#: A panel, gutters and both sides of a step ask for the same launch.
_breakdowns, _lines = Recent(_broken_down), Recent(_sampled)


def state_seconds(profile: Profile) -> dict[str, float]:
    """Seconds of all a profile's launches under the profiler by the warp state's catalog id."""
    seconds: dict[str, float] = {}
    for launch in profile.launches:
        duration = value_of(launch, "duration")
        for share in breakdown(launch).shares if duration else ():
            spent = share.share * float(duration or 0.0)
            seconds[share.state.id] = seconds.get(share.state.id, 0.0) + spent
    return seconds


def heaviest_states(profiles: Sequence[dict[str, float]], most: int) -> list[tuple[str, list[str]]]:
    """The states of several profiles that are told apart, heaviest first; the rest as one.

    Shares decide, so that a slow first version does not hide what the others do. Lists and
    no sets: seconds are added up in this order, and the last digit of a sum depends on it.

    Args:
        profiles: From `state_seconds`, none of them empty.
        most: States with a name of their own.
    """
    weight: dict[str, float] = {}
    for seconds in profiles:
        whole = sum(seconds.values())
        for state, amount in seconds.items():
            weight[state] = weight.get(state, 0.0) + amount / whole
    order = sorted(weight, key=lambda state: -weight[state])
    groups = [(title_of(state), [state]) for state in order[:most]]
    return [*groups, ("All others", order[most:])] if order[most:] else groups
