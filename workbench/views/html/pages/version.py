"""A version's page; a report file's overview and a page for each of its launches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from workbench import units
from workbench.analysis.aggregate import kernel_seconds, main_launch, value_of
from workbench.analysis.compare import provenance, remarks
from workbench.analysis.limits import roofline
from workbench.analysis.limits.headroom import panel_of, score_ways
from workbench.analysis.limits.limit import breakdown, limit_of
from workbench.analysis.limits.memory import memory
from workbench.analysis.misread import opinions
from workbench.analysis.naming import shortened
from workbench.analysis.timeline import course
from workbench.analysis.times.timing import time_change
from workbench.counters import Missing, catalog
from workbench.gpus import Chip, chip_for
from workbench.ladder import Rung
from workbench.language import _
from workbench.model import Launch, Profile, Timing
from workbench.store.codec import decode
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.drawn import accesses, memory_view, timeline_view
from workbench.views.html.charts.figure import Plot
from workbench.views.html.charts.lines import what_if
from workbench.views.html.charts.several import KEY_COUNTERS, counter_table, roof_path, stack_stalls
from workbench.views.html.code.source import code_view
from workbench.views.html.page import (
    Head,
    Link,
    Rendered,
    View,
    beside,
    code_script,
    file_beside,
    launch_page,
    neighbours,
    step_page,
    version_page,
)
from workbench.views.html.parts import (
    CounterCell,
    PanelView,
    Phrase,
    Tile,
    cell,
    facts_of,
    interval,
    panel_view,
    percent,
    profiled,
    strip_links,
    text,
)
from workbench.views.html.render import render

_LIGHT = ("sm_throughput", "memory_throughput", "l1_throughput", "l2_throughput", "dram_throughput")
_PIPES = (
    "issue_active",
    "fma_utilization",
    "alu_utilization",
    "lsu_utilization",
    "tensor_utilization",
    "fp64_utilization",
    "xu_utilization",
)
_OCCUPANCY = ("warps_per_sm", "eligible_warps", "waves", "tail_idle")
_LIMITS = tuple(
    f"occupancy_limit_{resource}"
    for resource in ("registers", "shared", "warps", "blocks", "barriers")
)
_FACTS = ("blocks", "threads_per_block", "registers", "static_shared", "dynamic_shared", "stack")


#: A group of the counter table: its title and cells.
Group = tuple[str, tuple[CounterCell, ...]]


def _known(launch: Launch, ids: tuple[str, ...]) -> tuple[CounterCell, ...]:
    cells = (cell(launch, counter) for counter in ids)
    return tuple(item for item in cells if not item.missing)


def _roofline(launch: Launch, chip: Chip | None, identity: str) -> tuple[Plot | None, str]:
    """The launch under its roofs and the closest roof, or why it cannot be drawn."""
    place = roofline.position(launch)
    if isinstance(place, Missing):
        return None, place.reason
    top = roofline.roof(chip, launch, place.unit)
    unit = charts_roof.rate_unit(place.unit)
    rows: list[tuple[str, ...]] = []
    series = []
    for level, dot in charts_roof.dots(place, launch.kernel).items():
        series.append((level, [replace(dot, label=level)]))
        limit = top.above(dot.intensity, level)
        rows.append(
            (
                level,
                units.quantity(place.traffic[level], "byte"),
                units.digits3(dot.intensity),
                units.quantity(dot.rate, unit),
                percent(dot.rate / limit) if limit else units.quantity(None),
            )
        )
    work = charts_roof.work_word(unit)
    figure = charts_roof.roofline(
        identity,
        _(
            "Roofline of {kernel}: {work} per second against {work} per byte, "
            "one point for each memory level"
        ).format(kernel=launch.kernel, work=work),
        series,
        [top],
        path=False,
        unit=unit,
    )
    head = (_("Level"), _("Traffic"), _("Operations per byte"), _("Rate"), _("Of its roof"))
    return Plot(figure=figure, head=head, rows=tuple(rows)), charts_roof.nearest(place, top)


def _groups(launch: Launch) -> tuple[list[Group], list[CounterCell]]:
    groups: list[Group] = []
    missing: list[CounterCell] = []
    for identity, title in catalog().groups.items():
        cells = [cell(launch, counter) for counter in catalog().group(identity)]
        missing += [item for item in cells if item.missing]
        known = tuple(item for item in cells if not item.missing)
        if known:
            groups.append((title, known))
    return groups, missing


def _memory(profile: Profile, launch: Launch, code: View, prefix: str, ids: str) -> View | None:
    """The memory chart of one launch; `ids` is the prefix of its counters' ids on the page."""
    chart = memory(replace(profile, launches=(launch,)))
    if chart is None:
        return None
    return memory_view(
        (chart,), (_("Amount"),), lambda __, key: code.anchor(key), f"{prefix}-", f"#{ids}"
    )


