"""``workbench diff`` on a terminal: the source's hunks with the counters they are linked to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from workbench.analysis.cause.strip import line
from workbench.analysis.machine.code import HunkCode
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.story import Chapter, Fact, LeftOut, Story, Tie, silence
from workbench.counters import catalog
from workbench.model import Profile
from workbench.units import lines_changed, listed, quantity, several, signed
from workbench.views.terminal.console import BAD, DIM, GOOD, WARN, clean, section, tied
from workbench.views.terminal.machine import machine_lines
from workbench.views.text.tables import more

#: From this width on the counters stand beside the code, below it under the code.
WIDE = 110
_CODE_LINES = 14  # of one side of a hunk
_NAMES = 6  # that a hunk changes
_HUNKS = 12  # that are shown although they tell nothing
_NUMBERS = 64  # columns that a number needs, with its title and what is said of it
_TIME = "time (estimate)"
_VERDICT = {"confirmed": GOOD, "refuted": BAD, "inconclusive": WARN}


def words_view(story: Story) -> list[RenderableType]:
    """What is told first of a step: the causal strip, and the sentence."""
    strip = tied(Text(clean(line(story.strip)), style="bold"))
    first = [Text(), strip] if story.strip else []
    return [*first, Text(), tied(Text(clean(story.sentence)))] if story.sentence else []


def hunks_view(
    old: Profile,
    new: Profile,
    story: Story,
    *,
    width: int = 80,
    codes: Sequence[HunkCode] = (),
) -> list[RenderableType]:
    """Every hunk with what it is linked to, and what no hunk explains: a section, or nothing.

    Args:
        old: The old profile, for its source text.
        new: The new profile.
        story: The step, explained.
        width: Columns of the terminal.
        codes: What the compiler made of the hunks, where that is to be shown.
    """
    blocks: list[RenderableType] = []
    hidden = 0
    for place, chapter in enumerate(story.chapters):
        if place < _HUNKS or chapter.ties:
            code = machine_lines(codes, chapter.hunk.id)
            blocks += [_hunk(old, new, story, chapter, width), *code, Text()]
        else:
            hidden += 1
    if hidden:
        silent = silence(story.attribution, hidden)
        blocks.append(Text(f"{more(hidden, 'hunk')}: {silent}; --format json has all.", style=DIM))
        blocks.append(Text())
    blocks += _rest(story)
    if story.quiet:
        blocks.append(Text(quiet_words(story.quiet), style=DIM))
    blocks += [Text(clean(word), style=WARN) for word in story.attribution.words]
    while blocks and isinstance(blocks[-1], Text) and not blocks[-1].plain:
        blocks.pop()
    return [section("What changed, and what it is linked to", Group(*blocks))] if blocks else []


def verdicts_view(story: Story) -> list[RenderableType]:
    """Sections of what is judged: occupancy's causes, predictions, what was learned of them."""
    out: list[RenderableType] = []
    if story.occupancy:
        lines = [_occupancy(split.kernel, split.causes) for split in story.occupancy if split.delta]
        if lines:
            out.append(section("Theoretical occupancy, by cause", Group(*lines)))
    if story.expectations:
        out.append(section("Predicted and measured", _expectations(story)))
    if any(judgement.learned for judgement in story.expectations):
        out.append(section("Learned", _learned(story)))
    return out


def quiet_words(hunks: Sequence[Hunk]) -> str:
    """``No change of code: 1 comment hunk, 2 renamed hunks``, by kind."""
    kinds = [hunk.kind for hunk in hunks]
    parts = []
    for kind in dict.fromkeys(kinds):
        number = kinds.count(kind)
        parts.append(several(number, f"{kind} hunk"))
    return f"No change of code: {', '.join(parts)}."


def _hunk(old: Profile, new: Profile, story: Story, chapter: Chapter, width: int) -> RenderableType:
    hunk = chapter.hunk
    named = len(old.sources) > 1 or len(new.sources) > 1
    head = hunk_head(chapter, (hunk.new_file or hunk.old_file) if named else "", width)
    wide = width >= WIDE
    code_width = width - _NUMBERS if wide else width
    code = Group(
        *_code(old, hunk.old_file, hunk.old, "-", code_width),
        *_code(new, hunk.new_file, hunk.new, "+", code_width),
    )
    numbers = _linked(chapter, silence(story.attribution))
    left_out = _left_out(chapter.left_out)
    if not wide:
        return Group(head, code, numbers, *left_out)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=code_width, no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_row(code, numbers)
    return Group(head, table, *left_out)


def hunk_head(chapter: Chapter, file: str, width: int) -> Text:
    """A hunk's number, its lines, and as many of the names that it changes as there is room for."""
    hunk = chapter.hunk
    head = Text(f"Hunk {hunk.id}", style="bold")
    place = f"  {clean(file)}" if file else ""
    head.append(f"{place}  {lines_changed(hunk.old, hunk.new)}", style="not bold dim")
    if hunk.kind == "moved":
        head.append("  moved", style="not bold cyan")
    names = [clean(name) for name in chapter.symbols[:_NAMES]]
    more_names = len(chapter.symbols) > len(names)
    while names:
        said = f"  changes {', '.join(names)}{' …' * more_names}"
        if head.cell_len + cell_len(said) <= width:
            return head.append(said, style="not bold magenta")
        names, more_names = names[:-1], True
    return head


