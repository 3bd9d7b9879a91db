"""The hunks of a step as cards: the code, its links, and its machine code.

The available space decides how many are open and how many are folded together; their order is the
story's. The page holds one line of machine code for each hunk. The aligned instructions are in a
file beside it, which the page's script reads when a reader opens them: a step between two unrolled
kernels has thousands. Only those that cost time are listed, with a link to all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from workbench import units
from workbench.analysis.attribution import LineShare, Part
from workbench.analysis.code import code_of
from workbench.analysis.duration import CodeLine, TimePart, TimeSplit, WaitPath
from workbench.analysis.limits.limit import stall_words
from workbench.analysis.listing import CodeDiff, HunkCode
from workbench.analysis.story import Step, Story, against, excerpt, leading, source_lines
from workbench.analysis.weight import TELLING
from workbench.analysis.wording import Chapter, Fact, Passage, Row, Tie
from workbench.counters import catalog
from workbench.language import _, ngettext
from workbench.model import Number, Profile
from workbench.views.html.code.hunks import DiffCode
from workbench.views.html.page import Link, View
from workbench.views.html.parts import percent, tied, width


def line_words(side: int, number: int | None) -> str:
    """The name of a line on the old (0) or new side; without a number: code without a line."""
    if not number:
        return _("code without a line")
    return (_("line {n}") if side else _("old line {n}")).format(n=number)


def line_link(line: LineShare, anchor: Anchor) -> Link | None:
    """``line 47``, or ``old line 3`` if it was removed; None if it is not shown."""
    side = 1 if line.new else 0
    number = line.new or line.old
    href = anchor(side, line.new_file if side else line.old_file, number) if number else ""
    return Link(text=line_words(side, number), href=href) if href else None


#: The most paths of one part, from the line that waited to the line for which it waited.
_PATHS = 2


class Links:
    """The links of one step in its story's order, passage by passage."""

    def __init__(self, story: Story, anchor: Anchor) -> None:
        self._story = story
        self._anchor = anchor

    def of(self, passage: Passage) -> list[View]:
        """Groups of numbers, for a hunk's lines and symbols, or for launches and the rest."""
        ties = passage.ties
        return [View(title=t.title, link=t.link, rows=list(self._rows(t))) for t in ties]

    def _rows(self, tie: Tie) -> Iterable[View]:
        """The numbers of a part; a bar shows its share of the whole change."""
        numbers = list(tie.rows)
        if tie.time is not None and self._story.time is not None:
            yield self._time(numbers.pop(0), tie.time, self._story.time)
        yield from map(self._counter, numbers, tie.facts)

    def _time(self, number: Row, part: TimePart, split: TimeSplit) -> View:
        share = part.delta_s / split.delta_s if split.delta_s else 0.0
        return View(
            number=number,
            title=_("Time"),
            meaning=_("An estimate: warp samples on the lines, times the duration."),
            width=width(abs(part.delta_s) / _largest(abs(p.delta_s) for p in split.parts)),
            share=_share(share if 0 < share <= 1 else None),
            note=tied(_(", ").join(f"{stall.title} {stall.amount}" for stall in number.stalls)),
            where=None,
            paths=[self._path(path) for path in _proofs(part, split)],
        )

    def _path(self, path: WaitPath) -> View:
        return View(
            waited=self._line(path.waited),
            blamed=self._line(path.blamed),
            via=path.via,
            amount=f"{stall_words(path.stall)} {units.signed(path.delta_s, 's')}",
        )

    def _line(self, line: CodeLine) -> Link:
        number, side = (line.new, 1) if line.new else (line.old, 0)
        words = line_words(side, number)
        return Link(text=words, href=self._anchor(side, line.file, number) if number else "")

    def _counter(self, number: Row, fact: Fact) -> View:
        part = fact.part
        return View(
            number=number,
            title=number.title,
            meaning=catalog()[number.id].meaning,
            width=width(abs(part.delta) / _largest(abs(p.delta) for p in fact.split.parts)),
            share=_share(number.share),
            note=_via(part.lines),
            where=self._where(part),
            paths=(),
        )

    def _where(self, part: Part) -> Link | None:
        """The line that holds most of the part, if one does."""
        if not part.lines:
            return None
        line = part.lines[0]
        if abs(line.delta) < 0.5 * abs(part.delta):
            return None
        return line_link(line, self._anchor)


