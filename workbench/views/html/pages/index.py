"""The index: of ladders and report files one summary each, kept in the manifest.

The index is made from summaries, not from profiles, so that a site of a thousand
profiles with one new capture decodes that one alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from workbench import units
from workbench.analysis.aggregate import kernel_seconds
from workbench.analysis.growth import Measured, representative
from workbench.analysis.limits.limit import limit_of
from workbench.analysis.programs.program import ProgramDifference, total
from workbench.capture.records import ProgramCapture
from workbench.ladder import Ladder, Rung
from workbench.model import Profile, Record, Timing
from workbench.store import means_device, natural_key
from workbench.views.html.page import Badge, ladder_folder, rung_page
from workbench.views.html.pages.ladder import dates
from workbench.views.html.parts import day, once, parameters, percent, profiled

#: Width and height of a sparkline's box, and what is left free around it.
SPARK = (120, 26)
_MARGIN = 3
#: Other problems of a study that stand there unasked.
_UNFOLDED = 5
#: How much stands on one page, in lines of other problems, some 500 bytes each: a study's own line
#: is as long as four of them. A page stays below 400 kB.
_MOST, _STUDY = 600, 4
#: Parameters that can stand for a problem's name.
_SPOKEN = 3


class LadderSummary(Record, frozen=True):
    """What the index says of one ladder; `href` is relative to the site.

    `problem` is its parameters, or its name and `detail` them where they are many. `far` is how
    far its versions came (``v0 276 ms → v10 1.87 ms``), `limit` what limits the fastest now.
    """

    study: str
    title: str
    device: str
    problem: str
    captured: str
    href: str
    folder: str
    work: float  # of the problem: operations, or bytes where it has none
    detail: str = ""
    profiled: int = 0
    first_time: str = ""
    first: str = ""
    gain: str = ""
    limit: str = ""
    limit_href: str = ""
    baseline: str = ""
    fastest: str = ""
    fastest_href: str = ""
    fastest_time: str = ""
    fastest_share: str = ""
    fastest_speed: float = 0.0  # the baseline's is 1; 0: not compared
    place: int = 0  # of the problem among its study's
    default: bool = False  # whether its study is the project's default
    own_device: bool = False  # whether it was recorded on the project's default device
    untimed: bool = False  # every duration is one under the profiler


class ReportSummary(Record, frozen=True):
    """What the index says of one report file."""

    name: str
    device: str
    captured: str
    href: str
    kernels: str
    duration: str


class ProgramSummary(Record, frozen=True):
    """What the index says of a captured program, or of two: `change` is what became of it."""

    name: str
    command: str
    device: str
    captured: str
    href: str
    launches: str
    time: str
    change: str = ""


class Sparkline(Record, frozen=True):
    """The fastest version against the library over a study's problems, in the order of their work.

    `path` is an SVG path in a box of `SPARK`; `par` the height of the library's own speed there,
    `words` all of it as text.
    """

    path: str
    par: str
    words: str
    last: tuple[str, str]
    several: bool


class StudyLine(Record, frozen=True):
    """A study on one device: the ladder that stands for it, and its speed over all problems.

    `top` is the greatest speed of the `others`, at least their baseline's, which is 1.
    """

    number: int
    summary: LadderSummary
    spark: Sparkline | None
    others: tuple[LadderSummary, ...]
    top: float

    @property
    def folded(self) -> bool:
        """Whether its other problems are too many to stand there unasked."""
        return len(self.others) > _UNFOLDED


class IndexLeaf(Record, frozen=True):
    """A page of an index that has several: where it is, and the first and last that stand on it."""

    href: str
    first: str
    last: str


class IndexView(Record, frozen=True):
    """A page of the index, mostly the only one; `here` is its number, and `leaves` are all."""

    chips: tuple[Badge, ...]
    studies: tuple[StudyLine, ...]
    reports: tuple[ReportSummary, ...]
    programs: tuple[ProgramSummary, ...]
    box: tuple[int, int] = SPARK
    here: int = 1
    leaves: tuple[IndexLeaf, ...] = ()


_Line = TypeVar("_Line", StudyLine, ReportSummary, ProgramSummary)


def summarize(ladder: Ladder) -> LadderSummary:
    """The index's words on a ladder."""
    known, folder = ladder.study.problems, ladder_folder(ladder)
    own = [rung for rung in ladder.order if not rung.is_baseline and rung.seconds]
    best = min(own, key=lambda rung: rung.seconds or 0.0, default=None)
    said = parameters(ladder.parameters)
    many = len(ladder.parameters) > _SPOKEN
    page = f"{folder}/{rung_page(best)}" if best and best.entries else ""
    limit = limit_of(best.profile) if best and best.profile else None
    first = own[0] if own and own[0] is not best else None
    return LadderSummary(
        study=ladder.name,
        title=ladder.study.title,
        device=ladder.device_name,
        problem=ladder.problem if many else said or ladder.problem,
        detail=said if many else "",
        captured=dates(ladder),
        href=f"{folder}/index.html",
        folder=folder,
        profiled=sum(bool(rung.entries) for rung in ladder.order),
        work=max((_work(rung.timing) for rung in ladder.order if rung.timing), default=0.0),
        first=first.id if first else "",
        first_time=units.quantity(first.seconds, "s") if first else "",
        gain=_gain(first, best) if first and best else "",
        limit=limit.words if limit else "",
        limit_href=f"{page}#now" if limit and page else "",
        baseline=ladder.baseline.id if ladder.baseline else "",
        fastest=best.id if best else "",
        fastest_href=page,
        fastest_time=units.quantity(best.seconds, "s") if best else "",
        fastest_share=percent(best.of_baseline) if best and best.of_baseline is not None else "",
        fastest_speed=(best.of_baseline or 0.0) if best else 0.0,
        place=known.index(ladder.problem) if ladder.problem in known else len(known),
        default=ladder.study.default,
        own_device=means_device(ladder.study.device, ladder.device),
        untimed=not ladder.timed,
    )


