"""``workbench diff`` on a terminal: the time, sentences, hunks, then counters by group.

It is one module because a screen has one layout: the rows of the sentences decide how many hunks
are shown, and how briefly; ``--all`` and a program's kernels print the same pieces.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.kernels import KernelChange, tells, values_words
from workbench.analysis.listing import CodeClass, CodeDiff, HunkCode
from workbench.analysis.sentence import time_row
from workbench.analysis.story import Step, Story, beyond, excerpt, leading, source_lines, telling
from workbench.analysis.weight import TELLING
from workbench.analysis.wording import Chapter, LeftOut, Row, Tie, silence, title_of
from workbench.counters import catalog
from workbench.language import N_, _, ngettext, told
from workbench.model import Number, Profile
from workbench.units import (
    beside,
    capital,
    count,
    faster,
    lines_changed,
    listed,
    points,
    quantity,
    several,
    when,
)
from workbench.views.terminal.console import (
    BAD,
    DIM,
    GOOD,
    HEAD,
    WARN,
    Drawn,
    Figures,
    Text,
    cut,
    grid,
    heads,
    notes_block,
    padded,
    section,
    stacked,
    tied,
    with_unit,
)

_STYLE = {N_("better"): GOOD, N_("worse"): BAD, N_("changed"): "cyan", "same": DIM, "missing": DIM}
#: The widest column head: as wide as the widest number.
_HEAD = 12
#: The most kernels shown (those whose time changed most), and the most on one screen.
_KERNELS, _FEW_KERNELS = 12, 5
#: Rows of a screen, the limit without --all.
SCREEN = 40
#: The most rows of the author's words, and of warnings, above the hunks.
_CHANGE, _NOTES = 2, 4
#: The fewest rows of a screen for hunks, and for counters.
_HUNK_ROWS, _COUNTER_ROWS = 6, 5
#: Marks of the rule that combined several launches' values: at a counter and above the table.
_MARKS = "¹²³⁴⁵⁶⁷⁸⁹"
#: From this width, two blanks separate columns.
_ROOMY = 76
_KERNEL_NOTE = N_("one launch of each, under the profiler")


#: The maximum number of counters in the table.
_COUNTERS = 12


def diff_view(
    comparison: Comparison,
    title: str = "",
    change: str = "",
    notes: Sequence[str] = (),
    *,
    step: Step | None = None,
    codes: Sequence[HunkCode] | None = None,
    everything: bool = False,
    width: int = 80,
) -> RenderableType:
    """Two profiles: the edits, their effects and places on one screen, then counters.

    `change` is the author's description of the change, `notes` are warnings in addition to those of
    the comparison. Without a `step` there are no hunks and no limit of a screen: all counters that
    moved are shown, by group. With `codes`, the machine code of the hunks, all hunks are shown.
    `everything`: also counters that did not move, and missing ones.
    """
    brief = step is not None and codes is None and not everything
    old, new = comparison.old, comparison.new
    study = new.study or old.study
    head = Text(f"{study}  " if study else "", style=DIM)
    head.append(cut(old.label, 120), style="not dim bold")
    head.append(" → ", style="not dim")
    head.append(cut(new.label, 120), style="not dim bold")
    if title:
        head.append(f"  {title}", style="not dim")
    more = step.story.cause.more if step else None
    # A forced comparison is marked as such before any number; other warnings may come later.
    refused = notes_block(comparison.refusals)
    parts = [*refused[1:], *refused[:1]]
    parts += [*(words_view(step.story) if step else ()), _time(comparison, more), Text()]
    parts += [head, Text(_provenance(comparison), style=DIM)]
    if change:
        said = Text(change, style="italic")
        parts.append(said if everything else _cut_rows(said, width, _CHANGE))
    warnings = [*notes, *comparison.warnings]
    block = notes_block(warnings)
    late = Drawn.height(block, width) > _NOTES
    if late:
        n = len(warnings)
        words = ngettext("{n} warning, below the hunks", "{n} warnings, below the hunks", n)
        parts += notes_block([words.format(n=count(n))])
    else:
        parts += block
    moved = [delta for delta in comparison.counters if delta.moved]
    shown: Sequence[Delta] = moved
    if everything:
        shown = [delta for delta in comparison.counters if delta.verdict != "missing"]
    kernels = _kernels(comparison, width, _FEW_KERNELS if brief else _KERNELS, more)
    extras = (_verdicts if brief else verdicts_view)(step.story) if step else []
    parts, late_notes = Drawn.all(parts, width), Drawn.all(block if late else [], width)
    kernels, extras = Drawn.all(kernels, width), Drawn.all(extras, width)
    below = _uncounted(comparison, len(moved), everything, brief=brief)
    # Above the rows of the table: a blank line, heads, and the rules for several launches.
    top = 2 + any(delta.rule for delta in moved)
    left = SCREEN - Drawn.height([*parts, *late_notes, *kernels, *extras, *below], width) - top
    hunks: list[RenderableType] = []
    if step and brief:
        room = left - min(_COUNTER_ROWS, len(moved))
        hunks = Drawn.all(_brief(step, width, max(room, _HUNK_ROWS)), width)
        shown = _heaviest(step, min(max(left - Drawn.height(hunks, width), 1), _COUNTERS))
    elif step:
        hunks = hunks_view(step.old, step.new, step.story, width=width, codes=codes or ())
    parts += [*hunks, *late_notes, *kernels]
    if shown:
        parts.append(_counters(comparison, shown, width, grouped=not brief))
    parts += extras
    parts += _uncounted(comparison, len(moved) - len(shown), everything, brief=brief)
    return Group(*parts)


def _heaviest(step: Step, most: int) -> Sequence[Delta]:
    """At most `most` counters: those that explain most of the step."""
    weighed = (telling(step.comparison, step.story, step.scale, n) for n in range(most, -1, -1))
    found = next((one for one in weighed if len(one) <= most), ())
    return found or telling(step.comparison, step.story, step.scale, 0)[:most]


def _cut_rows(text: Text, width: int, most: int) -> RenderableType:
    """The first `most` rows, with an ellipsis if there are more."""
    rows = text.wrap(Console(width=width), width)
    if len(rows) <= most:
        return text
    *kept, last = rows[:most]
    last.rstrip()
    if last.cell_len > width - 2:
        last.truncate(len(last.plain.rpartition(" ")[0]))
    return stacked([*kept, last.append(" …")])


def _provenance(comparison: Comparison) -> str:
    problem, where = comparison.both("problem"), comparison.both("device")
    if problem:
        where = _("{problem} on {device}").format(problem=problem, device=where)
    before, after = (when(side.captured) for side in (comparison.old, comparison.new))
    # Two times on one day name the day once: "2026-11-21 12:46 and 12:47 UTC".
    same_day = before[:11] == after[:11] and before != after
    if same_day and before.endswith(" UTC"):
        before, after = before.removesuffix(" UTC"), after[11:]
    captured = listed(list(dict.fromkeys((before, after))))
    return _("{where}, captured {when} by {engine}").format(
        where=where, when=captured, engine=_(comparison.both("engine"))
    )


def _time(comparison: Comparison, more: str | None) -> RenderableType:
    row = time_row(comparison, more)
    if row is None:
        no_time = _("No time: neither a timing nor a duration on both sides")
        return Text(_("No overall time") if comparison.partial else no_time, style=DIM)
    tone = "" if row.good is None else f" {GOOD if row.good else BAD}"
    text = Text().append(row.words, style=f"bold{tone}").append(f"  {row.times}")
    return text.append(f"  {row.note}", style=DIM)


def _kernels(
    comparison: Comparison, width: int, most: int, more: str | None
) -> list[RenderableType]:
    """The comparison of launches, and a row for each kernel; empty for one launch on each side."""
    kernels = comparison.kernels
    brief = most == _FEW_KERNELS
    words = [Text(each, style=DIM) for each in comparison.launch_words]
    if brief and len(kernels) > 1:  # the rows show the rest
        words = words[: any(kernel.uneven for kernel in kernels)]
    words = [Text(), *words] if words else []
    if not tells(kernels, times_alone=brief):
        return [*words]
    ordered = sorted(kernels, key=lambda k: (-abs(k.matched * (k.in_all_s or 0)), -k.weight))
    table = Figures("lnnnt", width - 2, longest=60)
    least = TELLING * max(sum(k.old_s or 0 for k in kernels), sum(k.new_s or 0 for k in kernels))
    for kernel in ordered[:most]:
        table.add(*_kernel(kernel, least, more))
    values = () if brief else ordered[:most]
    below = [Text(text, style=DIM) for k in values if (text := values_words(k))]
    if len(ordered) > most:
        below.append(Text(several(len(ordered) - most, "more kernel"), style=DIM))
    return [*words, section(_("Kernels"), Group(table.table(), *below), _(_KERNEL_NOTE))]


def _kernel(kernel: KernelChange, least: float, more: str | None) -> list[Text]:
    """One kernel's row. A change of less than `least` seconds is not judged."""
    change = Text()
    if not kernel.matched:
        change = Text(_("removed") if kernel.samples[0] else _("added"))
    elif kernel.old_s and kernel.new_s and not kernel.moved:
        change = Text(_("same time"), style=DIM)
    elif kernel.old_s and kernel.new_s and abs(kernel.new_s - kernel.old_s) >= least:
        speedup = kernel.old_s / kernel.new_s
        change = Text(faster(speedup, more and ""))
        change.stylize("" if more is not None else GOOD if speedup >= 1 else BAD)
    return [
        Text(kernel.name),
        Text(kernel.times, style=DIM),
        Text(quantity(kernel.old_s, "s") if kernel.samples[0] else ""),
        Text(quantity(kernel.new_s, "s") if kernel.samples[1] else ""),
        change,
    ]


