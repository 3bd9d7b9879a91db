"""A version's page, and of a report file the overview and a page for each launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from workbench import units
from workbench.analysis.aggregate import kernel_seconds, main_launch, value_of
from workbench.analysis.compare import provenance, remarks
from workbench.analysis.course import course
from workbench.analysis.limits import roofline
from workbench.analysis.limits.headroom import panel_of, score_ways
from workbench.analysis.limits.limit import Breakdown, Limit, breakdown, limit_of
from workbench.analysis.limits.memory import memory
from workbench.analysis.naming import shortened
from workbench.analysis.opinion import Opinion, opinions
from workbench.analysis.timing import TimeChange, time_change
from workbench.counters import Missing, catalog
from workbench.gpus import Chip, chip_for
from workbench.ladder import Rung
from workbench.language import _
from workbench.model import Launch, LineKey, Profile, Record, Rule, Timing
from workbench.specs import Expectation
from workbench.store.codec import decode
from workbench.views.html.charts import roof as charts_roof
from workbench.views.html.charts.drawn import (
    AccessRow,
    MemoryView,
    TimelineView,
    accesses,
    limits,
    memory_view,
    timeline_view,
)
from workbench.views.html.charts.figure import Plot
from workbench.views.html.charts.lines import WhatIf, what_if
from workbench.views.html.charts.several import (
    CounterTable,
    StallSplit,
    key_counters,
    roof_path,
    stack_stalls,
)
from workbench.views.html.code.source import CodeView, code_view
from workbench.views.html.page import (
    Head,
    Link,
    Rendered,
    beside,
    code_name,
    code_script,
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

# --- one launch ---


def said_rules(launch: Launch) -> list[Rule]:
    """The findings that say something, the largest promise first."""
    said = [rule for rule in launch.rules if rule.kind != "ok" and rule.message]
    return sorted(said, key=lambda rule: -(rule.speedup or 0.0))


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
_FACTS = ("blocks", "threads_per_block", "registers", "static_shared", "dynamic_shared", "stack")


#: A group of the counter table: its title and cells.
Group = tuple[str, tuple[CounterCell, ...]]


class LaunchView(Record, frozen=True):
    """All about one launch. `position` counts from 0 on the page."""

    position: int
    launch: Launch
    light: tuple[CounterCell, ...]
    pipes: tuple[CounterCell, ...]
    roofline: Plot | None
    roofline_note: str
    stalls: Breakdown
    code: CodeView
    accesses: tuple[AccessRow, ...]
    opinions: tuple[Opinion, ...]
    memory: MemoryView | None
    timeline: TimelineView | None
    limits: tuple[CounterCell, ...]
    occupancy: tuple[CounterCell, ...]
    occupancy_facts: tuple[CounterCell, ...]
    whatif: WhatIf | None
    facts: tuple[CounterCell, ...]
    rules: list[Rule]
    groups: list[Group]
    missing: list[CounterCell]


def _known(launch: Launch, ids: tuple[str, ...]) -> tuple[CounterCell, ...]:
    cells = (cell(launch, counter) for counter in ids)
    return tuple(item for item in cells if not item.missing)


def _roofline(launch: Launch, chip: Chip | None, identity: str) -> tuple[Plot | None, str]:
    """The launch under its roofs and the closest of them, or why it has no place there."""
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


def _memory(
    profile: Profile, launch: Launch, code: CodeView, prefix: str, *, several: bool
) -> MemoryView | None:
    """The memory chart of one launch; its counters have a prefix where there are several."""
    chart = memory(replace(profile, launches=(launch,)))
    if chart is None:
        return None
    ids = {f"{file.anchor}{line.number}" for file in code.files for line in file.lines}

    def anchor(__: int, key: LineKey) -> str:
        name = f"{code.anchors.get(key[0], '')}{key[1]}"
        return f"#{name}" if name in ids else ""

    return memory_view((chart,), (_("Amount"),), anchor, prefix, f"#{prefix if several else ''}")


def launch_view(
    profile: Profile,
    launch: Launch,
    position: int,
    chip: Chip | None,
    *,
    several: bool = False,
    near: int | None = None,
) -> LaunchView:
    """Everything that a page says about one launch.

    Args:
        profile: Holds the source files.
        launch: The launch.
        position: Of it on its page.
        chip: The device's data sheet, where it is known.
        several: Whether the page has more launches.
        near: Of its sources, how many lines around those with counters (None: all).
    """
    prefix = f"k{position}"
    roof, why = _roofline(launch, chip, f"{prefix}-roofline")
    groups, missing = _groups(launch)
    code = code_view(profile, launch, position, near=near)
    run = course(launch)
    return LaunchView(
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
        memory=_memory(profile, launch, code, f"{prefix}-", several=several),
        limits=limits(launch),
        occupancy=_known(launch, ("theoretical_occupancy", "achieved_occupancy")),
        occupancy_facts=_known(launch, _OCCUPANCY),
        whatif=what_if(launch, chip, f"{prefix}-whatif"),
        facts=_known(launch, _FACTS),
        rules=said_rules(launch),
        groups=groups,
        missing=missing,
    )


def occupancy_note(launch: Launch) -> str:
    """``of 100% theoretical``."""
    return _("of {share} theoretical").format(share=text(launch, "theoretical_occupancy"))


# --- other devices --------------------------------------------------------------------
# A share is of the peak of the device that it was measured on. Whether a time is shorter is said
# where both were measured in the same way, outside of the profiler or under it.


class DeviceRow(Record, frozen=True):
    """A version on one device; `href` leads to its page there, "" for the page that this is.

    `change` compares its time with that of the page's own device; `note` says how it was
    measured, where that is not as usual.
    """

    device: str
    href: str
    seconds: float | None
    note: str
    change: TimeChange | None
    limit: Limit | None


class DevicesView(Record, frozen=True):
    """The devices of a version, the page's own first, and the command that compares two."""

    rows: tuple[DeviceRow, ...]
    command: str


