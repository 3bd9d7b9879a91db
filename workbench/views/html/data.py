"""What the pages of one ladder are made of: profiles, times and the study, read when needed.

A ladder is one study on one device and problem. Which pages exist and whether they
are out of date follows from paths and bytes alone; nothing here is decoded, and no
study is loaded, before a page has to be rendered.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from workbench.errors import WorkbenchError
from workbench.model import Profile, Timing, Version
from workbench.project import Project
from workbench.store import Entry, Store, natural_key
from workbench.views.html.render import page_part
from workbench.views.html.site import digest

if TYPE_CHECKING:
    from workbench.views.html.step import Step

#: Engines in order of preference.
ENGINES = ("ncu", "emulator")
#: The store's layout for times (see workbench.store); their paths are all that is needed here.
_TIME_SUFFIX = ".time.json.zst"
_CODE_SUFFIXES = {".py", ".cu", ".cuh", ".h", ".hpp", ".inl"}


#: File -> content key.
DigestOf = Callable[[Path], str]


class StudyInfo:
    """A study's words, or the reason why there are none; a report needs neither.

    Attributes:
        name: The study's name, as the profiles know it.
        problem: Why the study could not be loaded; "" where it was, or is not there.
        work: What a job's work is counted in: ``flop``, or ``op`` where results are integers.
        problems: Their names, those that are meant for profiling first.
        default: Whether a command that names no study means this one.
    """

    def __init__(self, project: Project | None, name: str) -> None:
        self.name = name
        self.title = name
        self.versions: dict[str, Version] = {}
        self.problem = ""
        self.work = "flop"
        self.problems: tuple[str, ...] = ()
        self.default = project is not None and project.default_study == name
        self._project = project
        if project is None or not (project.kernels / name / "study.py").is_file():
            return
        from workbench.study.folder import load_study

        try:
            study = load_study(project, name)
            kinds = {
                kind for _, kind in study.outputs(next(iter(study.problems.values()))).values()
            }
        except WorkbenchError as error:
            # A study that is broken today is no reason to withhold what was measured.
            self.problem = error.message
            return
        self.title = study.title
        self.versions = dict(study.versions)
        first = [problem.name for problem in study.problems_for("profile")]
        self.problems = tuple(dict.fromkeys([*first, *study.problems]))
        if all(kind.startswith(("int", "uint")) for kind in kinds):
            self.work = "op"

    def source_hash(self, version: str) -> str:
        """The hash of a version's source as it is now; "" where there is none."""
        found = self.versions.get(version)
        if found is None or self._project is None:
            return ""
        from workbench.study.folder import source_hash

        return source_hash(self._project, found)


def study_key(project: Project | None, name: str) -> str:
    """Content key of a study's folder; changes with every edit of it."""
    if project is None:
        return ""
    folder = project.kernels / name
    files = sorted(p for p in folder.rglob("*") if p.suffix in _CODE_SUFFIXES and p.is_file())
    parts: list[str | bytes] = []
    for path in files:
        parts += [str(path.relative_to(folder)), path.read_bytes()]
    return digest(*parts)


