"""The pages of a ladder: their heads, and the content key of each.

A key covers only the page's inputs, so that an edit of one version's source, which changes its
study's folder, changes few pages. Heads are both shown and digested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import msgspec
from msgspec.structs import replace

from workbench.errors import DataError
from workbench.features import FEATURES
from workbench.ladder import Ladder, Rung
from workbench.ladder.tunings import Tuning
from workbench.language import _
from workbench.views.html.page import (
    LADDERS,
    Badge,
    Head,
    Link,
    Page,
    Rendered,
    beside,
    digest,
    ladder_crumbs,
    ladder_folder,
    neighbours,
    rung_page,
    step_page,
    tuned_page,
    version_page,
)
from workbench.views.html.site import Site

if TYPE_CHECKING:
    from workbench.views.html.parts import Phrase

    Strip = tuple[Phrase, ...]

#: Old version, new version, engine.
StepName = tuple[str, str, str]


def step_head(ladder: Ladder, step: StepName) -> Head:
    """The head of a step's page on a ladder."""
    old, new, engine = step
    after = ladder.rungs[new]
    order = [
        each
        for rung in ladder.along(after)
        for each in ladder.steps
        if each[1:] == (rung.id, engine)
    ]
    is_step = step in order  # else a requested pair
    links = [(f"{one[0]} → {one[1]}", step_page(*one)) for one in order]
    return Head(
        name=f"{old} → {new}",
        heading=(after.title if is_step else "") or ladder.study.title,
        change=after.declared.change if after.declared and is_step else "",
        crumbs=(*_crumbs(ladder), Link(f"{old} → {new}")),
        steps=neighbours(links, order.index(step), "step") if is_step else (),
        pages=(Link(old, version_page(old, engine)), Link(new, version_page(new, engine))),
        listings=True,
        chips=_stale_chips({old: ladder.rungs[old], new: after}, engine),
        notices=_unread(ladder),
    )


def devices_head(rungs: tuple[Rung, Rung], labels: tuple[str, str], engine: str) -> Head:
    """The head of a page that compares two devices; it is beside the pages of the second one.

    The rungs have one study and problem; the labels are like ``v5@h100`` and ``v5@h200``.
    """
    before, after = rungs
    title = after.title if before.id == after.id else ""
    name = " → ".join(labels)
    return Head(
        name=name,
        heading=_("{title}, on {old} and {new}").format(
            title=title or after.ladder.study.title,
            old=before.ladder.device_name,
            new=after.ladder.device_name,
        ),
        crumbs=(*_crumbs(after.ladder), Link(name)),
        pages=tuple(
            Link(label, beside(after.ladder, rung.ladder.device, version_page(rung.id, engine)))
            for label, rung in zip(labels, rungs, strict=True)
        ),
        listings=True,
        chips=_stale_chips(dict(zip(labels, rungs, strict=True)), engine),
        notices=_unread(after.ladder),
    )


def version_head(rung: Rung, engine: str) -> Head:
    """The head of a version's page, from its ladder."""
    ladder, declared = rung.ladder, rung.declared
    order = [other for other in ladder.along(rung) if other.entries]
    links = [(other.id, rung_page(other)) for other in order]
    mark = Badge(text=_("stale: the source has changed since"), tone="warn")
    return Head(
        heading=rung.title or f"{ladder.study.title}: {rung.id}",
        name=rung.id,
        change=declared.change if declared else "",
        crumbs=(*_crumbs(ladder), Link(rung.id)),
        steps=neighbours(links, order.index(rung), "version"),
        pages=tuned_links(ladder, rung.id),
        chips=(mark,) if rung.outdated(engine) else (),
        notices=_unread(ladder),
    )


class TunedPages(Protocol):
    """The module of a feature that makes the page of a tuned version."""

    def render_tuned(self, path: str, ladder: Ladder, tuning: Tuning, head: Head) -> Rendered:
        """The page of a tuning on the ladder's problem."""


#: The feature that has such a module.
_TUNED = next((each for each in FEATURES if each.tunings), None)


def _tunings(ladder: Ladder) -> Mapping[Path, Tuning]:
    """The tunings that have a page."""
    return ladder.tunings if _TUNED else {}


def tuned_links(ladder: Ladder, version: str | None = None) -> tuple[Link, ...]:
    """Links to the pages of tuned versions, or of one of them."""
    return tuple(
        Link(
            each.version if each.engine == "gpu" else f"{each.version} ({each.engine})",
            tuned_page(each.version, each.engine),
        )
        for each in _tunings(ladder).values()
        if version in (None, each.version)
    )