def devices_view(rung: Rung, profile: Profile) -> DevicesView | None:
    """The table of a version's page; None where ncu profiled it on no other device.

    Raises:
        MissingError, DataError: what is recorded on another device cannot be read.
    """
    ladder = rung.ladder
    others = ladder.elsewhere if profile.engine == "ncu" else {}
    there = {slug: files for slug, files in others.items() if (rung.id, "ncu") in files}
    if not there:
        return None
    rows = [_row(profile, profile, rung.timing, rung.timing)]
    for slug, files in there.items():
        time = files.get((rung.id, "time"))
        timing = decode(time, Timing) if time else None
        page = beside(ladder, slug, version_page(rung.id, "ncu"))
        other = ladder.store.load(files[rung.id, "ncu"])
        rows.append(_row(profile, other, rung.timing, timing, page))
    sides = " ".join(
        f"{ladder.name}/{rung.id}@{slug}" for slug in (next(iter(there)), ladder.device)
    )
    return DevicesView(
        rows=tuple(rows),
        command=f"workbench report --single-file {sides} --problem {ladder.problem}",
    )


def _row(
    here: Profile, there: Profile, own: Timing | None, timing: Timing | None, href: str = ""
) -> DeviceRow:
    seconds = timing.time.value if timing else kernel_seconds(there)
    seen = _("under the profiler") if timing is None and seconds is not None else ""
    other = "" if there.source_hash == here.source_hash else _("of another source")
    return DeviceRow(
        device=there.device.name,
        href=href,
        seconds=seconds,
        note=_(", ").join(filter(None, (seen, other))),
        change=time_change(own, timing, across=True) if href else None,
        limit=limit_of(there),
    )


#: Launches of a page that has room for a source from end to end.
_WHOLE_SOURCES = 2


class VersionView(Record, frozen=True):
    """A version page: a head, one section set per launch, and where it all came from."""

    head: Head
    strip: tuple[Phrase, ...]
    panel: PanelView | None
    tiles: tuple[Tile, ...]
    devices: DevicesView | None
    launches: tuple[LaunchView, ...]
    speaker: int  # the position of the launch that takes most of the time; the others are folded
    expectations: tuple[Expectation, ...]
    profile: Profile
    provenance: tuple[tuple[str, str], ...]


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
        tiles += [
            (title, text(launch, counter), note + _("; longest launch") * (count > 1))
            for title, counter, note in (
                (_("Compute"), "sm_throughput", _("of peak")),
                (_("Memory"), "memory_throughput", _("of peak, at its busiest level")),
                (_("Occupancy"), "achieved_occupancy", occupancy_note(launch)),
            )
            if value_of(launch, counter) is not None
        ]
    return tuple(Tile(*tile) for tile in tiles)


