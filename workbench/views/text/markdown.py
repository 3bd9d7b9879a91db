"""Comments on a merge request: ``workbench diff v2 v3 --format markdown``.

A comment has the step's sentence, then the time, the counters that moved, the predictions, and the
code with its links. Everything that comes from a kernel, a report or a person is text: a name
cannot make a table cell, a hidden link, a mention or an element, and a source line cannot end its
code block. The comment stays within GitHub's limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench import __version__
from workbench.analysis.compare import Comparison, Delta, Side
from workbench.analysis.kernels import KERNELS_HEAD, kernel_rows
from workbench.analysis.sentence import line, time_row
from workbench.analysis.story import Story, source_lines
from workbench.analysis.wording import Chapter, Row, Tie, silence, title_of
from workbench.language import N_, _, ngettext, told
from workbench.model import Profile
from workbench.units import capital, count, lines_changed, quantity, several
from workbench.views.text.escaping import code, fenced, inline, paragraph, sentence, whole_line

#: GitHub refuses a comment of more than 65,536 characters; this leaves room for the rest.
LIMIT = 60_000
_ROWS = 15  # unfolded rows of counters
_LINES = 24  # per side of a hunk
_WIDTH = 160  # characters of a source line
_NAMES = 6  # changed names per hunk


def step_markdown(
    old: Profile,
    new: Profile,
    comparison: Comparison,
    story: Story,
    title: str = "",
    change: str = "",
    notes: Sequence[str] = (),
) -> str:
    """The comment on two profiles, from the results of `compare` and `explain`.

    `title` is the new version's, `change` its author's description of the change; `notes` must
    accompany every number, such as that a side is stale.
    """
    more = story.cause.more
    blocks = [
        f"**{inline(line(story.strip))}**",
        sentence(story.sentence),
        _time(comparison, more),
        _author(title, change),
        _warnings(comparison, notes),
        _kernels(comparison, more),
        _counters(comparison),
        _expectations(story),
    ]
    last = [_rest(story), _provenance(comparison)]
    room = LIMIT - sum(len(block) + 2 for block in (*blocks, *last) if block)
    blocks += _hunks(old, new, story, room)
    return "\n\n".join(filter(None, [*blocks, *last])) + "\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are Markdown already: `inline` text, in which a pipe is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _time(comparison: Comparison, more: str | None) -> str:
    row = time_row(comparison, more)
    return f"{row.times}: **{row.words}**, {row.note}" if row else ""


def _author(title: str, change: str) -> str:
    words = [f"**{inline(title)}**" if title.strip() else "", inline(change)]
    return _(": ").join(word for word in words if word)


def _warnings(comparison: Comparison, notes: Sequence[str]) -> str:
    said = (*comparison.refusals, *notes, *comparison.warnings)
    return "\n>\n".join(f"> {paragraph(told(text))}" for text in said)


def _kernels(comparison: Comparison, more: str | None) -> str:
    """The comparison of launches, and a row for each kernel."""
    said = " ".join(comparison.launch_words)
    words = whole_line(inline(said)) if said else ""
    rows = [tuple(map(inline, row)) for row in kernel_rows(comparison.kernels, more)]
    table = _table(tuple(map(_, KERNELS_HEAD)), rows[:_ROWS]) if rows else ""
    rest = several(len(rows) - _ROWS, "more kernel") if len(rows) > _ROWS else ""
    return "\n\n".join(filter(None, (words, table, rest)))


def _counters(comparison: Comparison) -> str:
    moved = [delta for delta in comparison.counters if delta.moved]
    if not moved:
        return _("No counter moved beyond its noise.")
    header = (_("counter"), *(inline(s.label) for s in (comparison.old, comparison.new)))
    header = (*header, _("change"), _("verdict"))
    # A reviewer judges counters that got better or worse; the rest is for reference.
    judged = [delta for delta in moved if delta.verdict in ("better", "worse")][:_ROWS]
    folded = [delta for delta in moved if delta not in judged]
    table = _table(header, map(_row, judged)) if judged else ""
    if not folded:
        return table
    summary = several(len(folded), "more counter")
    if judged:
        summary = ngettext(
            "{n} more counter that moved", "{n} more counters that moved", len(folded)
        )
        summary = summary.format(n=count(len(folded)))
    details = collapsed(summary, _table(header, map(_row, folded)) + "\n").rstrip()
    return "\n\n".join(filter(None, (table, details)))


def _row(delta: Delta) -> tuple[str, ...]:
    change = f"{delta.difference} {delta.ratio}".rstrip()
    values = (quantity(delta.old, delta.unit), quantity(delta.new, delta.unit))
    return (inline(_(delta.title)), *values, change, _(delta.verdict))


def _expectations(story: Story) -> str:
    if not story.expectations:
        return ""
    rows = [
        (
            inline(title_of(judgement.counter)),
            inline(judgement.expected),
            inline(judgement.observed),
            _("confirmed") if judgement.verdict == "confirmed" else f"**{_(judgement.verdict)}**",
            inline(judgement.reason or judgement.why),
        )
        for judgement in story.expectations
    ]
    header = N_("predicted"), N_("change"), N_("measured"), N_("verdict"), N_("why")
    table = _table(tuple(map(_, header)), rows)
    learned = "\n".join(
        f"- {inline(title_of(judgement.counter))}: {inline(judgement.learned)}"
        for judgement in story.expectations
        if judgement.learned
    )
    return f"{table}\n\n{_('Learned:')}\n\n{learned}" if learned else table


def _provenance(comparison: Comparison) -> str:
    both = comparison.both
    captured = map(_captured, (comparison.old, comparison.new))
    where = both("device")
    if problem := both("problem"):
        where = _("{problem} on {device}").format(problem=problem, device=where)
    if study := both("study"):
        where = f"{study}{_(': ')}{where}"
    text = _("{where}, by {engine}; {captured}").format(
        where=where, engine=_(both("engine")), captured=_(", ").join(captured)
    )
    return f"<sub>{inline(text)}; workbench {__version__}</sub>"


def _captured(side: Side) -> str:
    when = side.captured.replace("T", " ").replace("Z", " UTC") or _("at an unknown time")
    return _("{name} captured {when}").format(name=side.label, when=when)


def _hunks(old: Profile, new: Profile, story: Story, room: int) -> list[str]:
    """The hunks with as much of their code as fits; numbers have priority over code."""
    silent = capital(silence(story.attribution))
    told = [f"{_head(chapter)}\n\n{_linked(chapter, silent)}" for chapter in story.chapters]
    room -= sum(len(block) + 2 for block in told)
    while room < 0 and told:
        room += len(told.pop()) + 2
    out: list[str] = []
    for chapter, brief in zip(story.chapters, told, strict=False):
        block = "\n\n".join([_head(chapter), _code(old, new, chapter), _linked(chapter, silent)])
        fits = len(block) - len(brief) <= room
        room -= len(block) - len(brief) if fits else 0
        out.append(block if fits else brief)
    left = len(story.chapters) - len(told)
    words = ngettext(
        "{n} more hunk: too long for a comment.", "{n} more hunks: too long for a comment.", left
    )
    return [*out, words.format(n=count(left))] if left else out


def _head(chapter: Chapter) -> str:
    hunk = chapter.hunk
    parts = [f"**{_('Hunk {n}').format(n=count(hunk.id))}**", lines_changed(hunk.old, hunk.new)]
    if hunk.kind == "moved":
        parts.append(_("moved"))
    if chapter.symbols:
        names = ", ".join(map(code, chapter.symbols[:_NAMES]))
        names += " …" * (len(chapter.symbols) > _NAMES)
        parts.append(_("changes {names}").format(names=names))
    return _(", ").join(parts)


def _code(old: Profile, new: Profile, chapter: Chapter) -> str:
    hunk = chapter.hunk
    where = hunk.new_file or hunk.old_file
    lines = [
        f"@@ {where} @@" if where else "@@ @@",
        *_side(old, hunk.old_file, hunk.old, "-"),
        *_side(new, hunk.new_file, hunk.new, "+"),
    ]
    return fenced(lines, "diff")


def _side(profile: Profile, path: str, lines: tuple[int, int], mark: str) -> list[str]:
    every = source_lines(profile, path)
    first, last = lines
    shown = range(first, min(last, first + _LINES - 1, len(every)) + 1)
    texts = [every[number - 1] for number in shown]
    out = [mark + (line if len(line) <= _WIDTH else f"{line[:_WIDTH]} …") for line in texts]
    hidden = last - first + 1 - len(shown)
    if hidden > 0 and shown:
        out.append(f"{mark} … {several(hidden, 'more line')}")
    return out


def _linked(chapter: Chapter, silent: str) -> str:
    """A list: the hunk's own lines first, then symbol by symbol."""
    left = chapter.left_out.words
    if not chapter.ties:
        return _("; ").join(filter(None, (silent, left))) + _(".")
    return "\n".join([*map(_link, chapter.ties), *([f"- {left}"] if left else [])])


