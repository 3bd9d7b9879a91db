"""How many files one has to read: three walks through the package, counted as they run.

    python -m benchmarks.walk [diff|profile|cell ...] [--files] [--target v2 v3]

diff
    ``workbench diff v2 v3`` from the command line to its last sentence: files in which a
    function ran, and beside them the files that were imported at all.
profile
    ``workbench profile v3 --engine emulator`` to the stored file, in a copy of the project:
    files in which a function ran between the command and the store, the emulator's own apart.
cell
    one counter's way from a ``.ncu-rep`` to its cell in the page of that report: files with a
    function that held the number, itself or one level inside of what it held.

A file counts once, whatever ran in it. Comprehensions and class bodies are no functions, and
what a module does when it is imported is no walk: that is what importing costs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec

REPO = Path(__file__).resolve().parent.parent
PACKAGES = ("workbench", "ptxemu")
NO_FUNCTION = {"<module>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>"}
REPORT = REPO / "tests" / "data" / "ncurep" / "sgemm_v3.ncu-rep.zst"


def room(code: CodeType) -> str | None:
    """The file of a package that a function stands in, below the repository."""
    path = Path(code.co_filename)
    if code.co_name in NO_FUNCTION or not code.co_flags & CO_OPTIMIZED:
        return None  # the body of a module or a class: that is importing
    if not path.is_relative_to(REPO):
        return None
    inside = path.relative_to(REPO)
    return inside.as_posix() if inside.parts[0] in PACKAGES else None


def executed(arguments: list[str]) -> set[str]:
    """Files in which a function ran while the command did."""
    seen: set[CodeType] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    _command(arguments, called)
    return {file for file in map(room, seen) if file}


def holders(arguments: list[str], value: float, text: str) -> set[str]:
    """Files with a function that held `value`, or the `text` that is made of it."""
    found: set[str] = set()
    rooms: dict[CodeType, str | None] = {}

    def returned(frame: FrameType, event: str, result: object) -> None:
        if event != "return":
            return
        code = frame.f_code
        if code not in rooms:
            rooms[code] = room(code)
        file = rooms[code]
        if file is None or file in found:
            return
        if any(_holds(each, value, text) for each in (*frame.f_locals.values(), result)):
            found.add(file)

    _command(arguments, returned)
    return found


def _holds(thing: object, value: float, text: str, depth: int = 1) -> bool:
    if isinstance(thing, float):
        return thing == value
    if isinstance(thing, str):
        return thing == text
    if not depth:
        return False
    inside: Any = ()
    if isinstance(thing, dict):
        inside = thing.values()
    elif isinstance(thing, list | tuple):
        inside = thing
    elif isinstance(thing, msgspec.Struct):
        inside = (getattr(thing, name, None) for name in thing.__struct_fields__)
    return any(_holds(each, value, text, depth - 1) for each in inside)


def _command(arguments: list[str], watcher: Callable[[FrameType, str, object], None]) -> None:
    from workbench.cli import main

    sys.argv = ["workbench", *arguments]
    sys.setprofile(watcher)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)


def _imported() -> int:
    return sum(name.split(".")[0] in PACKAGES for name in sys.modules)


def _copy(folder: Path) -> Path:
    for name in ("kernels", "pyproject.toml"):
        source = REPO / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
    return folder


def walk(name: str, targets: list[str]) -> set[str]:
    """One walk in this very process, which it leaves with everything imported."""
    with tempfile.TemporaryDirectory() as place:
        if name == "diff":
            return executed(["diff", *targets])
        if name == "profile":
            os.chdir(_copy(Path(place)))
            files = executed(["profile", targets[-1], "--engine", "emulator"])
            return {file for file in files if not file.startswith(("workbench/emulator", "ptxemu"))}
        page = Path(place) / "page.html"
        value, text = counter()
        found = holders(["report", "--single-file", str(REPORT), "--out", str(page)], value, text)
        assert text in page.read_text(encoding="utf-8"), f"the page has no {text}"
        return found


def counter() -> tuple[float, str]:
    """A counter of the report whose value no other has, and the words of its cell."""
    from workbench.units import quantity

    command = [sys.executable, "-m", "workbench.cli", "show", str(REPORT), "--format", "json"]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    reading = shown["launches"][0]["counters"]["dram_throughput"]
    return reading["value"], quantity(reading["value"], reading["unit"])


def main() -> None:
    """Each walk in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("walks", nargs="*", default=["diff", "profile", "cell"])
    parser.add_argument("--files", action="store_true", help="name them")
    parser.add_argument("--target", nargs=2, default=["v2", "v3"])
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        (name,) = arguments.walks
        files = walk(name, arguments.target)
        rows = [f"{name}: {len(files)} files, of {_imported()} that were imported"]
        rows += sorted(files) if arguments.files else []
        sys.stderr.write("\n".join(rows) + "\n")
        return
    for name in arguments.walks:
        rest = ["--files"] if arguments.files else []
        command = [sys.executable, "-m", "benchmarks.walk", name, "--here", *rest]
        subprocess.run(
            [*command, "--target", *arguments.target],
            cwd=REPO,
            check=True,
            stdout=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    main()
