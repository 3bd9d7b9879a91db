"""Recorded profiles and times on disk: atomic, locked, versioned, small.

Layout below the root (``profiles/`` of a project)::

    <device>/<study>/<version>/<problem>.<engine>.json.zst      the profile
    <device>/<study>/<version>/<problem>.<engine>.ncu-rep.zst   the raw report beside it
    <device>/<study>/<version>/<problem>.time.json.zst          the timing

The choices of a tuned version (``v3@32-4``) lie beside its tuning and are not a study's versions::

    <device>/<study>/tuned/v3/32-4/<problem>.<engine>.json.zst

`workbench.store.codec` defines the content of a file; `workbench.disk` ensures that nothing is lost
while it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

from workbench.callers import folded, placed
from workbench.disk.lock import locked
from workbench.disk.writing import write_files
from workbench.errors import DataError, MissingError, UsageError
from workbench.model import EngineName, Profile, Record, Timing
from workbench.project import Project
from workbench.store.codec import decode, decode_totals, encode, pack_raw

_SUFFIX, _RAW_SUFFIX = ".json.zst", ".ncu-rep.zst"
_ENGINES: tuple[EngineName, ...] = ("ncu", "emulator")
_TIME: Literal["time"] = "time"
#: The folder of a study's tunings, beside those of its versions.
TUNED = "tuned"
#: A file's kind by its name.
_KINDS: dict[str, EngineName | Literal["time"]] = {kind: kind for kind in (*_ENGINES, _TIME)}
#: The longest file name that every common file system takes, less space for our suffixes.
_MAX_NAME = 200


class Entry(Record, frozen=True):
    """One recorded profile, as described by its path (nothing was decoded)."""

    path: Path
    device: str
    study: str
    version: str
    problem: str
    engine: EngineName


class Found(NamedTuple):
    """A recorded file, as described by its path; `kind` is an engine, or ``time``."""

    path: Path
    device: str
    study: str
    version: str
    problem: str
    kind: EngineName | Literal["time"]

    @property
    def entry(self) -> Entry | None:
        """The profile; None for a time."""
        path, device, study, version, problem, kind = self
        if kind == "time":
            return None
        return Entry(
            path=path, device=device, study=study, version=version, problem=problem, engine=kind
        )


def _load(path: Path, *_state: int) -> Profile:
    """A profile; the `stat` values of its file distinguish it from its next edition."""
    return placed(folded(decode(path, Profile)))


def device_slug(name: str) -> str:
    """Return the folder name of a device: ``NVIDIA GeForce RTX 4090`` -> ``rtx-4090``.

    The vendor's and the brand's words carry no information; an empty name gives ``unknown``.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return re.sub(r"^(?:(?:nvidia|tesla|geforce)-)+", "", slug) or "unknown"


def means_device(wanted: str, slug: str) -> bool:
    """Test whether a device that the user typed is the one with this slug.

    It may be the name, the slug, or the beginning of it: ``h100`` means ``h100-80gb-hbm3``.
    """
    own = device_slug(wanted)
    return bool(wanted) and (slug == own or slug.startswith(f"{own}-"))


@lru_cache(maxsize=4096)
def natural_key(text: str) -> tuple[tuple[int, str], ...]:
    """Sort key by which ``v2`` comes before ``v10``."""
    parts = re.split(r"(\d+)", text)
    return tuple((int(p), "") if i % 2 else (-1, p) for i, p in enumerate(parts))


def component(text: str, what: str) -> str:
    """A name as one safe path component; odd characters become ``%XX``."""
    try:
        name = quote(text, safe="+,=@ ")
    except UnicodeEncodeError:
        name = ""  # a command line argument that was not UTF-8
    # quote() does not change "." and "~"; a leading dot would hide the file or climb out.
    if name.startswith((".", "~", " ")):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if not name or len(name) > _MAX_NAME:
        raise UsageError(
            f"{what} {text[:40]!r} cannot be a file name",
            f"A {what} needs 1 to {_MAX_NAME} characters, preferably letters and digits.",
        )
    return name


