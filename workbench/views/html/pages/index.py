"""The index and the pages of studies, from one stored summary per ladder and report file.

They are made from the manifest's summaries, not from profiles, so that a site with a thousand
profiles and one new capture decodes only that one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from workbench import units
from workbench.analysis.aggregate import kernel_seconds, main_launch
from workbench.analysis.limits.limit import limit_of
from workbench.counters import catalog
from workbench.ladder import Ladder, Rung
from workbench.language import _
from workbench.model import Profile, Record
from workbench.store import means_device, natural_key
from workbench.views.html.page import (
    Badge,
    Head,
    Link,
    View,
    ladder_folder,
    rung_page,
    short_device,
    step_page,
    study_page,
)
from workbench.views.html.pages.ladder import dates
from workbench.views.html.parts import day, once, parameters, profiled

#: Width and height of a sparkline's box, and its margin.
_SPARK = (120, 26)
_MARGIN = 3
#: Rows on a page of the index, and ladders on a study's page: a page stays below 400 kB.
_MOST = 240
#: The most characters of a kernel's name that a search uses.
_KERNEL = 60
#: The most parameters that replace a problem's name.
_SPOKEN = 3


class RungSummary(Record, frozen=True):
    """The index entry of one version: its page, and that of its step; "" if there is none.

    `seconds` is its time, `error` the largest error of its results against the reference; None if
    unknown.
    """

    id: str
    title: str
    page: str = ""
    step: str = ""
    seconds: float | None = None
    error: float | None = None
    library: bool = False
    kernel: str = ""  # that of its longest launch
    file: str = ""  # the first of its sources


class LadderSummary(Record, frozen=True):
    """The index entry of one ladder; `href` is relative to the site.

    `problem` is its parameters; if there are many, its name, and `detail` the parameters. `far` is
    the progress of its versions (``v0 276 ms → v10 1.87 ms``), `limit` the fastest one's limit.
    """

    study: str
    title: str
    device: str
    problem: str
    captured: str
    href: str
    folder: str
    work: float  # of the problem: operations, or bytes if it has none
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
    fastest_speed: float | None = None  # relative to the baseline; None: not compared
    place: int = 0  # the problem's index in its study
    slug: str = ""  # the device's slug
    default: bool = False  # whether its study is the project's default
    own_device: bool = False  # whether it was recorded on the project's default device
    untimed: bool = False  # every duration was measured under the profiler
    rungs: tuple[RungSummary, ...] = ()
    pairs: tuple[str, ...] = ()  # pages of comparisons in addition to the steps


class ReportSummary(Record, frozen=True):
    """The index entry of one report file."""

    name: str
    device: str
    captured: str
    href: str
    kernels: str
    duration: str


class ProgramSummary(Record, frozen=True):
    """The index entry of a captured program, or of two: `change` is its change."""

    name: str
    command: str
    device: str
    captured: str
    href: str
    launches: str
    time: str
    change: str = ""


def summarize(ladder: Ladder, pairs: Iterable[str] = ()) -> LadderSummary:
    """The index's words about a ladder; `pairs`: pages of comparisons other than its steps."""
    known, folder = ladder.study.problems, ladder_folder(ladder)
    own = [rung for rung in ladder.order if not rung.is_baseline and rung.seconds]
    best = min(own, key=lambda rung: rung.seconds or 0.0, default=None)
    said = parameters(ladder.parameters)
    many = len(ladder.parameters) > _SPOKEN
    page = f"{folder}/{rung_page(best)}" if best and best.entries else ""
    limit = limit_of(best.profile) if best and best.profile else None
    steps = {new: step_page(old, new, engine) for old, new, engine in ladder.steps[::-1]}
    first = own[0] if own and own[0] is not best else None
    gain = best.speedup_over(first) if first and best else None
    timed = [rung.timing for rung in ladder.order if rung.timing]
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
        work=float(max((timing.flops or timing.bytes or 0.0 for timing in timed), default=0.0)),
        first=first.id if first else "",
        first_time=units.quantity(first.seconds, "s") if first else "",
        gain=units.factor(gain.value) if gain else "",
        limit=limit.words if limit else "",
        limit_href=f"{page}#now" if limit and page else "",
        baseline=ladder.baseline.id if ladder.baseline else "",
        fastest=best.id if best else "",
        fastest_href=page,
        fastest_time=units.quantity(best.seconds, "s") if best else "",
        fastest_share=units.factor(best.of_baseline) if best and best.of_baseline else "",
        fastest_speed=best.of_baseline if best else None,
        place=known.index(ladder.problem) if ladder.problem in known else len(known),
        slug=ladder.device,
        default=ladder.study.default,
        own_device=means_device(ladder.study.device, ladder.device),
        untimed=not ladder.timed,
        rungs=tuple(_rung(rung, steps.get(rung.id, "")) for rung in ladder.order),
        pairs=tuple(pairs),
    )