def _proofs(part: TimePart, split: TimeSplit) -> list[WaitPath]:
    """The important paths of a part, each from a wait to the line that causes it."""
    least = TELLING * max(split.old_s, split.new_s)
    found = [
        path
        for path in part.paths
        if path.waited != path.blamed
        and path.delta_s * part.delta_s > 0
        and abs(path.delta_s) >= least
        and path.stall in catalog()
    ]
    return found[:_PATHS]


def _via(lines: tuple[LineShare, ...]) -> str:
    names = [name for line in lines[:1] for name in line.via]
    return _("through {names}").format(names=", ".join(names[:3])) if names else ""


def _largest(amounts: Iterable[Number]) -> Number:
    return max(amounts, default=0) or 1


def _share(share: float | None) -> str:
    if share is None:
        return ""
    whole = _("all of the change")
    return whole if share == 1 else _("{share} of the change").format(share=percent(share))


#: The most rows of one hunk, and of all hunks of a page together.
_ROWS, _ALL_ROWS = 240, 1500
#: The most opcodes with changed counts, and pairs that replaced each other, in words.
_CLASSES, _STAND_INS = 5, 3
#: The least part of a hunk's issues, or of its time, for an opcode's change to be shown.
_LEAST = 0.01

Pair = tuple[int | None, int | None]
#: Side (0 old, 1 new), path and line -> address on the page, or "".
Anchor = Callable[[int, str, int | None], str]


class Machine:
    """The machine code of a step, hunk by hunk.

    The most important `codes` come first. `pages` are those of the two versions, "" if instructions
    have no address on them; `anchor` gives the address of a line on this page.
    """

    def __init__(
        self,
        codes: Sequence[HunkCode],
        sides: tuple[Profile, Profile],
        pages: tuple[str, str],
        anchor: Anchor,
    ) -> None:
        self._sides, self._pages = sides, pages
        # A line has ten or more instructions. It is not stored: an anchor keeps its step in memory.
        anchor = lru_cache(maxsize=None)(anchor)
        several = len({one.code.kernel for one in codes}) > 1
        self._views: dict[int, list[View]] = {}
        self.beside: dict[str, dict[str, object]] = {}
        left = _ALL_ROWS
        for one in codes:
            key = f"m{one.hunk}-{one.launches[1]}"
            rows = chosen(one, min(_ROWS, left))
            left -= len(rows)
            self.beside[key] = {"rows": self._rows(one, rows, anchor)}
            every = len(one.code.rows) or one.code.old.instructions + one.code.new.instructions
            hidden = every - len(rows)
            view = View(
                key=key,  # finds its rows in the file beside the page
                kernel=one.code.kernel if several else "",
                words=_sizes(one.code),
                classes=_changes(one.code),
                left_out=_left_out(hidden, pages[1]),
            )
            self._views.setdefault(one.hunk, []).append(view)

    def of(self, hunk: int) -> list[View]:
        """The machine code of one hunk, kernel by kernel; empty without instructions."""
        return self._views.get(hunk, [])

    def _rows(self, one: HunkCode, rows: Sequence[Pair], anchor: Anchor) -> list[object]:
        times = [listing.seconds for listing in one.listings]
        every = ((own, row) for pair in rows for own, row in zip(times, pair, strict=True))
        top = max((own.get(row, 0.0) for own, row in every if row is not None), default=0.0)
        sides = [self._cells(one, n, [pair[n] for pair in rows], top, anchor) for n in (0, 1)]
        return [list(pair) for pair in zip(*sides, strict=True)]

    def _cells(
        self, one: HunkCode, side: int, rows: Sequence[int | None], top: float, anchor: Anchor
    ) -> Iterator[list[object] | None]:
        """Offset, address in the listing, time as words, bar and seconds, text, line, its keys."""
        listing, launch = one.listings[side], one.launches[side]
        table, times = listing.launch.instructions, listing.seconds
        profile = self._sides[side]
        code, sources = code_of(profile.launches[launch]), profile.sources
        page = f"{self._pages[side]}#k{launch}-i" if self._pages[side] else ""
        for row in rows:
            if row is None:
                yield None
                continue
            seconds = times.get(row, 0.0)
            file, line = table.file[row], table.line[row]
            known = line > 0 and 0 <= file < len(sources)
            text = code.texts[row]
            yield [
                f"{table.address[row]:04x}",
                f"{page}{row}" if page else "",
                units.quantity(seconds, "s") if seconds else "",
                width(seconds / top) if seconds and top else "0",
                f"{seconds:.4g}" if seconds else "",
                f"{code.labels[row]}: {text}" if row in code.labels else text,
                line if known else 0,
                anchor(side, sources[file].path, line) if known else "",
                f"{file}:{line}" if known else "",
            ]


