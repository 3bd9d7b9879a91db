"""A step that was asked for: two targets, compared and explained once for whoever shows them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from workbench.analysis.source.hunks import Hunk
from workbench.analysis.story import Step, Story, explain
from workbench.analysis.timing import TimeChange
from workbench.session.targets import Target

if TYPE_CHECKING:
    import pandas as pd


class Diff(Step):
    """What moved from one target to another, by how much, and the code that moved it.

    Args:
        before: The old side.
        after: The new side.
        force: Compare what is not comparable as well; `comparison.reasons` then says why not.

    Attributes:
        sides: Both targets.
        title: The new version's title; "" of what is no version.
        change: What its author says was changed; "" where that is not known.
        stale: Whether each side's source was edited after its capture.

    Raises:
        InconclusiveError: they are not comparable, and `force` is not set.
    """

    def __init__(self, before: Target, after: Target, *, force: bool = False) -> None:
        old, new = before.version, after.version
        # What an author predicted speaks of the step from the parent on one chip, no other.
        from_parent = old and new and (old.study, old.id) == (new.study, new.parent)
        one_device = before.profile.device.name == after.profile.device.name
        super().__init__(
            before.profile,
            after.profile,
            (before.label, after.label),
            (before.timing, after.timing),
            new.expectations if new and from_parent and one_device else (),
            across=before.placed and after.placed,
            force=force,
        )
        self.sides = before, after
        self.title = new.title if new else ""
        self.change = new.change if new and new != old else ""  # none of one version on two devices
        self.stale = before.stale, after.stale
        _ = self.comparison

    @property
    def notes(self) -> list[str]:
        """Sentences that must stand beside any number, such as that a side is stale."""
        return [f"{side.label}: {note}" for side in self.sides for note in side.notes]

    @property
    def no_codes(self) -> str:
        """Why there are no `codes`, in words; "" where there are."""
        if self.codes:
            return ""
        if "emulator" in (self.old.engine, self.new.engine):
            return "the emulator runs PTX, so no machine code is there to compare"
        sides = zip((self.old, self.new), self.sides, strict=True)
        bare = [
            side.label
            for profile, side in sides
            if not any(text for launch in profile.launches for text in launch.instructions.text)
        ]
        if bare:
            return f"no machine code was collected of {' and '.join(bare)}"
        return "no hunk has machine code that is known on both sides"

    @cached_property
    def story(self) -> Story:
        """What is worth telling of the step, in order: hunks, links, time, verdicts, sentence.

        Raises:
            UsageError: an expectation cannot be read.
        """
        return explain(*self._whole, self.comparison, self._expected, self.placing)

    # --- for notebooks -----------------------------------------------------------------------

    @property
    def sentence(self) -> str:
        """The step in words."""
        return self.story.sentence

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """The blocks of the source diff, as they stand in the source."""
        return self.story.attribution.hunks

    @property
    def time(self) -> TimeChange | None:
        """The recorded times in seconds, old over new with its interval; None without both."""
        return self.comparison.time

    @cached_property
    def counters(self) -> pd.DataFrame:
        """A row for each counter of the catalog, by its id.

        Returns:
            Columns ``title``, ``group``, ``unit``, ``old``, ``new``, ``delta``, ``relative`` (of
            the old value), ``moved`` (beyond its noise), ``verdict`` (better, worse, changed,
            same, missing) and ``reason`` (why a side is missing). Numbers are in base units, and
            NaN where a side is missing.
        """
        import pandas as pd  # half a second, which no command has to spend

        numbers = ["old", "new", "delta", "relative"]
        names = ["title", "group", "unit", *numbers, "moved", "verdict", "reason"]
        rows = [[getattr(delta, name) for name in names] for delta in self.comparison.counters]
        ids = pd.Index([delta.id for delta in self.comparison.counters], name="counter")
        frame = pd.DataFrame(rows, index=ids, columns=names)
        return frame.astype(dict.fromkeys(numbers, "float64"))

    @cached_property
    def links(self) -> pd.DataFrame:
        """A row for each part of a counter's change that is linked to code; parts add up.

        Returns:
            Columns ``counter``, ``ncu``, ``link`` (hunk, symbol, launch, elsewhere, unknown),
            ``hunks`` (their numbers), ``symbols`` and ``delta``.
        """
        import pandas as pd

        rows = [
            (split.id, split.counter, part.link, part.hunks, part.symbols, part.delta)
            for split in self.story.attribution.counters
            for part in split.parts
        ]
        columns = ["counter", "ncu", "link", "hunks", "symbols", "delta"]
        return pd.DataFrame(rows, columns=columns)

    def _repr_html_(self) -> str:
        """The first screen of `workbench diff`, for notebooks: one element, no scripts."""
        from workbench.views.terminal.console import fragment
        from workbench.views.terminal.diff import step_view

        words = self.title, self.change, self.notes
        return fragment(step_view(self, *words, width=100), 100)
