"""The pages of a ladder, and what each is made of: its content key.

A key is over what the page takes and nothing else, so that an edit of one version's source, which
makes its study's folder another one, makes few pages others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from workbench.errors import WorkbenchError
from workbench.ladder import Ladder, Rung
from workbench.views.html.page import (
    LADDERS,
    Page,
    Rendered,
    digest,
    ladder_folder,
    step_page,
    version_page,
)
from workbench.views.html.site import Site

if TYPE_CHECKING:
    from workbench.views.html.parts.common import Phrase

    Strip = tuple[Phrase, ...]

#: Old version, new version, engine.
StepName = tuple[str, str, str]


class LadderKeys:
    """The content keys of a ladder's pages.

    Args:
        site: Knows the files' contents.
        ladder: Whose pages they are.
        program: The program's own key.
        times: Digests of all times of the study on the device, which a ladder's page shows.
    """

    def __init__(self, site: Site, ladder: Ladder, program: str, times: tuple[str, ...]) -> None:
        self._site, self._ladder, self._times = site, ladder, times
        study = ladder.study
        self._common = [program, ladder.name, ladder.device, ladder.problem]
        self._common += [study.title, study.problem, study.work]

    def _key(self, *parts: object) -> str:
        return digest(msgspec.json.encode([*self._common, *parts]))

    def _contents(self, version: str, *kinds: str) -> list[str]:
        """Digests of what is recorded of a version; "" for what is not."""
        paths = (self._ladder.files.get((version, kind)) for kind in kinds)
        return [self._site.content(path) if path else "" for path in paths]

    def _said(self, version: str) -> list[object]:
        """What the study says of a version, and its source as it is now."""
        study = self._ladder.study
        one = study.versions.get(version)
        told = (one.title, one.parent, one.change, one.baseline, one.expectations) if one else ()
        return [version, *told, study.source_hash(version)]

    def _compared(self, old: str, new: str, engine: str) -> list[object]:
        """What `Ladder.step` is made from, and what is said of its sides."""
        sides = ([*self._said(side), *self._contents(side, engine, "time")] for side in (old, new))
        return [engine, *sides]

    def of_ladder(self, pairs: list[StepName]) -> str:
        """Over all files of the ladder, and all that the study says."""
        study = self._ladder.study
        files = [(*name, self._site.content(at)) for name, at in sorted(self._ladder.files.items())]
        said = [self._said(version) for version in (*study.versions, *self._ladder.rungs)]
        whole = [study.problems, study.default, study.device]
        return self._key(whole, said, files, self._times, pairs)

    def of_step(self, step: StepName) -> str:
        """Over both sides, and the steps beside it."""
        order = [each for each in self._ladder.steps if each[2] == step[2]]
        place = order.index(step) if step in order else None
        beside = [] if place is None else order[max(place - 1, 0) : place + 2]
        return self._key(beside, self._compared(*step))

    def of_version(self, rung: Rung, engine: str) -> str:
        """Over its profile and time here and on other devices, the steps to it and from it.

        Its share of the baseline's speed takes that one's time: of several, which it is, all
        times say.
        """
        ladder, version = self._ladder, rung.id
        order = [each.id for each in ladder.order if each.entries]
        place = order.index(version)
        libraries = [each.id for each in ladder.order if each.is_baseline]
        timed = libraries if len(libraries) < 2 else sorted(ladder.rungs)
        steps = [each for each in ladder.steps if version in each[:2] and each[2] == engine]
        apart = [
            (device, kind, self._site.content(files[version, kind]))
            for device, files in sorted(ladder.elsewhere.items())
            for kind in ("ncu", "time")
            if (version, kind) in files
        ]
        return self._key(
            order[max(place - 1, 0) : place + 2],
            [self._said(version), *self._contents(version, engine, "time")],
            [(each, *self._contents(each, "time")) for each in timed],
            [self._compared(*step) for step in steps],
            apart,
        )


def times_of(site: Site, ladder: Ladder) -> list[str]:
    """Digests of a ladder's times, by version."""
    files = sorted(ladder.files.items())
    return [f"{key[0]} {site.content(path)}" for key, path in files if key[1] == "time"]