def chosen(one: HunkCode, most: int) -> list[Pair]:
    """The rows to show, in the order of the code: all, or those that cost the most time.

    If there are too many instructions to align, each side's costliest are shown unpaired.
    """
    pairs: list[Pair] = list(one.code.rows) or [
        *((row, None) for row in one.rows[0]),
        *((None, row) for row in one.rows[1]),
    ]
    if len(pairs) <= most:
        return pairs

    old, new = (listing.seconds for listing in one.listings)

    def cost(place: int) -> float:
        a, b = pairs[place]
        before = 0.0 if a is None else old.get(a, 0.0)
        return before if b is None else max(before, new.get(b, 0.0))

    kept = sorted(range(len(pairs)), key=lambda place: (-cost(place), place))[: max(most, 0)]
    return [pairs[place] for place in sorted(kept)]


def _left_out(hidden: int, page: str) -> str:
    if hidden <= 0:
        return ""
    words = ngettext(
        "{n} row with less time is left out", "{n} rows with less time are left out", hidden
    ).format(n=units.count(hidden))
    return words + (
        _("; an offset links to the version’s page, which shows all.") if page else _(".")
    )


def _sizes(code: CodeDiff) -> str:
    old, new = code.old, code.new
    words = _("{old} → {new} instructions").format(
        old=units.count(old.instructions), new=units.count(new.instructions)
    )
    if old.live or new.live:
        words += _(", {old} → {new} registers live at once").format(old=old.live, new=new.live)
    return words


def _changes(code: CodeDiff) -> str:
    """``LDS → LDS.128 (16×); FFMA 1,024 → 512``."""
    replaced = [f"{one.old} → {one.new} ({one.rows:,}×)" for one in code.replaced[:_STAND_INS]]
    issues = _LEAST * max(code.old.executed, code.new.executed)
    seconds = _LEAST * max(code.old.seconds, code.new.seconds)
    changed = [
        one
        for one in code.classes
        if one.old[0] != one.new[0]
        and (abs(one.new[1] - one.old[1]) >= issues or abs(one.new[2] - one.old[2]) >= seconds > 0)
    ]
    numbers = [f"{one.name} {one.old[0]:,} → {one.new[0]:,}" for one in changed[:_CLASSES]]
    return "; ".join([*replaced, *numbers])