def tuned_head(ladder: Ladder, tuning: Tuning) -> Head:
    """The head of a tuned version's page."""
    now = ladder.study.source_hash(tuning.version)
    stale = _("stale: the source has changed since")
    counted = _("by the emulator’s estimates: no time was measured")
    chips = [Badge(text=stale, tone="warn")] * bool(now and now != tuning.source_hash)
    chips += [Badge(text=counted, tone="warn")] * (tuning.engine == "emulator")
    rung = ladder.rung(tuning.version)
    heading = rung.title or ladder.study.title
    page = rung_page(rung)
    crumbs = Link(tuning.version, page and f"{ladder_folder(ladder)}/{page}")
    return Head(
        name=tuning.version,
        heading=_("{title}, tuned").format(title=heading),
        change=_("on {problem}, by {strategy} of its space").format(
            problem=ladder.problem,
            strategy=_("all") if tuning.strategy == "all" else tuning.strategy,
        ),
        crumbs=(*_crumbs(ladder), crumbs, Link(_("tuned"))),
        chips=tuple(chips),
        notices=_unread(ladder),
    )


def _crumbs(ladder: Ladder) -> tuple[Link, ...]:
    *above, here = ladder_crumbs(ladder)
    return (*above, Link(here.text, f"{ladder_folder(ladder)}/index.html"))


def _stale_chips(rungs: dict[str, Rung], engine: str) -> tuple[Badge, ...]:
    return tuple(
        Badge(
            text=_("{version} is stale: its source has changed since").format(version=name),
            tone="warn",
        )
        for name, rung in rungs.items()
        if rung.outdated(engine)
    )


def _unread(ladder: Ladder) -> tuple[str, ...]:
    problem = ladder.study.problem
    return (_("The study could not be read: {why}").format(why=problem),) if problem else ()


class _PageKeys:
    """Keys that decide if a ladder's pages are written again.

    Files are hashed before anything is rendered, so a key never covers later contents. `code` is
    the key of the rendering code.
    """

    def __init__(self, site: Site, ladder: Ladder, code: str) -> None:
        self._site, self._ladder = site, ladder
        self._common = [code, ladder.name, ladder.device, ladder.problem, ladder.study.work]
        self._files = {name: site.content(path) for name, path in sorted(ladder.files.items())}

    def of(self, versions: Collection[str], timed: Collection[str], *more: object) -> str:
        """A page's key: all records of `versions`, the times of `timed`, and `more`."""
        recorded = [
            (version, kind, content)
            for (version, kind), content in self._files.items()
            if version in versions or (kind == "time" and version in timed)
        ]
        told = [
            (each.id, each.parent, each.expectations)
            for each in self._ladder.study.versions.values()
            if each.id in versions
        ]
        return digest(msgspec.json.encode([*self._common, recorded, told, *more]))

    def of_ladder(self, times: Sequence[str], links: Sequence[Link]) -> str:
        """The key over all records and study words; `times` and `links`: see `ladder_pages`."""
        ladder, study = self._ladder, self._ladder.study
        said = [
            (v.id, v.title, v.parent, v.change, v.baseline, v.expectations)
            for v in study.versions.values()
        ]
        stale = [rung.is_stale for rung in ladder.order]
        words = [study.title, study.problem, study.problems, study.default, study.device]
        tuned = tuned_links(ladder), _untold(ladder)
        return self.of(ladder.rungs, (), words, said, stale, times, links, tuned)

    def of_step(self, step: StepName) -> str:
        """The key over both sides and the page's head."""
        return self.of(step[:2], (), step_head(self._ladder, step))

    def of_tuned(self, path: Path) -> str:
        """The key over the tuning, its profiles, and the page's head."""
        ladder, tuning = self._ladder, self._ladder.tunings[path]
        files = (path, *(at for _, at in tuning.sides(ladder.store, ladder.problem)))
        contents = [self._site.content(each) for each in files if each.is_file()]
        return self.of((), (), tuned_head(ladder, tuning), contents)

    def of_version(self, rung: Rung, engine: str) -> str:
        """The key over it and its neighbours, its records on other devices, and the page's head.

        Its share of the baseline's speed needs the baseline's time. If there are several baselines,
        all times decide which one is used.
        """
        ladder = self._ladder
        libraries = [each.id for each in ladder.order if each.is_baseline]
        timed = libraries if len(libraries) < 2 else sorted(ladder.rungs)
        beside = {each for step in ladder.steps if rung.id in step for each in step[:2]}
        elsewhere = [
            (device, kind, self._site.content(path))
            for device, files in sorted(ladder.elsewhere.items())
            for (version, kind), path in sorted(files.items())
            if version == rung.id and kind in ("ncu", "time")
        ]
        return self.of({rung.id, *beside}, timed, version_head(rung, engine), elsewhere)


def times_of(site: Site, ladder: Ladder) -> list[str]:
    """Digests of a ladder's times, by version."""
    files = sorted(ladder.files.items())
    return [f"{key[0]} {site.content(path)}" for key, path in files if key[1] == "time"]


