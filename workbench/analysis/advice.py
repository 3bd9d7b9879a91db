"""What was promised on the old version (by ncu's rules, say), scored by what the step gained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import structs

from workbench.model import Profile, Record, Rule

#: A promise counts as kept where this part of it came true.
_KEPT = 0.9


class Score(Record, frozen=True):
    """What a rule promised on the old version, and what the new version gained.

    `promised` and `gained` are parts of the old duration (0-1); `gained` is the whole
    step's gain, whatever made it. `still` is the promise that the same rule makes on
    the new version, None where it says nothing any more. ``open``: the rule promises
    as much as before, so the step did not act on it and its gain is not the rule's.
    """

    rule: str
    title: str
    kernel: str
    promised: float
    gained: float
    still: float | None
    verdict: Literal["kept", "partly", "not kept", "open"] = "open"


def weigh(score: Score) -> Score:
    """A score with the verdict that follows from its numbers."""
    verdict: Literal["kept", "partly", "not kept", "open"] = "not kept"
    if score.still is not None and score.still >= _KEPT * score.promised:
        verdict = "open"
    elif score.gained >= _KEPT * score.promised:
        verdict = "kept"
    elif score.gained > 0:
        verdict = "partly"
    return structs.replace(score, verdict=verdict)


def _promises(profile: Profile) -> Iterator[tuple[str, Rule, str, float | None]]:
    """Kernel, rule, its title and the part of the duration (0-1) it promises, largest first."""
    found = [
        (launch.kernel, rule)
        for launch in profile.launches
        for rule in launch.rules
        if rule.kind in ("optimization", "warning")
    ]
    for kernel, rule in sorted(found, key=lambda each: -(each[1].speedup or 0.0)):
        promised = None if rule.speedup is None else rule.speedup / 100.0
        yield kernel, rule, rule.title or rule.name, promised


def score(old: Profile, new: Profile, speedup: float) -> tuple[Score, ...]:
    """Score ncu's promises on the old version by what the step gained.

    Args:
        old: The version on which the rules spoke.
        new: The version after it.
        speedup: Old time over new time, measured outside of the profiler if possible.
    """
    gained = 1.0 - 1.0 / speedup
    later = {(rule.id, title): promised for _, rule, title, promised in _promises(new)}
    return tuple(
        weigh(
            Score(
                rule=rule.id,
                title=title,
                kernel=kernel,
                promised=promised,
                gained=gained,
                still=later.get((rule.id, title)),
            )
        )
        for kernel, rule, title, promised in _promises(old)
        if promised is not None
    )