def _counters(
    comparison: Comparison, shown: Sequence[Delta], width: int, *, grouped: bool
) -> RenderableType:
    wide = width >= 100
    table = Figures(
        "Lnnnntt" if wide else "Lnnnt", width, padding=2 if width >= _ROOMY else 1, longest=40
    )
    rules = list(dict.fromkeys(delta.rule for delta in shown if delta.rule))
    marks = dict(zip(rules, _MARKS, strict=False)) if len(rules) > 1 else {}
    labels = [side.label for side in (comparison.old, comparison.new)]
    kernels = [label.rpartition("::")[2] for label in labels]
    labels = kernels if len(set(kernels)) > 1 else labels
    heading = ["", *heads((labels[0], labels[1]), _HEAD), _("change")]
    table.head(*(Text(each, style=DIM) for each in heading))
    group = ""
    for delta in shown:
        if grouped and delta.group != group:
            group = delta.group
            table.add(Text(_(catalog().groups[group]), style=HEAD))
        table.add(*_row(delta, marks.get(delta.rule, ""), wide))
    said = [f"{marks.get(rule, '')} {rule}".strip() for rule in rules]
    words = _("Of several launches: {rules}").format(rules=_("; ").join(said))
    legend = [Text(words, style=DIM)] if said else []
    return Group(Text(), *legend, table.table())