def _launch(profile: Profile, launch: Launch, position: int, near: int | None, ids: str) -> View:
    """The page's contents for the launch at `position`.

    `near`: how many source lines around those with counters are shown (None: all).
    """
    prefix, chip = f"k{position}", chip_for(profile.device)
    roof, why = _roofline(launch, chip, f"{prefix}-roofline")
    groups, missing = _groups(launch)
    code = code_view(profile, launch, position, near=near)
    run = course(launch)
    return View(
        position=position,
        launch=launch,
        light=_known(launch, _LIGHT),
        pipes=_known(launch, _PIPES),
        roofline=roof,
        roofline_note=why,
        stalls=breakdown(launch),
        code=code,
        accesses=accesses(launch),
        opinions=opinions(launch),
        timeline=timeline_view((run,), ("",)) if run else None,
        memory=_memory(profile, launch, code, prefix, ids),
        limits=_known(launch, _LIMITS),  # blocks per SM by each resource; the smallest number binds
        occupancy=_known(launch, ("theoretical_occupancy", "achieved_occupancy")),
        occupancy_facts=_known(launch, _OCCUPANCY),
        whatif=what_if(launch, chip, f"{prefix}-whatif"),
        facts=_known(launch, _FACTS),
        # The findings with a message, the largest promise first.
        rules=sorted(
            (rule for rule in launch.rules if rule.kind != "ok" and rule.message),
            key=lambda rule: -(rule.speedup or 0.0),
        ),
        groups=groups,
        missing=missing,
    )


# A share is of the peak of the device that it was measured on. A time is called shorter only if
# both were measured in the same way, outside of the profiler or under it.


def _devices(rung: Rung, profile: Profile) -> View | None:
    """The devices of a version, the page's own first, and the command that compares two.

    None if ncu did not profile it on another device.
    """
    ladder = rung.ladder
    others = ladder.elsewhere if profile.engine == "ncu" else {}
    there = {slug: files for slug, files in others.items() if (rung.id, "ncu") in files}
    if not there:
        return None
    rows = [_row(profile, profile, rung.timing, rung.timing, "")]
    for slug, files in there.items():
        time = files.get((rung.id, "time"))
        timing = decode(time, Timing) if time else None
        page = beside(ladder, slug, version_page(rung.id, "ncu"))
        other = ladder.store.unfolded(files[rung.id, "ncu"])  # its lines are not shown
        rows.append(_row(profile, other, rung.timing, timing, page))
    sides = " ".join(
        f"{ladder.name}/{rung.id}:{ladder.problem}@{slug}"
        for slug in (next(iter(there)), ladder.device)
    )
    command = f"workbench report --single-file {sides}"
    return View(rows=rows, command=command)


def _row(
    here: Profile, there: Profile, own: Timing | None, timing: Timing | None, href: str
) -> View:
    """A version on one device; `href` links to its page there; "" for this page."""
    seconds = timing.time.value if timing else kernel_seconds(there)
    seen = _("under the profiler") if timing is None and seconds is not None else ""
    other = "" if there.source_hash == here.source_hash else _("from a different source")
    return View(
        device=there.device.name,
        href=href,
        seconds=seconds,
        note=_(", ").join(filter(None, (seen, other))),
        change=time_change(own, timing, across=True) if href else None,
        limit=limit_of(there),
    )


