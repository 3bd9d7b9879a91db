"""Typed targets, resolved to profiles: ``v3``, ``sgemm/v3:n1024@h100``, ``x.ncu-rep::kernel``.

Heavy modules are imported on demand: the report reader for a report, the study and the store for a
version.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from workbench.errors import DataError, MissingError, UsageError, did_you_mean
from workbench.ladder.tunings import tuned_lines
from workbench.model import Profile, Record, Timing
from workbench.ncurep.files import LARGE, holds_at_least, split_target, stem
from workbench.project import Project, require_project, studies_in
from workbench.session.captures import captures, installed
from workbench.session.workspace import (
    Places,
    Selection,
    Workspace,
    apart,
    is_capture,
    is_report,
    of_one_problem,
)
from workbench.specs import Version
from workbench.store import Entry, means_device
from workbench.study.folder import parse_target, parse_targets, run_study, source_hash, view_study
from workbench.units import several

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from workbench.session.source_lookup import Texts
    from workbench.study.folder import Study

#: Launches between two lines of progress without a terminal.
_SAY_EVERY = 1000


class Named(Record, frozen=True):
    """Versions to run, and their problem, as they were typed."""

    versions: tuple[str, ...]
    every: bool = False
    study: str | None = None
    problem: str | None = None

    @classmethod
    def of(cls, project: Project | None, named: Named | str) -> Named:
        """All versions of a study if only its name was typed."""
        named = cls((named,)) if isinstance(named, str) else named
        texts, where = of_one_problem(named.versions, Selection(problem=named.problem))
        named = replace(named, versions=texts, problem=where.problem)
        alone = named.versions[0] if len(named.versions) == 1 and not named.study else ""
        if project is None or alone not in studies_in(project.kernels):
            return named
        return replace(named, versions=(), every=True, study=alone)

    def pick(
        self,
        project: Project | None = None,
        *,
        run: bool = True,
        broken: dict[str, UsageError] | None = None,
    ) -> tuple[Project, Study, list[Version]]:
        """The project, the study and the selected versions.

        Args:
            project: The project; None: that of the current folder.
            run: Run ``study.py``, because the versions will be run as well.
            broken: Receives the errors of those whose files cannot be used; None: one is raised.

        Raises UsageError: no version named, versions of several studies, an unknown name.
        """
        project = project or require_project()
        load = run_study if run else view_study
        if self.every and self.versions:
            raise UsageError("versions and --all cannot be used together", "Use only one of them.")
        if not self.versions and not self.every:
            raise _unnamed()
        if self.every:
            study = load(project, self.study or project.default_study)
            if broken is not None:
                broken.update(study.broken)
            return project, study, list(study.versions.values())
        for text in self.versions:
            if is_report(text):
                kind = "capture" if is_capture(text) else "report"
                how = "`new --from-launch …`" if kind == "capture" else "`workbench import`"
                raise UsageError(
                    f"{text} is a {kind}, which cannot be run again",
                    "Name a version. `workbench show` and `workbench diff` read it; "
                    f"{how} makes a study from a kernel.",
                )
        pairs = parse_targets(self.versions, project, self.study)
        names = list(dict.fromkeys(name for name, _ in pairs))
        if len(names) > 1:
            raise UsageError(
                f"versions of several studies: {', '.join(names)}",
                "Run the command once for each study.",
            )
        study = load(project, names[0])
        ids = list(dict.fromkeys(name for _, name in pairs))
        if broken is not None and not study.broken.keys() >= set(ids):
            broken.update({name: study.broken[name] for name in ids if name in study.broken})
            ids = [name for name in ids if name not in broken]
        versions = {version.id: version for version in map(study.version, ids)}
        return project, study, list(versions.values())


def _unnamed() -> UsageError:
    hint = "Name one or more, as v3 or sgemm/v3; a study; or --all."
    return UsageError("no version was named", hint)


class Target(Record, frozen=True):
    """A profile with its time, notes and provenance.

    `stale` says that the version's source was edited after the capture; `notes` are sentences that
    must accompany any number that is shown. `picked`: one launch was requested, and it holds no
    other. `placed`: its device was named with it. `tuned` has a line about each winner of the
    version's tunings.
    """

    label: str
    profile: Profile
    timing: Timing | None = None
    baseline: Timing | None = None
    version: Version | None = None
    stale: bool = False
    notes: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()
    picked: bool = False
    placed: bool = False

    @property
    def counters(self) -> pd.DataFrame:
        """A row for each launch and counter, as `workbench.frames.counters` has them."""
        from workbench.frames import counters  # pandas takes half a second

        return counters(self.profile)

    @property
    def lines(self) -> pd.DataFrame:
        """A row for each source line and counter, as `workbench.frames.lines` has them."""
        from workbench.frames import lines

        return lines(self.profile)

    @property
    def name(self) -> str:
        """``sgemm/v3``; for a report, its file's name."""
        return f"{self.profile.study}/{self.label}" if self.version else self.label

    def __repr__(self) -> str:
        # A whole profile would print a megabyte at a prompt.
        device, launches = self.profile.device.name, len(self.profile.launches)
        return f"<{self.name} on {device}, {several(launches, 'launch', 'launches')}>"

    def view(self, width: int, *, everything: bool = False) -> RenderableType:
        """The output of `workbench show`, for `width` columns."""
        from workbench.views.terminal.show import show_view

        return show_view(
            self.profile,
            label=self.name,
            title=self.version.title if self.version else "",
            timing=self.timing,
            baseline=self.baseline,
            notes=self.notes,
            everything=everything,
            width=width,
        )

    def _repr_html_(self) -> str:
        """The same for notebooks: one element, no scripts."""
        from workbench.views.terminal.console import fragment

        return fragment(self.view(100))