def _work(timing: Timing) -> float:
    return float(timing.flops or timing.bytes or 0.0)


def _gain(first: Rung, best: Rung) -> str:
    found = best.speedup_over(first)
    return units.factor(found.value) if found is not None else ""


def summarize_files(profiles: Sequence[Profile], name: str, href: str) -> ReportSummary:
    """The index's words on a report file, or on two that were compared."""
    return ReportSummary(
        name=name,
        device=once(profile.device.name for profile in profiles),
        captured=once(day(profile.captured) for profile in profiles),
        href=href,
        kernels=once(units.count(len(profiled(profile))) for profile in profiles),
        duration=" → ".join(units.quantity(kernel_seconds(each), "s") for each in profiles),
    )


def summarize_program(capture: ProgramCapture, href: str) -> ProgramSummary:
    """The index's words on a captured program."""
    return ProgramSummary(
        name=f"@{capture.name}",
        command=" ".join(capture.command),
        device=capture.device.name if capture.device else "",
        captured=day(capture.captured),
        href=href,
        launches=units.count(capture.survey.launches),
        time=units.quantity(total(capture.survey).value, "s"),
    )


def summarize_programs(difference: ProgramDifference, href: str) -> ProgramSummary:
    """The index's words on two programs that were compared."""
    sides = [summarize_program(side, href) for side in (difference.old, difference.new)]
    old, new = difference.totals

    def said(field: str) -> str:
        return once(getattr(side, field) for side in sides)

    change = units.signed(difference.change_s.value, "s")
    ratio = units.factor(old.value / new.value) if new.value else ""
    return ProgramSummary(
        name=" → ".join(side.name for side in sides),
        command=said("command"),
        device=said("device"),
        captured=said("captured"),
        href=href,
        launches=said("launches"),
        time=said("time"),
        change=f"{ratio}, {change}".strip(", ") if difference.moved else "no measurable change",
    )


def is_readable(raw: dict[str, object]) -> bool:
    """Whether a ladder's summary has this program's form; an earlier one's may have another."""
    try:
        msgspec.convert(raw, LadderSummary)
    except msgspec.ValidationError:
        return False
    return True


def index_view(
    ladders: Iterable[dict[str, object]],
    reports: Iterable[dict[str, object]],
    programs: Iterable[dict[str, object]] = (),
) -> IndexView:
    """The index, from the summaries that the manifest holds."""
    groups: dict[str, list[LadderSummary]] = {}
    known = (msgspec.convert(raw, LadderSummary) for raw in ladders if is_readable(raw))
    # The manifest has them in the order in which their pages came to be.
    for summary in sorted(known, key=_order):
        groups.setdefault(summary.study, []).append(summary)
    made = (line for found in groups.values() for line in _lines(found))
    studies = tuple(replace(line, number=number) for number, line in enumerate(made, 1))
    files = tuple(msgspec.convert(raw, ReportSummary) for raw in reports)
    captured = tuple(msgspec.convert(raw, ProgramSummary) for raw in programs)
    devices = {s.device for found in groups.values() for s in found}
    devices |= {file.device for file in files}
    devices |= {one.device for one in captured if one.device}
    return IndexView(
        chips=tuple(Badge(text=device) for device in sorted(devices)),
        studies=studies,
        reports=files,
        programs=captured,
    )


