"""No room is larger than ``tests/house.toml`` allows, and no ceiling rises."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.ceilings import REPO, book, files, measured, room_of

#: Lines (and words) that a ceiling may be above a room: who takes more away lowers it as well.
SLACK = 200
SLACK_WORDS = 1000


def test_no_room_is_above_its_ceiling() -> None:
    rooms, ceilings = book()
    now = measured(files(), rooms)
    assert set(ceilings) == set(now), "every room has a ceiling"
    above = {name: now[name] for name in now if now[name] > ceilings[name]}
    assert not above, f"above the ceiling (make house): {above}"


def test_no_ceiling_is_far_above_its_room() -> None:
    rooms, ceilings = book()
    now = measured(files(), rooms)
    lower = {
        name: now[name]
        for name, ceiling in ceilings.items()
        if ceiling - now[name] > (SLACK_WORDS if name == "words" else SLACK)
    }
    assert not lower, f"lower these ceilings to: {lower}"


def test_no_ceiling_has_risen() -> None:
    """A room into which files moved may be larger, as long as all rooms together are not."""

    def git(*words: str) -> str:
        asked = subprocess.run(["git", *words], cwd=REPO, capture_output=True, text=True)
        return asked.stdout

    rooms, now = book()
    set_in: dict[str, dict[str, Any]] = {}  # ceilings -> the book of the oldest commit with them
    for commit in git("log", "--format=%H", "--", "tests/house.toml").split():
        earlier = tomllib.loads(git("show", f"{commit}:tests/house.toml"))
        set_in[str(earlier["ceilings"])] = earlier
    for earlier in set_in.values():
        before = earlier["ceilings"]
        risen = {n: c for n, c in now.items() if before.get(n) and c > before[n]}
        if earlier["rooms"] != rooms and not risen.keys() & {"tests", "words"}:
            assert of_packages(now) <= of_packages(before) or not of_packages(before)
        else:
            assert not risen, f"ceilings that rose: {risen}"


def of_packages(ceilings: dict[str, int]) -> int:
    return sum(lines for name, lines in ceilings.items() if name not in ("tests", "words"))


def test_every_pattern_of_a_room_finds_files() -> None:
    every = files()
    for room, patterns in book()[0].items():
        for pattern in patterns:
            assert [path for path in every if room_of(path, {room: [pattern]}) == room], pattern


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("workbench/tune/running.py", "tune"),
        ("workbench/tune/page.py", "tune"),
        ("workbench/gate/rules.py", "gate"),
        ("workbench/cli.py", "core"),
        ("ptxemu/ops/moves.py", "ptxemu"),
        ("docs/tables.py", None),
    ],
)
def test_a_file_has_one_room(path: str, room: str | None) -> None:
    assert room_of(Path(path), book()[0]) == room


def test_what_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.ceilings.REPO", tmp_path)
    texts = {
        "workbench/tune/a.py": "x = 1\n\ny = 2\n",
        "workbench/tune/tests/test_a.py": "x = 1\n",
        "workbench/tune/docs/a.md": "three words here\n",
        "workbench/data/a.toml": "x = 1\n",
        "tests/a.py": "x = 1\n",
        "docs/a.md": "two words\n",
        "CHANGELOG.md": "not counted\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = measured(map(Path, texts), {"tune": ["workbench/tune/*"]})
    assert found == {"tune": 3, "tests": 2, "words": 5, "core data": 1}
