"""The cost of a count: roughly the least time that the device needs for it, at its own peak.

Counters are compared with each other by that time. A change of 5,000 branches and one of
30 M shared wavefronts are both "×40", but the first is over in nanoseconds. An SM's peaks per cycle
are those in NVIDIA's documentation of the hardware model
(https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#hardware-model):

* every scheduler issues one instruction;
* the L1's data stage lets one wavefront of shared memory through, or 128 bytes of
  global and local memory; its tag stage looks up one request;
* the L2 answers with 64 bytes.

Device memory has the rate of the data sheet. The recorded H200 profiles stay below these rates
(at most 3.6 instructions and 0.94 wavefronts per cycle), except for the tag stage, which looks up
to 1.155 requests: the weights are a scale, not a bound. The times overlap: they say which of
several changes may matter, and are not parts of the duration.
"""

from __future__ import annotations

from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.optional import Maybe, largest, minus, over, times, total
from workbench.counters import catalog
from workbench.gpus import Chip, chip_for
from workbench.model import Profile

#: The least part of a counter (or of the time, or of all samples) that outputs show; they leave out
#: smaller ones, and state their amount.
TELLING = 0.002
#: Bytes that an SM and the L2 exchange in a cycle.
_L2_BYTES = 64
#: Counts without a cost of their own: lanes are part of their warp's instruction.
_FREE = frozenset({"thread_instructions", "thread_instructions_on"})
#: Warp states that are not stalls: the warp issued, or another one did.
WELL = frozenset({"selected", "not_selected"})
#: A counter without a better direction weighs less than one that got better or worse.
_NEUTRAL = 0.5
#: A ratio (eligible warps, bytes per sector, an efficiency) explains counts, which have weights of
#: their own.
_RATIO = 0.05
#: Groups that describe the code or repeat another one; the others describe the use of the machine.
_DULL = {"launch", "resources", "samples", "flops", "issue"}


class Scale:
    """Seconds at the device's peak, for the counters of one comparison.

    The device of the `old` profile is used for both; the SM clock is the one under the profiler.
    """

    def __init__(self, old: Profile, comparison: Comparison) -> None:
        self._chip = chip_for(old.device)
        clocks = [comparison["sm_clock"].new, comparison["sm_clock"].old, old.device.sm_clock]
        self._clock = next((float(clock) for clock in clocks if clock), 0.0)
        duration = comparison["duration"]
        self.old_s, self.new_s = duration.old, duration.new
        self._longer = largest(duration.old, duration.new)

    @property
    def sms(self) -> int:
        """Multiprocessors of the device; 0 if unknown."""
        return self._chip.sms if self._chip else 0

    @property
    def known(self) -> bool:
        """True if a device and a duration are known."""
        return bool(self._chip and self._chip.sms and self._clock and self._longer)

    def seconds(self, counter: str, amount: float) -> float | None:
        """The least time for `amount` of a counter.

        None for ratios, sizes and samples, and if the device is not known.
        """
        if self._chip is None or not self.known:
            return None
        if catalog()[counter].unit == "byte" and catalog()[counter].group == "dram":
            bandwidth = self._chip.memory_bandwidth
            return amount / bandwidth if bandwidth else None
        rate = _per_cycle(counter, self._chip)
        return amount / (rate * self._chip.sms * self._clock) if rate else None

    def cycles(self, counter: str, amount: float) -> float | None:
        """The least cycles of all SMs for `amount` of a counter; None as for `seconds`.

        It needs no clock and no duration, which a profile that was counted without a GPU lacks.
        """
        rate = _per_cycle(counter, self._chip) if self._chip is not None else 0.0
        return amount / (rate * self._chip.sms) if self._chip is not None and rate else None

    def share(self, counter: str, amount: float) -> float | None:
        """That time as a part of the longer of the two durations."""
        return over(self.seconds(counter, amount), self._longer)