def ladder_pages(
    site: Site, ladder: Ladder, pairs: list[StepName], keys: LadderKeys
) -> Iterator[Page]:
    """The ladder's own page, one a step and pair that was asked for, one a version and engine."""
    owner, folder = f"{LADDERS}:{ladder.name}", ladder_folder(ladder)

    def page(name: str, key: str, render: Callable[[str], Rendered]) -> Page:
        path = f"{folder}/{name}"
        return Page(path=path, key=key, owner=owner, group=folder, render=partial(render, path))

    steps = ladder.steps
    strips = cache(partial(_kept_strips, site, ladder, keys))
    yield page("index.html", keys.of_ladder(pairs), partial(_render_ladder, ladder, pairs, strips))
    for step in dict.fromkeys([*steps, *pairs]):
        yield page(step_page(*step), keys.of_step(step), partial(_render_step, ladder, step))
    for rung in ladder.rungs.values():
        for engine in rung.entries:
            yield page(
                version_page(rung.id, engine),
                keys.of_version(rung, engine),
                partial(_render_version, rung, engine, strips),
            )


def recall_ladder(ladder: Ladder) -> Iterator[None]:
    """Load a ladder's profiles, one at a time, and count what all its pages ask of them."""
    from workbench.analysis.aggregate import main_launch
    from workbench.analysis.roofline import position

    for rung in ladder.rungs.values():
        with suppress(WorkbenchError):
            launch = main_launch(rung.profile) if rung.profile else None
            if launch is not None:
                position(launch)
        yield


def _kept_strips(site: Site, ladder: Ladder, keys: LadderKeys) -> dict[StepName, Strip]:
    """The strips of steps whose pages are up to date, so that they need not be told again."""
    from workbench.views.html.parts.common import Phrase

    kept: dict[StepName, Strip] = {}
    for step in ladder.steps:
        page = site.current(f"{ladder_folder(ladder)}/{step_page(*step)}", keys.of_step(step))
        if page is not None:
            kept[step] = msgspec.convert(page.summary["strip"], tuple[Phrase, ...])
    return kept


def _render_step(ladder: Ladder, step: StepName, path: str) -> Rendered:
    from workbench.views.html.pages.diff import diff_view, render_diff
    from workbench.views.html.pages.step import ladder_head
    from workbench.views.html.parts.common import strip_links

    compared = ladder.step(*step)
    page = render_diff(path, diff_view(compared, ladder_head(ladder, *step)))
    strip = msgspec.to_builtins(strip_links(compared.story.strip, step_page(*step)))
    pair = {} if step in ladder.steps else {"pair": list(step[:2])}
    return replace(page, summary={**pair, "strip": strip})


def render_devices(
    rungs: tuple[Rung, Rung], labels: tuple[str, str], engine: str, path: str
) -> Rendered:
    """What an engine recorded on two devices, compared; nobody's prediction speaks of that."""
    from workbench.analysis.story import Step
    from workbench.views.html.pages.diff import diff_view, render_diff
    from workbench.views.html.pages.step import devices_head

    old, new = rungs
    times = (old.timing, new.timing) if engine == "ncu" else (None, None)
    step = Step(old.load(engine), new.load(engine), labels, times, across=True)
    return render_diff(path, diff_view(step, devices_head(rungs, labels, engine)))


def _render_ladder(
    ladder: Ladder,
    pairs: list[StepName],
    strips: Callable[[], Mapping[StepName, Strip]],
    path: str,
) -> Rendered:
    from workbench.views.html.pages.index import summarize
    from workbench.views.html.pages.ladder import ladder_view
    from workbench.views.html.render import render

    view = ladder_view(ladder, pairs, strips())
    return Rendered(
        html=render("ladder.html", path, view=view),
        summary=msgspec.to_builtins(summarize(ladder)),
    )


def _render_version(
    rung: Rung, engine: str, strips: Callable[[], Mapping[StepName, Strip]], path: str
) -> Rendered:
    from workbench.views.html.pages.version import render_version, version_view

    return render_version(path, version_view(rung, rung.load(engine), strips()))
