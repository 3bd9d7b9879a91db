"""Start a child so that no code of the current folder runs in it.

Python imports modules from the working folder in some cases (``python -m``, ``-c``, an empty entry
in ``PYTHONPATH``), and the loader of shared libraries does the same with an empty entry in
``LD_LIBRARY_PATH``. The current folder may be anybody's, so

* every Python child is started by `own_module`, `worker` or `own_file` (``-P``, and
``PYTHONSAFEPATH`` for its own children), and finds our packages by their path;
* its environment is `environment`: without relative and empty entries in lists of folders, and
  without variables that make Python run something else first;
* its working folder is `NEUTRAL`, unless it works on the files of another.

As a program (``python -P starting.py MODULE ARGUMENTS``) it runs a module of ours.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

#: A folder without anybody's files that exists on every system.
NEUTRAL = Path(os.path.abspath(os.sep))  # noqa: PTH100 - the drive's root, where there are drives
#: The folder that holds our packages, and the packages.
_HOME, _OURS = Path(__file__).resolve().parents[2], ("workbench", "ptxemu")
#: Variables that list the folders to search for programs, libraries and modules.
_LISTS = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH"),
    *("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"),
)
#: Folders for temporary files: a relative one is below our working folder.
_TEMPORARY = ("TMPDIR", "TEMP", "TMP")
#: Variables that make Python run a file, or wait for input from the terminal.
_DROPPED = ("PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT")
#: Sets the limit and becomes the program: no fork of ours runs Python in between, and the program's
#: children inherit the limit. A lower limit that is already set stays.
_LIMIT = 'ulimit -c 0; ulimit -d "$0" 2>/dev/null; exec "$@"'


class Start(NamedTuple):
    """Arguments of ``subprocess.Popen(start.argv, cwd=start.cwd, env=start.env)``."""

    argv: list[str]
    cwd: Path
    env: dict[str, str]


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a child's variables, without relative folders; from `base` (None: our own)."""
    env = dict(os.environ if base is None else base)
    for name in _DROPPED:
        env.pop(name, None)
    for name in _LISTS:
        if (listed := env.pop(name, None)) is not None:
            # The loader of libraries takes a semicolon as well.
            ends = "[:;]" if name.startswith("LD_") else re.escape(os.pathsep)
            if kept := [each for each in re.split(ends, listed) if os.path.isabs(each)]:  # noqa: PTH117
                env[name] = os.pathsep.join(kept)
    for name in _TEMPORARY:
        if env.get(name):
            env[name] = os.path.abspath(env[name])  # noqa: PTH100 - a link is not resolved
    return env


def interpreter() -> list[str]:
    """Our own interpreter, which does not import from its working folder."""
    return [sys.executable, "-P"]


def own_module(
    name: str, *arguments: str, cwd: Path = NEUTRAL, env: Mapping[str, str] | None = None
) -> Start:
    """Return the start of one of our modules (``workbench.ncurep.extract``) as a program.

    Paths among the arguments are absolute, or below `cwd`, its working folder, from which it
    imports nothing. `env` None: our own.
    """
    argv = [*interpreter(), __file__, name, *arguments]
    return Start(argv, cwd, {**environment(env), "PYTHONSAFEPATH": "1"})


def own_file(path: str, *arguments: str) -> Start:
    """The start of one of our files that needs only the standard library: it takes milliseconds."""
    return Start([sys.executable, "-I", "-S", path, *arguments], NEUTRAL, environment())


def worker(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command line of one of our modules that runs a project's code, perhaps elsewhere.

    It has our interpreter's bare name if PATH leads to it, else its path: ncu writes the command
    line into its report, which should not name a user's folder.
    """
    bare = Path(sys.executable).name
    here = bare if program(bare) == sys.executable else sys.executable
    return (here, "-P", "-m", name, *arguments)


def worker_environment() -> dict[str, str]:
    """Return variables for a `worker` that let it import the caller's modules, as a study may."""
    # As Python reads it: a relative entry is below the folder in which we were started.
    listed = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    paths = list(map(os.path.abspath, listed))
    if "site-packages" not in _HOME.parts and str(_HOME) not in paths:
        paths.append(str(_HOME))
    return environment({**os.environ, "PYTHONPATH": os.pathsep.join(paths)})


def limited(argv: Sequence[str], limit_bytes: int) -> list[str]:
    """Return a command line that limits its own memory and that of its children.

    It limits a process's allocations (``RLIMIT_DATA``, which does not count libraries). An
    allocation beyond it fails, and leaves no core dump. A shell sets it and then becomes the
    program, so the process keeps its number and its group. `limit_bytes` holds for each process and
    is rounded down to KiB.
    """
    if os.name != "posix":
        return list(argv)
    return ["/bin/sh", "-c", _LIMIT, str(limit_bytes // 1024), *argv]


def program(name: str) -> str | None:
    """The path of a program found in PATH, never in the working folder."""
    found = shutil.which(name, path=environment().get("PATH", os.defpath))
    return os.path.abspath(found) if found else None  # noqa: PTH100


def answered(
    *argv: str, timeout_s: float = 30, folder: Path = NEUTRAL
) -> subprocess.CompletedProcess[str]:
    """Output of a program that prints and ends; it runs in `NEUTRAL` by default.

    Raises OSError, TimeoutExpired: it does not run, or does not end in time.
    """
    return subprocess.run(
        argv,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )


if __name__ == "__main__":
    import importlib.util
    import runpy

    # Our packages are found by their path, not in a list of folders.
    for package in _OURS:
        place = _HOME / package / "__init__.py"
        spec = importlib.util.spec_from_file_location(package, place)
        if spec is not None and spec.loader is not None and place.is_file():
            sys.modules[package] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
