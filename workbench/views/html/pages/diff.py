"""View model of a diff page: one version against its parent, or one report against another."""

from __future__ import annotations

import re

from msgspec.structs import replace

from workbench import units
from workbench.analysis.compare import Comparison, TimeChange
from workbench.analysis.digest import excerpt, leading
from workbench.analysis.memory.chart import memory
from workbench.analysis.movers import movers
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.step import Step
from workbench.analysis.story import Chapter
from workbench.analysis.timeline import courses
from workbench.analysis.weight import most_moved, ranked
from workbench.model import LineKey, Profile, Record
from workbench.views.html.charts.steps import Waterfall, counter_waterfalls, time_waterfall
from workbench.views.html.charts.timeline import TimelineView, timeline_view
from workbench.views.html.code.gutters import PairGutter, pair_gutters
from workbench.views.html.code.hunks import DiffCode, WholeFile
from workbench.views.html.code.rows import Chunk
from workbench.views.html.parts.common import (
    Badge,
    Head,
    Phrase,
    Tile,
    Tone,
    day,
    parameters,
    range_of,
    sentence,
    strip_links,
    tool,
    verified,
)
from workbench.views.html.parts.headroom import PanelView, panel_view
from workbench.views.html.parts.links import LinkGroup, Links
from workbench.views.html.parts.memory import MemoryView, memory_view
from workbench.views.html.parts.moved import CounterRow, MovedTile, counter_table, tile
from workbench.views.html.parts.verdicts import (
    Advice,
    Judged,
    OccupancyRow,
    advice,
    effects,
    occupancies,
    verdicts,
)
from workbench.views.text.tables import KERNELS_HEAD, kernel_rows

_TILES = 5
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
_QUIET = {
    "renamed": "names only",
    "comment": "comments only",
    "whitespace": "white space only",
    "front-matter": "the description of the version",
}


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


class QuietHunk(Record, frozen=True):
    """A hunk that moves nothing, and why."""

    id: int
    place: str
    why: str
    href: str


class DiffView(Record, frozen=True):
    """The whole page."""

    head: Head
    lede: tuple[Phrase, ...]
    strip: tuple[Phrase, ...]
    panel: PanelView | None
    reasons: tuple[str, ...]
    time: Tile | None
    tiles: tuple[MovedTile, ...]
    waterfall: Waterfall | None
    waterfall_missing: str
    memory: MemoryView | None
    timeline: TimelineView | None
    hunks: Cards
    quiet: tuple[QuietHunk, ...]
    launch_words: tuple[str, ...]
    kernels_head: tuple[str, ...]
    kernels: tuple[tuple[str, ...], ...]
    launches: tuple[tuple[str, str], ...]
    rest: tuple[LinkGroup, ...]
    rest_left_out: str
    rest_open: bool
    whole: tuple[WholeFile, ...]
    gutters: tuple[PairGutter, ...]
    embedded: dict[str, dict[str, object]]
    old: str
    new: str
    counters_by_part: tuple[Waterfall, ...]
    occupancy: tuple[OccupancyRow, ...]
    verdicts: tuple[Judged, ...]
    effects: tuple[MovedTile, ...]
    more_effects: str
    advice: tuple[Advice, ...]
    table: tuple[CounterRow, ...]
    moved: str


def _time_tile(comparison: Comparison) -> Tile | None:
    time = comparison.time
    if time is not None:
        return _measured(time)
    duration = comparison["duration"]
    if duration.old is None or duration.new is None or not duration.new:
        return None
    tone: Tone = ""
    if duration.moved:
        tone = "good" if duration.new < duration.old else "bad"
    change = units.signed(float(duration.new) - float(duration.old), "s")
    return Tile(
        label="Duration",
        value=units.quantity(duration.new, "s"),
        change=f"{change} · {units.factor(float(duration.old) / float(duration.new))}",
        note=f"from {units.quantity(duration.old, 's')}, under the profiler",
        tone=tone,
    )


def _measured(time: TimeChange) -> Tile:
    tone: Tone = ""
    if time.moved:
        tone = "good" if time.speedup > 1 else "bad"
    bounds = range_of(time.low, time.speedup, time.high)
    return Tile(
        label="Time",
        value=units.quantity(time.new_s, "s"),
        change=f"{units.signed(time.new_s - time.old_s, 's')} · {units.factor(time.speedup)}",
        note=f"from {units.quantity(time.old_s, 's')}; speed-up {bounds}",
        tone=tone,
    )


def shared_chips(old: Profile, new: Profile) -> tuple[Badge, ...]:
    """Device, problem, engine and date of both sides; said once where they agree."""

    def one(a: str, b: str) -> str:
        return a if a == b else f"{a} → {b}"

    problem = one(
        parameters(old.parameters) or old.problem, parameters(new.parameters) or new.problem
    )
    texts = [
        one(old.device.name, new.device.name),
        problem.strip(" →"),
        one(tool(old), tool(new)),
        f"captured {one(day(old.captured), day(new.captured))}",
    ]
    chips = [Badge(text=text) for text in texts if text]
    check = verified(new.verification)
    if check:
        chips.append(check)
    return tuple(chips)


