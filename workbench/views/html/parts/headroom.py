"""The panel: what limits the kernel now, its hottest line, and what to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from workbench import units
from workbench.analysis.expectations import Score
from workbench.analysis.headroom import Panel, Way, line_at, statement_at, waited_most
from workbench.analysis.limit import RESOURCES, Limit, stall_words
from workbench.model import LineKey, Profile, Record
from workbench.views.html.parts.common import Badge, Link, percent

#: The address of a line on a page, or "".
Anchor = Callable[[LineKey], str]


#: Scores by the page of the version that came after: its link, and what became of the ways.
Scored = Sequence[tuple[Link, Sequence[Score]]]


class PanelView(Record, frozen=True):
    """The panel of a page.

    `anchor` says where a line stands on the page, `scored` what became of the ways in the
    versions that came after, `page` where it stands for whoever quotes it on another one.
    """

    panel: Panel
    limit: Limit
    profile: Profile
    anchor: Anchor
    scored: Scored = ()
    page: str = ""

    @property
    def counter(self) -> str:
        """The catalog's counter that shows the limit; "" for a wait."""
        return next((one.counter for one in RESOURCES if one.id == self.limit.id), "")

    @property
    def waited(self) -> str:
        """What the hottest line waited for most: ``64.0% of them in MIO throttle stalls``."""
        stall = waited_most(self.panel.hot) if self.panel.hot else None
        return f"{percent(stall[1])} of them in {stall_words(stall[0].id)}" if stall else ""

    def place(self, key: LineKey) -> Link:
        """Words and address of a line."""
        path, _ = line_at(self.profile, key)
        name = PurePosixPath(path.replace("\\", "/")).name
        own = len({source.path for source in self.profile.sources}) > 1
        href = self.anchor(key)
        return Link(
            text=f"line {key[1]} of {name}" if own and name else f"line {key[1]}",
            href=f"{self.page}{href}" if href else "",
        )

    def code(self, key: LineKey) -> str:
        """The text of a line."""
        return statement_at(self.profile, key)

    def became(self, way: Way) -> Iterator[tuple[Link, Badge]]:
        """A bound is no promise: what was followed and made the step faster was right."""
        for link, scores in self.scored:
            for score in scores:
                if score.rule != way.kind or score.title != way.words:
                    continue
                step = units.factor(1 / (1 - score.gained))
                if score.verdict == "open":
                    yield link, Badge("not followed")
                elif score.gained > 0:
                    yield link, Badge(f"followed, {step}", "good")
                else:
                    yield link, Badge(f"followed in vain, {step}", "bad")


def panel_view(
    panel: Panel | None, profile: Profile, anchor: Anchor, scored: Scored = ()
) -> PanelView | None:
    """The panel of a page; None where nothing limits that is known."""
    if panel is None or panel.limit is None:
        return None
    return PanelView(panel, panel.limit, profile, anchor, scored)
