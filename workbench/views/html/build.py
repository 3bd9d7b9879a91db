"""Build the site: its ladders', reports' and programs' pages, the index, the glossary.

Pages are planned only from paths and contents: for a page that is up to date, no profile is decoded
and no template is loaded. A new kind of page needs a generator of `Page`s, a view model and a
template.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from itertools import permutations
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol, cast

import msgspec
from msgspec.structs import replace

from workbench.disk.limits import SOURCE, SOURCES, read_regular
from workbench.disk.writing import remove_file
from workbench.errors import DataError, UsageError, WorkbenchError, did_you_mean, together
from workbench.features import FEATURES
from workbench.ladder import Ladder, Rung, damaged_files, find_ladders
from workbench.ladder.tunings import files as tuning_files
from workbench.language import _, current, ngettext, using
from workbench.model import Record
from workbench.project import Project, studies_in
from workbench.store import Store, means_device, natural_key
from workbench.study.folder import SeenStudy, StudyInfo, view_study
from workbench.views.html.ladders import ladder_pages, render_devices, times_of
from workbench.views.html.page import (
    LADDERS,
    PROGRAMS,
    REPORTS,
    SHARED,
    Link,
    Page,
    PageCount,
    Rendered,
    View,
    digest,
    ladder_folder,
    short_device,
    step_page,
    study_page,
)
from workbench.views.html.page import CapturedProgram as CapturedProgram
from workbench.views.html.page import ReportFile as ReportFile
from workbench.views.html.site import (
    CHANGED,
    MANIFEST,
    KeptStudy,
    Site,
    Writing,
    beside_twin,
    code_stamp,
    copy_assets,
)


def index_pages(site: Site, stamp: str) -> Iterator[Page]:
    """The index, the studies' pages and the glossary, from the summaries of all other pages."""
    ladders = [kept.summary for kept in site.pages(LADDERS).values() if "study" in kept.summary]
    reports, programs = (
        [kept.summary for kept in site.pages(kind).values() if kept.summary]
        for kind in (REPORTS, PROGRAMS)
    )

    def planned(template: str, here: str, *summaries: list[dict[str, object]]) -> Iterator[Page]:
        key = digest(stamp, msgspec.json.encode(summaries))
        # If nothing changed, the number of pages is known without reading the rows.
        known = {
            path: kept.key
            for path, kept in site.pages(SHARED).items()
            if path.startswith(here.removesuffix(".html"))
        }
        views = cache(lambda: _index().views(*summaries))
        for path in known if set(known.values()) == {key} else views():
            yield Page(path, key, SHARED, partial(_render_view, template, views, path), template)

    yield from planned("index.html", "index.html", ladders, reports, programs)
    studies: dict[str, list[dict[str, object]]] = {}
    for summary in ladders:
        studies.setdefault(str(summary["study"]), []).append(summary)
    for name, own in studies.items():
        yield from planned("study.html", study_page(name), own)

    def glossary() -> Rendered:
        from workbench.views.html.pages.glossary import render_glossary

        return render_glossary()

    yield Page("glossary.html", digest(stamp), SHARED, glossary)


def _index() -> ModuleType:
    from workbench.views.html.pages import index  # not loaded if nothing changed

    return index


def _render_view(template: str, views: Callable[[], Mapping[str, View]], path: str) -> Rendered:
    from workbench.views.html.render import render

    view = views()[path]
    return Rendered(render(template, path, view=view), beside=getattr(view, "beside", {}))


_PAIR = re.compile(r"(?:(?P<study>[^/]+)/)?(?P<old>[^/]+?)\.\.(?P<new>[^/]+)")


#: Study, old version, new version.
Pair = tuple[str, str, str]


class ProgramPages(Protocol):
    """The module of a feature that makes the pages of captured programs."""

    def program_folder(self, *programs: CapturedProgram) -> str:
        """The pages' folder of a capture, or of two compared ones, below the site's root."""

    def write_programs(
        self, site: Site, asked: tuple[CapturedProgram, ...], stamp: str
    ) -> PageCount:
        """Bring the pages of captures up to date; two captures are compared."""