def _provenance(profile: Profile) -> tuple[tuple[str, str], ...]:
    capture, device = profile.capture, profile.device
    major, minor = device.compute_capability
    facts = [
        (
            _("Device"),
            _("{device}, compute capability {capability}, {n} SMs").format(
                device=device.name, capability=f"{major}.{minor}", n=device.sms
            ),
        ),
        (_("Captured"), profile.captured or _("the report does not say")),
        (_("Engine"), profile.engine),
        (_("Tools"), ", ".join(f"{name} {version}" for name, version in profile.tools.items())),
        (_("Clock control"), capture.clock_control),
        (_("Cache control"), capture.cache_control),
        (_("Replay"), capture.replay_mode),
        (_("Passes"), units.count(capture.passes) if capture.passes else ""),
        (_("Wall time"), units.quantity(capture.wall_s, "s") if capture.wall_s else ""),
        (_("Captures"), units.count(capture.repeats) if capture.repeats > 1 else ""),
        (_("Sections"), ", ".join(capture.sections)),
        (_("Seed of inputs"), str(profile.verification.seed) if profile.verification else ""),
        (_("Source hash"), profile.source_hash),
    ]
    return tuple((name, said) for name, said in facts if said)


def _view(
    profile: Profile,
    launches: tuple[Launch, ...],
    head: Head,
    rung: Rung | None = None,
    strip: tuple[Phrase, ...] = (),
) -> VersionView:
    chip = chip_for(profile.device)
    speaker = main_launch(profile)
    shown = tuple(
        launch_view(
            profile,
            launch,
            position,
            chip,
            several=len(launches) > 1,
            near=_near(len(launches), launch is speaker),
        )
        for position, launch in enumerate(launches)
    )
    return VersionView(
        head=head,
        strip=strip,
        panel=_panel(profile, shown[launches.index(speaker)], rung) if speaker else None,
        tiles=_tiles(profile, speaker, rung),
        devices=devices_view(rung, profile) if rung else None,
        launches=shown,
        speaker=launches.index(speaker) if speaker else 0,
        expectations=rung.declared.expectations if rung and rung.declared else (),
        profile=profile,
        provenance=_provenance(profile),
    )


def _near(launches: int, speaks: bool) -> int | None:
    """Lines around those with counters that a launch's sources show; None: all.

    Launches of one file would repeat it: the one that takes most time shows the most of it.
    """
    if speaks:
        return None if launches <= _WHOLE_SOURCES else 8
    return 4


def _panel(profile: Profile, speaker: LaunchView, rung: Rung | None) -> PanelView | None:
    """The panel, with what became of its ways in the versions that came after."""
    panel = panel_of(profile)
    lines = {f"{file.anchor}{line.number}" for file in speaker.code.files for line in file.lines}

    def anchor(key: LineKey) -> str:
        found = f"{speaker.code.anchors.get(key[0], '')}{key[1]}"
        return f"#{found}" if found in lines else ""

    scored = []
    for step in rung.ladder.steps if rung else ():
        if rung and step[::2] == (rung.id, profile.engine):
            after = rung.ladder.rungs[step[1]]
            speedup = after.speedup_over(rung)
            if speedup is not None:
                scores = score_ways(panel, panel_of(after.load(profile.engine)), speedup.value)
                scored.append((Link(after.id, step_page(*step)), scores))
    return panel_view(panel, profile, anchor, scored)


def version_view(
    rung: Rung,
    profile: Profile,
    head: Head,
    strips: Mapping[tuple[str, str, str], tuple[Phrase, ...]] = {},
) -> VersionView:
    """The page of a stored profile of `rung`; `strips`: of steps that were told before."""
    ladder = rung.ladder
    head = msgspec.structs.replace(head, chips=(*facts_of(profile), *head.chips))
    head = head.told(remarks(profile), provenance(profile))
    made_by = next((s for s in ladder.steps if s[1:] == (rung.id, profile.engine)), None)
    strip = strips.get(made_by, ()) if made_by else ()
    if made_by and made_by not in strips:
        strip = strip_links(ladder.step(*made_by).story.strip, step_page(*made_by))
    return _view(profile, profiled(profile), head, rung, strip)


