"""How large each room is, beside its ceiling in ``tests/house.toml``: ``make house``.

A room's lines are those of its Python files (tests apart), and its other lines those of the C++,
templates, styles, scripts and tables that it carries. Catalogues of translations are not counted.
Tests are counted wherever they lie; words are those of the documentation and of both READMEs.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
BOOK = REPO / "tests" / "house.toml"
#: Kinds of files beside Python whose lines are counted.
OTHER = {".h", ".c", ".cpp", ".toml", ".j2", ".html", ".css", ".js"}
#: Where the documentation is.
PAGES = ("README.md", "README.zh-CN.md", "docs", "workbench")


def files() -> list[Path]:
    """The checkout's files, as git lists them, relative to it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=REPO, check=True, capture_output=True, text=True)
    return [Path(name) for name in listed.stdout.split("\0") if name and (REPO / name).is_file()]


def room_of(path: Path, rooms: dict[str, list[str]]) -> str | None:
    """The room of a file of both packages; the first whose pattern it matches, else the core."""
    if path.parts[0] not in ("workbench", "ptxemu"):
        return None
    named = (
        room
        for room, patterns in rooms.items()
        if any(fnmatchcase(path.as_posix(), each) for each in patterns)
    )
    return next(named, "ptxemu" if path.parts[0] == "ptxemu" else "core")


def measured(paths: Iterable[Path], rooms: dict[str, list[str]]) -> dict[str, int]:
    """Room -> its lines, ``<room> data`` -> its other lines, and ``tests`` and ``words``."""
    now: Counter[str] = Counter()
    for path in paths:
        room = room_of(path, rooms)
        if path.suffix == ".md" and path.parts[0] in PAGES:
            now["words"] += len((REPO / path).read_text(encoding="utf-8").split())
        elif path.suffix == ".py" and ("tests" in path.parts or path.name == "conftest.py"):
            now["tests"] += lines(path)
        elif room and path.suffix == ".py":
            now[room] += lines(path)
        elif room and path.suffix in OTHER and "tests" not in path.parts:
            now[f"{room} data"] += lines(path)
    return dict(now)


def lines(path: Path) -> int:
    """Lines of a file."""
    return len((REPO / path).read_bytes().splitlines())


def book() -> tuple[dict[str, list[str]], dict[str, int]]:
    """Patterns of each room, and the ceilings."""
    read = tomllib.loads(BOOK.read_text(encoding="utf-8"))
    return read["rooms"], read["ceilings"]


def main() -> int:
    """Print each room, what it has now and its ceiling; 1 where one is above it."""
    rooms, ceilings = book()
    now = measured(files(), rooms)
    print(f"{'room':<16}{'now':>10}{'ceiling':>10}")
    for name, ceiling in ceilings.items():
        above = "  above its ceiling" if now.get(name, 0) > ceiling else ""
        print(f"{name:<16}{now.get(name, 0):>10,}{ceiling:>10,}{above}")
    python = sum(now.get(name, 0) for name in ("core", "ptxemu", *rooms))
    print(f"{'both packages':<16}{python:>10,}")
    return int(any(now.get(name, 0) > ceiling for name, ceiling in ceilings.items()))


if __name__ == "__main__":
    sys.exit(main())
