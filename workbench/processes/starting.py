"""Start a child so that no code of the current folder runs in it.

Python takes modules from the working folder where it is asked for one by name (``python -m``,
``-c``, an empty entry of ``PYTHONPATH``), and the loader of shared libraries does the same with an
empty entry of ``LD_LIBRARY_PATH``. The current folder may be anybody's, so

* every Python child is started by `own_module`, `worker` or `own_file` (``-P``, and
  ``PYTHONSAFEPATH`` for its own children), and finds our packages by their place;
* its environment is `environment`: without relative and empty entries in lists of folders, and
  without variables that would have Python run something else first;
* its working folder is `NEUTRAL`, unless it is there for the files of one.

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

#: Holds nothing of anybody's, and is there on every system.
NEUTRAL = Path(os.path.abspath(os.sep))  # noqa: PTH100 - the drive's root, where there are drives
#: Folder that our packages lie in, and they.
_HOME, _OURS = Path(__file__).resolve().parents[2], ("workbench", "ptxemu")
#: Variables that list folders; programs, libraries and modules are looked for in these.
_LISTS = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH"),
    *("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"),
)
#: Folders for temporary files: a relative one means one of ours.
_TEMPORARY = ("TMPDIR", "TEMP", "TMP")
#: Python would run them, or wait for somebody to type.
_DROPPED = ("PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT")
#: Sets the limit and becomes the program: no fork of ours runs Python in between, and whatever
#: the program starts has the limit as well. Where the limit is lower already, that holds.
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
            env[name] = os.path.abspath(env[name])  # noqa: PTH100 - a link stays as it is named
    return env


def interpreter() -> list[str]:
    """Our own interpreter, which does not import from its working folder."""
    return [sys.executable, "-P"]


def own_module(
    name: str,
    *arguments: str,
    cwd: Path = NEUTRAL,
    env: Mapping[str, str] | None = None,
) -> Start:
    """Return the start of one of our modules (``workbench.ncurep.extract``) as a program.

    Paths among the arguments are absolute, or below `cwd`, its working folder, from which it
    imports nothing. `env` None: our own.
    """
    argv = [*interpreter(), __file__, name, *arguments]
    return Start(argv, cwd, {**environment(env), "PYTHONSAFEPATH": "1"})


def own_file(path: str, *arguments: str) -> Start:
    """A file of ours that needs the standard library alone: it is there in a few milliseconds."""
    return Start([sys.executable, "-I", "-S", path, *arguments], NEUTRAL, environment())


def worker(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command line of a module of ours that runs a project's code, perhaps elsewhere.

    It has our interpreter's bare name where PATH leads to it, else its path: ncu writes the command
    line into its report, which should name no folder of a user.
    """
    bare = Path(sys.executable).name
    here = bare if program(bare) == sys.executable else sys.executable
    return (here, "-P", "-m", name, *arguments)


def worker_environment() -> dict[str, str]:
    """Return variables of a `worker`, which has the caller's modules: a study may import them."""
    # As Python has read it: a relative entry is below the folder that we were started in.
    listed = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    paths = list(map(os.path.abspath, listed))
    if "site-packages" not in _HOME.parts and str(_HOME) not in paths:
        paths.append(str(_HOME))
    return environment({**os.environ, "PYTHONPATH": os.pathsep.join(paths)})


def limited(argv: Sequence[str], limit_bytes: int) -> list[str]:
    """Return a command line with a limit to its memory, and to that of its children.

    The limit is one on a process's allocations (``RLIMIT_DATA``, which counts no libraries), and an
    allocation meets it as a failure, which leaves no core behind. A shell sets it and then becomes
    the program, so the process keeps its number and its group. `limit_bytes` holds for each process
    and is rounded down to KiB.
    """
    if os.name != "posix":
        return list(argv)
    return ["/bin/sh", "-c", _LIMIT, str(limit_bytes // 1024), *argv]


def program(name: str) -> str | None:
    """The path of a program that PATH leads to, whatever the folder that we stand in holds."""
    found = shutil.which(name, path=environment().get("PATH", os.defpath))
    return os.path.abspath(found) if found else None  # noqa: PTH100


def answered(
    *argv: str, timeout_s: float = 30, folder: Path = NEUTRAL
) -> subprocess.CompletedProcess[str]:
    """Output of a program that answers and ends; it runs in an empty folder by default.

    Raises OSError, TimeoutExpired: it does not run, or not end in time.
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

    # Our packages are found by their place, and not on a list of folders.
    for package in _OURS:
        place = _HOME / package / "__init__.py"
        spec = importlib.util.spec_from_file_location(package, place)
        if spec is not None and spec.loader is not None and place.is_file():
            sys.modules[package] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
