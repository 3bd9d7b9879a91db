"""Labels beside points, where there is room: no label covers a point or another label.

Plotly draws a point's label where it is told to and lets labels lie on each other. Here
each label is tried on the four sides of its point, in pixels of a plot of an assumed
size, and left out where none is free; hovering and the table name every point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: Half of a point's mark, its distance to a label, and a label's height and letters, in pixels.
_MARK, _GAP, _LINE, _LETTER = 6.0, 2.0, 14.0, 6.6

#: Plotly's names for the sides, in the order in which they are tried.
_SIDES = ("top center", "bottom center", "middle right", "middle left")


class Spot(NamedTuple):
    """A point in pixels, from the left and from the top, and its name."""

    x: float
    y: float
    label: str


class PointLabel(NamedTuple):
    """What is written beside a point ("" for nothing), and on which side."""

    text: str
    side: str


class Box(NamedTuple):
    """A rectangle in pixels, from the left and from the top."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two have a point in common that is not on their edges."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def within(self, width: float, height: float) -> bool:
        """Whether it lies in a plot of that size."""
        return self.left >= 0 and self.right <= width and self.top >= 0 and self.bottom <= height


def box(spot: Spot, side: str) -> Box:
    """Where a label is written on one side of its point."""
    wide = _LETTER * len(spot.label)
    if side.startswith("middle"):
        right = side.endswith("right")
        start = spot.x + _MARK + _GAP if right else spot.x - _MARK - _GAP - wide
        return Box(start, spot.y - _LINE / 2, start + wide, spot.y + _LINE / 2)
    top = spot.y - _MARK - _LINE if side.startswith("top") else spot.y + _MARK
    return Box(spot.x - wide / 2, top, spot.x + wide / 2, top + _LINE)


def placed(spots: Sequence[Spot], width: float, height: float) -> list[PointLabel]:
    """A label for each point that has room for one.

    Args:
        spots: The points; those of the greatest interest first.
        width: Of the plot, in pixels.
        height: Of the plot, in pixels.
    """
    taken = [Box(s.x - _MARK, s.y - _MARK, s.x + _MARK, s.y + _MARK) for s in spots]
    out = []
    for spot in spots:
        free = (
            (side, found)
            for side in _SIDES
            if (found := box(spot, side)).within(width, height)
            and not any(found.meets(other) for other in taken)
        )
        side, chosen = next(free, ("", None))
        if chosen is None:
            out.append(PointLabel("", _SIDES[0]))
        else:
            taken.append(chosen)
            out.append(PointLabel(spot.label, side))
    return out
