"""Everything that is said of one step from a version to the next, in one record."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.advice import Score, score
from workbench.analysis.aggregate import pair_launches
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.expectations import Judgement, judge, side_effects
from workbench.analysis.occupancy import OccupancySplit, split_launches
from workbench.analysis.sentence import tell
from workbench.analysis.source.files import SourceDiff, compare_sources
from workbench.analysis.split.attribution import Attribution, attribute
from workbench.analysis.split.duration import TimeSplit, split_time
from workbench.analysis.weight import Scale
from workbench.model import Expectation, Profile, Record


class Explanation(Record, frozen=True):
    """One step. `time_missing` says why `time` is None; `words` what else was not possible."""

    attribution: Attribution
    time: TimeSplit | None
    time_missing: str
    occupancy: tuple[OccupancySplit, ...]
    expectations: tuple[Judgement, ...]
    side_effects: tuple[Delta, ...]
    scores: tuple[Score, ...]
    sentence: str


def explain(
    old: Profile,
    new: Profile,
    comparison: Comparison,
    expectations: Sequence[Expectation] = (),
    diff: SourceDiff | None = None,
) -> Explanation:
    """Attribute, judge and tell one step.

    Args:
        old: The parent's profile.
        new: The version's profile.
        comparison: `compare` of the two.
        expectations: What the version's author predicted.
        diff: Their sources compared, if that was done already.

    Raises:
        UsageError: an expectation cannot be read.
    """
    if diff is None:
        diff = compare_sources(old, new, pair_launches(old.launches, new.launches))
    attribution = attribute(old, new, diff)
    found = split_time(old, new, diff)
    time = None if isinstance(found, str) else found
    effects = side_effects(comparison, expectations)
    speedup = comparison.time.speedup if comparison.time is not None else None
    if speedup is None and time is not None and time.new_s:
        speedup = time.old_s / time.new_s
    return Explanation(
        attribution=attribution,
        time=time,
        time_missing=found if isinstance(found, str) else "",
        occupancy=split_launches(old, new),
        expectations=judge(expectations, comparison),
        side_effects=effects,
        scores=score(old, new, speedup) if speedup else (),
        sentence=tell(comparison, attribution, time, effects, Scale(old, comparison)),
    )
