"""Bounds of possible readings, from the chip's peaks and from the problem's own work.

A share is at most 100%, except for bytes of sectors, which lanes may share. A run cannot do the
problem's operations faster than the chip's fastest unit, nor move its bytes faster than the memory
they lie in: device memory if they are more than the L2 holds, else all L1 caches. A reading beyond
these bounds does not measure this work: a warm cache, skipped work, or counters of passes that
differ. Every view says so, and `check` fails. A report that contradicts itself (`broken`) gets no
advice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from workbench.analysis.aggregate import Recent, readings_of, seconds_of, value_of
from workbench.counters import IMPLAUSIBLE, MARGIN, Missing, bound_broken, catalog, line_metric
from workbench.gpus import Chip, chip_for
from workbench.language import N_, _
from workbench.model import Launch, Profile, Timing
from workbench.units import listed, quantity

#: Shares of shorter launches are not judged: their passes differ by as much as their length, and
#: ncu gives an L1 at 440% for kernels of 1 µs that clear a buffer.
_SHORT = 10e-6


def implausible(profile: Profile) -> list[str]:
    """Counters of a profile with values that no run can have, each in words."""
    chip = chip_for(profile.device)
    found = dict.fromkeys(broken(profile))
    for launch in profile.launches:
        seconds = seconds_of(launch)
        short = seconds is not None and seconds < _SHORT
        for name, reading in readings_of(launch).items() if launch.profiled else ():
            if isinstance(reading, Missing):
                continue
            if short and catalog()[name].unit == "%":
                continue
            if bound := bound_broken(name, reading.value, most_on(chip, name)):
                title = catalog()[name].title
                value = quantity(reading.value, reading.unit)
                is_so = _("{title} of {kernel} is {value}").format(
                    title=title, kernel=launch.kernel, value=value
                )
                found[
                    _("{implausible}: {is_so}; it must be {bound}").format(
                        implausible=_(IMPLAUSIBLE), is_so=is_so, bound=bound
                    )
                ] = None
    return list(found)


#: Counters that must be known before numbers are compared with the size of a launch's grid.
_MEASURED = ("duration", "cycles", "instructions", "dram_bytes", "l2_sectors")
#: This many identical parts of one whole are not a measurement.
_PARTS = 3
#: Two counts of one launch differ by less than this factor, whatever its passes waited for; fewer
#: instructions than this may all belong to one wait.
_PASSES, _FEW = 4.0, 100_000
#: From this many warp samples on, chance does not divide them into equal parts.
_SAMPLES = 100


#: Words, and the kernels to which they apply.
_Found = tuple[str, tuple[str, ...]]


def _contradictions(profile: Profile) -> Iterator[_Found]:
    launches = [launch for launch in profile.launches if launch.profiled]
    alike: dict[tuple[float | None, ...], list[Launch]] = defaultdict(list)
    for launch in launches:
        measured = tuple(value_of(launch, name) for name in _MEASURED)
        alike[measured].append(launch)
        alike[measured[:1]].append(launch)
        yield from ((words, (launch.kernel,)) for words in _of_one(launch))
    for measured, same in alike.items():
        names = tuple(dict.fromkeys(launch.kernel for launch in same))
        sizes = {math.prod((*launch.grid, *launch.block)) for launch in same}
        if len(sizes) < 2 or not measured[0]:
            continue
        if len(measured) > 1 and None not in measured[1:3]:
            yield N_("{kernel} have different grids but exactly the same time and counters"), names
            return
        if len(names) == len(launches) >= _PARTS and measured[0] >= _SHORT:
            yield N_("all launches of {kernel} take exactly the same time"), names


def _of_one(launch: Launch) -> Iterator[str]:
    counted, columns = value_of(launch, "instructions"), launch.instructions.columns
    ran = columns.get("inst_executed")
    counts = sorted((counted, sum(ran.values))) if counted and ran is not None else (1, 1)
    if launch.by_timing is None and counts[1] > max(_FEW, _PASSES * counts[0]):
        yield N_("{kernel} and all of its lines together differ in instructions issued")
    states = catalog().group("stalls")
    cycles = [value for state in states if (value := value_of(launch, state.id))]
    names = [name for state in states if (name := line_metric(launch, state))]
    samples = [whole for name in names if (whole := sum(columns[name].values))]
    for parts, least in ((cycles, 0), (samples, _SAMPLES)):
        if len(parts) >= _PARTS and len({*parts}) == 1 and sum(parts) >= least:
            yield N_("warps of {kernel} spend exactly the same time in each of their states")


#: A page needs it several times.
_found: Recent[Profile, tuple[_Found, ...]] = Recent(lambda p: tuple(_contradictions(p)))


def broken(profile: Profile) -> tuple[str, ...]:
    """Reasons why a report cannot be right, in words; empty if it can."""
    text = _("the report cannot be right: {text}")
    found = (_(words).format(kernel=listed(names)) for words, names in _found(profile))
    return tuple(dict.fromkeys(text.format(text=each) for each in found))


def most_on(chip: Chip | None, name: str) -> float | None:
    """The largest value of a counter on a chip, in its unit; None if there is no limit."""
    if name == "dram_bandwidth" and chip is not None:
        return chip.memory_bandwidth or None
    if name == "registers" and chip is not None:
        return float(chip.registers_per_thread)
    return None


def implausible_time(timing: Timing) -> list[str]:
    """Reasons why a recorded time is too short for its problem's work, in words; empty if none."""
    chip, seconds = chip_for(timing.device), timing.time.value
    return list(_too_fast(timing, chip, seconds)) if chip is not None and seconds > 0 else []


def _too_fast(timing: Timing, chip: Chip, seconds: float) -> Iterator[str]:
    clock = chip.sm_clock
    far = timing.device.l2_bytes and timing.bytes > timing.device.l2_bytes
    near = float(chip.line_bytes * chip.sms) * clock
    moved = chip.memory_bandwidth if far else near
    units = (chip.tensor_half, chip.tensor_tf32, chip.tensor_int8)
    done = max(chip.fp32_peak(), *(chip.tensor_peak(unit) for unit in units))
    for amount, peak, unit, where in (
        (timing.bytes, moved, "byte/s", _("device memory") if far else _("all L1 caches together")),
        (timing.flops, done, "flop/s", _("the fastest unit of the chip")),
    ):
        if amount and peak and amount / seconds > peak * MARGIN:
            yield (
                _(
                    "{implausible}: {version} in {seconds} would be {seconds2}, but {where} "
                    "can do at most {peak}"
                ).format(
                    implausible=_(IMPLAUSIBLE),
                    version=timing.version,
                    seconds=quantity(seconds, "s"),
                    seconds2=quantity(amount / seconds, unit),
                    where=where,
                    peak=quantity(peak, unit),
                )
            )