def code_rows(
    profile: Profile, path: str, lines: tuple[int, int], mark: str, width: int
) -> list[Text]:
    """Lines of one side with their numbers; none where the profile holds no text of the file."""
    text = next((s.text for s in profile.sources if s.path == path and s.text is not None), "")
    every = text.replace("\r\n", "\n").split("\n") if text else []
    style = BAD if mark == "-" else GOOD
    out = []
    shown = range(lines[0], min(lines[1], len(every)) + 1)
    for number in shown:
        line = clean(every[number - 1][: 4 * width])
        row = Text(f"{number:>5} ", style=DIM, no_wrap=True, overflow="ellipsis")
        row.append(f"{mark} {line}", style=f"not dim {style}")
        row.truncate(width, overflow="ellipsis")
        out.append(row)
    return out


def _code(profile: Profile, path: str, lines: tuple[int, int], mark: str, width: int) -> list[Text]:
    """The first lines of a hunk on one side, and how many there are besides."""
    first, last = lines
    out = code_rows(profile, path, (first, min(last, first + _CODE_LINES - 1)), mark, width)
    hidden = last - first + 1 - len(out)
    if hidden > 0 and out:
        out.append(Text(f"      {mark} … {more(hidden, 'line')}", style=DIM))
    return out


def _tie(tie: Tie) -> list[Text]:
    """Time and counters of one link."""
    rows: list[Text] = []
    if tie.time is not None:
        part = tie.time
        row = Text(f"    {_TIME:<26}", style=DIM)
        error = max(part.high_s - part.delta_s, part.delta_s - part.low_s)
        style = GOOD if part.delta_s < 0 else BAD
        row.append(f"{signed(part.delta_s, 's'):>10}", style=f"not dim {style}")
        rows.append(row.append(f" ±{quantity(error, 's')}", style=DIM))
        for stall in tie.stalls:
            title = f"      {clean(catalog()[stall.stall].title, 24):<24}"
            rows.append(Text(f"{title}{signed(stall.delta_s, 's'):>10}", style=DIM))
    return rows + [_counter(fact) for fact in tie.facts]


def _counter(fact: Fact) -> Text:
    split, part = fact.split, fact.part
    row = Text(f"    {clean(catalog()[split.id].title, 26):<26}")
    style = "" if fact.good is None else GOOD if fact.good else BAD
    row.append(f"{signed(part.delta, split.unit):>10}", style=style)
    share = fact.of_change
    if share is not None:
        row.append("  all of it" if share == 1 else f"  {100 * share:.0f}% of it", style=DIM)
    return row


def _linked(chapter: Chapter, silent: str) -> RenderableType:
    """What one hunk is linked to: its own lines first, then symbol by symbol."""
    lines: list[RenderableType] = []
    for tie in chapter.ties:
        own = tie.link == "hunk"
        title = "on its own lines" if own else f"linked by {clean(listed(tie.symbols))}"
        lines += [Text(f"  {title}", style="" if own else "magenta"), *_tie(tie)]
    return Group(*(lines or [Text(f"  {silent}", style=DIM)]))


def _left_out(left: LeftOut) -> list[Text]:
    return [Text(f"  {left.words}", style=DIM)] if left.words else []


def _rest(story: Story) -> list[RenderableType]:
    """Links of no hunk: launches, and what nothing explains."""
    lines: list[RenderableType] = []
    for match in story.attribution.launches:
        if match.changes:
            lines.append(Text(f"Launch of {clean(match.new, 60)}: {', '.join(match.changes)}"))
        elif match.how in ("added", "removed"):
            lines.append(Text(f"Launch {match.how}: {clean(match.new or match.old, 60)}"))
    for tie in story.rest.ties:
        if tie.link == "launch":
            title, note = "Linked to the launch", f"  of {clean(tie.symbol)}" if tie.symbol else ""
        elif tie.link == "symbol":
            title, note = f"Shared by {tie.together}", f"  linked by {clean(listed(tie.symbols))}"
        elif tie.link == "unknown":
            title, note = "Source unknown", f"  {clean(tie.places)}"
        else:
            title, note = "Elsewhere", f"  ({tie.elsewhere})"
        head = Text(title, style="bold")
        lines += [head.append(note, style="not bold dim"), *_tie(tie), Text()]
    small = _left_out(story.rest.left_out)
    return [*lines, *small, Text()] if story.rest.ties and small else lines


def _occupancy(kernel: str, causes: dict[str, float]) -> Text:
    parts = [f"{name} {signed(value)} points" for name, value in causes.items() if value]
    return Text(f"{clean(kernel, 40)}: {', '.join(parts) or 'no cause alone'}")


def _expectations(story: Story) -> RenderableType:
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


def _learned(story: Story) -> RenderableType:
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
