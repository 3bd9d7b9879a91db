"""The lines of source where warps spend their time, and what ncu's rules say."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from workbench.analysis.stalls import HotLine, sampled_lines
from workbench.counters import catalog, line_metric
from workbench.model import Launch, Number, Profile, Rule, line_counters
from workbench.units import quantity
from workbench.views.terminal.console import DIM, GOOD, HEAD, WARN, clean, grid, section

#: Line counters shown beside the code: (catalog id, ideal, word).
_COUNTERS = (
    ("shared_wavefronts", "shared_wavefronts_ideal", "wavefronts"),
    ("global_sectors", "global_sectors_ideal", "sectors"),
    ("instructions", "", "instructions"),
)
_MAX_RULES = 5
#: From this width on, counters fit beside the code instead of below it.
_BESIDE = 150
_TELLING = ("optimization", "warning")


def hot_lines(profile: Profile, launch: Launch, width: int, limit: int) -> list[RenderableType]:
    """The lines with most warp samples, their largest stall, their text and counters."""
    hot = [line for line in sampled_lines(launch) if line.telling][:limit]
    if not hot:
        return _without_samples(profile, launch, limit)
    counters = line_counters(launch)
    many = len({index for index in launch.instructions.file if index >= 0}) > 1
    wide = width >= _BESIDE
    table = grid("r", "r", "l", "f", *("l" if wide else ""))
    table.expand = True
    header = ["line", "time", "largest stall", "source", *(["counters"] if wide else [])]
    table.add_row(*(Text(each, style=DIM) for each in header))
    for line in hot:
        note = _line_note(launch, counters[line.key])
        code = _code(profile, line.key)
        cells: list[RenderableType] = [
            _place(profile, line.key, many),
            quantity(100.0 * line.share, "%"),
            _stall(line),
        ]
        code.no_wrap, code.overflow = True, "ellipsis"
        if wide:
            table.add_row(*cells, code, Text(note, style=DIM))
        else:
            below = Text(note, style=DIM, no_wrap=True, overflow="ellipsis")
            table.add_row(*cells, Group(code, below) if note else code)
    index = hot[0].key[0]
    name = profile.sources[index].path if index >= 0 and not many else ""
    return [section("Hot lines", table, clean(name))]


def _without_samples(profile: Profile, launch: Launch, limit: int) -> list[RenderableType]:
    """Lines by instructions where nothing was sampled (the emulator, some reports)."""
    name = line_metric(launch, catalog()["instructions"])
    if name is None:
        return []
    counters = {key: own for key, own in line_counters(launch).items() if key[1] > 0}
    many = len({index for index, _ in counters if index >= 0}) > 1
    order = sorted(counters, key=lambda key: -counters[key].get(name, 0))
    table = grid("r", "r", "f")
    for key in order[:limit]:
        code = _code(profile, key)
        note = Text(_line_note(launch, counters[key]), style=DIM)
        place = _place(profile, key, many)
        table.add_row(place, quantity(counters[key].get(name, 0)), Group(code, note))
    return [section("Lines", table, "by instructions executed")] if order else []


def _place(profile: Profile, key: tuple[int, int], many: bool) -> str:
    """``44``, or ``kernel.cuh:44`` where the launch has code from several files."""
    index, line = key
    if not many or index < 0:
        return str(line)
    return f"{clean(profile.sources[index].path.rpartition('/')[2], 18)}:{line}"


def _code(profile: Profile, key: tuple[int, int]) -> Text:
    index, line = key
    text = profile.sources[index].text if 0 <= index < len(profile.sources) else None
    if text is None:
        return Text("(the report holds no source)", style=DIM)
    rows = text.splitlines()
    return Text(clean(rows[line - 1], 400).strip() if 0 < line <= len(rows) else "")


def _stall(line: HotLine) -> Text:
    if not line.stalls:
        return Text("")
    state, share = line.stalls[0]
    return Text(f"{state.title} {quantity(100.0 * share, '%')}")


def _line_note(launch: Launch, counters: dict[str, Number]) -> str:
    parts = []
    for counter, ideal, word in _COUNTERS:
        name = line_metric(launch, catalog()[counter])
        value = counters.get(name, 0) if name else 0
        if not value:
            continue
        text = f"{quantity(value)} {word}"
        least_name = line_metric(launch, catalog()[ideal]) if ideal else None
        least = counters.get(least_name, 0) if least_name else 0
        if least and value > least:
            text += f" ({quantity(value / least)}× ideal)"
        parts.append(text)
    return ", ".join(parts)


# --- rules -----------------------------------------------------------------------


def rules(launch: Launch, everything: bool) -> list[RenderableType]:
    """Ncu's findings, those with the largest estimated speed-up first."""
    found = [
        rule for rule in launch.rules if everything or rule.kind in ("optimization", "warning")
    ]
    if not found:
        return []
    # A global estimate speaks of the launch, a local one of a part of it only.
    found.sort(key=lambda rule: (rule.scope == "local", -(rule.speedup or 0.0)))
    shown = found if everything else found[:_MAX_RULES]
    body: list[RenderableType] = []
    for rule in shown:
        body += _rule(rule, everything)
    note = "speed-ups are ncu's estimates"
    if len(shown) < len(found):
        note += f"; --all shows {len(found) - len(shown)} more"
    return [section("What ncu's rules say", Group(*body), note)]


def _rule(rule: Rule, everything: bool) -> list[RenderableType]:
    head = Text()
    if rule.speedup:
        # A local estimate speaks of one unit's work and not of the launch's duration.
        scope = " of this part" if rule.scope == "local" else ""
        head.append(f"{quantity(rule.speedup, '%')}{scope}  ", style=GOOD)
    style = HEAD if rule.kind in _TELLING else ""
    head.append(clean(rule.title or rule.name), style=style)
    if rule.kind in ("warning", "error"):
        head.append(f"  {rule.kind}", style=WARN)
    message = clean(rule.message.replace("\n", " "))
    text = Text(message, style=DIM)
    if not everything:
        text = Text(_first_sentences(message), style=DIM)
    return [head, Padding(text, (0, 0, 0, 2))]


def _first_sentences(text: str, limit: int = 240) -> str:
    """Whole sentences up to about `limit` characters: rules go on for paragraphs."""
    if len(text) <= limit:
        return text
    end = text.rfind(". ", 0, limit)
    return text[: end + 1] if end > 60 else text[:limit].rsplit(" ", 1)[0] + " …"