def resolve(
    place: Workspace,
    texts: tuple[str, ...],
    selection: Selection = Selection(),  # noqa: B008 - frozen
    places: Places = Places(),  # noqa: B008
) -> list[Target]:
    """The profiles that `texts` mean, all on one device and problem if that is possible.

    `places` are the folders of sources that reports name but do not hold.

    Raises:
        UsageError: unknown study, version, problem, kernel or file; or it has no record (the hint
            lists the records, and says how to make one).
        DataError: a damaged report or store file.
    """
    wanted: list[tuple[str, _Candidates | None]] = []
    given, (texts, selection) = len(texts), of_one_problem(texts, selection)
    if len(texts) < given:  # "", or ":n4096" alone
        raise _unnamed()
    beside = selection
    for text in texts:
        recorded = None if is_report(text) else _candidates(place, text, beside)
        if recorded is not None:
            beside = replace(selection, study=recorded.study_name)  # sgemm/v2 v3: both of sgemm
        wanted.append((text, recorded))
    choices = [recorded for _, recorded in wanted if recorded is not None]
    for each in choices if len({each.study_name for each in choices}) > 1 else ():
        each.label = f"{each.study_name}/{each.label}"
    _agree(choices, selection)
    labels = _report_labels([text for text, recorded in wanted if recorded is None])
    found = [
        _report(place, text, labels[text], selection) if recorded is None else recorded.target()
        for text, recorded in wanted
    ]
    if selection.launch is not None:
        number = selection.launch
        found = [each if each.picked else _one_launch(each, number) for each in found]
    return with_sources(found, places)


def from_parent(place: Workspace, text: str, selection: Selection) -> tuple[str, str]:
    """``v3`` -> (``sgemm/v2``, ``v3``), its parent first; UsageError: it has no parent."""
    if not is_report(text):
        name, _ = apart(text)
        study, version = parse_target(name, place.project, selection.study)
        if parent := view_study(place.project, study).version(version).parent:
            return f"{study}/{parent}{text.removeprefix(name)}", text
    hint = f"Name both: `workbench diff {text} NEW`."
    raise UsageError(f"diff compares two versions, and {text} has no parent", hint)


def with_sources(targets: list[Target], places: Places) -> list[Target]:
    """Targets whose profiles hold the texts from the named places.

    Raises UsageError: a place is neither folder nor revision, or no file of it fits.
    """
    known: dict[str, Texts] = {}
    out = []
    for side, target in enumerate(targets):
        where = places.of(side)
        if where is not None:
            from workbench.session.source_lookup import supplied, texts_at

            if where not in known:
                known[where] = texts_at(where)
            target = replace(target, profile=supplied(target.label, target.profile, known[where]))
        out.append(target)
    return out


def whole_large_report(text: str) -> Path | None:
    """The path of a large report that `text` names as a whole; None for everything else."""
    if is_capture(text) or not is_report(text):
        return None
    path, kernel = split_target(text)
    return path if kernel is None and holds_at_least(path, LARGE) else None


def _report(place: Workspace, text: str, label: str, selection: Selection) -> Target:
    profile, picked = load_report(place, text, selection)
    return Target(label=f"{label}{picked}", profile=profile, picked=bool(picked))