def program_pages() -> ProgramPages:
    """The module for captures' pages; captures are requested only if its feature is installed."""
    feature = next(each for each in FEATURES if each.programs)
    return cast(ProgramPages, feature.load(feature.programs))


class BuiltReport(Record, frozen=True):
    """The site's folder and the result of building it.

    `asked` are the requested pages of pairs; `damaged`: reasons why recorded files were left out;
    `broken`: reasons why studies could not be read (their pages show their records); `notes`:
    unknown facts of studies that were not run.
    """

    index: Path
    pages: PageCount
    asked: tuple[Path, ...] = ()
    damaged: tuple[DataError, ...] = ()
    broken: tuple[WorkbenchError, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """``3 pages written, 12 unchanged, 1 removed``."""
        done = self.pages
        written = ngettext("{n} page written", "{n} pages written", done.written)
        said = [written.format(n=done.written), _("{n} unchanged").format(n=done.unchanged)]
        said += [_("{n} removed").format(n=done.removed)] * bool(done.removed)
        return _(", ").join(said)


def build_report(
    out: Path,
    *,
    project: Project | None = None,
    studies: tuple[str, ...] = (),
    reports: tuple[ReportFile, ...] = (),
    programs: tuple[CapturedProgram, ...] = (),
    store: Store | None = None,
    how: Writing = CHANGED,
) -> BuiltReport:
    """Write or update the site in `out`, in the current language.

    Args:
        out: The site's folder: a new one, or one that an earlier run made.
        project: The project with profiles and studies; None for report files alone.
        studies: Only these studies' pages (others stay as they are); without any, all pages, or
            only those of `reports` and `programs` if these are given. ``sgemm/v1..v4`` (or
            ``v1..v4``, of the default study) requests a page that compares any two versions,
            ``v4@h100..v4@h200`` one that compares two devices; the site keeps such pages.
        reports: Report files; one that is unchanged is not read again. Two of them get a
            page that compares the second with the first.
        programs: Captured programs; two of them are compared, kernel by kernel.
        store: The project's store if it caches profiles; None: a new one.
        how: Options of writing.

    Raises:
        UsageError: `out` is not empty and not a report, or a study has no profile.
        DataError: a report file or a capture is damaged, or everything requested is damaged.
        MissingError: `out` cannot be written.
    """
    stamp = f"{code_stamp()} {current()}"
    damaged: dict[Path, DataError] = {}
    ladders = _Ladders()
    with Site(out, how) as site:
        copy_assets(site, project.kernels if project else None)
        done = PageCount()
        if project is not None and (studies or not (reports or programs)):
            damaged = damaged_files(site.suspects())
            store = store or Store.of(project)
            write = partial(_write_ladders, site, project, store, studies, stamp, damaged)
            try:
                ladders = write()
            except DataError:
                # This comes only now, so that undamaged files are not read twice.
                there = find_ladders(store, project, _named(project, studies))
                found = damaged_files(path for each in there for path in each.files.values())
                if found.keys() <= damaged.keys():
                    raise
                damaged |= found
                ladders = write()
            site.leave_out(damaged)
            done = ladders.pages
        if reports:
            from workbench.views.html.reports import write_reports

            done = done.plus(write_reports(site, reports, stamp))
        if programs:
            done = done.plus(program_pages().write_programs(site, programs, stamp))
        done = done.plus(site.write(index_pages(site, stamp), owners=(SHARED,)))
    return BuiltReport(
        index=out / "index.html",
        pages=done,
        asked=tuple(out / each for each in ladders.asked),
        damaged=tuple(damaged.values()),
        broken=tuple(ladders.broken),
        notes=tuple(ladders.notes),
    )


#: The second language of a report, and the folder of its pages: a complete site below the first.
_BELOW = "zh"


def build_in(
    out: Path, languages: Sequence[str], how: Writing, write: Callable[..., BuiltReport]
) -> BuiltReport:
    """Write a report in the requested languages: one site each, with its own manifest.

    `languages` are one or two; empty: those of the report, or the current one. `write` writes the
    pages of one language. Returns the result for all; paths and remarks are those of the first
    language.
    """
    below = out / _BELOW
    had = (below / MANIFEST).exists()
    first, *second = languages or (("en", _BELOW) if had else (current(),))
    with using(first), beside_twin(f"{_BELOW}/" if second else ""):
        done = write(out, how=how)
    for language in second:
        with using(language), beside_twin("../"):
            first_pages = [page.removeprefix(f"{_BELOW}/") for page in how.first]
            other = write(below, how=how._replace(first=first_pages))
        done = replace(done, pages=done.pages.plus(other.pages))
    if had and not second:
        with Site(below) as site:
            kinds = (LADDERS, PROGRAMS, REPORTS, SHARED)
            every = {kept.owner for kind in kinds for kept in site.pages(kind).values()}
            gone = site.write((), owners=every)
            site.forget_assets(())
        remove_file(below, MANIFEST)
        done = replace(done, pages=done.pages.plus(gone))
    return done


def check_studies(project: Project, asked: tuple[str, ...]) -> None:
    """Refuse a study that neither exists nor is recorded: waiting for it would never end.

    A study that exists may be recorded while it is watched, which `build_report` cannot know.
    Raises UsageError: no such study; the hint names the nearest one.
    """
    wanted = _named(project, asked)
    if not wanted:
        return
    recorded = (entry.study for entry in Store.of(project).find())
    known = sorted({*studies_in(project.kernels), *recorded})
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"there is no study `{name}` in {project.kernels}, and none is recorded",
                did_you_mean(name, known, "studies"),
            )


