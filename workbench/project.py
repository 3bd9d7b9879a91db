"""Find a project's root, settings, subfolders and caches.

Settings decide which programs run with the caller's rights. So they are searched for as git
searches for a repository: upwards, stopping where another user's folders may begin (`upwards`).
Settings that another user owns are refused (`check_owner`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from workbench.disk.limits import SETTINGS, read_regular, read_toml
from workbench.errors import MissingError, UsageError, WorkbenchError
from workbench.model import Record

#: Folders that an upward search does not enter, as ``GIT_CEILING_DIRECTORIES``; and folders in and
#: below which settings of another user are obeyed (``*``: everywhere).
CEILING_VARIABLE, TRUST_VARIABLE = "WORKBENCH_CEILING", "WORKBENCH_TRUST"
#: Names the user who became root for one command; root accepts that user's files.
_SUDO = "SUDO_UID"
#: Tells the commands that ``serve mcp`` starts that a program is the caller.
CLOSED_VARIABLE = "WORKBENCH_CLOSED"


def shipped(name: str) -> Path:
    """A folder of the checkout that a wheel holds as well: ``docs``, ``kernels/scale_add``."""
    package = Path(__file__).parent
    inside = package / "data" / "shipped" / name
    return inside if inside.exists() else package.parent / name


class Project(Record, frozen=True):
    """A folder with ``kernels/``, ``profiles/``, ``reports/`` and its settings.

    `settings` is the ``[tool.workbench]`` table of ``pyproject.toml`` (or the
    whole of ``workbench.toml``). `default_study` is the study of a version named without one: the
    one set there, or else the only one; empty if there are several. `default_device` is the one
    shown if there are several, as set there; empty: the one with the newest profile. `closed`: a
    program is the caller (``mcp``), and a version can include only files that its user allows:
    those in ``kernels/`` and in the version's ``-I`` folders, and headers.
    """

    root: Path
    default_study: str = ""
    default_device: str = ""
    settings: dict[str, object] = msgspec.field(default_factory=dict)
    closed: bool = False

    @property
    def kernels(self) -> Path:
        """Folder of the studies."""
        return self.root / "kernels"

    @property
    def profiles(self) -> Path:
        """Folder of the recorded profiles."""
        return self.root / "profiles"

    @property
    def reports(self) -> Path:
        """Folder of the generated site."""
        return self.root / "reports"

    def facts(self, study: str) -> Path:
        """Return the file with the output of a study's run, for readers, watchers and hashes."""
        # The store skips folders that begin with a dot.
        return self.profiles / ".studies" / f"{study}.json"


#: The folder of captures and kept runs, in a project or outside one.
PRIVATE = ".workbench"
#: Suffixes of version files.
VERSION_SUFFIXES = (".cu", ".py")


def studies_in(kernels: Path) -> list[str]:
    """Names of the studies: the folders that hold a ``study.py``, in alphabetical order."""
    found = (path.parent.name for path in kernels.glob("*/study.py"))
    return sorted(name for name in found if not name.startswith("."))  # skips half-written ones


def upwards(start: Path | None = None) -> Iterator[Path]:
    """The folders, nearest first, whose settings and captures may apply to `start`.

    The last one is a repository's root (it holds ``.git``), the user's home folder, the last one of
    the same file system, or the one below a folder that ``WORKBENCH_CEILING`` names. Raises
    MissingError: the working folder no longer exists.
    """
    here = _here(start)
    ceilings, home = _folders(CEILING_VARIABLE), Path(os.path.expanduser("~"))  # noqa: PTH111
    device = _device(here)
    for folder in (here, *here.parents):
        if folder != here and (folder in ceilings or _device(folder) != device):
            return
        yield folder
        if folder in (*ceilings, home) or os.path.lexists(folder / ".git"):
            return


def _device(folder: Path) -> int | None:
    with contextlib.suppress(OSError):
        return folder.stat().st_dev
    return None


def _folders(variable: str) -> tuple[Path, ...]:
    words = os.environ.get(variable, "").split(os.pathsep)
    return tuple(Path(os.path.realpath(word)) for word in words if os.path.isabs(word))  # noqa: PTH117


def owner(path: Path, *, follow: bool = True) -> int:
    """The id of a file's owner; for a link its own owner, unless it is followed."""
    return path.stat(follow_symlinks=follow).st_uid


def check_owner(root: Path, *paths: Path) -> None:
    """Refuse files of another user: they would decide what runs with the caller's rights.

    As in git, root's files count as another user's too, but under ``sudo`` root accepts those of
    the user who ran it. `root` is the folder to look up in ``WORKBENCH_TRUST``. Of a link in
    `paths`, both the link and its target must belong to the caller. Raises UsageError: one of them
    does not.
    """
    if found := _foreign(root, paths):
        path, user = found
        raise UsageError(
            f"{path} belongs to another user (uid {user}), and is ignored",
            "It could decide what runs with your permissions. If you trust that user, name the "
            f"folder: {TRUST_VARIABLE}={root}. To limit the search upwards to it: "
            f"{CEILING_VARIABLE}={root}.",
        )


