"""``workbench diff`` on a terminal: the source's hunks with the counters they are linked to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from workbench.analysis.explanation import Explanation
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.split.attribution import CounterSplit, Part
from workbench.analysis.split.duration import TimePart
from workbench.counters import catalog
from workbench.model import Number, Profile
from workbench.units import count, quantity, signed
from workbench.views.terminal.console import BAD, DIM, GOOD, WARN, clean, section

#: From this width on the counters stand beside the code, below it under the code.
WIDE = 100
_CODE_LINES = 14  # of one side of a hunk
_COUNTERS = 5  # of one part
_HUNKS = 12  # that are shown with their code
#: Parts below this share of their counter (or of the duration) are left to ``--format json``.
_TELLING = 0.002
_TIME = "time (estimate)"
_VERDICT = {"confirmed": GOOD, "refuted": BAD, "inconclusive": WARN}
_SAMPLES = "smsp__pcsamp_"


def hunks_view(
    old: Profile, new: Profile, story: Explanation, *, width: int = 80
) -> list[RenderableType]:
    """Sections for `terminal_diff.diff_view`: hunks, what no hunk explains, expectations.

    Args:
        old: The old profile, for its source text.
        new: The new profile.
        story: The step, explained.
        width: Columns of the terminal.
    """
    out: list[RenderableType] = []
    if story.sentence:
        out.append(section("In words", Text(clean(story.sentence))))
    code = [hunk for hunk in story.attribution.hunks if hunk.kind in ("code", "moved")]
    blocks: list[RenderableType] = []
    for hunk in code[:_HUNKS]:
        blocks += [_hunk(old, new, story, hunk, width), Text()]
    if len(code) > _HUNKS:
        more = _more(len(code) - _HUNKS, "hunk")
        blocks.append(Text(f"{more}; --format json has all.", style=DIM))
        blocks.append(Text())
    rest = _rest(story)
    blocks += rest
    quiet = [h for h in story.attribution.hunks if h.kind not in ("code", "moved")]
    if quiet:
        blocks.append(Text(_quiet(quiet), style=DIM))
    blocks += [Text(clean(word), style=WARN) for word in story.attribution.words]
    while blocks and isinstance(blocks[-1], Text) and not blocks[-1].plain:
        blocks.pop()
    if blocks:
        out.append(section("What changed, and what it is linked to", Group(*blocks)))
    if story.occupancy:
        lines = [_occupancy(split.kernel, split.causes) for split in story.occupancy if split.delta]
        if lines:
            out.append(section("Theoretical occupancy, by cause", Group(*lines)))
    if story.expectations:
        out.append(section("Predicted and measured", _expectations(story)))
    if any(judgement.learned for judgement in story.expectations):
        out.append(section("Learned", _learned(story)))
    return out


def _more(number: int, what: str) -> str:
    return f"{count(number)} more {what}{'' if number == 1 else 's'}"


def _quiet(hunks: Sequence[Hunk]) -> str:
    kinds = [hunk.kind for hunk in hunks]
    parts = []
    for kind in dict.fromkeys(kinds):
        number = kinds.count(kind)
        parts.append(f"{number} {kind} hunk{'s' if number > 1 else ''}")
    return f"No change of code: {', '.join(parts)}."


def _range(hunk: Hunk) -> str:
    def words(lines: tuple[int, int]) -> str:
        first, last = lines
        if last < first:
            return "—"
        return str(first) if first == last else f"{first}–{last}"

    return f"{words(hunk.old)} → {words(hunk.new)}"


def _hunk(old: Profile, new: Profile, story: Explanation, hunk: Hunk, width: int) -> RenderableType:
    head = Text(f"Hunk {hunk.id}", style="bold")
    where = hunk.new_file or hunk.old_file
    several = len(old.sources) > 1 or len(new.sources) > 1
    place = f"  {clean(where)}" if several else ""
    head.append(f"{place}  line {_range(hunk)}", style="not bold dim")
    if hunk.kind == "moved":
        head.append("  moved", style="not bold cyan")
    if hunk.symbols:
        names = ", ".join(hunk.symbols[:6]) + (" …" if len(hunk.symbols) > 6 else "")
        head.append(f"  changes {clean(names)}", style="not bold magenta")
    wide = width >= WIDE
    code_width = width * 3 // 5 if wide else width
    code = Group(
        *_code(old, hunk.old_file, hunk.old, "-", BAD, code_width),
        *_code(new, hunk.new_file, hunk.new, "+", GOOD, code_width),
    )
    numbers = _linked(story, hunk.id)
    if not wide:
        return Group(head, code, numbers)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=code_width, no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_row(code, numbers)
    return Group(head, table)


def _code(
    profile: Profile, path: str, lines: tuple[int, int], mark: str, style: str, width: int
) -> list[Text]:
    text = next((s.text for s in profile.sources if s.path == path and s.text is not None), "")
    every = text.replace("\r\n", "\n").split("\n") if text else []
    out = []
    first, last = lines
    shown = range(first, min(last, first + _CODE_LINES - 1, len(every)) + 1)
    for number in shown:
        line = clean(every[number - 1][: 4 * width])
        row = Text(f"{number:>5} ", style=DIM, no_wrap=True, overflow="ellipsis")
        row.append(f"{mark} {line}", style=f"not dim {style}")
        row.truncate(width, overflow="ellipsis")
        out.append(row)
    hidden = last - first + 1 - len(shown)
    if hidden > 0 and shown:
        out.append(Text(f"      {mark} … {_more(hidden, 'line')}", style=DIM))
    return out


def _title(split: CounterSplit) -> str:
    return catalog()[split.id].title if split.id else split.counter


def _better(counter: str, delta: Number) -> str:
    better = catalog()[counter].better if counter in catalog() else ""
    if not better or not delta:
        return ""
    return GOOD if (delta < 0) == (better == "lower") else BAD


def _weight(split: CounterSplit, part: Part) -> float:
    return abs(part.delta) / max(abs(split.old), abs(split.new), 1)


def _rows(story: Explanation, keep: dict[tuple[str, int | None, str | None], bool]) -> list[Text]:
    """Time and the heaviest counters of the parts with these keys."""
    rows: list[Text] = []
    for time_part in story.time.parts if story.time is not None else ():
        assert story.time is not None
        key = (time_part.link, time_part.hunk, time_part.symbol)
        large = abs(time_part.delta_s) >= _TELLING * max(story.time.old_s, story.time.new_s)
        if keep.get(key) and time_part.certain and large:
            rows.append(_time_row(time_part))
    found: list[tuple[float, CounterSplit, Part]] = []
    for split in story.attribution.counters:
        if split.counter.startswith(_SAMPLES) or not split.id:
            continue
        if split.id.endswith(("_ideal", "_excess")):
            continue  # the counter itself says it
        for part in split.parts:
            telling = _weight(split, part) >= _TELLING
            if keep.get((part.link, part.hunk, part.symbol)) and telling:
                found.append((_weight(split, part), split, part))
    found.sort(key=lambda entry: -entry[0])
    for _, split, part in found[:_COUNTERS]:
        rows.append(_counter_row(split, part))
    if len(found) > _COUNTERS:
        rows.append(Text(f"    {_more(len(found) - _COUNTERS, 'counter')}", style=DIM))
    return rows


def _time_row(part: TimePart) -> Text:
    row = Text(f"    {_TIME:<26}", style=DIM)
    error = max(part.high_s - part.delta_s, part.delta_s - part.low_s)
    style = GOOD if part.delta_s < 0 else BAD
    row.append(f"{signed(part.delta_s, 's'):>10}", style=f"not dim {style}")
    row.append(f" ±{quantity(error, 's')}", style=DIM)
    known = [stall for stall in part.stalls if stall.stall in catalog()]
    if known:
        stall = known[0]
        title = catalog()[stall.stall].title
        row.append(f"  {title} {signed(stall.delta_s, 's')}", style=DIM)
    return row


def _counter_row(split: CounterSplit, part: Part) -> Text:
    row = Text(f"    {clean(_title(split), 26):<26}")
    row.append(f"{signed(part.delta, split.unit):>10}", style=_better(split.id, part.delta))
    if split.delta and part.delta == split.delta:
        row.append("  all of it", style=DIM)
    elif split.delta and 0 < part.delta / split.delta < 1:
        row.append(f"  {100 * part.delta / split.delta:.0f}% of it", style=DIM)
    if part.shared:
        row.append("  shared", style=DIM)
    return row


def _linked(story: Explanation, hunk: int) -> RenderableType:
    """The parts of one hunk: its own lines first, then symbol by symbol."""
    keys: dict[tuple[str, int | None, str | None], None] = {}
    for split in story.attribution.counters:
        for part in split.parts:
            if part.hunk == hunk and part.link in ("hunk", "symbol") and part.delta:
                keys[part.link, part.hunk, part.symbol] = None
    ordered = sorted(keys, key=lambda key: (key[0], key[2] or ""))
    lines: list[RenderableType] = []
    for key in ordered[:_COUNTERS]:
        rows = _rows(story, {key: True})
        if rows:
            title = "on its own lines" if key[0] == "hunk" else f"linked by {clean(key[2] or '')}"
            lines.append(Text(f"  {title}", style="" if key[0] == "hunk" else "magenta"))
            lines += rows
    if len(ordered) > _COUNTERS:
        lines.append(Text(f"  {_more(len(ordered) - _COUNTERS, 'symbol')}", style=DIM))
    return Group(*(lines or [Text("  no counter moved by 0.2% on its lines", style=DIM)]))


def _rest(story: Explanation) -> list[RenderableType]:
    """Parts of no hunk: launches, and what nothing explains."""
    lines: list[RenderableType] = []
    for match in story.attribution.launches:
        if match.changes:
            lines.append(Text(f"Launch of {clean(match.new, 60)}: {', '.join(match.changes)}"))
        elif match.how in ("added", "removed"):
            lines.append(Text(f"Launch {match.how}: {clean(match.new or match.old, 60)}"))
    keys = {
        (part.link, part.hunk, part.symbol)
        for split in story.attribution.counters
        for part in split.parts
    }
    for link, title in (("launch", "linked to the launch"), ("elsewhere", "elsewhere")):
        rows = _rows(story, {key: key[0] == link for key in keys})
        if rows:
            note = "  (the compiler, or noise)" if link == "elsewhere" else ""
            head = Text(title[:1].upper() + title[1:], style="bold")
            head.append(note, style="not bold dim")
            lines += [head, *rows, Text()]
    return lines


def _occupancy(kernel: str, causes: dict[str, float]) -> Text:
    parts = [f"{name} {signed(value)} points" for name, value in causes.items() if value]
    return Text(f"{clean(kernel, 40)}: {', '.join(parts) or 'no cause alone'}")


def _expectations(story: Explanation) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=34)
    for _ in range(3):
        table.add_column(overflow="fold")
    for judgement in story.expectations:
        title = _counter_title(judgement.counter)
        verdict = Text(judgement.verdict, style=_VERDICT[judgement.verdict])
        observed = Text(clean(judgement.observed))
        table.add_row(Text(clean(title)), Text(clean(judgement.expected)), observed, verdict)
    return table


def _learned(story: Explanation) -> RenderableType:
    """What the author wrote of a prediction after it was measured."""
    return Group(
        *(
            Text(f"{clean(_counter_title(judgement.counter))}: {clean(judgement.learned)}")
            for judgement in story.expectations
            if judgement.learned
        )
    )


def _counter_title(counter: str) -> str:
    return catalog()[counter].title if counter in catalog() else counter