def _link(tie: Tie) -> str:
    """One link with its time and counters, in words."""
    return f"- {tie.title.sentence(code)}{_(': ')}{_('; ').join(map(_number, tie.rows))}"


def _number(row: Row) -> str:
    if row.margin:
        text = _("{amount} {margin} of {what}").format(
            amount=row.amount, margin=row.margin, what=row.title
        )
        return _(", ").join([text, *(f"{stall.title} {stall.amount}" for stall in row.stalls)])
    text = f"{inline(row.title)} {row.amount}"
    return _(", ").join(part for part in (text, row.of_it, row.where) if part)


def _rest(story: Story) -> str:
    """Changes that no hunk explains alone: launches, shared parts, the compiler, noise."""
    changed = sorted(story.launches, key=lambda launch: bool(launch.how))
    items = [f"- {launch.words(code)}" for launch in changed]
    items += [_link(tie) for tie in story.rest.ties]
    if story.rest.ties and story.rest.left_out.words:
        items.append(f"- {story.rest.left_out.words}")
    items += [f"- {inline(word)}" for word in story.attribution.words]
    return _("Not linked to a single hunk:") + "\n\n" + "\n".join(items) if items else ""


def collapsed(title: str, text: str) -> str:
    """A text that is folded under its title."""
    # The blank lines let Markdown begin again inside the element.
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"