def _row(delta: Delta, mark: str, wide: bool) -> list[Text]:
    style = _STYLE[delta.verdict]
    difference, share = Text(delta.difference, style=style), Text(delta.ratio, style=style)
    name = Text(f"  {_(delta.title)}{mark}", style="" if delta.moved else DIM)
    values = [Text(quantity(value, delta.unit)) for value in (delta.old, delta.new)]
    verdict = Text(_(delta.verdict) if delta.moved else "", style=style)
    if not wide:
        # There is no space for both: the relative change is more useful, except from zero, or if it
        # rounds to zero although an exact counter moved.
        small = share.plain in ("", "—") or (share.plain == "±0%" and delta.moved)
        return [name, *values, difference if small else share, verdict]
    return [name, *values, difference, share, Text(beside(delta.unit), style=DIM), verdict]


def _uncounted(
    comparison: Comparison, hidden: int, everything: bool, *, brief: bool
) -> list[RenderableType]:
    """Counters that are not in the table: their number, and the names of missing ones."""
    counters = comparison.counters
    gone = [
        delta
        for delta in counters
        if delta.verdict == "missing" and (delta.old is None) != (delta.new is None)
    ]
    nowhere = sum(delta.old is None and delta.new is None for delta in counters)
    same = sum(delta.verdict == "same" for delta in counters)
    moved = ngettext("{n} more counter moved", "{n} more counters moved", hidden)
    words = [moved.format(n=count(hidden))] if hidden > 0 and not everything else []
    if brief:
        text = _("; ").join([*words, _("--all shows all hunks, counters and predictions.")])
        return [Text(text, style=DIM)]
    parts: list[RenderableType] = []
    if gone:
        table = grid("l", "f")
        for delta in gone:
            known = f"{with_unit(delta.old, delta.unit)} → {with_unit(delta.new, delta.unit)}"
            table.add_row(_(delta.title), Text(f"{known}  {told(delta.reason)}", style=DIM))
        parts.append(section(_("Known on one side only"), table))
    if not everything:
        still = ngettext("{n} counter did not move", "{n} counters did not move", same)
        words.append(still.format(n=count(same)))
    if nowhere:
        neither = ngettext("{n} is in neither profile", "{n} are in neither profile", nowhere)
        words.append(neither.format(n=count(nowhere)))
    if words:
        text = _("; ").join(words)
        text += _(".") if everything else _("; --all shows everything.")
        parts += [Text(), Text(text, style=DIM)]
    return parts