def build_page(
    out: Path, ladder: Ladder, name: str, pairs: tuple[tuple[str, str, str], ...] = ()
) -> Path:
    """Write one page of a ladder, alone, into a new folder of its own.

    `pairs`: the versions and engine that it compares, if those are not a step of the ladder.

    Raises:
        DataError: a stored profile that the page shows is damaged.
        MissingError: `out` cannot be written.
    """
    path = f"{ladder_folder(ladder)}/{name}"
    with Site(out) as site:
        pages = ladder_pages(site, ladder, "", pairs=pairs, only=name)
        return _write_alone(site, (page for page in pages if page.path == path), out / path)


def build_devices_page(
    out: Path, rungs: tuple[Rung, Rung], labels: tuple[str, str], engine: str
) -> Path:
    """Write the page that compares the records on two devices, alone, into a new folder.

    Raises:
        DataError: a stored profile that the page shows is damaged.
        MissingError: `out` cannot be written.
    """
    path = f"{ladder_folder(rungs[1].ladder)}/{step_page(*labels, engine)}"
    render = partial(render_devices, rungs, labels, engine, path)
    with Site(out) as site:
        return _write_alone(site, [Page(path, "", LADDERS, render)], out / path)


def _write_alone(site: Site, pages: Iterable[Page], path: Path) -> Path:
    copy_assets(site)
    site.write(pages, owners=())
    return path


_CODE_SUFFIXES = {".py", ".cu", ".cuh", ".h", ".hpp", ".inl"}


class _StudyPages:
    """A study and its pages in one run: if they are valid, no file of it is opened.

    They are valid while its key is that of the run that wrote them. `files` are its profiles and
    times, `stamp` is the key of the rendering code.
    """

    def __init__(
        self, site: Site, project: Project, name: str, files: list[Path], stamp: str
    ) -> None:
        self._site, self._project, self.name = site, project, name
        self.owner, self._folder = f"{LADDERS}:{name}", project.kernels / name
        self._places = site.study(self.owner).places
        paths = (*files, *tuning_files(project.profiles, name))
        recorded = [(str(path), site.content(path)) for path in paths]
        words = stamp, project.default_device, project.default_study == name
        self._key = digest(msgspec.json.encode([*words, recorded, self._sources()]))

    def _sources(self) -> list[str]:
        """Names and digests of the files that give its words and the hashes of its sources."""
        own = sorted(path for path in self._folder.rglob("*") if path.suffix in _CODE_SUFFIXES)
        paths = [*own, self._project.facts(self.name)]
        paths += [self._project.root / place for place in self._places]
        parts: list[str] = []
        known: dict[tuple[int, int], str] = {}  # one file may have many names
        for path in paths:
            parts.append(str(path))
            with suppress(OSError, DataError):  # missing or too large: its readers report that
                status = path.stat()
                one = (status.st_dev, status.st_ino)
                if one not in known:
                    SOURCES.take(path, status.st_size)
                    known[one] = digest(read_regular(path, SOURCE))
                parts.append(known[one])
        return parts

    @property
    def hold(self) -> bool:
        """True if an earlier run wrote all of its pages from the same contents."""
        return self._site.study(self.owner).key == self._key and self._site.whole(self.owner)

    @cached_property
    def info(self) -> StudyInfo:
        """The study's words."""
        return StudyInfo(self._project, self.name)

    @property
    def notes(self) -> tuple[str, ...]:
        """Unknown facts of a study that was not run."""
        study = self.info.study
        return study.remarks if isinstance(study, SeenStudy) else ()

    def keep(self) -> None:
        """Record that its pages are written; every run repeats the remarks on a study."""
        if self.info.error is None and not self.notes:
            folder = f"{os.path.relpath(self._folder, self._project.root)}/"
            places = tuple(
                place
                for place in self.info.places
                if not (place.startswith(folder) and Path(place).suffix in _CODE_SUFFIXES)
            )
            # The key did not cover new places: without a key, the next run reads the study again.
            key = self._key if places == self._places else ""
            self._site.keep_study(self.owner, KeptStudy(key, places))


