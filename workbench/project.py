"""Where things are: a project's root, its settings, its sub-folders; and caches."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from workbench.disk.limits import SETTINGS, read_regular, read_toml
from workbench.errors import MissingError, UsageError
from workbench.model import Record


class Project(Record, frozen=True):
    """A folder with ``kernels/``, ``profiles/``, ``reports/`` and its settings.

    `settings` is the ``[tool.workbench]`` table of ``pyproject.toml`` (or the
    whole of ``workbench.toml``). `default_study` is the one that a version without a study
    means: as set there, or else the only one that there is; empty where that is open.
    `default_device` is the one that is shown of several, as set there; empty for the one with
    the newest profile.
    """

    root: Path
    default_study: str = ""
    default_device: str = ""
    settings: dict[str, object] = msgspec.field(default_factory=dict)

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
        """What a study said when it was run, for whoever reads, watches or hashes it."""
        # The store passes over folders with a dot.
        return self.profiles / ".studies" / f"{study}.json"


def studies_in(kernels: Path) -> list[str]:
    """Names of the studies: the folders that hold a ``study.py``, in alphabetical order."""
    return sorted(path.parent.name for path in kernels.glob("*/study.py"))


def _settings(folder: Path) -> dict[str, object] | None:
    own = folder / "workbench.toml"
    shared = folder / "pyproject.toml"
    for path, inner in ((own, False), (shared, True)):
        if not path.exists():
            continue
        try:
            table = read_toml(read_regular(path, SETTINGS).decode())
        except ValueError as error:
            raise UsageError(f"{path}: not valid TOML: {error}", "Correct the file.") from error
        except OSError as error:
            raise MissingError(
                f"cannot read {path}: {error.strerror}", "Check the file's permissions."
            ) from error
        if inner:
            table = table.get("tool", {}).get("workbench")
            if table is None:
                continue
        return dict(table)
    return None


def find_project(start: Path | None = None) -> Project | None:
    """The project that `start` (default: the current folder) lies in, or None.

    The nearest folder upwards that holds ``workbench.toml``, or a
    ``pyproject.toml`` with a ``[tool.workbench]`` table.

    Raises:
        UsageError: the settings file is not valid TOML or has a wrong type.
    """
    here = _here(start)
    for folder in (here, *here.parents):
        settings = _settings(folder)
        if settings is None:
            continue
        study = _text(folder, settings, "default_study", "sgemm")
        if not study:
            names = studies_in(folder / "kernels")
            study = names[0] if len(names) == 1 else ""
        device = _text(folder, settings, "default_device", "h200")
        return Project(root=folder, default_study=study, default_device=device, settings=settings)
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
            "the working folder no longer exists", "It was removed: change to another one (`cd`)."
        ) from error


def require_project(start: Path | None = None) -> Project:
    """Like `find_project`, but a missing project is an error that says what to do.

    Raises:
        UsageError: no project at or above the folder.
    """
    project = find_project(start)
    if project is None:
        raise UsageError(
            f"no workbench project at or above {_here(start)}",
            "Run `workbench init` in the folder of your kernels, or name a report file: "
            "`workbench show x.ncu-rep`.",
        )
    return project


def cache_folder(name: str) -> Path:
    """Where a user's cache of that name is: ``$XDG_CACHE_HOME/workbench/NAME``, or ``~/.cache/…``.

    It need not exist. By the XDG specification a relative path is invalid and counts as not set.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base if base.startswith("/") else os.path.expanduser("~/.cache"))  # noqa: PTH111
    return root / "workbench" / name