# --- the first screen -------------------------------------------------------------------------

_BRIEF_HUNKS = 3
#: The fewest and the most rows of code of a hunk.
_LEAST_ROWS, _MOST_ROWS = 2, 8
_SHARE = 0.005  # the least share of a counter's change that has a percentage
_SYMBOLS = 3  # per link


class _Room(NamedTuple):
    """The most links of a hunk to show, counters of a link, and links without a hunk."""

    links: int
    counters: int
    others: int


_ROOMS = (_Room(2, 2, 2), _Room(1, 2, 2), _Room(1, 1, 1), _Room(1, 0, 0))


def _brief(step: Step, width: int, rows: int) -> list[RenderableType]:
    """The hunks that matter, in at most `rows` rows if possible."""
    old, new, story = step.old, step.new, step.story
    inner = width - 2
    # Fit as many hunks as possible first, then as many words.
    for most, detail in itertools.product(range(_BRIEF_HUNKS, 0, -1), _ROOMS):
        chapters = leading(story)[:most]
        words = [_words(chapter, story, detail) for chapter in chapters]
        below = _below(story, len(story.chapters) - len(chapters), detail)
        # A heading with a blank line above it, and every hunk's heading.
        free = rows - 2 - len(chapters) * (1 + _LEAST_ROWS)
        free -= Drawn.height([*words, *below], inner)
        if free >= 0:
            break
    code = min(_MOST_ROWS, _LEAST_ROWS + max(free, 0) // max(len(chapters), 1))
    named = len(old.sources) > 1 or len(new.sources) > 1
    blocks: list[RenderableType] = [] if chapters else _launches(story)
    for chapter, said in zip(chapters, words, strict=True):
        before, after = excerpt(chapter, code, (old, new))
        file = PurePosixPath(chapter.hunk.new_file or chapter.hunk.old_file).name if named else ""
        blocks += [
            hunk_head(chapter, file, inner),
            *code_rows(old, chapter.hunk.old_file, before, "-", inner),
            *code_rows(new, chapter.hunk.new_file, after, "+", inner),
            said,
        ]
    blocks += below
    every = len(story.chapters)
    of = (
        ngettext("{shown} of {n} hunk", "{shown} of {n} hunks", every)
        if every > len(chapters)
        else ""
    )
    of = of.format(shown=len(chapters), n=count(every))
    return [section(_("What changed"), Group(*blocks), of)] if blocks else []


def _below(story: Story, hidden: int, detail: _Room) -> list[RenderableType]:
    """Links that no hunk explains, and the number of hunks that are not shown."""
    out: list[RenderableType] = [
        _link(capital(_what(tie)), tie, detail.counters) for tie in beyond(story, detail.others)
    ]
    if hidden:
        more = ngettext(
            "{n} more hunk: --all shows every hunk with all its links.",
            "{n} more hunks: --all shows every hunk with all its links.",
            hidden,
        )
        out.append(Text(more.format(n=count(hidden)), style=DIM))
    if not story.chapters and story.quiet_words:
        out.append(Text(story.quiet_words, style=DIM))
    return [*out, *(Text(word, style=WARN) for word in story.attribution.words)]


def _words(chapter: Chapter, story: Story, detail: _Room) -> RenderableType:
    """The links of a hunk: time and the heaviest counters, one or two lines per link."""

    def seconds(tie: Tie) -> float:
        return abs(tie.time.delta_s) if tie.time is not None else 0.0

    heaviest = sorted(chapter.ties, key=seconds, reverse=True)[: detail.links]
    lines = [_link(_what(tie), tie, detail.counters) for tie in heaviest]
    silent = silence(story.attribution)
    return Padding(Group(*(lines or [Text(silent, style=DIM)])), (0, 0, 0, 2))


def _what(tie: Tie) -> str:
    return tie.title.sentence(most=_SYMBOLS)


def _link(title: str, tie: Tie, counters: int) -> Text:
    """A link in one or two lines; up to `counters` of its counters, at least one without a time."""
    kept = 1 + counters if tie.time is not None else 1
    text = Text(_("{title}: ").format(title=title))
    text.append_text(Text(_(", ")).join(map(_phrase, tie.rows[:kept])))
    return tied(text)


def _phrase(row: Row) -> Text:
    text = Text(f"{row.phrase} ").append(row.amount, style=_tone(row))
    text.append(f" {row.margin}" * bool(row.margin))
    along = [one for one in row.stalls if one.delta * row.delta > 0]
    for stall in along[:1]:
        text.append(f" ({stall.phrase} {stall.amount})", style=DIM)
    if (row.share or 0) >= _SHARE:
        text.append(f" ({row.of_it})", style=DIM)
    return text


def _tone(row: Row) -> str:
    return "" if row.good is None else GOOD if row.good else BAD


# --- every hunk -------------------------------------------------------------------------------

#: From this width, the counters are beside the code, else under it.
BESIDE = 110
_CODE_LINES = 14  # per side of a hunk
_NAMES = 6  # changed names per hunk
_HUNKS = 12  # hunks shown although they have no effect
_NUMBERS = 64  # columns for a number with its title and its text
_VERDICT = {N_("confirmed"): GOOD, N_("refuted"): BAD, N_("inconclusive"): WARN}
_TALLY = {
    "confirmed": N_("{n} confirmed"),
    "refuted": N_("{n} refuted"),
    "inconclusive": N_("{n} inconclusive"),
}


def words_view(story: Story) -> list[RenderableType]:
    """The first words about a step: the sentence, with the contents of the pages' strip."""
    return [tied(Text(story.sentence))] if story.sentence else []


def hunks_view(
    old: Profile, new: Profile, story: Story, *, width: int = 80, codes: Sequence[HunkCode] = ()
) -> list[RenderableType]:
    """Every hunk with its links, and links that no hunk explains: a section, or nothing.

    `codes` adds the machine code of each, if it should be shown.
    """
    blocks: list[RenderableType] = []
    shown = [each for n, each in enumerate(story.chapters) if n < _HUNKS or each.ties]
    for chapter in shown:
        blocks += [_hunk(old, new, story, chapter, width), *machine_lines(codes, chapter.hunk.id)]
        blocks.append(Text())
    if hidden := len(story.chapters) - len(shown):
        words = _("{hunks}: {silent}; --format json has all.").format(
            hunks=several(hidden, "more hunk"), silent=silence(story.attribution, hidden)
        )
        blocks += [Text(words, style=DIM), Text()]
    blocks += _rest(story)
    if story.quiet:
        blocks.append(Text(story.quiet_words, style=DIM))
    blocks += [Text(word, style=WARN) for word in story.attribution.words]
    while blocks and isinstance(blocks[-1], Text) and not blocks[-1].plain:
        blocks.pop()
    return [section(_("What changed, and what it is linked to"), Group(*blocks))] if blocks else []


def _verdicts(story: Story) -> list[RenderableType]:
    """Predictions in a sentence: how many were confirmed, and which were not."""
    if not story.expectations:
        return []
    tally = Counter[str](judgement.verdict for judgement in story.expectations)
    said = Text(listed([_(_TALLY[each]).format(n=tally[each]) for each in _VERDICT if tally[each]]))
    text = Text(_("Predicted: "), style=HEAD).append_text(said)
    wrong = [
        f"{title_of(judgement.counter)} {judgement.expected}{_(', ')}{judgement.observed}"
        for judgement in story.expectations
        if judgement.verdict == "refuted"
    ]
    text.append(f" ({_('; ').join(wrong)})" if wrong else "", style=DIM)
    return [Text(), tied(text)]


def verdicts_view(story: Story) -> list[RenderableType]:
    """Sections about verdicts: occupancy's causes, predictions, and the lessons from them."""
    out: list[RenderableType] = []
    lines = [_occupancy(split.kernel, split.causes) for split in story.occupancy if split.delta]
    if lines:
        out.append(section(_("Theoretical occupancy, by cause"), Group(*lines)))
    if story.expectations:
        out.append(section(_("Predicted and measured"), _expectations(story)))
    learned = [
        Text(f"{title_of(judgement.counter)}: {judgement.learned}")
        for judgement in story.expectations
        if judgement.learned
    ]
    return [*out, section(_("Learned"), Group(*learned))] if learned else out


def _hunk(old: Profile, new: Profile, story: Story, chapter: Chapter, width: int) -> RenderableType:
    hunk = chapter.hunk
    named = len(old.sources) > 1 or len(new.sources) > 1
    head = hunk_head(chapter, (hunk.new_file or hunk.old_file) if named else "", width)
    wide = width >= BESIDE
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
    """A hunk's number, its lines, and as many of its changed names as fit."""
    hunk = chapter.hunk
    head = Text(_("Hunk {n}").format(n=hunk.id), style="bold")
    place = f"  {file}" if file else ""
    head.append(f"{place}  {lines_changed(hunk.old, hunk.new)}", style="not bold dim")
    if hunk.kind == "moved":
        head.append(f"  {_('moved')}", style="not bold cyan")
    names = list(chapter.symbols[:_NAMES])
    more_names = len(chapter.symbols) > len(names)
    while names:
        said = _("  changes {names}").format(names=", ".join(names) + " …" * more_names)
        if head.cell_len + cell_len(said) <= width:
            return head.append(said, style="not bold magenta")
        names, more_names = names[:-1], True
    return head


def code_rows(
    profile: Profile, path: str, lines: tuple[int, int], mark: str, width: int
) -> list[Text]:
    """Lines of one side with their numbers; empty if the profile lacks the file's text."""
    every = source_lines(profile, path)
    style = BAD if mark == "-" else GOOD
    out = []
    shown = range(lines[0], min(lines[1], len(every)) + 1)
    for number in shown:
        line = cut(every[number - 1], 4 * width)
        row = Text(f"{number:>5} ", style=DIM, no_wrap=True, overflow="ellipsis")
        row.append(f"{mark} {line}", style=f"not dim {style}")
        row.truncate(width, overflow="ellipsis")
        out.append(row)
    return out


def _code(profile: Profile, path: str, lines: tuple[int, int], mark: str, width: int) -> list[Text]:
    """The first lines of a hunk on one side, and the number of the others."""
    first, last = lines
    out = code_rows(profile, path, (first, min(last, first + _CODE_LINES - 1)), mark, width)
    hidden = last - first + 1 - len(out)
    if hidden > 0 and out:
        out.append(Text(f"      {mark} … {several(hidden, 'more line')}", style=DIM))
    return out


def _numbers(tie: Tie) -> list[Text]:
    """Time and counters of one link."""
    rows: list[Text] = []
    for row in tie.rows:
        text = Text(f"    {padded(row.title, 26)}", style=DIM * bool(row.margin))
        text.append(f"{row.amount:>10}", style=f"not dim {_tone(row)}".rstrip())
        rows.append(text.append(f" {row.margin}" * bool(row.margin), style=DIM))
        text.append(f"  {row.of_it}" * bool(row.of_it), style=DIM)
        for stall in row.stalls:
            title = f"      {padded(stall.title, 24)}"
            rows.append(Text(f"{title}{stall.amount:>10}", style=DIM))
    return rows


def _linked(chapter: Chapter, silent: str) -> RenderableType:
    """The links of one hunk: its own lines first, then symbol by symbol."""
    lines: list[RenderableType] = []
    for tie in chapter.ties:
        style = "magenta" if tie.title.names else ""
        lines += [Text(f"  {tie.title.sentence()}", style=style), *_numbers(tie)]
    return Group(*(lines or [Text(f"  {silent}", style=DIM)]))


def _left_out(left: LeftOut) -> list[Text]:
    return [Text(f"  {left.words}", style=DIM)] if left.words else []


def _launches(story: Story) -> list[RenderableType]:
    """Changes of launches: grid, block, flags, definitions."""
    told = (launch.words(lambda name: cut(name, 60)) for launch in story.launches)
    return [Text(capital(each)) for each in told]


def _rest(story: Story) -> list[RenderableType]:
    """Links without a hunk: launches, and unexplained changes."""
    lines = _launches(story)
    for tie in story.rest.ties:
        head = Text(capital(tie.title.head), style="bold")
        head.append(f"  {tie.title.tail}", style="not bold dim")
        lines += [head, *_numbers(tie), Text()]
    small = _left_out(story.rest.left_out)
    return [*lines, *small, Text()] if story.rest.ties and small else lines


def _occupancy(kernel: str, causes: dict[str, float]) -> Text:
    parts = [f"{_(name)} {points(value)}" for name, value in causes.items() if value]
    return Text(f"{cut(kernel, 40)}: {_(', ').join(parts) or _('no single cause')}")


def _expectations(story: Story) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=34)
    for __ in range(3):
        table.add_column(overflow="fold")
    for judgement in story.expectations:
        words = title_of(judgement.counter), judgement.expected, judgement.observed
        verdict = Text(_(judgement.verdict), style=_VERDICT[judgement.verdict])
        table.add_row(*map(Text, words), verdict)
    return table