class Store:
    """The profiles and times below one folder.

    The first write creates `root`; reading a missing one is an error, unless `may_lack` is set:
    then nothing is recorded yet. A writer waits `lock_timeout_s` seconds for another writer.
    `remembers` is the number of recently loaded profiles that are kept.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        lock_timeout_s: float = 30.0,
        remembers: int = 0,
        may_lack: bool = False,
    ) -> None:
        self.root = Path(root)
        self.lock_timeout_s = lock_timeout_s
        self._load = lru_cache(maxsize=remembers)(_load)
        self._may_lack = may_lack

    @classmethod
    def of(cls, project: Project, *, remembers: int = 0) -> Store:
        """Return the store of a project; its folder does not exist before the first profile."""
        return cls(project.profiles, remembers=remembers, may_lack=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.root}>"

    # --- paths ----------------------------------------------------------------

    def _folder(self, device: str, study: str, version: str) -> Path:
        home = self.root / component(device, "device") / component(study, "study")
        version, tuned, choice = version.partition("@")
        if tuned:
            return home / TUNED / component(version, "version") / component(choice, "choice")
        return home / component(version, "version")

    def profile_path(self, profile: Profile) -> Path:
        """Path of `profile`, stored or not; UsageError: one of its names is empty or too long."""
        names = profile.device.slug, profile.study, profile.version, profile.problem
        return self.path_of(*names, profile.engine)

    def path_of(
        self, device: str, study: str, version: str, problem: str, engine: EngineName
    ) -> Path:
        """Path of a profile, stored or not, of a version or of a choice of a tuned version.

        Raises UsageError: a name is empty or too long.
        """
        folder = self._folder(device, study, version)
        return folder / f"{component(problem, 'problem')}.{engine}{_SUFFIX}"

    def raw_report(self, entry: Entry) -> Path | None:
        """The raw ``.ncu-rep.zst`` kept beside a profile, or None."""
        path = _raw_path(entry.path)
        return path if path.is_file() else None

    # --- profiles ---------------------------------------------------------------

    def save(self, profile: Profile, raw: Path | bytes | None = None) -> Path:
        """Keep `profile` and the raw report beside it, replacing an earlier one; return its path.

        `raw` is a path, ``.zst`` or not, or bytes; None removes the replaced profile's raw report.

        Raises:
            UsageError: the profile names no study, version or problem.
            DataError: the profile holds what JSON cannot (NaN), or contradicts itself.
            MissingError: no space, no permission, or another writer holds the lock.
        """
        path = self.profile_path(profile)
        data = encode(profile, path)
        self._write({_raw_path(path): None if raw is None else pack_raw(raw), path: data})
        return path

    def _write(self, files: Mapping[Path, bytes | None]) -> None:
        below = {path.relative_to(self.root).as_posix(): data for path, data in files.items()}
        with locked(self.root, self.lock_timeout_s):
            write_files(self.root, below)

    def load(self, path: Path) -> Profile:
        """Read one profile; each line's cost is moved to its caller's line (`callers`).

        Raises:
            MissingError: there is no such file, or it may not be read.
            DataError: the file is damaged, foreign, or of a newer schema.
        """
        try:
            status = path.stat()
        except OSError:
            return _load(path)  # which reports the fault
        return self._load(path, status.st_mtime_ns, status.st_size, status.st_ino)

    def unfolded(self, path: Path) -> Profile:
        """Read one profile like `load`, but with lines as recorded, without a walk over its PTX.

        Raises MissingError, DataError: as `load`.
        """
        return decode(path, Profile)

    def totals(self, path: Path) -> Profile:
        """Read one profile without instructions, sources, rules and build, in half of the time.

        Raises MissingError, DataError: as `load`.
        """
        return decode_totals(path)

    def find(
        self,
        *,
        study: str | None = None,
        version: str | None = None,
        problem: str | None = None,
        engine: str | None = None,
        device: str | None = None,
    ) -> list[Entry]:
        """The recorded profiles that match, in natural order; None matches all.

        Cheap: reads folder names only. Raises MissingError: there is no such folder.
        """
        return [
            entry
            for found in self._walk(device, study, version, problem)
            if engine in (None, found.kind) and (entry := found.entry) is not None
        ]

    def files(self, *, study: str | None = None) -> list[Found]:
        """All recorded profiles and times, of one study or of all, in natural order.

        Cheap: reads folder names only.
        """
        return self._walk(None, study, None, None)

    def profiles(
        self,
        *,
        study: str | None = None,
        version: str | None = None,
        problem: str | None = None,
        engine: str | None = None,
        device: str | None = None,
        whole: bool = True,
    ) -> Iterator[Profile]:
        """The recorded profiles that match, each read on demand, in natural order.

        `device` is a slug. If `whole` is False: without instructions, sources, rules and build, in
        half of the time. Raises DataError: a matching file is damaged.
        """
        for entry in self.find(
            study=study, version=version, problem=problem, engine=engine, device=device
        ):
            yield self.load(entry.path) if whole else self.totals(entry.path)

    def get(
        self,
        *,
        study: str,
        version: str,
        problem: str | None = None,
        engine: str | None = None,
        device: str | None = None,
    ) -> Profile:
        """The one profile that matches; engine ``ncu`` wins over ``emulator``.

        Raises:
            MissingError: no such profile is recorded.
            UsageError: several devices or problems match.
            DataError: the file is damaged.
        """
        found = self.find(
            study=study, version=version, problem=problem, engine=engine, device=device
        )
        if not found:
            wanted = " ".join(w for w in (problem, engine, device) if w)
            raise MissingError(
                f"no profile of {study}/{version} {wanted}".rstrip() + f" below {self.root}",
                f"Record one: `workbench profile {study}/{version}`.",
            )
        best = min(_ENGINES.index(entry.engine) for entry in found)
        found = [entry for entry in found if entry.engine == _ENGINES[best]]
        if len(found) > 1:
            names = ", ".join(f"{e.device} {e.problem}" for e in found)
            raise UsageError(
                f"several profiles of {study}/{version}: {names}",
                "Choose one, as v3:PROBLEM@DEVICE.",
            )
        return self.load(found[0].path)

    # --- times --------------------------------------------------------------------

    def save_timing(self, timing: Timing) -> Path:
        """Keep a timing, replacing the earlier one of the same version and problem.

        Raises UsageError, DataError, MissingError: as `save`.
        """
        folder = self._folder(timing.device.slug, timing.study, timing.version)
        path = folder / f"{component(timing.problem, 'problem')}.{_TIME}{_SUFFIX}"
        data = encode(timing, path)
        self._write({path: data})
        return path

    def timings(
        self,
        *,
        study: str | None = None,
        version: str | None = None,
        problem: str | None = None,
        device: str | None = None,
        damaged: list[DataError] | None = None,
    ) -> list[Timing]:
        """The recorded times that match, in natural order; None matches all.

        `device` is a slug. `damaged` receives the error of each damaged file, which is then left
        out. Raises DataError: a matching file is damaged, and `damaged` is None.
        """
        found = []
        for file in self._walk(device, study, version, problem):
            if file.kind != _TIME:
                continue
            try:
                found.append(decode(file.path, Timing))
            except DataError as error:
                if damaged is None:
                    raise
                damaged.append(error.kept())
        return found

    def has_timings(self, study: str) -> bool:
        """Test whether any time of a study is recorded, on any device, without reading one."""
        return any(file.kind == _TIME for file in self.files(study=study))

    # --- the walk -------------------------------------------------------------------

    def _walk(
        self, device: str | None, study: str | None, version: str | None, problem: str | None
    ) -> list[Found]:
        if not self._may_lack and not self.root.is_dir():
            raise MissingError(
                f"there is no folder {self.root.absolute()}",
                "A store is the folder `profiles` of a project: `workbench init` makes one.",
            )
        found = []
        for dev in _folders(self.root, device):
            for stu in _folders(dev, study):
                for ver in _folders(stu, version):
                    for path in ver.glob(f"*{_SUFFIX}"):
                        name, _, suffix = path.name[: -len(_SUFFIX)].rpartition(".")
                        kind = _KINDS.get(suffix)
                        if not name or name.startswith(".") or kind is None:
                            continue
                        if problem is not None and unquote(name) != problem:
                            continue
                        names = [unquote(part) for part in (dev.name, stu.name, ver.name, name)]
                        found.append(Found(path, names[0], names[1], names[2], names[3], kind))
        return sorted(found, key=lambda file: [natural_key(part) for part in file[1:]])


def _folders(parent: Path, name: str | None) -> list[Path]:
    if name is not None:
        child = parent / component(name, "name")
        return [child] if child.is_dir() else []
    if not parent.is_dir():
        return []
    return [p for p in parent.iterdir() if p.is_dir() and not p.name.startswith(".")]


def _raw_path(path: Path) -> Path:
    return path.with_name(path.name[: -len(_SUFFIX)] + _RAW_SUFFIX)