def _rung(rung: Rung, step: str) -> RungSummary:
    checked = rung.timing and rung.timing.verification
    launch = main_launch(rung.profile) if rung.profile else None
    return RungSummary(
        id=rung.id,
        title=rung.title,
        page=rung_page(rung),
        step=step,
        seconds=rung.seconds,
        error=checked.error if checked else None,
        library=rung.is_baseline,
        kernel=launch.kernel[:_KERNEL] if launch else "",
        file=rung.profile.sources[0].path if rung.profile and rung.profile.sources else "",
    )


def summarize_files(profiles: Sequence[Profile], name: str, href: str) -> ReportSummary:
    """The index's words about a report file, or about two compared ones."""
    return ReportSummary(
        name=name,
        device=once(profile.device.name for profile in profiles),
        captured=once(day(profile.captured) for profile in profiles),
        href=href,
        kernels=once(units.count(len(profiled(profile))) for profile in profiles),
        duration=" → ".join(units.quantity(kernel_seconds(each), "s") for each in profiles),
    )


def is_readable(raw: dict[str, object]) -> bool:
    """True if a ladder's summary has the current form; an earlier release may have used another."""
    try:
        msgspec.convert(raw, LadderSummary)
    except msgspec.ValidationError:
        return False
    return True


def views(ladders: list[dict[str, object]], *others: list[dict[str, object]]) -> dict[str, View]:
    """The pages by path: of a study, or of the index, which also has reports and programs."""
    if not others:
        return dict(study_views(ladders))
    pages = dict(paged(index_view(ladders, *others)))
    names = [(str(each["name"]), str(each["href"])) for found in others for each in found]
    pages["index.html"] = pages["index.html"].but(
        beside={"site.js": site_script(ladders, names)}  # for all pages
    )
    return pages


def index_view(
    ladders: Iterable[dict[str, object]],
    reports: Iterable[dict[str, object]],
    programs: Iterable[dict[str, object]] = (),
) -> View:
    """The index, from the summaries in the manifest."""
    groups = _by_study(ladders)
    files = msgspec.convert(list(reports), list[ReportSummary])
    captured = msgspec.convert(list(programs), list[ProgramSummary])
    devices = {s.device for found in groups.values() for s in found}
    devices |= {file.device for file in files}
    devices |= {one.device for one in captured if one.device}
    return View(
        chips=[Badge(text=device) for device in sorted(devices)],
        studies=list(map(_line, groups.values())),
        reports=files,
        programs=captured,
        here=1,
        leaves=[],
    )


def paged(view: View, most: int = _MOST) -> Iterator[tuple[str, View]]:
    """The paths and views of the pages of an index: studies, then programs, then reports."""
    rows = [(kind, row) for kind in _KINDS for row in getattr(view, kind)]
    pages = [rows[start : start + most] for start in range(0, len(rows), most)] or [[]]
    names = [[row.summary.study if of == "studies" else row.name for of, row in p] for p in pages]
    leaves = _leaves("index", names)
    for number, page in enumerate(pages, 1):
        own = {kind: [row for of, row in page if of == kind] for kind in _KINDS}
        yield _href("index", number), view.but(**own, here=number, leaves=leaves)


_KINDS = ("studies", "programs", "reports")


def _leaves(page: str, names: Sequence[Sequence[str]]) -> list[View]:
    """The pages of a list that needs several, with the first and last entry of each."""
    return [
        View(href=_href(page, number), first=own[0], last=own[-1])
        for number, own in enumerate(names if len(names) > 1 else (), 1)
    ]


def _href(page: str, number: int) -> str:
    return f"{page}.html" if number == 1 else f"{page}-{number}.html"


