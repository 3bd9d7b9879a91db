"""The first screen of ``workbench diff``: the hunks that matter, as short as they can be said.

`hunks` prints every hunk with every link, for ``--all``; this fits into the rows that are left.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from workbench.analysis.digest import beyond, excerpt, leading
from workbench.analysis.stalls import stall_words
from workbench.analysis.story import Chapter, Fact, Story, Tie, silence
from workbench.analysis.weight import WELL
from workbench.counters import catalog
from workbench.model import Profile
from workbench.units import listed, quantity, several, signed
from workbench.views.terminal.console import BAD, DIM, GOOD, WARN, clean, height, section, tied
from workbench.views.terminal.hunks import code_rows, hunk_head, quiet_words
from workbench.views.text.tables import more

_HUNKS = 3
#: Rows of code that a hunk has at least, and at most.
_LEAST, _MOST = 2, 8
_SHARE = 0.005  # of a counter's change that is worth a percentage
_SYMBOLS = 3  # of one link


class _Room(NamedTuple):
    """How many links of a hunk are told, counters of a link, and links of no hunk."""

    links: int
    counters: int
    others: int


_ROOMS = (_Room(2, 2, 2), _Room(1, 2, 2), _Room(1, 1, 1), _Room(1, 0, 0))


def brief_view(
    old: Profile, new: Profile, story: Story, *, width: int = 80, rows: int = 24
) -> list[RenderableType]:
    """The hunks that matter, in as few as `rows` rows where that can be done.

    Args:
        old: The old profile, for its source text.
        new: The new profile.
        story: The step, explained.
        width: Columns of the terminal.
        rows: What is left of the screen.
    """
    chapters = leading(story)[:_HUNKS]
    inner = width - 2
    # A heading with a blank above it, and every hunk's own: then words as rich as there is room.
    left = rows - 2 - len(chapters) * (1 + _LEAST)
    for detail in _ROOMS:
        words = [_words(chapter, story, detail) for chapter in chapters]
        below = _below(story, len(story.chapters) - len(chapters), detail)
        free = left - sum(height(one, inner) for one in (*words, *below))
        if free >= 0:
            break
    code = min(_MOST, _LEAST + max(free, 0) // max(len(chapters), 1))
    named = len(old.sources) > 1 or len(new.sources) > 1
    blocks: list[RenderableType] = []
    for chapter, said in zip(chapters, words, strict=True):
        before, after = excerpt(chapter, code)
        file = PurePosixPath(chapter.hunk.new_file or chapter.hunk.old_file).name if named else ""
        blocks += [
            hunk_head(chapter, file, inner),
            *code_rows(old, chapter.hunk.old_file, before, "-", inner),
            *code_rows(new, chapter.hunk.new_file, after, "+", inner),
            said,
        ]
    blocks += below
    every = several(len(story.chapters), "hunk")
    of = f"{len(chapters)} of {every}" if len(story.chapters) > len(chapters) else ""
    return [section("What changed", Group(*blocks), of)] if blocks else []


def _below(story: Story, hidden: int, detail: _Room) -> list[RenderableType]:
    """What no hunk explains, and what is not shown."""
    out: list[RenderableType] = []
    for tie in beyond(story, detail.others):
        title = {
            "launch": _launch(tie),
            "symbol": f"Shared by {tie.together}, linked by {_names(tie)}",
            "unknown": f"Source unknown{', ' if tie.places else ''}{tie.places}",
        }.get(tie.link, f"Elsewhere ({tie.elsewhere})")
        out.append(_link(title, tie, detail.counters))
    words = [f"{more(hidden, 'hunk')}: --all shows every hunk with all its links."] * bool(hidden)
    words += [quiet_words(story.quiet)] * bool(story.quiet and not story.chapters)
    out += [Text(word, style=DIM) for word in words]
    return [*out, *(Text(clean(word), style=WARN) for word in story.attribution.words)]


def _launch(tie: Tie) -> str:
    """``The launch of split_rows, removed``."""
    whose = f" of {_names(tie)}" if tie.symbols else ""
    return f"The launch{whose}{f', {tie.note}' if tie.note in ('added', 'removed') else ''}"


def _words(chapter: Chapter, story: Story, detail: _Room) -> RenderableType:
    """What a hunk is linked to: its time and its heaviest counters, a line or two a link."""
    lines: list[RenderableType] = [
        _link(
            "on its own lines" if tie.link == "hunk" else f"linked by {_names(tie)}",
            tie,
            detail.counters,
        )
        for tie in sorted(chapter.ties, key=_seconds, reverse=True)[: detail.links]
    ]
    silent = silence(story.attribution)
    return Padding(Group(*(lines or [Text(silent, style=DIM)])), (0, 0, 0, 2))


def _names(tie: Tie) -> str:
    return clean(listed(tie.symbols, _SYMBOLS))


def _seconds(tie: Tie) -> float:
    return abs(tie.time.delta_s) if tie.time is not None else 0.0


def _link(title: str, tie: Tie, counters: int) -> Text:
    row = Text(f"{title}: ")
    parts: list[Text] = []
    if tie.time is not None:
        part = tie.time
        text = Text("time ").append(
            signed(part.delta_s, "s"), style=GOOD if part.delta_s < 0 else BAD
        )
        error = max(part.high_s - part.delta_s, part.delta_s - part.low_s)
        text.append(f" ±{quantity(error, 's')}")
        along = [s for s in tie.stalls if s.delta_s * part.delta_s > 0 and s.stall not in WELL]
        for stall in along[:1]:
            phrase = clean(stall_words(stall.stall))
            text.append(f" ({phrase} {signed(stall.delta_s, 's')})", style=DIM)
        parts.append(text)
    parts += [_fact(fact) for fact in tie.facts[: counters if parts else 1]]
    return tied(row.append_text(Text(", ").join(parts)))


def _fact(fact: Fact) -> Text:
    style = "" if fact.good is None else GOOD if fact.good else BAD
    text = Text(f"{catalog()[fact.split.id].phrase} ")
    text.append(signed(fact.part.delta, fact.split.unit), style=style)
    share = fact.of_change
    if share is None or share < _SHARE:
        return text
    return text.append(" (all of it)" if share == 1 else f" ({100 * share:.0f}% of it)", style=DIM)