def ladder_pages(
    site: Site,
    ladder: Ladder,
    code: str,
    times: Sequence[str] = (),
    pairs: Sequence[StepName] = (),
    devices: Sequence[Link] = (),
    only: str = "",
) -> Iterator[Page]:
    """The ladder's own page, one per step and requested pair, one per version and engine.

    `code` is the key of the rendering code; `times` are digests of all times of the study on the
    device, which the ladder's page shows. `pairs` are comparisons in addition to the steps,
    `devices` pages that compare two devices. With `only`, only that page gets a key.
    """
    folder, key = ladder_folder(ladder), _PageKeys(site, ladder, code)

    def page(name: str, key: Callable[[], str], render: Callable[[str], Rendered]) -> Page:
        path, own = f"{folder}/{name}", key() if only in ("", name) else ""
        return Page(path, own, f"{LADDERS}:{ladder.name}", partial(render, path), folder)

    steps = [
        page(step_page(*step), partial(key.of_step, step), partial(_render_step, ladder, step))
        for step in dict.fromkeys([*ladder.steps, *pairs])
    ]
    strips = cache(partial(_kept_strips, site, ladder, steps))
    links = [*(Link(f"{old} → {new}", step_page(old, new, e)) for old, new, e in pairs), *devices]
    render = partial(_render_ladder, ladder, links, strips)
    yield page("index.html", partial(key.of_ladder, times, links), render)
    yield from steps
    for file, tuning in _tunings(ladder).items():
        name = tuned_page(tuning.version, tuning.engine)
        yield page(name, partial(key.of_tuned, file), partial(_render_tuned, ladder, tuning))
    for rung in ladder.rungs.values():
        for engine in rung.entries:
            name = version_page(rung.id, engine)
            shown = partial(_render_version, rung, engine, strips)
            yield page(name, partial(key.of_version, rung, engine), shown)


def _untold(ladder: Ladder) -> tuple[str, ...]:
    """Errors of reading the study's tunings."""
    found = ladder.family.tunings.values()
    return tuple(each.message for each in found if isinstance(each, DataError))


def _kept_strips(site: Site, ladder: Ladder, pages: Sequence[Page]) -> dict[StepName, Strip]:
    """The strips of steps that have an up-to-date page."""
    from workbench.views.html.parts import Phrase

    return {
        step: msgspec.convert(kept.summary["strip"], tuple[Phrase, ...])
        for step, page in zip(ladder.steps, pages, strict=False)
        if (kept := site.current(page)) is not None
    }


def _render_step(ladder: Ladder, step: StepName, path: str) -> Rendered:
    from workbench.views.html.pages.diff import diff_view, render_diff
    from workbench.views.html.parts import strip_links

    compared = ladder.step(*step)
    page = render_diff(path, diff_view(compared, step_head(ladder, step)))
    strip = msgspec.to_builtins(strip_links(compared.story.strip, step_page(*step)))
    pair = {} if step in ladder.steps else {"pair": list(step[:2])}
    return replace(page, summary={**pair, "strip": strip})


def render_devices(
    rungs: tuple[Rung, Rung], labels: tuple[str, str], engine: str, path: str
) -> Rendered:
    """The comparison of an engine's records on two devices, without predictions."""
    from workbench.analysis.story import Step
    from workbench.views.html.pages.diff import diff_view, render_diff

    old, new = rungs
    times = (old.timing, new.timing) if engine == "ncu" else (None, None)
    step = Step(old.load(engine), new.load(engine), labels, times, across=True)
    return render_diff(path, diff_view(step, devices_head(rungs, labels, engine)))


def _render_ladder(
    ladder: Ladder, pairs: list[Link], strips: Callable[[], Mapping[StepName, Strip]], path: str
) -> Rendered:
    from workbench.views.html.pages.index import summarize
    from workbench.views.html.pages.ladder import ladder_view
    from workbench.views.html.render import card, render

    notices = (*_unread(ladder), *_untold(ladder))
    view = ladder_view(ladder, pairs, strips(), tuned_links(ladder), notices)
    return Rendered(
        html=render("ladder.html", path, view=view),
        beside=card(path, view),
        summary=msgspec.to_builtins(summarize(ladder, (link.href for link in pairs))),
    )


def _render_tuned(ladder: Ladder, tuning: Tuning, path: str) -> Rendered:
    assert _TUNED is not None  # else no such page exists
    module = cast(TunedPages, _TUNED.load(_TUNED.tunings))
    return module.render_tuned(path, ladder, tuning, tuned_head(ladder, tuning))


def _render_version(
    rung: Rung, engine: str, strips: Callable[[], Mapping[StepName, Strip]], path: str
) -> Rendered:
    from workbench.views.html.pages.version import render_version, version_view

    profile = rung.load(engine)
    view = version_view(rung, profile, version_head(rung, engine), strips())
    return render_version(path, view)