#: The most launches on a page that shows whole sources.
_WHOLE_SOURCES = 2


def _tiles(profile: Profile, launch: Launch | None, rung: Rung | None) -> tuple[Tile, ...]:
    tiles: list[tuple[str, str, str]] = []
    timing = rung.timing if rung else None
    count = len(profiled(profile))
    if rung and timing:
        tiles.append((_("Time"), units.quantity(timing.time.value, "s"), interval(timing)))
        if timing.flops:
            rate = timing.flops / timing.time.value
            said = units.quantity(rate, f"{rung.ladder.study.work}/s")
            tiles.append((_("Throughput"), said, _("of the job's work")))
    elif (seconds := kernel_seconds(profile)) is not None:
        note = _("under the profiler, {n} launches") if count > 1 else _("under the profiler")
        tiles.append((_("Duration"), units.quantity(seconds, "s"), note.format(n=count)))
    if rung and not rung.is_baseline and rung.of_baseline:
        baseline = rung.ladder.baseline
        beside = baseline.id if baseline else timing.baseline if timing else ""
        tiles.append((_("Of the baseline's speed"), percent(rung.of_baseline), beside))
    if launch is not None:
        most = text(launch, "theoretical_occupancy")
        theoretical = _("of {share} theoretical").format(share=most)
        tiles += [
            (title, text(launch, counter), note + _("; longest launch") * (count > 1))
            for title, counter, note in (
                (_("Compute"), "sm_throughput", _("of peak")),
                (_("Memory"), "memory_throughput", _("of peak, at its busiest level")),
                (_("Occupancy"), "achieved_occupancy", theoretical),
            )
            if value_of(launch, counter) is not None
        ]
    return tuple(Tile(*tile) for tile in tiles)


def _view(
    profile: Profile,
    launches: tuple[Launch, ...],
    head: Head,
    rung: Rung | None = None,
    strip: tuple[Phrase, ...] = (),
) -> View:
    """The page: its head, the contents for each launch, and the origin of the numbers."""
    speaker = main_launch(profile)
    shown = [
        _launch(
            profile,
            launch,
            position,
            _near(len(launches), launch is speaker),
            f"k{position}-" if len(launches) > 1 else "",
        )
        for position, launch in enumerate(launches)
    ]
    return View(
        head=head,
        strip=strip,
        panel=_panel(profile, shown[launches.index(speaker)].code, rung) if speaker else None,
        tiles=_tiles(profile, speaker, rung),
        devices=_devices(rung, profile) if rung else None,
        launches=shown,
        speaker=launches.index(speaker) if speaker else 0,  # the others are folded
        expectations=rung.declared.expectations if rung and rung.declared else (),
        profile=profile,
    )


def _near(launches: int, speaks: bool) -> int | None:
    """The number of lines shown around those with counters in a launch's sources; None: all.

    Launches from one file would repeat it: the longest launch shows the most of it.
    """
    if speaks:
        return None if launches <= _WHOLE_SOURCES else 8
    return 4


def _panel(profile: Profile, code: View, rung: Rung | None) -> PanelView | None:
    """The panel, with the outcome of its suggestions in later versions."""
    panel = panel_of(profile)
    scored = []
    for step in rung.ladder.steps if rung else ():
        if rung and step[::2] == (rung.id, profile.engine):
            after = rung.ladder.rungs[step[1]]
            speedup = after.speedup_over(rung)
            if speedup is not None:
                scores = score_ways(panel, panel_of(after.load(profile.engine)), speedup.value)
                scored.append((Link(after.id, step_page(*step)), scores))
    return panel_view(panel, profile, code.anchor, scored)