class _Ladders(NamedTuple):
    """The result for ladders' pages, and the pages of pairs; see `BuiltReport`."""

    pages: PageCount = PageCount()
    asked: Iterable[str] = ()
    broken: Iterable[WorkbenchError] = ()
    notes: Iterable[str] = ()


def _write_ladders(
    site: Site,
    project: Project,
    store: Store,
    asked: tuple[str, ...],
    stamp: str,
    damaged: Mapping[Path, DataError],
) -> _Ladders:
    """Bring the ladders' pages up to date, without the files known to be damaged."""
    pairs = [_pair(text, project) for text in asked if _PAIR.fullmatch(text)]
    named = _named(project, asked)
    outdated = _outdated(site, store, named)
    files: dict[str, list[Path]] = {}
    for found in store.files():
        if found.path not in damaged:
            files.setdefault(found.study, []).append(found.path)
    for name in named:
        if name not in files:
            raise together(list(damaged.values())) if damaged else _unrecorded(project, name, files)
    names = (*named, *outdated) if named else sorted({*files, *studies_in(project.kernels)})
    studies = [_StudyPages(site, project, name, files.get(name, []), stamp) for name in names]
    touched = {*outdated, *(pair[0] for pair in pairs)}
    held = {each.owner for each in studies if each.name not in touched and each.hold}
    opened = {each.name: each for each in studies if each.owner not in held}
    info = lambda name: opened[name].info  # noqa: E731
    find = partial(find_ladders, store, project, without=damaged, info=info)
    ladders = find(tuple(opened)) if opened else []
    for pair in pairs:
        try:
            _check_pair(pair, [ladder for ladder in ladders if ladder.name == pair[0]])
        except UsageError as error:
            raise (together(list(damaged.values())) if damaged else error) from error
    owned = {each.owner for each in opened.values()}
    if not named:
        owned |= {page.owner for page in site.pages(LADDERS).values()} - held
    done = PageCount(unchanged=sum(len(site.pages(owner)) for owner in held))
    for owner in owned:
        site.keep_study(owner, KeptStudy())  # its pages may be written: its key is void
    pages = _pages(site, ladders, pairs, stamp, lambda name: find((name,)))
    done = done.plus(site.write(pages, owners=owned))
    for each in opened.values():
        each.keep()
    told = [each for each in opened.values() if each.name not in outdated]
    return _Ladders(
        done,
        dict.fromkeys(_asked_pages(site, pairs)),
        [*filter(None, (each.info.error for each in told)), *_gone(project, named)],
        [note for each in told for note in each.notes],
    )


def _unrecorded(project: Project, name: str, known: Collection[str]) -> UsageError:
    return UsageError(
        f"nothing is recorded for study `{name}` below {project.profiles}",
        did_you_mean(name, sorted(known, key=natural_key), "recorded studies")
        if known
        else f"Record a profile first: `workbench profile {name}`.",
    )


