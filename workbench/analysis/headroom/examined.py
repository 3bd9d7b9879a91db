"""One launch as experiments are read from it, and the bound of what each can save.

The bound is one sentence: *so much of the time went to a resource, so large a part of that is
needless, and the busiest of the units that stay needs the rest.* The time that went to a resource
is the larger of two readings: how busy it was, and how long warps stood in the states that its
users wait in. Both are upper bounds, as a unit that is busy may hide behind another one, and a
warp that waits may be covered by its neighbours. All of it are parts of the time that SMs were
active: what the launch itself takes, none of them saves.
"""

from __future__ import annotations

from workbench.analysis.aggregate import readings_of
from workbench.analysis.cause.hypotheses import Behaviour, behaviour_of
from workbench.analysis.headroom import Kind, Way
from workbench.analysis.headroom.mix import Mix
from workbench.analysis.limit import loads
from workbench.analysis.stalls import breakdown, sampled_lines, stall_words
from workbench.counters import Reading
from workbench.gpus import Chip, chip_for
from workbench.model import Device, Launch, LineKey
from workbench.units import listed

#: What could save less than this part of the time is no experiment.
LEAST = 0.05
#: A way must be able to save this part of what it removes.
_MOSTLY = 0.5


class Examined:
    """One launch with all that ways are read from."""

    def __init__(self, launch: Launch, device: Device) -> None:
        self.launch = launch
        self.chip: Chip | None = chip_for(device)
        self.mix = Mix(launch)
        values = {
            name: float(found.value)
            for name, found in readings_of(launch).items()
            if isinstance(found, Reading)
        }
        values["sms"] = float(device.sms or (self.chip.sms if self.chip else 0))
        waits = {share.state.id: share.share for share in breakdown(launch).shares}
        self.side: Behaviour = behaviour_of(values, waits, launch)

    def busy(self, resource: str) -> float:
        """How busy (0-1) a resource was."""
        return self.side.share(resource) / 100.0

    def waited(self, states: tuple[str, ...]) -> float:
        """Part of the warps' time (0-1) in some states."""
        return self.side.part(frozenset(states))

    def line_waiting(self, states: tuple[str, ...]) -> LineKey | None:
        """The line on which most samples of some states fell."""
        found = {
            line.key: line.samples * sum(part for state, part in line.stalls if state.id in states)
            for line in sampled_lines(self.launch)
        }
        best = max(found, key=lambda key: found[key], default=None)
        return best if best is not None and found[best] else None

    def rest(self, stays: frozenset[str]) -> tuple[str, float]:
        """The busiest of the units that stay: its title, and how busy (0-1) it was."""
        found = [load for load in loads(self.launch) if load.resource.id in stays]
        if not found:
            return "", 0.0
        return found[0].resource.title, found[0].active / 100.0

    def went(self, resources: dict[str, float], states: tuple[str, ...]) -> tuple[float, str]:
        """The time (0-1) that went to something, with its words.

        Args:
            resources: Units by id, each with the part (0-1) of its load that is meant.
            states: What its users wait in.
        """
        waited = self.waited(states)
        best, share = max(resources.items(), key=lambda item: self.busy(item[0]) * item[1])
        busy = self.busy(best) * share
        if waited >= busy:
            named = [s for s in states if self.side.waits.get(s, 0.0) >= 0.01]
            names = listed([stall_words(state) for state in named])
            return waited, f"warps spend {waited:.0%} of their time in {names}"
        title = next(load.resource.title for load in loads(self.launch) if load.resource.id == best)
        part = f", {share:.0%} of that by these" if share < 0.995 else ""
        return busy, f"{title} at {self.busy(best):.0%} of peak{part}"


def bound(
    seen: Examined, part: tuple[float, str], went: tuple[float, str], stays: frozenset[str]
) -> tuple[float, str] | None:
    """The bound and its arithmetic; None where too little can be saved.

    Args:
        seen: The launch.
        part: What part of what `went` somewhere is needless, with its words.
        went: The time that went there, with its words.
        stays: The units that do as much as before.
    """
    product = part[0] * went[0]
    title, busy = seen.rest(stays)
    saves = min(product, 1.0 - busy)
    # Where most of it remains for a unit that stays, it was that unit that warps waited for.
    if saves < max(LEAST, _MOSTLY * product):
        return None
    words = [text for text in (part[1], went[1]) if text]
    because = "; ".join(words)
    if part[0] < 0.995:
        because += f": {part[0]:.0%} × {went[0]:.0%} = {product:.0%}"
    if saves < product:
        because += f"; but {busy:.0%} of the time is needed for {title}"
    runs = seen.side.running.busiest
    if runs < 1.0 - LEAST:
        because += f"; an SM is active for {runs:.0%} of the launch at most"
        saves *= runs
    return saves, because


def made(
    kind: Kind,
    found: tuple[float, str] | None,
    words: str,
    effort: int,
    counter: str,
    line: LineKey | None,
) -> Way | None:
    """The way of a bound and its arithmetic; None where there is none."""
    if found is None:
        return None
    saves, because = found
    return Way(
        kind=kind,
        words=words,
        saves=saves,
        because=because,
        effort=effort,
        counter=counter,
        line=line,
    )
