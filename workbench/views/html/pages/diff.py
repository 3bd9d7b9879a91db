"""A diff page: one version against its parent, or one report against another."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from workbench import units
from workbench.analysis.advice import Score
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.expectations import Judgement, find_counter
from workbench.analysis.launches.course import courses
from workbench.analysis.memory import memory
from workbench.analysis.movers import movers
from workbench.analysis.occupancy import OccupancySplit
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.step import Step
from workbench.analysis.story import Story
from workbench.analysis.timing import TimeChange
from workbench.analysis.weight import most_moved, ranked
from workbench.model import LineKey, Profile, Record
from workbench.views.html.charts.memory import MemoryView, memory_view
from workbench.views.html.charts.steps import Waterfall, counter_waterfalls, time_waterfall
from workbench.views.html.charts.timeline import TimelineView, timeline_view
from workbench.views.html.code.cards import Cards, Machine, hunk_cards
from workbench.views.html.code.gutters import PairGutter, pair_gutters
from workbench.views.html.code.hunks import DiffCode, WholeFile
from workbench.views.html.page import Rendered, code_name, code_script
from workbench.views.html.parts.common import (
    Badge,
    Head,
    Phrase,
    Tile,
    Tone,
    day,
    parameters,
    percent,
    range_of,
    sentence,
    strip_links,
    tool,
    verified,
)
from workbench.views.html.parts.headroom import PanelView, panel_view
from workbench.views.html.parts.moved import (
    CounterRow,
    LinkGroup,
    Links,
    MovedTile,
    counter_table,
    tile,
)
from workbench.views.html.render import render
from workbench.views.text.tables import KERNELS_HEAD, kernel_rows

# --- predicted and advised ------------------------------------------------------------

_VERDICT: dict[str, Tone] = {"confirmed": "good", "refuted": "bad", "inconclusive": "warn"}
_SCORE: dict[str, tuple[str, Tone]] = {
    "kept": ("kept", "good"),
    "partly": ("partly kept", "warn"),
    "not kept": ("not kept", "bad"),
    "open": ("not followed", ""),
}
_EFFECTS = 8


class Judged(Record, frozen=True):
    """An expectation and what became of it; `id` is the counter's, "" where unknown."""

    id: str
    title: str
    tone: Tone
    said: Judgement


class Advice(Record, frozen=True):
    """What the panel or a rule of ncu promised on the old version, and what the step gained."""

    title: str
    by: str
    kernel: str
    promised: str
    gained: str
    still: str
    verdict: str
    tone: Tone


class OccupancyRow(Record, frozen=True):
    """Theoretical occupancy of one kernel on both sides, and points by cause."""

    kernel: str
    old: str
    new: str
    delta: str
    causes: tuple[tuple[str, str], ...]
    limiters: str


def verdicts(story: Story) -> tuple[Judged, ...]:
    """Every expectation, in the author's order."""
    return tuple(map(_verdict, story.expectations))


def _verdict(judgement: Judgement) -> Judged:
    counter = find_counter(judgement.counter)
    return Judged(
        id=counter.id if counter else "",
        title=counter.title if counter else judgement.counter,
        tone=_VERDICT[judgement.verdict],
        said=judgement,
    )


def advice(story: Story) -> tuple[Advice, ...]:
    """What stood on the old panel, then the promises of ncu's rules; what was acted on first."""
    order = {"kept": 0, "partly": 1, "not kept": 2, "open": 3}
    scores = [
        score
        for every in (story.tried, story.scores)
        for score in sorted(every, key=lambda one: (order[one.verdict], -one.promised))
    ]
    several = len({score.kernel for score in story.scores}) > 1
    return tuple(_advice(score, several, ncu=score in story.scores) for score in scores)


def _advice(score: Score, several: bool, *, ncu: bool) -> Advice:
    word, tone = _SCORE[score.verdict]
    return Advice(
        title=score.title,
        by="ncu" if ncu else "the panel",
        kernel=score.kernel if several else "",
        promised=percent(score.promised),
        gained=percent(score.gained)
        if score.gained > 0
        else units.signed(-score.gained * 100, "%"),
        still=percent(score.still) if score.still is not None else "nothing",
        verdict=word,
        tone=tone,
    )


def effects(
    found: tuple[Delta, ...], heaviest: Sequence[tuple[float, Delta]]
) -> tuple[tuple[MovedTile, ...], int]:
    """The side effects worth naming (worse ones first), and how many more there are.

    Args:
        found: What nobody expected.
        heaviest: All counters that moved, in the order of their weight.
    """
    order = {delta.id: place for place, (_, delta) in enumerate(heaviest)}
    told = [delta for delta in found if not delta.id.endswith(("_excess", "_ideal"))]
    told.sort(key=lambda d: ({"worse": 0, "better": 1}.get(d.verdict, 2), order[d.id]))
    shown = tuple(map(tile, told[:_EFFECTS]))
    return shown, len(told) - len(shown)


def occupancies(splits: tuple[OccupancySplit, ...]) -> tuple[OccupancyRow, ...]:
    """The kernels whose theoretical occupancy changed, by cause."""
    return tuple(
        OccupancyRow(
            kernel=split.kernel,
            old=units.quantity(split.old, "%"),
            new=units.quantity(split.new, "%"),
            delta=units.points(split.delta),
            causes=tuple(
                (name, units.points(value)) for name, value in split.causes.items() if value
            ),
            limiters=f"{' and '.join(split.limiters_old)} → {' and '.join(split.limiters_new)}",
        )
        for split in splits
        if split.delta
    )


_TILES = 5
_QUIET = {
    "renamed": "names only",
    "comment": "comments only",
    "whitespace": "white space only",
    "front-matter": "the description of the version",
}


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
    beside: dict[str, dict[str, object]]


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
    # A version's page has its instructions under the names that these rows use; the launches of
    # a report are pages of their own.
    pages = (head.pages[0].href, head.pages[1].href) if head.listings else ("", "")
    machine = Machine(step.machine_code, (step.old, step.new), pages, code.anchor)
    cards = hunk_cards(step, code, links, machine)
    whole = code.whole()
    # What an author predicted, and advice that was given, speak of the code on one device.
    told = () if step.across else story.side_effects
    shown, more = effects(told, ranked(comparison, step.scale))
    labels = step.labels
    notices = [*head.notices, *comparison.warnings, *story.attribution.words]
    if step.across:
        notices.append("Shares of peak are of each side’s own device")
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
        advice=() if step.across else advice(story),
        table=counter_table(comparison, movers(story), code.anchor),
        moved=units.count(sum(delta.moved for delta in comparison.counters)),
        beside=machine.beside,
    )


def render_diff(path: str, view: DiffView) -> Rendered:
    """A step's page, and the file with its machine code beside it, where there is any."""
    name = code_name(path) if view.beside else ""
    html = render("diff.html", path, view=view, code_file=name)
    return Rendered(html=html, beside={name: code_script(view.beside)} if name else {})


def _address(code: DiffCode, profile: Profile, key: LineKey) -> str:
    path = profile.sources[key[0]].path if 0 <= key[0] < len(profile.sources) else ""
    return code.anchor(1, path, key[1])


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
