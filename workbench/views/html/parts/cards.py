"""The hunks of a step as cards: ranked, named by their code, with what they are linked to.

How many stand open, and how many are folded together, is a matter of the room that a reader
has; their order is the story's.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from workbench import units
from workbench.analysis.digest import excerpt, leading
from workbench.analysis.step import Step
from workbench.analysis.story import Chapter
from workbench.model import Record
from workbench.views.html.code.hunks import DiffCode
from workbench.views.html.code.machine import HunkMachine, Machine
from workbench.views.html.code.rows import Chunk
from workbench.views.html.parts.links import LinkGroup, Links

#: Hunks that stand open: so many at most, and so many rows of code and about it in all.
_MOST_OPEN = 3
_ROWS_OPEN = 40
_ROWS_OF_ONE = 20
_ROWS_AROUND = 6
#: Hunks under headings of their own; the smaller ones are folded together.
_FOLDED = 6
#: Numbers that a hunk is linked to which stand there unasked.
_NUMBERS = 8
#: What a line must hold to be a name: a word, and not only in a comment.
_SAYS = re.compile(r"^(?!//|/\*|\*|#\s*$).*[A-Za-z_]\w")


class HunkCard(Record, frozen=True):
    """A hunk that can move a counter: its code and what it is linked to.

    `name` is the line that says what it is about, `brief` what it did, in a few words.
    """

    id: int
    name: str
    brief: str
    place: str
    file: str
    moved: bool
    symbols: tuple[str, ...]
    code: tuple[Chunk, ...]
    groups: tuple[LinkGroup, ...]
    more: tuple[LinkGroup, ...]
    machine: tuple[HunkMachine, ...]
    left_out: str


class Cards(Record, frozen=True):
    """The hunks that can move a counter, those that matter most first.

    `shown` stand open, `folded` under their headings; `smaller` and `without` (of which no
    counter tells anything) are folded together.
    """

    shown: tuple[HunkCard, ...] = ()
    folded: tuple[HunkCard, ...] = ()
    smaller: tuple[HunkCard, ...] = ()
    without: tuple[HunkCard, ...] = ()

    @property
    def every(self) -> tuple[HunkCard, ...]:
        """All of them, in this order."""
        return (*self.shown, *self.folded, *self.smaller, *self.without)


def hunk_cards(step: Step, code: DiffCode, links: Links, machine: Machine) -> Cards:
    """The hunks as they are ranked; as many stand open as a reader can take in."""
    story = step.story
    told = [chapter for chapter in leading(story) if chapter.ties]
    silent = [chapter for chapter in story.chapters if not chapter.ties]
    cards = [_card(step, chapter, code, links, machine) for chapter in told]
    shown = 0
    rows = 0
    for card in cards[:_MOST_OPEN]:
        rows += min(sum(len(chunk.rows) for chunk in card.code), _ROWS_OF_ONE) + _ROWS_AROUND
        if shown and rows > _ROWS_OPEN:
            break
        shown += 1
    return Cards(
        shown=tuple(cards[:shown]),
        folded=tuple(cards[shown : shown + _FOLDED]),
        smaller=tuple(cards[shown + _FOLDED :]),
        without=tuple(_card(step, chapter, code, links, machine) for chapter in silent),
    )


def _name(step: Step, chapter: Chapter) -> str:
    """The text of the line that moved most, or of the first one that says anything."""
    hunk, core = chapter.hunk, excerpt(chapter, 2)
    for side, path, span in ((1, hunk.new_file, hunk.new), (0, hunk.old_file, hunk.old)):
        sources = (step.old, step.new)[side].sources
        text = next((source.text for source in sources if source.path == path), None) or ""
        lines = text.splitlines()
        first = core[side][0]
        for number in (first, *range(span[0], span[1] + 1)):
            said = lines[number - 1].strip() if 0 < number <= len(lines) else ""
            if span[0] <= number <= span[1] and _SAYS.search(said):
                return said
    return ""


def _brief(groups: tuple[LinkGroup, ...]) -> str:
    """The first numbers that a hunk is linked to: ``Time −157 µs, Instructions −496 M``."""
    rows = [row for group in groups for row in group.rows]
    chosen = dict.fromkeys([*[row for row in rows if row.id == "duration"][:1], *rows[:2]])
    return ", ".join(f"{row.title} {row.value}" for row in list(chosen)[:2])


def _card(step: Step, chapter: Chapter, code: DiffCode, links: Links, machine: Machine) -> HunkCard:
    chapters = step.story.chapters
    several = len({c.hunk.new_file or c.hunk.old_file for c in chapters}) > 1
    hunk = chapter.hunk
    groups = links.of(chapter)
    shown, more = _cut(groups)
    return HunkCard(
        id=hunk.id,
        name=_name(step, chapter),
        brief=_brief(groups),
        place=units.lines_changed(hunk.old, hunk.new),
        file=(hunk.new_file or hunk.old_file) if several else "",
        moved=hunk.kind == "moved",
        symbols=chapter.symbols,
        code=code.card(hunk, chapter.lines),
        groups=shown,
        more=more,
        machine=machine.of(hunk.id),
        left_out=chapter.left_out.words,
    )


def _cut(groups: tuple[LinkGroup, ...]) -> tuple[tuple[LinkGroup, ...], tuple[LinkGroup, ...]]:
    """The groups that are shown before something is unfolded, and the rest of all of them."""
    shown, more = [], []
    left = _NUMBERS
    for group in groups:
        here = group.rows[: max(left, 0)]
        left -= len(group.rows) + 1
        if here:
            shown.append(replace(group, rows=here))
        if len(here) < len(group.rows):
            more.append(replace(group, rows=group.rows[len(here) :]))
    return tuple(shown), tuple(more)