def _per_cycle(counter: str, chip: Chip) -> float:
    """An SM's rate of a counter per cycle; 0 if that has no meaning."""
    known = catalog()[counter]
    if counter in _FREE or known.better != "lower":
        return 0.0
    if known.unit in ("inst", "branch"):
        return float(chip.schedulers)
    if known.unit in ("wavefront", "request"):
        return 1.0
    if known.unit == "sector":
        moved = _L2_BYTES if known.group == "cache" else chip.line_bytes
        return moved / chip.sector_bytes
    return 0.0


def ranked(comparison: Comparison, scale: Scale) -> list[tuple[float, Delta]]:
    """The counters that moved, each with its weight (about 0-1), the heaviest first.

    Counts weigh the time that they take, stalls their part of all warps' cycles, percentages their
    points; for any other counter, a twentieth of its relative change counts. A stall that rose per
    instruction but fell in time (fewer instructions), or the reverse, weighs nothing.
    """
    stalls = [delta for delta in comparison.counters if delta.group == "stalls"]
    # States that neither side counted are not part of its cycles.
    both = [delta for delta in stalls if delta.delta is not None]
    cycles = total(delta.old for delta in both), total(delta.new for delta in both)
    found = [
        (_significance(delta, scale, cycles), delta) for delta in comparison.counters if delta.moved
    ]
    return sorted(found, key=lambda entry: -entry[0])


def most_moved(comparison: Comparison, scale: Scale, most: int) -> tuple[Delta, ...]:
    """The counters that moved most, one per group until every group has had its turn.

    Excess and ideal follow from the counters that they belong to, and are left out.
    """
    order = [
        delta
        for weight, delta in ranked(comparison, scale)
        if weight
        and delta.old is not None
        and delta.new is not None
        and delta.group != "time"
        and delta.unit != "sample"
        and not delta.id.endswith(("_ideal", "_excess"))
        and tells(delta)
    ]
    chosen: list[Delta] = []
    groups: set[str] = set()
    for delta in order:
        if delta.group not in groups and delta.group not in _DULL:
            chosen.append(delta)
            groups.add(delta.group)
    more = [delta for delta in order if delta not in chosen]
    return tuple((chosen + more)[:most])


def tells(delta: Delta) -> bool:
    """True if a counter's relative change is large enough to be shown, however exact it is."""
    if delta.old is None or delta.new is None:
        return False
    old, new = float(delta.old), float(delta.new)
    return abs(new - old) >= TELLING * (100.0 if delta.unit == "%" else max(abs(old), abs(new)))


def _significance(delta: Delta, scale: Scale, cycles: tuple[Maybe, Maybe]) -> float:
    if delta.old is None or delta.new is None:
        return 0.0
    old, new = float(delta.old), float(delta.new)
    amount = abs(new - old)
    share = scale.share(delta.id, amount)
    if share is not None:
        return share
    said = 1.0 if delta.verdict in ("better", "worse") else _NEUTRAL
    if delta.id in WELL:
        return 0.0
    if delta.group == "stalls":
        if _contradicted(old, new, scale, cycles):
            return 0.0
        # A stall that is too small to notice may have vanished: its part of all cycles counts.
        part = over(amount, largest(*cycles))
        return said * part if part is not None else 0.0
    if delta.unit == "%" and delta.group not in ("global", "instructions"):
        return said * amount / 100.0
    # Bounded, so that a counter that begins at zero does not give infinity.
    relative = amount / max(abs(old), abs(new)) if amount else 0.0
    return said * relative * (_RATIO if scale.known else 1.0)


def _contradicted(old: float, new: float, scale: Scale, cycles: tuple[Maybe, Maybe]) -> bool:
    """True if a stall's time (its part of all cycles times the duration) moved the other way."""
    before = times(over(old, cycles[0]), scale.old_s)
    after = times(over(new, cycles[1]), scale.new_s)
    spent = minus(after, before)
    return scale.known and spent is not None and spent * (new - old) < 0.0
