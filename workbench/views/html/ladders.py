"""The pages of a ladder, and what each is made of.

A page has two keys. `Page.key` is over files as they are: all that a run looks at which
changes nothing. Where it differs, `Page.exact` is over what the page takes from those files: an
edit of one version's source makes its study's folder another one, and few of its pages. What a
page takes from the ladder around it is gathered in records (`Head`, `Around`) that are both
shown and digested, so that nothing is shown which no key speaks of.
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
    KeptPage,
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
    """Digests of what the pages of one ladder are made of.

    Args:
        site: Knows the files' contents.
        ladder: Whose pages they are.
        program: The program's own key.
        folder: That of the study's folder.
        times: Those of all times of the study on the device, which a ladder's page shows.
    """

    def __init__(
        self, site: Site, ladder: Ladder, program: str, folder: str, times: tuple[str, ...]
    ) -> None:
        self._site, self._ladder = site, ladder
        self._program, self._folder, self._times = program, folder, times
        #: A ladder's page and its steps name neighbours: which files there are is part of them.
        self._shape = digest(folder, _named(ladder), *times_of(site, ladder))

    def _content(self, version: str, engine: str) -> str:
        path = self._ladder.files.get((version, engine))
        return self._site.content(path) if path else ""

    def _contents(self) -> list[str]:
        return [self._site.content(path) for _, path in sorted(self._ladder.files.items())]

    def of_ladder(self, pairs: list[StepName]) -> str:
        """Over all files of the ladder."""
        asked = (f"{old}..{new}" for old, new, _ in pairs)
        return digest(self._program, self._shape, *self._contents(), *self._times, *asked)

    def shown_by_ladder(self, pairs: list[StepName]) -> str:
        """Over the same, but of the study what it says."""
        ladder, study = self._ladder, self._ladder.study
        versions = [
            (v.id, v.title, v.parent, v.change, v.baseline, v.expectations)
            for v in study.versions.values()
        ]
        words = [study.title, study.problem, study.problems, study.work, study.default, versions]
        stale = [(rung.id, rung.is_stale) for rung in ladder.order]
        said = msgspec.json.encode([words, stale, pairs])
        return digest(self._program, said, _named(ladder), *self._contents(), *self._times)

    def of_step(self, step: StepName) -> str:
        """Over both profiles, the study's folder and which files there are."""
        old, new, engine = step
        contents = self._content(old, engine), self._content(new, engine)
        return digest(self._program, self._shape, *step, *contents)

    def shown_by_step(self, step: StepName) -> str:
        """Over what is compared and the page's head."""
        from workbench.views.html.pages.step import ladder_head

        said = msgspec.json.encode(ladder_head(self._ladder, *step))
        return digest(self._program, said, *self._compared(step))

    def _compared(self, step: StepName) -> list[str | bytes]:
        """What `Ladder.step` is made from."""
        old, new, engine = step
        files = [(version, kind) for version in (old, new) for kind in (engine, "time")]
        expected = msgspec.json.encode(self._ladder.expected(old, new))
        return [*step, *(self._content(*file) for file in files), expected]

    def told_by_step(self, step: StepName) -> str:
        """Over what a step's story is told from, whatever its page shows besides."""
        return digest(self._program, *self._compared(step))

    def of_version(self, rung: Rung, engine: str, steps: list[StepName]) -> str:
        """Over its profile, those on the other side of its steps, and which files there are."""
        own = {v for s in steps if rung.id in s[:2] and s[2] == engine for v in s[:2]} | {rung.id}
        beside = (self._content(version, engine) for version in sorted(own))
        apart = self._elsewhere(rung)
        return digest(self._program, self._shape, rung.id, engine, *beside, *apart)

    def _elsewhere(self, rung: Rung) -> list[str]:
        """A version's profile and time on other devices."""
        return [
            f"{device} {kind} {self._site.content(files[rung.id, kind])}"
            for device, files in sorted(self._ladder.elsewhere.items())
            for kind in ("ncu", "time")
            if (rung.id, kind) in files
        ]

    def shown_by_version(self, rung: Rung, engine: str) -> str:
        """Over its profile, the steps to it and from it, and what it takes from the ladder."""
        from workbench.views.html.pages.version import around

        near = around(rung, engine)
        before = self._compared(near.made_by) if near.made_by else []
        after = (self._content(link.text, engine) for link, _ in near.later)
        said = msgspec.json.encode(near)
        own = self._content(rung.id, engine)
        return digest(self._program, said, own, *before, *after, *self._elsewhere(rung))


