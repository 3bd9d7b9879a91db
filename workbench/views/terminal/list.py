"""``workbench list`` on a terminal: the ladder, with times, shares and dates."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from workbench.store.ladder import Ladder, Rung
from workbench.units import factor, quantity
from workbench.views.terminal.console import BAD, DIM, GOOD, HEAD, WARN, bar, clean, grid


def list_view(ladders: list[Ladder], default_study: str, width: int) -> RenderableType:
    """All studies, one ladder each.

    Args:
        ladders: What is recorded.
        default_study: Marked as such.
        width: Columns of the terminal.
    """
    parts: list[RenderableType] = []
    for ladder in ladders:
        if parts:
            parts.append(Text())
        parts.append(_ladder(ladder, default_study, width))
    if not ladders:
        parts.append(Text("No studies yet. `workbench new --study NAME` starts one."))
    return Group(*parts)


def _ladder(ladder: Ladder, default_study: str, width: int) -> RenderableType:
    head = Text(ladder.name, style=HEAD)
    head.append(f"  {clean(ladder.title)}", style="not bold")
    if ladder.name == default_study:
        head.append("  (default study)", style=f"not bold {DIM}")
    where = Text(style=DIM)
    if ladder.problem:
        where.append(f"{ladder.problem} on {clean(ladder.device)}")
        others = [name for name in _recorded_problems(ladder) if name != ladder.problem]
        if others:
            where.append(f"; also recorded: {', '.join(others)}")
    else:
        where.append("nothing is recorded yet; `workbench profile VERSION` needs no GPU")
    slowest = max(
        (time.time.value for rung in ladder.versions if (time := ladder.time_of(rung))),
        default=0.0,
    )
    cells = 12 if width >= 100 else 0
    table = grid("l", "f", "r", "r", "r", *(("l",) if cells else ()), "l")
    table.expand = True
    header = ["version", "", "time", "step", "of base"]
    table.add_row(*(Text(t, style=DIM) for t in [*header, *([""] * bool(cells)), "profiled"]))
    for rung in ladder.versions:
        time = ladder.time_of(rung)
        name = Text(rung.id, style="cyan" if rung.baseline else HEAD)
        title = Text(clean(rung.title))
        if rung.baseline:
            title.append(" (baseline)", style=DIM)
        shown = Text(quantity(time.time.value if time else None, "s"))
        if time and time.profiled:
            shown.append("*", style=DIM)
        row = [name, title, shown]
        row.append(_step(ladder, rung))
        share = ladder.share_of(rung)
        row.append(Text(quantity(100.0 * share if share is not None else None, "%")))
        if cells:
            # Longer is slower, so that the eye reads time and not speed.
            length = bar(time.time.value / slowest, cells) if time and slowest else ""
            row.append(Text(length, style="blue"))
        row.append(_profiled(ladder, rung))
        table.add_row(*row)
    parts: list[RenderableType] = [head, where, table]
    if any(time.profiled for rung in ladder.versions if (time := ladder.time_of(rung))):
        note = f"* under the profiler; `workbench sweep {ladder.name}` times outside of it"
        parts.append(Text(note, style=DIM))
    return Group(*parts)


def _recorded_problems(ladder: Ladder) -> list[str]:
    names = {profile.problem for rung in ladder.versions for profile in rung.profiles}
    names |= {time.problem for rung in ladder.versions for time in rung.times}
    place = {name: at for at, name in enumerate(ladder.problems)}
    # The study's own order; what it no longer has comes last.
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def _step(ladder: Ladder, rung: Rung) -> Text:
    """The speed-up over the version that this one was made from."""
    parent = next((each for each in ladder.versions if each.id == rung.parent), None)
    time, before = ladder.time_of(rung), ladder.time_of(parent) if parent else None
    if time is None or before is None:
        return Text("")
    speedup = before.time.value / time.time.value
    overlap = before.time.low <= time.time.high and time.time.low <= before.time.high
    return Text(factor(speedup), style=DIM if overlap else GOOD if speedup > 1 else BAD)


def _profiled(ladder: Ladder, rung: Rung) -> Text:
    profile, time = ladder.profile_of(rung), ladder.time_of(rung)
    if profile is None and time is not None and time.stale:
        return Text("time stale", style=f"bold {WARN}")
    if profile is None:
        others = {each.problem for each in rung.profiles}
        here = "other device" if ladder.problem in others else "other problem"
        return Text(here if others else quantity(None), style=DIM)
    text = Text(profile.captured[:10] or "no date")
    if profile.engine != "ncu":
        text.append(f" {profile.engine}", style=DIM)
    if profile.stale:
        text.append(" stale", style=f"bold {WARN}")
    elif time is not None and time.stale:
        text.append(" time stale", style=f"bold {WARN}")
    return text
