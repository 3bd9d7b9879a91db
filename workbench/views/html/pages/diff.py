"""A step's page: a version against its parent, a report against another, or two devices."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from workbench import units
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.expectations import Score
from workbench.analysis.kernels import KERNELS_HEAD, kernel_rows
from workbench.analysis.limits.memory import memory
from workbench.analysis.sentence import time_row
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.story import Step, Story, excerpt, leading, movers, source_lines
from workbench.analysis.timeline import courses
from workbench.analysis.weight import most_moved, ranked
from workbench.language import N_, _
from workbench.model import LineKey, Profile
from workbench.views.html.charts.drawn import memory_view, timeline_view
from workbench.views.html.charts.steps import time_waterfall
from workbench.views.html.code.cards import Links, Machine, hunk_cards, line_link
from workbench.views.html.code.hunks import DiffCode
from workbench.views.html.code.lines import pair_gutters
from workbench.views.html.page import Head, Rendered, View, code_script, file_beside
from workbench.views.html.parts import (
    Tile,
    clocks_of,
    facts_of,
    panel_view,
    sentence,
    stacked,
    strip_links,
    tone_of,
    verified,
)
from workbench.views.html.render import card, render

_EFFECTS = 8
_TILES = 5
_QUIET = {
    "renamed": N_("names only"),
    "comment": N_("comments only"),
    "whitespace": N_("white space only"),
    "front-matter": N_("the description of the version"),
}


def _time_tile(step: Step) -> Tile | None:
    """The time, and the reasons to trust it: the interval, clocks, inputs and the check."""
    row = time_row(step.comparison, step.story.cause.more)
    checks = [side.verification for side in (step.old, step.new)]
    if row is None:
        check = verified(checks[1])
        return Tile(label=_("Time"), value=_("not measured"), check=check) if check else None
    seeds = {check.seed for check in checks if check is not None}
    inputs = _("same inputs") if len(seeds) == 1 else _("other inputs (seeds differ)")
    trust = (row.note, clocks_of(step.new), inputs if None not in checks else "")
    return Tile(
        label=_("Time") if step.comparison.time else _("Duration"),
        value=row.words,
        change=f"{row.times} ({row.change})",
        note=" · ".join(filter(None, trust)),
        tone=tone_of(row.good),
        check=verified(checks[1]),
    )


def _advice(story: Story) -> tuple[Score, ...]:
    """Scores of the old panel's suggestions, then of ncu's rules; followed advice comes first."""
    order = {N_("kept"): 0, "partly": 1, N_("not kept"): 2, "open": 3}
    return tuple(
        score
        for every in (story.tried, story.scores)
        for score in sorted(every, key=lambda one: (order[one.verdict], -one.promised))
    )


def _effects(step: Step) -> list[Delta]:
    """The side effects worth naming, worse ones first, then by weight."""
    weight = [delta.id for _, delta in ranked(step.comparison, step.scale)]
    order = {"worse": 0, "better": 1}
    found = [d for d in step.story.side_effects if not d.id.endswith(("_excess", "_ideal"))]
    return sorted(found, key=lambda d: (order.get(d.verdict, 2), weight.index(d.id)))


def diff_view(step: Step, head: Head) -> View:
    """The page of one step; `head` has its own title and notes."""
    comparison, story = step.comparison, step.story
    gutters = pair_gutters(step.old, step.new)
    code = DiffCode(step.old, step.new, step.placing.diff, story, gutters)
    links = Links(story, code.anchor)
    # A version's page has its instructions under the names that these rows use; the launches of a
    # report have their own pages.
    pages = (head.pages[0].href, head.pages[1].href) if head.listings else ("", "")
    machine = Machine(step.leading_codes, (step.old, step.new), pages, code.anchor)
    cards = hunk_cards(step, code, links, machine)
    rest = links.of(story.rest)
    whole = code.whole()
    # An author's predictions, and advice, apply to the code on one device.
    unforeseen = [] if step.across else _effects(step)
    labels = step.labels
    alike = story.attribution.sources.same and not story.launches
    notices = [*comparison.warnings, *story.attribution.words]
    concerns = dict(comparison.concerns)
    if step.across:
        notices.append(_("Shares of peak are of each side’s own device"))
        concerns |= dict.fromkeys((*story.attribution.words, notices[-1]), "")
    if step.unread:
        notices.append(_("The expectations could not be read: {why}").format(why=step.unread))
    here = [text for text in notices if not concerns.get(text)]
    head = replace(head, chips=(*facts_of(step.old, step.new), *head.chips))
    return View(
        step=step,
        head=head.told(here, [text for text in here if text in concerns]),
        concerns=lambda counter: [text for text in notices if concerns.get(text) == counter],
        lede=sentence(story.sentence),
        strip=strip_links(story.strip),
        panel=panel_view(story.panel, step.new, partial(_address, code, (step.old, step.new), 1)),
        time=_time_tile(step),
        # Code that moved them explains the change better.
        tiles=() if cards.shown else most_moved(comparison, step.scale, _TILES),
        # With the same code there is nothing to split the time by.
        waterfall=time_waterfall(story.time, *labels) if story.time and not alike else None,
        memory=_memory(step, code),
        timeline=_timeline(step),
        hunks=cards,
        quiet=[_quiet(hunk, code) for hunk in story.quiet],
        kernels_head=tuple(map(_, KERNELS_HEAD)),
        kernels=kernel_rows(comparison.kernels, story.cause.more),
        spent=_spent(comparison),
        changed=_changed(step),
        # Changed launches come before added and removed ones.
        launches=sorted(story.launches, key=lambda row: bool(row.how)),
        launched=[group for group in rest if group.link == "launch"],
        rest=[group for group in rest if group.link != "launch" or not story.launches],
        whole=whole,
        gutters=gutters,
        embedded=code.embedded(),
        effects=unforeseen[:_EFFECTS],
        more_effects=len(unforeseen[_EFFECTS:]),
        advice=() if step.across else _advice(story),
        movers=movers(story),
        line=partial(line_link, anchor=code.anchor),
        beside=machine.beside,
    )


def render_diff(path: str, view: View) -> Rendered:
    """A step's page, and the file with its machine code beside it, if there is any."""
    name = file_beside(path) if view.beside else ""
    html = render("diff.html", path, view=view, code_file=name)
    code = {name: code_script(view.beside)} if name else {}
    return Rendered(html=html, beside={**code, **card(path, view)})