def _foreign(root: Path, paths: Sequence[Path]) -> tuple[Path, int] | None:
    if not hasattr(os, "geteuid"):  # Windows has other owners, and no folders writable by all
        return None
    own = {os.geteuid()}
    if own == {0} and os.environ.get(_SUDO, "").isdecimal():
        own.add(int(os.environ[_SUDO]))
    for path in paths:
        # An inaccessible path cannot be read either; its reader reports that.
        with contextlib.suppress(OSError):
            others = {owner(path), owner(path, follow=False)} - own
            if others and not _trusted(root):
                return path, min(others)
    return None


def _trusted(root: Path) -> bool:
    if "*" in os.environ.get(TRUST_VARIABLE, "").split(os.pathsep):
        return True
    real = Path(os.path.realpath(root))
    return any(real.is_relative_to(folder) for folder in _folders(TRUST_VARIABLE))


def _settings(folder: Path) -> dict[str, object] | None:
    """Read the settings in a folder; None if it has none.

    Raises UsageError if they are malformed or another user's.
    """
    own = folder / "workbench.toml"
    if os.path.exists(own):  # noqa: PTH110 - a folder that cannot be entered has none
        check_owner(folder, folder, own)
        return _table(own)
    shared = folder / "pyproject.toml"
    if not os.path.exists(shared):  # noqa: PTH110
        return None
    try:
        tools = _table(shared).get("tool")
    except WorkbenchError:
        if _foreign(folder, (folder, shared)):
            return None  # probably not our settings; they must not block those below
        raise
    if not isinstance(tools, dict) or "workbench" not in tools:
        return None
    check_owner(folder, folder, shared)
    table = tools["workbench"]
    if not isinstance(table, dict):
        raise UsageError(
            f"{shared}: `tool.workbench` must be a table, not {table!r}",
            "Write [tool.workbench], and the settings below it.",
        )
    return table


def _table(path: Path) -> dict[str, object]:
    try:
        return read_toml(read_regular(path, SETTINGS).decode())
    except ValueError as error:
        raise UsageError(f"{path}: not valid TOML: {error}", "Correct the file.") from error
    except OSError as error:
        raise MissingError(f"cannot read {path}: {error.strerror}", "Check the path.") from error


def find_project(start: Path | None = None) -> Project | None:
    """The project that contains `start` (default: the current folder), or None.

    The nearest folder upwards (as far as `upwards` goes) that holds ``workbench.toml``, or a
    ``pyproject.toml`` with a ``[tool.workbench]`` table. Raises UsageError: the settings file is
    not valid TOML, has a wrong type, or is another user's.
    """
    for folder in upwards(start):
        settings = _settings(folder)
        if settings is None:
            continue
        study = _text(folder, settings, "default_study", "sgemm")
        if not study:
            names = studies_in(folder / "kernels")
            study = names[0] if len(names) == 1 else ""
        device = _text(folder, settings, "default_device", "h200")
        return Project(
            root=folder,
            default_study=study,
            default_device=device,
            settings=settings,
            closed=bool(os.environ.get(CLOSED_VARIABLE)),
        )
    return None


def _text(folder: Path, settings: dict[str, object], key: str, such_as: str) -> str:
    value = settings.get(key, "")
    if not isinstance(value, str):
        raise UsageError(
            f"{folder}: {key} must be a string, not {value!r}",
            f'Write {key} = "{such_as}" in the [tool.workbench] table.',
        )
    return value


def _here(start: Path | None) -> Path:
    try:
        return (start or Path.cwd()).resolve()
    except FileNotFoundError as error:
        raise MissingError(
            "the working folder no longer exists", "It was removed: go to another folder (`cd`)."
        ) from error


def require_project(start: Path | None = None) -> Project:
    """Find the project as `find_project` does, or raise an error with advice.

    Raises UsageError: no project at or above the folder.
    """
    project = find_project(start)
    if project is None:
        raise UsageError(
            f"no workbench project at or above {_here(start)}",
            "`workbench init` makes this folder a project; `workbench new --from-cu FILE` also "
            "makes a study from it. A report needs no project: `workbench show x.ncu-rep`.",
        )
    return project


def cache_folder(name: str) -> Path:
    """Return a user's cache of that name: ``$XDG_CACHE_HOME/workbench/NAME``, or ``~/.cache/…``.

    It need not exist. By the XDG specification a relative path is invalid and counts as not set.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base if base.startswith("/") else os.path.expanduser("~/.cache"))  # noqa: PTH111
    return root / "workbench" / name