# --- machine code -----------------------------------------------------------------------------

_CLASSES = 8  # per hunk
_STAND_INS = 4
#: The least part of the hunk's time for a class to have a number.
_LEAST_TIME = 0.01


def machine_lines(codes: Sequence[HunkCode], hunk: int) -> list[Text]:
    """Lines for one hunk; empty without machine code."""
    many = len({one.code.kernel for one in codes}) > 1
    own = [one.code for one in codes if one.hunk == hunk]
    return [line for code in own for line in _machine(code, code.kernel if many else "")]


def _machine(code: CodeDiff, kernel: str) -> list[Text]:
    old, new = code.old, code.new
    title = _("  machine code of {kernel}: ") if kernel else _("  machine code: ")
    counts = _("{old:,} → {new:,} instructions, {before} → {after} registers live").format(
        old=old.instructions, new=new.instructions, before=old.live, after=new.live
    )
    out = [Text(title.format(kernel=cut(kernel, 40)), style="cyan").append(counts, "not cyan")]
    stand_ins = [f"{one.old} → {one.new} ({one.rows:,}×)" for one in code.replaced[:_STAND_INS]]
    out += [Text(f"    {words}") for words in stand_ins]
    telling = [one for one in code.classes if one.old != one.new]
    if telling:
        head = padded(_("instructions × issues"), 32)
        out.append(Text(f"    {'':<17}{head}  {_('to blame for')}", style=DIM))
    least = _LEAST_TIME * max(old.seconds, new.seconds)
    out += [_class(one, least) for one in telling[:_CLASSES]]
    if len(telling) > _CLASSES:
        out.append(Text(f"    {several(len(telling) - _CLASSES, 'more opcode')}", style=DIM))
    return out


def _class(one: CodeClass, least: float) -> Text:
    row = Text(f"    {cut(one.name, 16):<17}")
    row.append(f"{_side(one.old)} → {_side(one.new)}")
    if max(one.old[2], one.new[2]) >= least > 0:
        row.append(f"   {_seconds(one.old[2])} → {_seconds(one.new[2])}", style=DIM)
    return row


def _side(side: tuple[int, Number, float]) -> str:
    issued = quantity(side[1], "inst").split(" inst")[0]
    return f"{side[0]:>4,} × {issued:>7}" if side[0] else f"{'—':>14}"


def _seconds(value: float) -> str:
    return quantity(value, "s") if value else "0"