#: The maximum number of changed lines on a card.
_LINES = 6


def _changed(step: Step) -> list[tuple[str, str]]:
    """Lines of the most important hunk, each with its sign, as the terminal shows them."""
    rows: list[tuple[str, str]] = []
    for chapter in leading(step.story)[:1]:
        hunk = chapter.hunk
        files = (step.old, hunk.old_file, "−"), (step.new, hunk.new_file, "+")
        spans = excerpt(chapter, _LINES, (step.old, step.new))
        for (first, last), (side, path, sign) in zip(spans, files, strict=True):
            rows += [(sign, text) for text in source_lines(side, path)[max(first - 1, 0) : last]]
    return rows


def _spent(comparison: Comparison) -> list[View]:
    """The time of several kernels, counted as often as both sides launched them."""
    rows = [(one.name, spent) for one in comparison.kernels if (spent := one.spent)]
    if not 1 < len(rows) == len(comparison.kernels):
        return []  # one kernel, or one whose time is unknown
    return stacked((comparison.old.label, comparison.new.label), rows, "s")


def _address(code: DiffCode, sides: tuple[Profile, Profile], side: int, key: LineKey) -> str:
    sources = sides[side].sources
    path = sources[key[0]].path if 0 <= key[0] < len(sources) else ""
    return code.anchor(side, path, key[1])


def _memory(step: Step, code: DiffCode) -> View | None:
    """The memory chart of both sides; None if one was not measured."""
    old, new = memory(step.old), memory(step.new)
    if old is None or new is None:
        return None
    anchor = partial(_address, code, (step.old, step.new))
    return memory_view((old, new), step.labels, anchor, "", "#counter-")


def _timeline(step: Step) -> View | None:
    """The longest launch of each side over time; None if one was not sampled."""
    sides = [courses(profile)[:1] for profile in (step.old, step.new)]
    return timeline_view([side[0] for side in sides], step.labels) if all(sides) else None


def _quiet(hunk: Hunk, code: DiffCode) -> View:
    """A hunk that moves nothing, and why."""
    empty = hunk.new[1] < hunk.new[0]
    side, path = (0, hunk.old_file) if empty else (1, hunk.new_file)
    return View(
        id=hunk.id,
        place=units.lines_changed(hunk.old, hunk.new),
        why=_(_QUIET.get(hunk.kind, hunk.kind)),
        href=code.anchor(side, path, (hunk.old if empty else hunk.new)[0]),
    )