def paged(view: IndexView, most: int = _MOST) -> Iterator[tuple[str, IndexView]]:
    """The paths and views of the pages that an index takes: studies, then programs, then reports.

    A study of so many problems that no page holds them stands on several.
    """
    pages: list[IndexView] = []
    empty = replace(view, studies=(), programs=(), reports=())
    page, room = empty, most
    for kind in ("studies", "programs", "reports"):
        for row in _short(getattr(view, kind), most):
            cost = _STUDY + len(row.others) if isinstance(row, StudyLine) else _STUDY
            if cost > room and page != empty:
                pages.append(page)
                page, room = empty, most
            page = replace(page, **{kind: (*getattr(page, kind), row)})
            room -= cost
    pages.append(page)
    leaves = tuple(
        IndexLeaf(href=_href(number), first=names[0], last=names[-1])
        for number, names in enumerate(map(_names, pages), 1)
        if len(pages) > 1
    )
    for number, each in enumerate(pages, 1):
        yield _href(number), replace(each, here=number, leaves=leaves)


def _short(rows: Sequence[_Line], most: int) -> Iterator[_Line]:
    """The rows, a study with more problems than a page holds as several."""
    for row in rows:
        if not isinstance(row, StudyLine) or _STUDY + len(row.others) <= most:
            yield row
            continue
        step = most - _STUDY
        for start in range(0, len(row.others), step):
            yield replace(row, others=row.others[start : start + step])


def _names(view: IndexView) -> list[str]:
    studies = [line.summary.study for line in view.studies]
    programs = [program.name for program in view.programs]
    return [*studies, *programs, *(report.name for report in view.reports)]


def _href(number: int) -> str:
    return "index.html" if number == 1 else f"index-{number}.html"


def _order(summary: LadderSummary) -> tuple[object, ...]:
    """The default study first, then by name, device and problem; the default device first."""
    study, name = natural_key(summary.study), natural_key(summary.folder)
    device = not summary.own_device, natural_key(summary.device)
    return (not summary.default, study, *device, summary.place, name)


def _lines(found: list[LadderSummary]) -> Iterable[StudyLine]:
    """A line for each device that a study was recorded on."""
    for device in dict.fromkeys(summary.device for summary in found):
        own = [summary for summary in found if summary.device == device]
        stands = own[
            representative(
                [Measured(one.profiled, one.work, place) for place, one in enumerate(own)]
            )
        ]
        rest = tuple(summary for summary in own if summary is not stands)
        top = max([1.0, *(summary.fastest_speed for summary in rest)])
        yield StudyLine(number=0, summary=stands, spark=_spark(own), others=rest, top=top)


def _spark(found: list[LadderSummary]) -> Sparkline | None:
    """The fastest versions against the library; None where none was compared with one."""
    compared = sorted((one for one in found if one.fastest_speed), key=lambda one: one.work)
    if not compared:
        return None
    speeds = [one.fastest_speed for one in compared]
    top = max(1.0, *speeds)
    wide, high = SPARK
    step = (wide - 2 * _MARGIN) / max(1, len(speeds) - 1)

    def place(number: int, speed: float) -> tuple[str, str]:
        y = _MARGIN + (high - 2 * _MARGIN) * (1 - speed / top)
        return f"{_MARGIN + step * number:.1f}", f"{y:.1f}"

    points = [place(number, speed) for number, speed in enumerate(speeds)]
    library = next((one.baseline for one in compared if one.baseline), "the library")
    ends = percent(min(speeds)), percent(max(speeds))
    over = f" over {len(compared)} problems" if len(compared) > 1 else ""
    return Sparkline(
        path="M" + " L".join(" ".join(point) for point in points),
        par=place(0, 1.0)[1],
        words=f"{units.span(*ends)} of {library}{over}",
        last=points[-1],
        several=len(compared) > 1,
    )