def times_of(site: Site, ladder: Ladder) -> list[str]:
    """Digests of a ladder's times, by version."""
    files = sorted(ladder.files.items())
    return [f"{key[0]} {site.content(path)}" for key, path in files if key[1] == "time"]


def _named(ladder: Ladder) -> str:
    """Which ladder it is, and which files it has."""
    return digest(ladder.name, ladder.device, ladder.problem, *map(" ".join, sorted(ladder.files)))


def ladder_pages(
    site: Site, ladder: Ladder, pairs: list[StepName], keys: LadderKeys
) -> Iterator[Page]:
    """The ladder's own page, one a step and pair that was asked for, one a version and engine."""
    owner, folder = f"{LADDERS}:{ladder.name}", ladder_folder(ladder)

    def page(
        name: str, key: str, shown: Callable[[], str], render: Callable[[str], Rendered]
    ) -> Page:
        path = f"{folder}/{name}"
        rendering = partial(render, path)
        return Page(path=path, key=key, owner=owner, group=folder, render=rendering, exact=shown)

    kept, whole = site.pages(owner).get(f"{folder}/index.html"), keys.of_ladder(pairs)
    unchanged = kept is not None and kept.key == whole
    steps = _steps(ladder, kept if unchanged else None)
    compared = {
        step: page(
            step_page(*step),
            keys.of_step(step),
            partial(keys.shown_by_step, step),
            partial(_render_step, ladder, step, step in steps, keys),
        )
        for step in [*steps, *pairs]
    }
    strips = cache(partial(_kept_strips, site, ladder, steps, keys))
    yield page(
        "index.html",
        whole,
        partial(keys.shown_by_ladder, pairs),
        partial(_render_ladder, ladder, pairs, strips),
    )
    yield from compared.values()
    for rung in ladder.rungs.values():
        for engine in rung.entries:
            yield page(
                version_page(rung.id, engine),
                keys.of_version(rung, engine, steps),
                partial(keys.shown_by_version, rung, engine),
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


def _steps(ladder: Ladder, kept: KeptPage | None) -> list[StepName]:
    """The ladder's steps; from the manifest where the ladder has not changed.

    Which version is whose parent is the study's word, and loading a study would cost
    more than the whole of a run that changes nothing.
    """
    if kept is not None:
        found = kept.summary.get("steps")
        if isinstance(found, list):
            return [tuple(step) for step in found]
    return ladder.steps


def _kept_strips(
    site: Site, ladder: Ladder, steps: list[StepName], keys: LadderKeys
) -> dict[StepName, Strip]:
    """The strips of steps of which the same would be told again.

    A step's page may be out of date, because it shows another title, and its strip hold.
    """
    from workbench.views.html.parts.common import Phrase

    kept: dict[StepName, Strip] = {}
    for step in steps:
        said = site.summary(f"{ladder_folder(ladder)}/{step_page(*step)}")
        if "told" in said and said["told"] == keys.told_by_step(step):
            kept[step] = msgspec.convert(said["strip"], tuple[Phrase, ...])
    return kept


def _render_step(
    ladder: Ladder, step: StepName, is_step: bool, keys: LadderKeys, path: str
) -> Rendered:
    from workbench.views.html.pages.diff import diff_view, render_diff
    from workbench.views.html.pages.step import ladder_head
    from workbench.views.html.parts.common import strip_links

    compared = ladder.step(*step)
    page = render_diff(path, diff_view(compared, ladder_head(ladder, *step)))
    strip = msgspec.to_builtins(strip_links(compared.story.strip, step_page(*step)))
    pair = {} if is_step else {"pair": list(step[:2])}
    return replace(page, summary={**pair, "strip": strip, "told": keys.told_by_step(step)})


def render_devices(
    rungs: tuple[Rung, Rung], labels: tuple[str, str], engine: str, path: str
) -> Rendered:
    """What an engine recorded on two devices, compared; nobody's prediction speaks of that."""
    from workbench.analysis.step import Step
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
    summary = msgspec.to_builtins(summarize(ladder, view))
    return Rendered(
        html=render("ladder.html", path, view=view),
        summary={**summary, "steps": [list(s) for s in ladder.steps]},
    )


def _render_version(
    rung: Rung, engine: str, strips: Callable[[], Mapping[StepName, Strip]], path: str
) -> Rendered:
    from workbench.views.html.pages.version import render_version, version_view

    return render_version(path, version_view(rung, rung.load(engine), strips()))
