"""View models of a report file's pages: an overview of its launches, and one page each."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from workbench.analysis.aggregate import value_of
from workbench.analysis.launches import shortened
from workbench.analysis.remarks import remarks
from workbench.model import Launch, Profile, Record
from workbench.views.html.charts.figure import Plot
from workbench.views.html.charts.several import (
    CounterTable,
    StallSplit,
    key_counters,
    roof_path,
    stack_stalls,
)
from workbench.views.html.pages.version import VersionView, head_chips, report_launch_view
from workbench.views.html.parts.common import Head, Link, neighbours, profiled

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
    notices = remarks(profile)
    if len(shown) < len(launches):
        notices.append(f"Charts and counters show the {len(shown)} longest launches.")
    return ReportView(
        head=Head(
            heading=name,
            crumbs=(Link("Overview", "index.html"), Link(name)),
            chips=head_chips(profile),
            notices=tuple(notices),
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