def _gone(project: Project, asked: Iterable[str]) -> Iterator[WorkbenchError]:
    """Errors for requested studies that do not exist."""
    for name in asked:
        if not (project.kernels / name / "study.py").exists():
            try:
                view_study(project, name)
            except WorkbenchError as error:
                yield error.kept()


def _pages(
    site: Site,
    ladders: list[Ladder],
    pairs: list[Pair],
    stamp: str,
    again: Callable[[str], list[Ladder]],
) -> Iterator[Page]:
    """The pages of ladders, which are removed from the list; `again` finds a study's ladders."""
    # A ladder's page shows its study's times on all problems.
    times: dict[tuple[str, str], list[str]] = {}
    for ladder in ladders:
        found = [f"{ladder.problem} {time}" for time in times_of(site, ladder)]
        times.setdefault((ladder.name, ladder.device), []).extend(found)
    # Pages of two devices keep no ladder in memory either.
    again = cache(again)
    devices: list[Page] = []
    links: dict[str, list[Link]] = {}
    for each in _across(site, ladders, pairs):
        devices.append(each.page(site, stamp, again))
        links.setdefault(each.folder, []).append(each.link)
    while ladders:
        # Popped: only its own pages may refer to a ladder, so that its profiles are released.
        ladder = ladders.pop(0)
        yield from ladder_pages(
            site,
            ladder,
            stamp,
            times[ladder.name, ladder.device],
            _pairs_of(site, ladder, pairs),
            links.get(ladder_folder(ladder), ()),
        )
    yield from devices


def _outdated(site: Site, store: Store, studies: tuple[str, ...]) -> tuple[str, ...]:
    """Further studies whose index entry is from an earlier release and unreadable."""
    if not studies:
        return ()
    names = {
        str(kept.summary["study"])
        for kept in site.pages(LADDERS).values()
        if "study" in kept.summary and not _index().is_readable(kept.summary)
    }
    return tuple(name for name in sorted(names - set(studies)) if store.find(study=name))


def _named(project: Project, asked: tuple[str, ...]) -> tuple[str, ...]:
    """The requested studies, by their names or by two versions of them."""
    names = (_pair(text, project)[0] if _PAIR.fullmatch(text) else text for text in asked)
    return tuple(dict.fromkeys(names))


def _pair(text: str, project: Project) -> Pair:
    match = _PAIR.fullmatch(text)
    assert match is not None
    return match["study"] or project.default_study, match["old"], match["new"]


class _Across(NamedTuple):
    """A page that compares the records on two devices for one problem."""

    before: Rung
    after: Rung
    labels: tuple[str, str]

    @property
    def folder(self) -> str:
        """Its folder: beside the pages of the second device."""
        return ladder_folder(self.after.ladder)

    @property
    def link(self) -> Link:
        """The link to it from the pages of the second device."""
        return Link(" → ".join(self.labels), step_page(*self.labels, "ncu"))

    def page(self, site: Site, stamp: str, again: Callable[[str], list[Ladder]]) -> Page:
        """The page; it keeps no ladder, and gets those of its study from `again` to render."""
        rungs = self.before, self.after
        name = self.after.ladder.name
        said = [
            (rung.title, rung.ladder.study.source_hash(rung.id), rung.ladder.device_name)
            for rung in rungs
        ]
        contents = [
            site.content(file)
            for rung in rungs
            for kind in ("ncu", "time")
            if (file := rung.ladder.files.get((rung.id, kind)))
        ]
        sides = [(rung.ladder.device, rung.ladder.problem, rung.id) for rung in rungs]
        path = f"{self.folder}/{self.link.href}"

        labels = self.labels

        def render() -> Rendered:
            known = {(each.device, each.problem): each for each in again(name)}
            old, new = (known[device, problem].rungs[version] for device, problem, version in sides)
            page = render_devices((old, new), labels, "ncu", path)
            return replace(page, summary={"pair": list(labels)})

        key = digest(stamp, msgspec.json.encode([sides, said, contents, labels]))
        return Page(path=path, key=key, owner=f"{LADDERS}:{name}", render=render)