def _by_study(ladders: Iterable[dict[str, object]]) -> dict[str, list[LadderSummary]]:
    groups: dict[str, list[LadderSummary]] = {}
    known = (msgspec.convert(raw, LadderSummary) for raw in ladders if is_readable(raw))
    # The manifest has them in the order in which their pages were first made.
    for summary in sorted(known, key=_order):
        groups.setdefault(summary.study, []).append(summary)
    return groups


def _order(summary: LadderSummary) -> tuple[object, ...]:
    """The default study first, then by name, device and problem; the default device first."""
    study, name = natural_key(summary.study), natural_key(summary.folder)
    device = not summary.own_device, natural_key(summary.device)
    return (not summary.default, study, *device, summary.place, name)


def _stands(found: Sequence[LadderSummary]) -> LadderSummary:
    """The ladder that represents a study: on the first device, the most informative problem.

    It is the problem with the most work among those with the most profiled versions: a small one
    shows the cost of launches and half-empty grids rather than the code.
    """
    own = [summary for summary in found if summary.device == found[0].device]
    return max(own, key=lambda one: (one.profiled, one.work))


def _line(found: Sequence[LadderSummary]) -> View:
    """A study: its ladder, its speed over that device's problems, its page."""
    stands = _stands(found)
    return View(
        summary=stands,
        href=study_page(stands.study),
        spark=_spark([one for one in found if one.device == stands.device]),
        devices=tuple(dict.fromkeys(one.device for one in found)),
        problems=len({one.problem for one in found}),
    )