def load_report(place: Workspace, text: str, selection: Selection) -> tuple[Profile, str]:
    """The profile of a report, or of a captured program's kernels; of a large one, the named part.

    `text` is ``x.ncu-rep::kernel`` or ``@before::kernel``.

    Returns:
        The profile, and ``#2`` if it holds only that launch because it was requested.

    Raises:
        UsageError: no launch matches, or reports never come from the engine. DataError: damaged.
    """
    if is_capture(text):
        return captures(text).profile_of(place, text), ""
    from workbench.ncurep.read import read_report, select_kernels

    path, kernel = split_target(text)
    if holds_at_least(path, LARGE):
        return _of_large(place, path, kernel, selection.launch)
    profile = select_kernels(read_report(path), kernel)
    if selection.engine == "emulator":
        raise UsageError(f"{path} is an ncu report, not an emulator report", "Leave out --engine.")
    return profile, ""


def _of_large(
    place: Workspace, path: Path, kernel: str | None, launch: int | None
) -> tuple[Profile, str]:
    from workbench.ncurep import large
    from workbench.ncurep.read import read_report

    if launch is not None and "#" in (kernel or ""):
        raise UsageError(f"--launch and {kernel} both name a launch", "Use only one of them.")
    picked = "" if launch is None else f"#{launch}"
    name = f"{kernel or ''}{picked}" or None
    listener, said = place.listener, 0

    def progress(done: int, of: int) -> None:
        nonlocal said
        if listener is None:
            return
        line = f"{path.name}: {done:,} of {of:,} launches are read"
        if done - said >= _SAY_EVERY:
            said = done
            listener.say(line)
        else:
            listener.doing(line)

    try:
        choose = large.choice(name) if name else None
        return read_report(path, progress=progress, choose=choose), picked
    finally:
        if listener is not None:
            listener.clear()


def _report_labels(texts: list[str]) -> dict[str, str]:
    """Labels of reports: the file's name, with as many folders as distinguish two."""
    out: dict[str, str] = {}
    files = {text: split_target(text) for text in texts if not is_capture(text)}
    out |= {text: text for text in texts if is_capture(text)}
    for text, (path, kernel) in files.items():
        others = [p for p, _ in files.values() if p != path]
        length = 1
        while any(p.parts[-length:] == path.parts[-length:] for p in others):
            length += 1
        name = stem("/".join(path.parts[-length:]))
        out[text] = f"{name}::{kernel}" if kernel else name
    return out


def _one_launch(target: Target, number: int) -> Target:
    """A target of one launch. A recorded time covers all of them, and is left out."""
    from workbench.ncurep.read import select_launch

    profile = select_launch(target.profile, number, of=target.label)
    if len(target.profile.launches) == 1:
        return target
    return replace(
        target, label=f"{target.label}#{number}", profile=profile, timing=None, baseline=None
    )


def _candidates(place: Workspace, text: str, selection: Selection) -> _Candidates:
    try:
        return _Candidates(place, text, selection)
    except UsageError as error:
        seen = installed()
        meant = seen.without_sign(text) if seen else ""
        raise UsageError(error.message, meant or error.hint) from error


