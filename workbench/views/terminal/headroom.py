"""What limits a profile now, its hottest line and what can be tried, on a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from workbench.analysis.headroom import Panel, Way, line_at, statement_at, waited_most
from workbench.analysis.stalls import stall_words
from workbench.model import LineKey, Profile
from workbench.units import factor, quantity
from workbench.views.terminal.console import DIM, HEAD, clean, grid, section

#: Ways that are shown where not all are wanted.
_MOST = 3


def headroom(profile: Profile, panel: Panel | None, everything: bool) -> list[RenderableType]:
    """The panel; [] where nothing is known.

    Args:
        profile: Holds the lines' text.
        panel: What was found of it.
        everything: All ways instead of the first three.
    """
    if panel is None or panel.limit is None:
        return []
    body: list[RenderableType] = []
    if panel.hot is not None:
        stall = waited_most(panel.hot)
        waits = ""
        if stall is not None:
            part = quantity(100.0 * stall[1], "%")
            waits = f", {part} of them in {stall_words(stall[0].id)}"
        hot = Text(f"hottest line  {_place(profile, panel.hot.key)}: ")
        hot.append(f"{quantity(100.0 * panel.hot.share, '%')} of the samples{waits}")
        body += [hot, *_code(profile, panel.hot.key)]
    table = grid("l", "f")
    for way in panel.ways if everything else panel.ways[:_MOST]:
        table.add_row(Text(f"≤ {factor(way.speedup)}", style=HEAD), _way(profile, way))
    if table.row_count:
        body += [Text("to try, each with an upper bound of its speed-up"), table]
    return [section(f"Now limited by {clean(panel.limit.words)}", Group(*body))]


def _way(profile: Profile, way: Way) -> RenderableType:
    text = Text(clean(way.words))
    if way.line is not None:
        text.append(f" ({_place(profile, way.line)})", style=DIM)
    return Group(text, Text(clean(way.because), style=DIM))


def _place(profile: Profile, key: LineKey) -> str:
    path, _ = line_at(profile, key)
    name = path.replace("\\", "/").rpartition("/")[2]
    return clean(f"line {key[1]} of {name}" if name else f"line {key[1]}")


def _code(profile: Profile, key: LineKey) -> list[RenderableType]:
    text = statement_at(profile, key)
    code = Text(clean(text), no_wrap=True, overflow="ellipsis")
    return [Padding(code, (0, 0, 0, 2))] if text else []