def study_views(
    ladders: Iterable[dict[str, object]], most: int = _MOST
) -> Iterator[tuple[str, View]]:
    """The paths and views of a study's pages, from the summaries of its ladders.

    Each has the ladder that represents the study, and a part of all ladders as a matrix.
    """
    for name, found in _by_study(ladders).items():
        stands = _stands(found)
        devices = tuple(dict.fromkeys(one.device for one in found))
        of = {(one.problem, one.device): one for one in found}
        work = {one.problem: (one.work, one.place) for one in found}
        name_of = {one.problem: one.folder.rpartition("/")[2] for one in found}
        rows = [
            View(
                problem=name_of[problem],
                detail=next(one.detail for one in found if one.problem == problem) or problem,
                cells=[of.get((problem, device)) for device in devices],
            )
            for problem in sorted(work, key=lambda problem: work[problem])
        ]
        step = max(1, most // len(devices))
        parts = [rows[start : start + step] for start in range(0, len(rows), step)]
        view = View(
            head=Head(
                heading=stands.title,
                name=name if stands.title != name else "",
                crumbs=(Link(_("Overview"), "index.html"), Link(name)),
            ),
            stands=stands,
            said=_said(stands),
            devices=devices,
            sparks=[_spark([one for one in found if one.device == d]) for d in devices],
            bars=_bars(stands),
            libraries=[
                line
                for device in devices
                for line in _libraries(_stands([one for one in found if one.device == device]))
            ],
        )
        folder, __, page = study_page(name).removesuffix(".html").rpartition("/")
        leaves = _leaves(page, [[row.problem for row in part] for part in parts])
        for number, part in enumerate(parts, 1):
            own = view.but(rows=part, here=number, leaves=leaves)
            yield f"{folder}/{_href(page, number)}", own


def site_script(ladders: Iterable[dict[str, object]], files: Iterable[tuple[str, str]]) -> bytes:
    """The list of pages, for `around.js`; `files`: names and addresses of other pages."""
    groups = _by_study(ladders)
    every = [one for found in groups.values() for one in found]
    said = {
        "studies": [
            {"n": name, "t": own[0].title, "h": study_page(name)} for name, own in groups.items()
        ],
        "titles": {
            name: {rung.id: rung.title for one in own for rung in one.rungs}
            for name, own in groups.items()
        },
        "ladders": [
            {
                "s": one.study,
                "d": one.device,
                "g": short_device(one.slug, (other.slug for other in every)),
                "p": one.folder.rpartition("/")[2],
                "f": one.folder,
                "r": [(rung.id, rung.page, rung.step) for rung in one.rungs],
                "x": one.pairs,
                "k": [(rung.kernel, rung.page, rung.file) for rung in one.rungs if rung.kernel],
            }
            for one in every
        ],
        "files": list(files),
        "counters": [(counter.id, counter.title) for counter in catalog()],
    }
    return b"window.workbenchSite=" + msgspec.json.encode(said) + b";\n"


def _fastest(summary: LadderSummary) -> RungSummary | None:
    return next((rung for rung in summary.rungs if rung.id == summary.fastest), None)


def _said(summary: LadderSummary) -> str:
    """``On n1 v15 is 4.30× as fast as cublas (float32), at 0.2× its error; the fastest …``."""
    libraries = [line.rung for line in _libraries(summary)]
    own = next((each for each in libraries if each.id == summary.baseline), None)
    best = _fastest(summary)
    if best is None or own is None or not summary.fastest_speed:
        return ""
    named = f"{own.id} ({own.title})" if own.title else own.id
    said = _("On {problem} {version} is {ratio} as fast as {library}").format(
        problem=summary.problem,
        version=best.id,
        ratio=units.factor(summary.fastest_speed),
        library=named,
    ) + _exact(best, own)
    least = min(libraries, key=lambda each: each.seconds or math.inf)
    if least is not own:
        said += _("; the fastest library, {library}, takes {time}").format(
            library=least.id, time=units.quantity(least.seconds, "s")
        )
    return said + _(".")


def _exact(best: RungSummary, library: RungSummary) -> str:
    """The ratio of the two errors in words, if both are known."""
    if not best.error or not library.error:
        return ""
    ratio = best.error / library.error
    if 0.8 < ratio < 1.25:
        return _(", as exact")
    return _(", at {ratio}× its error").format(ratio=units.digits3(ratio))


def _libraries(summary: LadderSummary) -> Iterator[View]:
    """The libraries of a ladder, each compared with the fastest version."""
    best = _fastest(summary)
    for rung in summary.rungs:
        if rung.library and rung.seconds:
            beside = ""
            if best is not None and best.seconds:
                # It was measured in one run with the baseline.
                speed = summary.fastest_speed if rung.id == summary.baseline else None
                beside = f"{best.id}: {units.factor(speed or rung.seconds / best.seconds)}"
                beside += _exact(best, rung)
            yield View(device=f"{summary.device}, {summary.problem}", rung=rung, beside=beside)


def _bars(summary: LadderSummary) -> list[View]:
    """The versions' times, then the libraries'; the fastest has a tenth of the height."""
    timed = [(rung, rung.seconds) for rung in summary.rungs if rung.seconds]
    if not timed:
        return []
    least, most = (of(seconds for _, seconds in timed) for of in (min, max))
    decades = math.log(most / least) or 1.0
    return [
        View(
            rung=rung,
            href=f"{summary.folder}/{rung.step or rung.page or 'index.html'}",
            height=f"{10 + 90 * math.log(seconds / least) / decades:.0f}",
        )
        for rung, seconds in timed
    ]


def _spark(found: list[LadderSummary]) -> View | None:
    """The fastest versions against the library over a study's problems, in order of their work.

    None if no version was compared with a library. `par` is the height of the library's speed.
    """
    compared = sorted((one for one in found if one.fastest_speed), key=lambda one: one.work)
    speeds = [one.fastest_speed for one in compared if one.fastest_speed]
    if not speeds:
        return None
    top = max(1.0, *speeds)
    wide, high = _SPARK
    step = (wide - 2 * _MARGIN) / max(1, len(speeds) - 1)

    def place(number: int, speed: float) -> tuple[str, str]:
        y = _MARGIN + (high - 2 * _MARGIN) * (1 - speed / top)
        return f"{_MARGIN + step * number:.1f}", f"{y:.1f}"

    points = [place(number, speed) for number, speed in enumerate(speeds)]
    library = next((one.baseline for one in compared if one.baseline), _("the library"))
    ends = units.factor(min(speeds)), units.factor(max(speeds))
    words = _("{ratio} {library} over {n} problems") if len(compared) > 1 else "{ratio} {library}"
    return View(
        box=_SPARK,
        path="M" + " L".join(" ".join(point) for point in points),
        par=place(0, 1.0)[1],
        words=words.format(ratio=units.span(*ends), library=library, n=len(compared)),
        last=points[-1],
        several=len(compared) > 1,
    )