def version_view(
    rung: Rung,
    profile: Profile,
    head: Head,
    strips: Mapping[tuple[str, str, str], tuple[Phrase, ...]] = {},
) -> View:
    """The page of a stored profile of `rung`; `strips`: those of steps rendered before.

    Raises MissingError, DataError: the records on another device cannot be read.
    """
    ladder = rung.ladder
    head = replace(head, chips=(*facts_of(profile), *head.chips))
    head = head.told(remarks(profile), provenance(profile))
    made_by = next((s for s in ladder.steps if s[1:] == (rung.id, profile.engine)), None)
    strip = strips.get(made_by, ()) if made_by else ()
    if made_by and made_by not in strips:
        strip = strip_links(ladder.step(*made_by).story.strip, step_page(*made_by))
    return _view(profile, profiled(profile), head, rung, strip)


def launch_page_view(profile: Profile, place: int, name: str, home: str) -> View:
    """The page of a measured launch, by its index among those of `name`, whose page is `home`."""
    launches = profiled(profile)
    launch = launches[place]
    links = [(each.kernel, launch_page(each.index)) for each in launches]
    head = Head(
        heading=launch.kernel,
        name=f"#{launch.index}",
        crumbs=(Link(_("Overview"), "index.html"), Link(name, home), Link(launch.kernel)),
        steps=neighbours(links, place, "launch"),
        chips=facts_of(profile),
    ).told(remarks(profile), provenance(profile))
    alone = replace(profile, launches=(launch,))  # so that totals cover only it
    return _view(alone, (launch,), head)


def render_version(path: str, view: View) -> Rendered:
    """A version's (or launch's) page, and the file beside it if there are instructions."""
    codes = [launch.code for launch in view.launches]
    code = {
        one.prefix: {"anchors": one.anchors, "sass": one.sass.columns, "ptx": one.ptx.columns}
        for one in codes
        if one.sass.count or one.ptx.count
    }
    left = {file for one in codes for file in one.cut}
    if code and left:
        texts = ((str(file), view.profile.sources[file].text or "") for file in sorted(left))
        code["sources"] = {file: text.split("\n") for file, text in texts}
    name = file_beside(path) if code else ""
    html = render("version.html", path, view=view, code_file=name)
    return Rendered(html=html, beside={name: code_script(code)} if code else {})


#: Charts and counter columns for more launches than this would be unreadable.
_SIDE_BY_SIDE = 12
#: The length of a kernel's name beside a bar or in a table with many columns.
_LONGEST = 36


def _names(launches: tuple[Launch, ...]) -> list[str]:
    """Kernel names, with the launch's number if a name occurs more than once."""
    names = [shortened(launch.kernel, _LONGEST) for launch in launches]
    return [
        name if names.count(name) == 1 else f"{name} #{launch.index}"
        for name, launch in zip(names, launches, strict=True)
    ]


def report_view(profile: Profile, name: str) -> View:
    """The overview of the report file `name`."""
    launches = profiled(profile)
    # Readers of a long report look for the longest launches, which stay in the file's order.
    longest = sorted(launches, key=lambda item: -(value_of(item, "duration") or 0.0))[
        :_SIDE_BY_SIDE
    ]
    shown = tuple(launch for launch in launches if launch in longest)
    names = _names(shown)
    named = list(zip(names, shown, strict=True))
    alone = [(label, replace(profile, launches=(launch,))) for label, launch in named]
    cut = _("Charts and counters show the {n} longest launches.").format(n=len(shown))
    said = [cut] if len(shown) < len(launches) else []
    crumbs = (Link(_("Overview"), "index.html"), Link(name))
    linked = [(Link(name, launch_page(one.index)), one) for name, one in named]
    return View(
        head=Head(heading=name, crumbs=crumbs, chips=facts_of(profile)).told(
            [*remarks(profile), *said], [*provenance(profile), cut]
        ),
        launches=profile.launches,
        page=launch_page,
        stalls=stack_stalls(alone, "Launch"),
        roof=roof_path("roofline", named, profile, joined=False, noun="Launch"),
        counters=counter_table(linked, KEY_COUNTERS),
    )
