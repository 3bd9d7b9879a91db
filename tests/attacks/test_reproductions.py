"""What was found once is tried again, by the script that anybody can run on any version."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.book import WHOLE

FOLDER = Path(__file__).parent / "reproductions"
PARTS = sorted(path.stem for path in FOLDER.glob("*.sh") if path.name not in ("run.sh", "head.sh"))
#: Minutes each; a share of the same is tried every time, by the test of that name.
LONG = ("agents", "ceilings", "folders")
MARKED = [
    pytest.param(part, marks=WHOLE if part in LONG else pytest.mark.slow, id=part) for part in PARTS
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", MARKED)
def test_nothing_that_was_found_comes_back(part: str, tmp_path: Path) -> None:
    script, command = FOLDER / "run.sh", Path(sys.executable).with_name("workbench")
    done = subprocess.run(
        ["bash", script, command, tmp_path / "scratch"],
        env={**os.environ, "ONLY": part},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"^(FAIL|skip) ", done.stdout, re.M), done.stdout
    assert re.search(r"^ok ", done.stdout, re.M)


def test_every_part_is_run() -> None:
    listed = re.search(r"ONLY:-([\w ]+)\}", (FOLDER / "run.sh").read_text(encoding="utf-8"))
    assert listed is not None and sorted(listed[1].split()) == PARTS