class _Candidates:
    """A version's recorded profiles, and the selected one."""

    def __init__(self, place: Workspace, text: str, selection: Selection) -> None:
        self.project, self.store = place.project, place.store
        self.where = "".join(text.partition("@")[1:])
        text, selection = apart(text, selection)
        self.study_name, name = parse_target(text, self.project, selection.study)
        self.study = view_study(self.project, self.study_name)
        self.version = self.study.version(name)
        self.label = f"{self.version.id}{self.where}"
        if selection.problem is not None:
            self.study.problem(selection.problem)
        self.all: list[Entry] = self.store.find(study=self.study_name, version=self.version.id)
        self.entries = [entry for entry in self.all if _matches(entry, selection)]
        if not self.entries:
            raise self._nothing(selection)
        self.chosen = self.entries[0]

    def _nothing(self, selection: Selection) -> UsageError:
        """The error for "not recorded": the existing records, and how to record the missing one."""
        name = f"{self.study_name}/{self.version.id}"
        what = f"no profile of {selection.of(name)} is recorded"
        if selection.engine:
            what += f" for --engine {selection.engine}"
        if self.all:
            there = "; ".join(
                dict.fromkeys(f"{e.problem} on {e.device} ({e.engine})" for e in self.all)
            )
            hint = f"Recorded for {name}: {there}."
            devices = [entry.device for entry in self.all]
            if selection.device and selection.device not in devices:
                hint += " " + did_you_mean(selection.device, devices, "devices")
        else:
            others = self.store.find(study=self.study_name)
            ids = ", ".join(dict.fromkeys(entry.version for entry in others))
            hint = f"Recorded versions of {self.study_name}: {ids or 'none'}."
        command = f"workbench profile {replace(selection, device=None).of(name)}"
        return UsageError(
            what, f"{hint} To record it: `{command}` (without a GPU, counters alone)."
        )

    def target(self) -> Target:
        """Load the chosen profile, its timing and the baseline's."""
        profile = self.store.load(self.chosen.path)
        now = source_hash(self.project, self.version)
        stale = bool(profile.source_hash) and profile.source_hash != now
        notes = list[str]()
        if stale:
            default = self.study_name == self.project.default_study
            name = self.version.id if default else f"{self.study_name}/{self.version.id}"
            notes.append(
                f"stale: {self.version.path} was edited after it was profiled; "
                f"record it again with `workbench profile {name}`"
            )
        damaged: list[DataError] = []
        counted = self.chosen.engine == "emulator"
        timing = self._timing(self.version.id, None if counted else self.chosen.device, damaged)
        if timing is not None and timing.source_hash not in ("", profile.source_hash):
            notes.append("time and counters were measured on different states of the source")
        named = self.study.baseline
        on = timing.device.slug if timing is not None else self.chosen.device
        baseline = self._timing(named.id, on, damaged) if named else None
        if timing is not None and on != self.chosen.device:
            notes.append(
                f"the time was measured on {timing.device.name}; the counters are the emulator's"
            )
        untold: list[DataError] = []
        own = self.version.id
        tuned = tuned_lines(self.store, self.study_name, lambda _: now, untold, own)
        notes.extend(f"without its tuning: {error.message}" for error in untold)
        # The counters are complete: a time that cannot be read does not hide them.
        notes.extend(f"without its time: {error.message}" for error in damaged)
        return Target(
            label=self.label,
            placed=bool(self.where),
            profile=profile,
            timing=timing,
            baseline=baseline,
            version=self.version,
            stale=stale,
            notes=tuple(notes),
            tuned=tuned,
        )

    def _timing(self, version: str, device: str | None, damaged: list[DataError]) -> Timing | None:
        """A version's time on a device; None: the device of its latest measurement."""
        found = self.store.timings(
            damaged=damaged,
            study=self.study_name,
            version=version,
            problem=self.chosen.problem,
            device=device,
        )
        if device is None:
            found.sort(key=lambda timing: timing.captured, reverse=True)
        return found[0] if found else None


def _matches(entry: Entry, selection: Selection) -> bool:
    if selection.device and not means_device(selection.device, entry.device):
        return False
    return (selection.problem or entry.problem, selection.engine or entry.engine) == (
        entry.problem,
        entry.engine,
    )


def _agree(recorded: list[_Candidates], selection: Selection) -> None:
    """Choose one entry for each, if possible with the same problem, device and engine.

    Order of preference: what all have in common, ncu before the emulator, the study's
    default problem, the project's default device, the device with the newest profile.
    """
    if not recorded:
        return

    def key(each: _Candidates, entry: Entry) -> tuple[str, str, str]:
        return entry.problem, "" if each.where else entry.device, entry.engine

    keys = [{key(each, e) for e in each.entries} for each in recorded]
    common = set.intersection(*keys)
    device = ""
    for each, own in zip(recorded, keys, strict=True):
        among = [e for e in each.entries if key(each, e) in (common or own)]
        among = _prefer(among, "engine", "ncu")
        among = _prefer(among, "problem", _default_problem(each.study, selection))
        among = _prefer(among, "device", device)
        named = each.project.default_device
        among = [e for e in among if named and means_device(named, e.device)] or among
        if len({entry.device for entry in among}) > 1:
            # Only here must several files be read: paths do not show their age.
            newest = max(among, key=lambda entry: each.store.load(entry.path).captured)
            among = _prefer(among, "device", newest.device)
        each.chosen = among[0]
        device = each.chosen.device


def _prefer(entries: list[Entry], field: str, value: str) -> list[Entry]:
    return [entry for entry in entries if getattr(entry, field) == value] or entries


def _default_problem(study: Study, selection: Selection) -> str:
    if selection.problem:
        return selection.problem
    try:
        return study.problem().name
    except (UsageError, MissingError):
        return ""