class Rung:
    """One version on a ladder: its profiles by engine, and its time."""

    def __init__(self, ladder: Ladder, version: str) -> None:
        self.ladder = ladder
        self.id = version
        self.entries: dict[str, Entry] = {}
        self.timed = False

    @property
    def declared(self) -> Version | None:
        """What the study says of the version today; None where it is gone."""
        return self.ladder.study.versions.get(self.id)

    @property
    def title(self) -> str:
        """The version's title; "" where the study no longer has it."""
        return self.declared.title if self.declared else ""

    @property
    def is_baseline(self) -> bool:
        """Whether it is a library to beat: the study says so, or without it the times do."""
        if self.declared:
            return self.declared.baseline
        return self.id in self.ladder.compared_with

    @cached_property
    def profile(self) -> Profile | None:
        """The profile that speaks for the version: ncu's, else the emulator's."""
        for engine in ENGINES:
            if engine in self.entries:
                return self.ladder.store.load(self.entries[engine].path)
        return None

    @cached_property
    def timing(self) -> Timing | None:
        """The recorded time, outside of any profiler."""
        if not self.timed:
            return None
        found = self.ladder.store.timings(
            study=self.ladder.name,
            version=self.id,
            problem=self.ladder.problem,
            device=self.ladder.device,
        )
        return found[0] if found else None

    def stale(self, captured_hash: str) -> bool:
        """Whether the source has changed since; False where either side is unknown."""
        now = self.ladder.study.source_hash(self.id)
        return bool(now and captured_hash and now != captured_hash)

    def page(self, engine: str) -> str:
        """File name of the version's page for an engine."""
        part = page_part(self.id)
        return f"{part}.html" if engine == "ncu" else f"{part}.{page_part(engine)}.html"

    def load(self, engine: str) -> Profile:
        """The profile of an engine that has one."""
        speaking = self.profile
        if speaking is not None and speaking.engine == engine:
            return speaking
        return self.ladder.store.load(self.entries[engine].path)

    @property
    def href(self) -> str:
        """Page that speaks for the version, from a page of the same ladder; "" without one."""
        engine = next((e for e in ENGINES if e in self.entries), "")
        return self.page(engine) if engine else ""


class Family:
    """The times of one study on one device over all its problems, read once for all ladders.

    It holds no ladder, so that the profiles of one that is done can be let go.
    """

    def __init__(self, store: Store, study: str, device: str) -> None:
        self._store, self._study, self._device = store, study, device
        self._keys: list[str] = []

    def add(self, ladder: Ladder) -> None:
        """Take a ladder in."""
        self._keys.append(ladder.key(of_files=False))
        ladder.family = self

    @cached_property
    def key(self) -> str:
        """Content key over all recorded times."""
        return digest(*self._keys)

    @cached_property
    def timings(self) -> tuple[Timing, ...]:
        """All recorded times."""
        return tuple(self._store.timings(study=self._study, device=self._device))


