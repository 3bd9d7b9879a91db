"""One step of a ladder, compared and explained once for every page that speaks of it."""

from __future__ import annotations

from functools import cached_property

from workbench.analysis.aggregate import pair_launches
from workbench.analysis.attribution import Placing
from workbench.analysis.compare import Comparison, compare
from workbench.analysis.launches import side_by_side
from workbench.analysis.listing import HunkCode, hunk_codes
from workbench.analysis.source.files import SourceDiff, compare_sources
from workbench.analysis.story import Story, explain, leading
from workbench.analysis.weight import Scale
from workbench.errors import UsageError
from workbench.model import Profile, Timing
from workbench.specs import Expectation


class Step:
    """Two profiles that are compared.

    Args:
        old: The profile before.
        new: The profile after.
        labels: What to call them.
        times: Their recorded times, where there are any.
        expected: What the new version's author predicted of this very step.
        across: Two devices are meant to be compared: that they differ is no reason against it.
        force: Pages never refuse: what is not comparable is compared all the same, and the
            reasons stand above the numbers (`Comparison.reasons`).
    """

    def __init__(
        self,
        old: Profile,
        new: Profile,
        labels: tuple[str, str],
        times: tuple[Timing | None, Timing | None] = (None, None),
        expected: tuple[Expectation, ...] = (),
        *,
        across: bool = False,
        force: bool = True,
    ) -> None:
        self._whole = old, new
        both = side_by_side(old, new)
        self.old, self.new = both.old, both.new
        self.labels = labels
        self.times = times
        self.across, self._force = across, force
        self._expected = expected
        self.unread = ""

    @cached_property
    def comparison(self) -> Comparison:
        """Whole-kernel counters and time.

        Raises:
            InconclusiveError: the two are not comparable, and that is not forced.
        """
        return compare(
            *self._whole,
            old_time=self.times[0],
            new_time=self.times[1],
            force=self._force,
            labels=self.labels,
            across=self.across,
        )

    @cached_property
    def scale(self) -> Scale:
        """What counters weigh on this device."""
        return Scale(self.old, self.comparison)

    @cached_property
    def diff(self) -> SourceDiff:
        """The two sources, compared."""
        return compare_sources(
            self.old, self.new, pair_launches(self.old.launches, self.new.launches)
        )

    @cached_property
    def placing(self) -> Placing:
        """Their lines, each with the part of the change that it belongs to."""
        return Placing(
            self.old, self.new, self.diff, pair_launches(self.old.launches, self.new.launches)
        )

    @cached_property
    def machine_code(self) -> tuple[HunkCode, ...]:
        """What the compiler made of every hunk, the hunks that matter most first."""
        order = [chapter.hunk.id for chapter in leading(self.story)]
        codes = hunk_codes(self.old, self.new, self.diff, self.placing)
        return tuple(sorted(codes, key=lambda one: [*order, one.hunk].index(one.hunk)))

    @cached_property
    def story(self) -> Story:
        """Hunks, attribution, time split, verdicts, sentence."""
        try:
            return explain(*self._whole, self.comparison, self._expected, self.diff, self.placing)
        except UsageError as error:
            # An expectation that nobody can read is no reason to withhold what was measured.
            self.unread = error.message
            return explain(*self._whole, self.comparison, diff=self.diff, placing=self.placing)