def _across(site: Site, ladders: list[Ladder], asked: list[Pair]) -> Iterator[_Across]:
    """Comparisons of two devices: requested, on the site, and of each study's last version."""
    seen: set[tuple[str, str]] = set()
    for name in dict.fromkeys(ladder.name for ladder in ladders):
        own = [ladder for ladder in ladders if ladder.name == name]
        wanted = [pair for pair in asked if pair[0] == name and "@" in pair[1]]
        found = [one for pair in wanted for one in _on_devices(pair, own)]
        for path, page in site.pages(f"{LADDERS}:{name}").items():
            kept = page.summary.get("pair")
            if isinstance(kept, list) and "@" in kept[0]:
                again = _on_devices((name, kept[0], kept[1]), own)
                found += [one for one in again if path == f"{one.folder}/{one.link.href}"]
        for each in (*found, *_usual(own)):
            place = each.folder, each.link.href
            if place not in seen:
                seen.add(place)
                yield each


def _on_devices(pair: Pair, ladders: list[Ladder]) -> Iterator[_Across]:
    """The pages of ``v3@h100..v3@h200``, for every problem with profiles of both."""
    (old, _, before), (new, _, after) = (side.partition("@") for side in pair[1:])
    known = {ladder.device for ladder in ladders}
    for first, second in permutations(ladders, 2):
        sides = (first, old, before), (second, new, after)
        if first.problem == second.problem and all(
            means_device(device, ladder.device) and "ncu" in _entries(ladder, version)
            for ladder, version, device in sides
        ):
            a, b = (f"{version}@{short_device(at.device, known)}" for at, version, _ in sides)
            yield _Across(first.rungs[old], second.rungs[new], (a, b))


def _entries(ladder: Ladder, version: str) -> set[str]:
    return {*ladder.rungs[version].entries} if version in ladder.rungs else set()


def _usual(ladders: list[Ladder]) -> list[_Across]:
    """The last version that a study has on both devices, on the first such problem."""
    main = next((each for each in ladders if means_device(each.study.device, each.device)), None)
    for ladder in [main] if main else ladders:
        for other in ladders:
            both = [
                rung.id
                for rung in ladder.order
                if not rung.is_baseline
                and "ncu" in _entries(ladder, rung.id) & _entries(other, rung.id)
            ]
            if other.device != ladder.device and other.problem == ladder.problem and both:
                return list(
                    _on_devices(
                        (ladder.name, f"{both[-1]}@{other.device}", f"{both[-1]}@{ladder.device}"),
                        [other, ladder],
                    )
                )
    return []


def _asked_pages(site: Site, pairs: list[Pair]) -> Iterator[str]:
    for name, old, new in pairs:
        for path, kept in site.pages(f"{LADDERS}:{name}").items():
            file = path.rpartition("/")[2]
            if kept.summary.get("pair") == [old, new] or file == step_page(old, new, "ncu"):
                yield path


def _check_pair(pair: Pair, ladders: list[Ladder]) -> None:
    """Check that both versions are recorded on one ladder, by one engine."""
    name, *versions = pair
    if any(ladder.engines(*versions) for ladder in ladders) or any(_on_devices(pair, ladders)):
        return
    versions = [version.partition("@")[0] for version in versions]
    known = list(
        dict.fromkeys(
            rung.id for ladder in ladders for rung in ladder.rungs.values() if rung.entries
        )
    )
    missing = [version for version in versions if version not in known]
    if missing:
        raise UsageError(
            f"no profile of {name}/{missing[0]} is recorded",
            did_you_mean(missing[0], known, "recorded versions"),
        )
    raise UsageError(
        f"{versions[0]} and {versions[1]} of {name} share no recorded problem and device",
        "Record both for one problem: `workbench profile v1 v4:PROBLEM`.",
    )


def _pairs_of(site: Site, ladder: Ladder, asked: list[Pair]) -> list[tuple[str, str, str]]:
    """Comparisons other than steps: those requested now, and those on the site."""
    found = [(old, new) for name, old, new in asked if name == ladder.name]
    for path, kept in site.pages(f"{LADDERS}:{ladder.name}").items():
        pair = kept.summary.get("pair")
        if isinstance(pair, list) and path.startswith(f"{ladder_folder(ladder)}/"):
            found.append((pair[0], pair[1]))
    return [
        (old, new, engine)
        for old, new in dict.fromkeys(found)
        for engine in ladder.engines(old, new)[:1]
    ]
