"""The pages of a ladder: their heads, and what each is made of, its content key.

A key is over what the page takes and nothing else, so that an edit of one version's source, which
makes its study's folder another one, makes few pages others. Heads are both shown and digested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import msgspec
from msgspec.structs import replace

from workbench.errors import DataError
from workbench.features import FEATURES
from workbench.ladder import Ladder, Rung
from workbench.ladder.summaries import KeptSummaries, Summary
from workbench.ladder.tunings import Tuning
from workbench.language import _
from workbench.model import Profile
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
    is_step = step in order  # else a pair that somebody asked for
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
    """The head of a page that compares two devices, which lies beside the pages of the second.

    The rungs are of one study and problem, the labels ``v5@h100`` and ``v5@h200``.
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
    """What a version's page takes from the ladder for its head."""
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
        chips=(mark,) if rung.stale(rung.captured(engine)) else (),
        notices=_unread(ladder),
    )


class TunedPages(Protocol):
    """The module of a feature that makes the page of a tuned version."""

    def render_tuned(self, path: str, ladder: Ladder, tuning: Tuning, head: Head) -> Rendered:
        """The page of a tuning on the ladder's problem."""


#: The feature that has one.
_TUNED = next((each for each in FEATURES if each.tunings), None)


def _tunings(ladder: Ladder) -> Mapping[Path, Tuning]:
    """The tunings that have a page."""
    return ladder.tunings if _TUNED else {}


def tuned_links(ladder: Ladder, version: str | None = None) -> tuple[Link, ...]:
    """To the pages of tuned versions, or of one of them."""
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
    crumbs = Link(tuning.version, page) if page else Link(tuning.version)
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
        if rung.stale(rung.captured(engine))
    )


def _unread(ladder: Ladder) -> tuple[str, ...]:
    problem = ladder.study.problem
    return (_("The study could not be read: {why}").format(why=problem),) if problem else ()


class LadderKeys:
    """The content keys of a ladder's pages.

    Files are looked at once, before anything is rendered: a key never speaks of what came later.
    `code` is the key of the code that renders, `times` are digests of all times of the study on
    the device, which a ladder's page shows.
    """

    def __init__(self, site: Site, ladder: Ladder, code: str, times: tuple[str, ...]) -> None:
        self._ladder, self._times = ladder, times
        self._common = [code, ladder.name, ladder.device, ladder.problem]
        self._files = {name: site.content(path) for name, path in sorted(ladder.files.items())}
        self._elsewhere = [
            (device, version, kind, site.content(path))
            for device, files in sorted(ladder.elsewhere.items())
            for (version, kind), path in sorted(files.items())
            if kind in ("ncu", "time")
        ]
        self._tuned = {
            path: [
                site.content(each)
                for each in (path, *(at for _, at in tuning.sides(ladder.store, ladder.problem)))
                if each.is_file()
            ]
            for path, tuning in ladder.tunings.items()
        }

    def _key(self, *parts: object) -> str:
        return digest(msgspec.json.encode([*self._common, *parts]))

    def recorded(self, rung: Rung, profile: Profile) -> dict[str, object]:
        """What is remembered of a profile beside its page: a run that writes none reads none."""
        content = self._files[rung.id, profile.engine]
        return {"profile": KeptSummaries.kept(content, Summary.of(profile))}

    def _contents(self, version: str, *kinds: str) -> list[str]:
        """Digests of what is recorded of a version; "" for what is not."""
        return [self._files.get((version, kind), "") for kind in kinds]

    def _compared(self, step: StepName) -> list[object]:
        """What `Ladder.step` is made from."""
        old, new, engine = step
        sides = [self._contents(side, engine, "time") for side in (old, new)]
        return [step, sides, self._ladder.expected(old, new)]

    def of_ladder(self, pairs: Sequence[Link]) -> str:
        """Over all files of the ladder, and all that the study says; `pairs`: as its page has."""
        ladder, study = self._ladder, self._ladder.study
        said = [
            (v.id, v.title, v.parent, v.change, v.baseline, v.expectations)
            for v in study.versions.values()
        ]
        stale = [rung.is_stale for rung in ladder.order]
        words = [study.title, study.problem, study.problems, study.work, study.default]
        whole = [*words, study.device, said, stale]
        tuned = tuned_links(ladder), _untold(ladder)
        return self._key(whole, list(self._files.items()), self._times, pairs, tuned)

    def of_tuned(self, path: Path) -> str:
        """Over the head, the tuning, and what was profiled of it."""
        ladder = self._ladder
        return self._key(tuned_head(ladder, ladder.tunings[path]), self._tuned[path])

    def of_strip(self, step: StepName) -> str:
        """Over what a step's story is told from, whatever its page shows besides."""
        return self._key(self._compared(step))

    def of_step(self, step: StepName) -> str:
        """Over what is compared, and the page's head."""
        return self._key(step_head(self._ladder, step), self._compared(step))

    def of_version(self, rung: Rung, engine: str) -> str:
        """Over its head, its profile and time here and elsewhere, the steps to it and from it.

        Its share of the baseline's speed takes that one's time: of several, which it is, all
        times say.
        """
        ladder, version = self._ladder, rung.id
        libraries = [each.id for each in ladder.order if each.is_baseline]
        timed = libraries if len(libraries) < 2 else sorted(ladder.rungs)
        steps = [each for each in ladder.steps if each[2] == engine]
        return self._key(
            version_head(rung, engine),
            ladder.study.work,
            rung.declared.expectations if rung.declared else (),
            self._contents(version, engine, "time"),
            [(each, *self._contents(each, "time")) for each in timed],
            [self._compared(step) for step in steps if step[1] == version],
            [self._contents(step[1], engine, "time") for step in steps if step[0] == version],
            [each for each in self._elsewhere if each[1] == version],
        )