class Ladder:
    """The versions of a study on one device and problem, in ladder order."""

    def __init__(
        self,
        store: Store,
        project: Project | None,
        name: str,
        device: str,
        problem: str,
        digest_of: DigestOf,
    ) -> None:
        self.store = store
        self._digest_of = digest_of
        self.name = name
        self.device = device
        self.problem = problem
        self.rungs: dict[str, Rung] = {}
        self._project = project
        self._contents: dict[tuple[str, str], str] = {}
        self._steps: dict[tuple[str, str, str], Step] = {}
        self.family = Family(store, name, device)

    def add(self, version: str, engine: str, path: Path, entry: Entry | None) -> None:
        """Note a recorded file; `entry` is None for a time."""
        rung = self.rungs.setdefault(version, Rung(self, version))
        if entry is None:
            rung.timed = True
        else:
            rung.entries[engine] = entry
        self._contents[version, engine] = self._digest_of(path)

    def content(self, version: str, engine: str) -> str:
        """Content key of one recorded file."""
        return self._contents[version, engine]

    @cached_property
    def study(self) -> StudyInfo:
        """The study's words."""
        return StudyInfo(self._project, self.name)

    @property
    def folder(self) -> str:
        """Where the ladder's pages lie, relative to the site."""
        parts = (self.name, self.device, self.problem)
        return "studies/" + "/".join(page_part(part) for part in parts)

    @cached_property
    def order(self) -> list[Rung]:
        """v0, v1, …, then the baselines; the study's order where it is known."""
        known = {version: index for index, version in enumerate(self.study.versions)}

        def key(rung: Rung) -> tuple[object, ...]:
            numbered = rung.id[:1] == "v" and rung.id[1:].isdigit()
            place = known.get(rung.id, -1)
            return (rung.is_baseline or not numbered, place, natural_key(rung.id))

        return sorted(self.rungs.values(), key=key)

    @cached_property
    def compared_with(self) -> set[str]:
        """The baselines that recorded times were taken beside."""
        return {rung.timing.baseline for rung in self.rungs.values() if rung.timing}

    @cached_property
    def baseline(self) -> Rung | None:
        """The library to beat, if it is recorded here: what most times were taken beside."""
        found = [rung for rung in self.order if rung.is_baseline]
        beside = Tally(rung.timing.baseline for rung in self.rungs.values() if rung.timing)
        return max(found, key=lambda rung: beside[rung.id], default=None)

    @cached_property
    def device_name(self) -> str:
        """The device as it calls itself."""
        for rung in self.order:
            record = rung.timing or rung.profile
            if record is not None:
                return record.device.name
        return self.device

    @cached_property
    def parameters(self) -> dict[str, int]:
        """The problem's parameters as they were recorded."""
        for rung in self.order:
            record = rung.timing or rung.profile
            if record is not None and record.parameters:
                return dict(record.parameters)
        return {}

    def parent(self, rung: Rung) -> Rung | None:
        """What a version is compared with: its declared parent, else the one before it."""
        declared = rung.declared
        if rung.is_baseline:
            return None
        if declared and declared.parent:
            return self.rungs.get(declared.parent)
        place = self.order.index(rung)
        return self.order[place - 1] if place else None

    @cached_property
    def steps(self) -> list[tuple[str, str, str]]:
        """(parent, version, engine) of every step that both sides were profiled for."""
        return [
            (parent.id, rung.id, engine)
            for rung in self.order
            if (parent := self.parent(rung)) is not None
            for engine in self.engines(parent.id, rung.id)
        ]

    def engines(self, old: str, new: str) -> list[str]:
        """The engines that have profiled both versions, the better one first."""
        if old not in self.rungs or new not in self.rungs or old == new:
            return []
        sides = self.rungs[old].entries, self.rungs[new].entries
        return [engine for engine in ENGINES if all(engine in side for side in sides)]

    def profiled(self) -> list[Rung]:
        """The versions that any engine has profiled."""
        return [rung for rung in self.rungs.values() if rung.entries]

    def step(self, old: str, new: str, engine: str) -> Step:
        """One step, compared once for all pages that speak of it."""
        from workbench.views.html.step import Step

        key = (old, new, engine)
        if key not in self._steps:
            before, after = self.rungs[old], self.rungs[new]
            author = after.declared
            self._steps[key] = Step(
                before.load(engine),
                after.load(engine),
                (old, new),
                (before.timing, after.timing) if engine == "ncu" else (None, None),
                author if author is not None and author.parent == old else None,
            )
        return self._steps[key]

    def key(self, *, of_files: bool) -> str:
        """Content key over the ladder's shape and times, and all profiles if `of_files`."""
        parts: list[str | bytes] = [self.name, self.device, self.problem]
        for (version, engine), content in sorted(self._contents.items()):
            parts += [version, engine, content if of_files or engine == "time" else ""]
        return digest(*parts)


def digest_file(path: Path) -> str:
    """Content key of a file."""
    return digest(path.read_bytes())


def find_ladders(
    store: Store,
    project: Project | None,
    studies: tuple[str, ...] = (),
    digest_of: DigestOf = digest_file,
) -> list[Ladder]:
    """The ladders that have anything recorded, in natural order; no studies: all.

    Args:
        store: Where profiles and times are.
        project: Where the studies are.
        studies: Only these studies' ladders.
        digest_of: Gives the content key of a file; a site remembers those it has seen.
    """
    out: dict[tuple[str, str, str], Ladder] = {}

    def ladder(study: str, device: str, problem: str) -> Ladder:
        key = (study, device, problem)
        if key not in out:
            out[key] = Ladder(store, project, study, device, problem, digest_of)
        return out[key]

    for name in studies or (None,):
        for entry in store.find(study=name):
            home = ladder(entry.study, entry.device, entry.problem)
            home.add(entry.version, entry.engine, entry.path, entry)
        for path in store.root.glob(f"*/{quote(name) if name else '*'}/*/*{_TIME_SUFFIX}"):
            device, study, version = (unquote(part.name) for part in reversed(path.parents[:3]))
            home = ladder(study, device, unquote(path.name[: -len(_TIME_SUFFIX)]))
            home.add(version, "time", path, None)
    families: dict[tuple[str, str], Family] = {}
    for (study, device, _), found in out.items():
        family = families.setdefault((study, device), Family(store, study, device))
        family.add(found)
    return sorted(
        out.values(), key=lambda x: tuple(map(natural_key, (x.name, x.device, x.problem)))
    )
