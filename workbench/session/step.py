"""A requested step: two targets, compared and explained once for all views."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING

from workbench.analysis.source.hunks import Hunk
from workbench.analysis.story import Step, Story, explain
from workbench.analysis.times.timing import TimeChange
from workbench.language import _
from workbench.session.targets import Target

if TYPE_CHECKING:
    import pandas as pd


class Diff(Step):
    """The changes from one target to another, and the code that made them.

    Attributes:
        sides: Both targets.
        title: The new version's title; "" if it is not a version.
        change: The author's description of the change; "" if unknown, or if it is of another step.
        stale: True for each side whose source was edited after its capture.

    Raises InconclusiveError: they are not comparable, and `force` is not set.
    """

    def __init__(self, before: Target, after: Target, *, force: bool = False) -> None:
        old, new = before.version, after.version
        # An author describes and predicts the step from the parent, on one chip.
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
        self.change = new.change if new and from_parent else ""
        self.stale = before.stale, after.stale
        _comparable = self.comparison  # raises if the two are not comparable

    @property
    def notes(self) -> list[str]:
        """Sentences that must accompany any number, such as that a side is stale."""
        one = self.sides[0].profile == self.sides[1].profile
        same = [_("both sides are one profile, so nothing can differ")] if one else []
        return [*same, *(f"{side.label}: {note}" for side in self.sides for note in side.notes)]

    @property
    def no_codes(self) -> str:
        """The reason for missing `codes`, in words; "" if there are `codes`."""
        if self.codes:
            return ""
        if "emulator" in (self.old.engine, self.new.engine):
            return _("the emulator runs PTX, so there is no machine code to compare")
        sides = zip((self.old, self.new), self.sides, strict=True)
        bare = [
            side.label
            for profile, side in sides
            if not any(text for launch in profile.launches for text in launch.instructions.text)
        ]
        if bare:
            return _("no machine code was recorded for {names}").format(names=_(" and ").join(bare))
        return _("no hunk has machine code that is known on both sides")

    @cached_property
    def story(self) -> Story:
        """The story of the step, in order: hunks, links, time, verdicts, sentence.

        Raises UsageError: an expectation cannot be read.
        """
        return explain(*self._whole, self.comparison, self._expected, self.placing)

    # --- for notebooks -----------------------------------------------------------------------

    def __repr__(self) -> str:
        study = f"{self.new.study} " if self.new.study else ""
        return f"<{study}{' → '.join(self.labels)} on {self.new.device.name}>"

    @property
    def sentence(self) -> str:
        """The step in words."""
        return self.story.sentence

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """The blocks of the source diff, in the order of the source."""
        return self.story.attribution.hunks

    @property
    def time(self) -> TimeChange | None:
        """The recorded times in seconds, old over new with its interval; None if one is missing."""
        return self.comparison.time

    @cached_property
    def counters(self) -> pd.DataFrame:
        """One row for each counter of the catalog, by its id.

        Returns:
            Columns ``title``, ``group``, ``unit``, ``old``, ``new``, ``delta``, ``relative`` (of
            the old value), ``moved`` (beyond its noise), ``verdict`` (better, worse, changed,
            same, missing) and ``reason`` (why a side is missing). Numbers are in base units, and
            NaN if a side is missing.
        """
        numbers = ["old", "new", "delta", "relative"]
        names = ["id", "title", "group", "unit", *numbers, "moved", "verdict", "reason"]
        rows = [[getattr(delta, name) for name in names] for delta in self.comparison.counters]
        frame = _frame(rows, ["counter", *names[1:]]).set_index("counter")
        return frame.astype(dict.fromkeys(numbers, "float64"))

    @cached_property
    def links(self) -> pd.DataFrame:
        """A row for each part of a counter's change that is linked to code; parts add up.

        Returns:
            Columns ``counter``, ``ncu``, ``link`` (hunk, symbol, launch, elsewhere, unknown),
            ``hunks`` (their numbers), ``symbols`` and ``delta``.
        """
        rows = [
            (split.id, split.counter, part.link, part.hunks, part.symbols, part.delta)
            for split in self.story.attribution.counters
            for part in split.parts
        ]
        return _frame(rows, ["counter", "ncu", "link", "hunks", "symbols", "delta"])

    @cached_property
    def lines(self) -> pd.DataFrame:
        """A row for each line counter and source line; both versions of a line are one row.

        Lines of a hunk have their own rows; the hunk's number joins them.

        Returns:
            Columns ``counter``, ``ncu``, ``link``, ``hunks`` and ``symbols`` as in `links`;
            ``old_file``, ``old_line``, ``old_text`` and the same for ``new`` ("" and 0 if a side
            has no such line, or the compiler gave none); ``old`` and ``new``, which add up to the
            counter's sums (NaN if a side has no such line), and ``delta``.
        """
        placing, sides = self.placing, (self.old, self.new)
        texts = [[(file.text or "").splitlines() for file in side.sources] for side in sides]
        rows = []
        for split in self.story.attribution.counters:
            sums = placing.sums(split.counter, 0), placing.sums(split.counter, 1)
            for number in sorted(sums[0].keys() | sums[1].keys()):
                placed = placing.placed[number]
                row: list[object] = [split.id, split.counter, placed.key.link, placed.key.hunks]
                row.append(placed.symbols)
                counts = [float(each.get(number, 0)) for each in sums]
                delta = counts[1] - counts[0]
                for side, place in enumerate(placed.twins):
                    file, line = place or (-1, 0)
                    known = texts[side][file] if file >= 0 else []
                    text = known[line - 1] if 0 < line <= len(known) else ""
                    row += [placing.paths[side].get(file, ""), line, text]
                    counts[side] = nan if place is None else counts[side]
                rows.append((*row, *counts, delta))
        sourced = [f"{side}_{word}" for side in ("old", "new") for word in ("file", "line", "text")]
        first = ["counter", "ncu", "link", "hunks", "symbols"]
        return _frame(rows, [*first, *sourced, "old", "new", "delta"])

    def _repr_html_(self) -> str:
        """The first screen of `workbench diff`, for notebooks: one element, no scripts."""
        from workbench.views.terminal.console import fragment
        from workbench.views.terminal.diff import diff_view

        words = self.title, self.change, self.notes
        return fragment(diff_view(self.comparison, *words, step=self, width=100), 100)


def _frame(rows: Sequence[Sequence[object]], columns: list[str]) -> pd.DataFrame:
    import pandas as pd  # takes half a second, which commands need not spend

    return pd.DataFrame(rows, columns=columns)