def times_of(site: Site, ladder: Ladder) -> list[str]:
    """Digests of a ladder's times, by version."""
    files = sorted(ladder.files.items())
    return [f"{key[0]} {site.content(path)}" for key, path in files if key[1] == "time"]


def ladder_pages(
    site: Site,
    ladder: Ladder,
    pairs: list[StepName],
    keys: LadderKeys,
    devices: Sequence[Link] = (),
) -> Iterator[Page]:
    """The ladder's own page, one a step and pair that was asked for, one a version and engine.

    `devices` are pages beside these that compare two devices.
    """
    owner, folder = f"{LADDERS}:{ladder.name}", ladder_folder(ladder)

    def page(name: str, key: Callable[[], str], render: Callable[[str], Rendered]) -> Page:
        path = f"{folder}/{name}"
        return Page(path=path, key=key, owner=owner, group=folder, render=partial(render, path))

    strips = cache(partial(_kept_strips, site, ladder, keys))
    linked = [*(Link(f"{old} → {new}", step_page(old, new, e)) for old, new, e in pairs), *devices]
    whole = partial(keys.of_ladder, linked)
    yield page("index.html", whole, partial(_render_ladder, ladder, linked, strips))
    for step in dict.fromkeys([*ladder.steps, *pairs]):
        render = partial(_render_step, ladder, step, keys)
        yield page(step_page(*step), partial(keys.of_step, step), render)
    for file, tuning in _tunings(ladder).items():
        yield page(
            tuned_page(tuning.version, tuning.engine),
            partial(keys.of_tuned, file),
            partial(_render_tuned, ladder, tuning),
        )
    for rung in ladder.rungs.values():
        for engine in rung.entries:
            yield page(
                version_page(rung.id, engine),
                partial(keys.of_version, rung, engine),
                partial(_render_version, rung, engine, strips, keys),
            )


def _untold(ladder: Ladder) -> tuple[str, ...]:
    """Why tunings of the study cannot be read."""
    found = ladder.family.tunings.values()
    return tuple(each.message for each in found if isinstance(each, DataError))


def _kept_strips(site: Site, ladder: Ladder, keys: LadderKeys) -> dict[StepName, Strip]:
    """The strips of steps of which the same would be told again.

    A step's page may be out of date, because it shows another title, and its strip hold.
    """
    from workbench.views.html.parts import Phrase

    kept: dict[StepName, Strip] = {}
    for step in ladder.steps:
        said = site.summary(f"{ladder_folder(ladder)}/{step_page(*step)}")
        if said.get("strip_key") == keys.of_strip(step):
            kept[step] = msgspec.convert(said["strip"], tuple[Phrase, ...])
    return kept


def _render_step(ladder: Ladder, step: StepName, keys: LadderKeys, path: str) -> Rendered:
    from workbench.views.html.pages.diff import diff_view, render_diff
    from workbench.views.html.parts import strip_links

    compared = ladder.step(*step)
    page = render_diff(path, diff_view(compared, step_head(ladder, step)))
    strip = msgspec.to_builtins(strip_links(compared.story.strip, step_page(*step)))
    pair = {} if step in ladder.steps else {"pair": list(step[:2])}
    return replace(page, summary={**pair, "strip": strip, "strip_key": keys.of_strip(step)})


def render_devices(
    rungs: tuple[Rung, Rung], labels: tuple[str, str], engine: str, path: str
) -> Rendered:
    """What an engine recorded on two devices, compared; nobody's prediction speaks of that."""
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
    from workbench.views.html.render import render

    notices = (*_unread(ladder), *_untold(ladder))
    view = ladder_view(ladder, pairs, strips(), tuned_links(ladder), notices)
    return Rendered(
        html=render("ladder.html", path, view=view),
        summary=msgspec.to_builtins(summarize(ladder, (link.href for link in pairs))),
    )


def _render_tuned(ladder: Ladder, tuning: Tuning, path: str) -> Rendered:
    assert _TUNED is not None  # or there was no such page
    module = cast(TunedPages, _TUNED.load(_TUNED.tunings))
    return module.render_tuned(path, ladder, tuning, tuned_head(ladder, tuning))


def _render_version(
    rung: Rung,
    engine: str,
    strips: Callable[[], Mapping[StepName, Strip]],
    keys: LadderKeys,
    path: str,
) -> Rendered:
    from workbench.views.html.pages.version import render_version, version_view

    profile = rung.load(engine)
    view = version_view(rung, profile, version_head(rung, engine), strips())
    return replace(render_version(path, view), summary=keys.recorded(rung, profile))