def report_launch_view(
    profile: Profile, launch: Launch, name: str, home: str, steps: tuple[Link, ...]
) -> VersionView:
    """The page of one launch of a report file called `name`, whose overview is at `home`."""
    alone = msgspec.structs.replace(profile, launches=(launch,))  # so that totals speak of it
    head = Head(
        heading=launch.kernel,
        name=f"#{launch.index}",
        crumbs=(Link(_("Overview"), "index.html"), Link(name, home), Link(launch.kernel)),
        steps=steps,
        chips=facts_of(profile),
    )
    head = head.told(remarks(profile), provenance(profile))
    return _view(alone, (launch,), head)


def render_version(path: str, view: VersionView) -> Rendered:
    """A version's (or launch's) page, and the file beside it where there are instructions."""
    code = {
        launch.code.prefix: launch.code.beside()
        for launch in view.launches
        if launch.code.sass.count or launch.code.ptx.count
    }
    left = {
        int(line.at.split()[0])
        for launch in view.launches
        for file in launch.code.files
        for line in file.lines
        if line.number == 0 and line.at
    }
    if code and left:
        texts = ((str(file), view.profile.sources[file].text or "") for file in sorted(left))
        code["sources"] = {file: text.split("\n") for file, text in texts}
    name = code_name(path) if code else ""
    html = render("version.html", path, view=view, code_file=name)
    return Rendered(html=html, beside={name: code_script(code)} if code else {})


# --- report files ---------------------------------------------------------------------

#: Charts and counter columns for more launches than this would be a wall, not a picture.
_SIDE_BY_SIDE = 12
#: Longest kernel name beside a bar or in a table of many columns.
_LONGEST = 36


class ReportView(Record, frozen=True):
    """The overview of a report file."""

    head: Head
    launches: tuple[Launch, ...]
    page: Callable[[int], str]
    stalls: StallSplit | None
    roof: Plot | None
    counters: CounterTable | None


def _names(launches: tuple[Launch, ...]) -> list[str]:
    """Kernel names, with the launch's number where a name comes more than once."""
    names = [shortened(launch.kernel, _LONGEST) for launch in launches]
    return [
        name if names.count(name) == 1 else f"{name} #{launch.index}"
        for name, launch in zip(names, launches, strict=True)
    ]


def report_view(profile: Profile, name: str, page: Callable[[int], str]) -> ReportView:
    """The overview of the report file `name`; `page` gives a launch's file name."""
    launches = profiled(profile)
    # The longest ones are what a reader of a long report looks for; order stays the file's.
    longest = sorted(launches, key=lambda item: -(value_of(item, "duration") or 0.0))[
        :_SIDE_BY_SIDE
    ]
    shown = tuple(launch for launch in launches if launch in longest)
    names = _names(shown)
    alone = [
        (label, msgspec.structs.replace(profile, launches=(launch,)))
        for label, launch in zip(names, shown, strict=True)
    ]
    named = list(zip(names, shown, strict=True))
    cut = _("Charts and counters show the {n} longest launches.").format(n=len(shown))
    said = [cut] if len(shown) < len(launches) else []
    crumbs = (Link(_("Overview"), "index.html"), Link(name))
    return ReportView(
        head=Head(heading=name, crumbs=crumbs, chips=facts_of(profile)).told(
            [*remarks(profile), *said], [*provenance(profile), cut]
        ),
        launches=profile.launches,
        page=page,
        stalls=stack_stalls("stalls", alone, "Launch"),
        roof=roof_path("roofline", named, profile, joined=False, noun="Launch"),
        counters=key_counters([(Link(label, page(item.index)), item) for label, item in named]),
    )


def launch_page_view(
    profile: Profile, place: int, name: str, home: str, page: Callable[[int], str]
) -> VersionView:
    """The page of one measured launch, by its place among them."""
    launches = profiled(profile)
    links = [(launch.kernel, page(launch.index)) for launch in launches]
    steps = neighbours(links, place, "launch")
    return report_launch_view(profile, launches[place], name, home, steps)