#: The most hunks that are open at first, and the most rows of code and notes in them.
_MOST_OPEN = 3
_ROWS_OPEN = 40
_ROWS_OF_ONE = 20
_ROWS_AROUND = 6
#: The most hunks under their own headings; smaller hunks are folded together.
_FOLDED = 6
#: The most linked numbers of a hunk that are shown without unfolding.
_NUMBERS = 8
#: Matches a line that can serve as a name: it has a word, and not only in a comment.
_SAYS = re.compile(r"^(?!//|/\*|\*|#\s*$).*[A-Za-z_]\w")


def hunk_cards(step: Step, code: DiffCode, links: Links, machine: Machine) -> View:
    """The hunks that can move a counter, the most important first.

    The first ones are open (`shown`), as many as a reader can grasp; others are `folded` under
    their headings; `smaller` ones and those `without` effects on counters are folded together.
    """
    story = step.story
    told = [one for one in leading(story) if one.ties or one.hunk.id in story.named]
    silent = [one for one in story.chapters if one not in told]
    cards = [_card(step, chapter, code, links, machine) for chapter in told]
    shown = 0
    rows = 0
    for card in cards[:_MOST_OPEN]:
        rows += min(sum(len(chunk.rows) for chunk in card.code), _ROWS_OF_ONE) + _ROWS_AROUND
        if shown and rows > _ROWS_OPEN:
            break
        shown += 1
    without = [_card(step, chapter, code, links, machine) for chapter in silent]
    return View(
        every=[*cards, *without],
        shown=cards[:shown],
        folded=cards[shown : shown + _FOLDED],
        smaller=cards[shown + _FOLDED :],
        without=without,
    )


def _name(step: Step, chapter: Chapter) -> str:
    """The text of the line that moved most, or of the first one that has a word."""
    hunk, core = chapter.hunk, excerpt(chapter, 2, (step.old, step.new))
    for side, path, span in ((1, hunk.new_file, hunk.new), (0, hunk.old_file, hunk.old)):
        lines = source_lines((step.old, step.new)[side], path)
        first = core[side][0]
        for number in (first, *range(span[0], span[1] + 1)):
            said = lines[number - 1].strip() if 0 < number <= len(lines) else ""
            if span[0] <= number <= span[1] and _SAYS.search(said):
                return said
    return ""


def _brief(groups: list[View]) -> str:
    """The first numbers linked to a hunk: ``Time −157 µs, Instructions −496 M``."""
    rows = [row for group in groups for row in group.rows]
    chosen: list[View] = []
    for row in [*[row for row in rows if row.number.id == "duration"][:1], *rows[:2]]:
        chosen += [row] * (row not in chosen)
    return _(", ").join(f"{row.title} {row.number.amount}" for row in chosen[:2])


def _card(step: Step, chapter: Chapter, code: DiffCode, links: Links, machine: Machine) -> View:
    """A hunk that can move a counter: its code and its links."""
    chapters = step.story.chapters
    several = len({c.hunk.new_file or c.hunk.old_file for c in chapters}) > 1
    hunk = chapter.hunk
    groups = links.of(chapter)
    shown, more = _cut(groups)
    return View(
        id=hunk.id,
        name=_name(step, chapter),
        brief=_brief(groups),
        place=units.lines_changed(hunk.old, hunk.new),
        file=(hunk.new_file or hunk.old_file) if several else "",
        moved=hunk.kind == "moved",
        symbols=chapter.symbols,
        code=code.card(hunk, chapter.lines),
        contents=code.contents(hunk),
        groups=shown,
        more=more,
        machine=machine.of(hunk.id),
        left_out=chapter.left_out.words,
        against=against(step.story, chapter),
    )


def _cut(groups: list[View]) -> tuple[list[View], list[View]]:
    """The groups that are shown without unfolding, and the rest."""
    shown, more = [], []
    left = _NUMBERS
    for group in groups:
        here = group.rows[: max(left, 0)]
        left -= len(group.rows) + 1
        if here:
            shown.append(group.but(rows=here))
        if len(here) < len(group.rows):
            more.append(group.but(rows=group.rows[len(here) :]))
    return shown, more
