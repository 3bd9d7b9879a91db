"""View models of the gutter: line counters as formatted text and widths of bars."""

from __future__ import annotations

from workbench import units
from workbench.analysis.stalls import HotLine, sampled_lines
from workbench.counters import catalog, line_metric
from workbench.model import Launch, LineKey, Number, Record
from workbench.views.html.parts.common import percent, width

_LANES = 32

Lines = dict[LineKey, dict[str, Number]]
#: Text, width of the bar and of its excess part (CSS percent), note.
Cell = tuple[str, float, float, str]


class Gutter(Record, frozen=True):
    """One counter beside the lines: its heading, the note's heading, cells by line key."""

    id: str
    title: str
    note: str
    cells: dict[LineKey, Cell]


def _bars(total: Number, excess: Number, top: Number) -> tuple[float, float]:
    return float(width(total / top)), float(width(excess / top)) if excess else 0.0


def bars(share: float, excess: float) -> str:
    """A gutter's bars as markup: the amount, and hatched what exceeds the ideal."""
    text = f'<i style="width:{share}%"></i>' if share else ""
    return text + (f'<i class="x" style="width:{excess}%"></i>' if excess else "")


def stall_note(line: HotLine, limit: int = 1) -> str:
    """The largest stalls of a line, as shares of its samples."""
    parts = [f"{state.title} {percent(share)}" for state, share in line.stalls[:limit]]
    return ", ".join(parts)


def _samples(launch: Launch) -> Gutter | None:
    lines = sampled_lines(launch)
    if not lines:
        return None
    top = lines[0].share
    cells = {
        line.key: (percent(line.share), float(width(line.share / top)), 0.0, stall_note(line))
        for line in lines
    }
    return Gutter(id="samples", title="Warp samples", note="largest stall", cells=cells)


def _against_ideal(
    launch: Launch, lines: Lines, identity: str, title: str, counter: str, ideal: str
) -> Gutter | None:
    name = line_metric(launch, catalog()[counter])
    if name is None:
        return None
    best = line_metric(launch, catalog()[ideal])
    found = {key: c[name] for key, c in lines.items() if c.get(name)}
    top = max(found.values(), default=0)
    if not top:
        return None
    cells: dict[LineKey, Cell] = {}
    for key, number in found.items():
        floor = lines[key].get(best, 0) if best else number
        excess = max(number - floor, 0)
        note = f"{percent(excess / number)} more than ideal" if excess else ""
        if excess and floor:
            note = f"{units.factor(number / floor)} the ideal"
        cells[key] = (units.count(number), *_bars(number, excess, top), note)
    return Gutter(id=identity, title=title, note="against the ideal", cells=cells)


def _plain(launch: Launch, lines: Lines, identity: str, title: str, counter: str) -> Gutter | None:
    name = line_metric(launch, catalog()[counter])
    found = {key: c[name] for key, c in lines.items() if name and c.get(name)}
    top = max(found.values(), default=0)
    if not top:
        return None
    cells: dict[LineKey, Cell] = {
        key: (units.count(v), *_bars(v, 0, top), "") for key, v in found.items()
    }
    return Gutter(id=identity, title=title, note="", cells=cells)


def _executed(launch: Launch, lines: Lines) -> Gutter | None:
    gutter = _plain(launch, lines, "instructions", "Instructions", "instructions")
    active = line_metric(launch, catalog()["thread_instructions"])
    issued = line_metric(launch, catalog()["instructions"])
    if gutter is None or active is None or issued is None:
        return gutter
    cells = {}
    for key, (text, bar, _, _) in gutter.cells.items():
        lanes = lines[key].get(active, 0) / lines[key][issued]
        note = f"{units.digits3(lanes)} of {_LANES} lanes" if lanes < _LANES else ""
        cells[key] = (text, bar, 0.0, note)
    return Gutter(id=gutter.id, title=gutter.title, note="active lanes", cells=cells)


def gutters(launch: Launch, lines: Lines) -> tuple[Gutter, ...]:
    """The counters that this launch holds per line, the most telling first."""
    found = (
        _samples(launch),
        _against_ideal(
            launch, lines, "global", "Global sectors", "global_sectors", "global_sectors_ideal"
        ),
        _against_ideal(
            launch,
            lines,
            "shared",
            "Shared wavefronts",
            "shared_wavefronts",
            "shared_wavefronts_ideal",
        ),
        _plain(launch, lines, "local", "Local sectors", "local_sectors"),
        _executed(launch, lines),
        _plain(launch, lines, "divergent", "Divergent branches", "divergent_branches"),
    )
    return tuple(gutter for gutter in found if gutter is not None)