def diff_view(step: Step, head: Head) -> DiffView:
    """The page of one step.

    Args:
        step: The two profiles, compared.
        head: What the page says besides.
    """
    comparison, story = step.comparison, step.story
    gutters = pair_gutters(step.old, step.new)
    code = DiffCode(step.old, step.new, step.diff, story, gutters)
    links = Links(story, code.anchor)
    cards = _cards(step, code, links)
    whole = code.whole()
    shown, more = effects(story.side_effects, ranked(comparison, step.scale))
    labels = step.labels
    notices = [*head.notices, *comparison.warnings, *story.attribution.words]
    if step.unread:
        notices.append(f"The expectations could not be read: {step.unread}")
    return DiffView(
        head=replace(
            head,
            chips=(*shared_chips(step.old, step.new), *head.chips),
            notices=tuple(notices),
        ),
        lede=sentence(story.sentence),
        strip=strip_links(story.strip),
        panel=panel_view(story.panel, step.new, lambda key: _address(code, step.new, key)),
        reasons=comparison.reasons,
        time=_time_tile(comparison),
        tiles=tuple(tile(delta) for delta in most_moved(comparison, step.scale, _TILES)),
        waterfall=time_waterfall(story.time, *labels) if story.time else None,
        waterfall_missing=story.time_missing,
        memory=_memory(step, code),
        timeline=_timeline(step),
        hunks=cards,
        quiet=tuple(_quiet(hunk, code) for hunk in story.quiet),
        launch_words=comparison.launch_words,
        kernels_head=KERNELS_HEAD,
        kernels=tuple(kernel_rows(comparison)),
        launches=_launches(step),
        rest=links.of(story.rest),
        rest_left_out=story.rest.left_out.words,
        rest_open=not cards.shown,
        whole=whole,
        gutters=gutters,
        embedded=code.embedded(),
        old=labels[0],
        new=labels[1],
        counters_by_part=counter_waterfalls(story, *labels, step.scale),
        occupancy=occupancies(story.occupancy),
        verdicts=verdicts(story),
        effects=shown,
        more_effects=f"and {units.count(more)} more" if more > 0 else "",
        advice=advice(story),
        table=counter_table(comparison, movers(story), code.anchor),
        moved=units.count(sum(delta.moved for delta in comparison.counters)),
    )


def _address(code: DiffCode, profile: Profile, key: LineKey) -> str:
    path = profile.sources[key[0]].path if 0 <= key[0] < len(profile.sources) else ""
    return code.anchor(1, path, key[1])


def _cards(step: Step, code: DiffCode, links: Links) -> Cards:
    """The hunks as they are ranked; as many stand open as a reader can take in."""
    story = step.story
    several = len({c.hunk.new_file or c.hunk.old_file for c in story.chapters}) > 1
    told = [chapter for chapter in leading(story) if chapter.ties]
    silent = [chapter for chapter in story.chapters if not chapter.ties]
    cards = [_card(step, chapter, code, links, several) for chapter in told]
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
        without=tuple(_card(step, chapter, code, links, several) for chapter in silent),
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


def _memory(step: Step, code: DiffCode) -> MemoryView | None:
    """The memory chart of both sides; None where one was not measured."""
    old, new = memory(step.old), memory(step.new)
    if old is None or new is None:
        return None

    def anchor(side: int, key: LineKey) -> str:
        sources = (step.old, step.new)[side].sources
        return code.anchor(side, sources[key[0]].path, key[1]) if key[0] >= 0 else ""

    return memory_view((old, new), step.labels, anchor, "", "#counter-")


def _timeline(step: Step) -> TimelineView | None:
    """The longest launch of each side over time; None where one was not sampled."""
    sides = [courses(profile)[:1] for profile in (step.old, step.new)]
    if not all(sides):
        return None
    return timeline_view([side[0] for side in sides], step.labels)


def _card(step: Step, chapter: Chapter, code: DiffCode, links: Links, several: bool) -> HunkCard:
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


def _quiet(hunk: Hunk, code: DiffCode) -> QuietHunk:
    empty = hunk.new[1] < hunk.new[0]
    side, path = (0, hunk.old_file) if empty else (1, hunk.new_file)
    return QuietHunk(
        id=hunk.id,
        place=units.lines_changed(hunk.old, hunk.new),
        why=_QUIET.get(hunk.kind, hunk.kind),
        href=code.anchor(side, path, (hunk.old if empty else hunk.new)[0]),
    )


def _launches(step: Step) -> tuple[tuple[str, str], ...]:
    """The kernels whose launch changed, and how."""
    out = []
    for match in step.story.attribution.launches:
        if match.changes:
            out.append((match.new, ", ".join(match.changes)))
        elif match.how in ("added", "removed"):
            out.append((match.new or match.old, match.how))
    return tuple(out)
