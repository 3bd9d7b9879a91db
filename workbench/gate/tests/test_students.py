"""A class hands in its kernels as new files of a pull request, and the gate reads them all."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.engines.stand_ins import Cli
from tests.engines.test_taught import BUGS, TAUGHT, mended
from workbench.gate.tests.test_check_past import git

MORE = tomllib.loads(Path(__file__).with_name("pulls.toml").read_text(encoding="utf-8"))["mistakes"]


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_wrong_submission_is_red_at_its_line_and_each_right_one_green(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored = shutil.ignore_patterns("profiles", "v[1-9]*")
    shutil.copytree(TAUGHT, tmp_path, dirs_exist_ok=True, ignore=ignored)
    monkeypatch.chdir(tmp_path)
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "the exercise"]):
        git(tmp_path, *step)
    wrong, right = dict[str, tuple[int, str]](), set[str]()

    def hand_in(name: str, text: str, line: str, words: str) -> None:
        (tmp_path / "kernels" / f"{name}.cu").write_text(text, encoding="utf-8")
        last = max(at for at, each in enumerate(text.splitlines(), 1) if line in each)
        wrong[name] = last, words

    for name, bug in BUGS.items():
        (path,) = (TAUGHT / "kernels").glob(f"{name}_*.cu")
        text = path.read_text(encoding="utf-8")
        hand_in(name, text, bug.line, rf"(?m:{bug.words})(.|\n)*(?m:{bug.hint})")
        right.add(f"{name}0")
        (tmp_path / "kernels" / f"{name}0.cu").write_text(mended(name, text), encoding="utf-8")
    text = (TAUGHT / "kernels" / "matmul" / "v0_right.cu").read_text(encoding="utf-8")
    for number, (old, new, line, words) in enumerate(MORE, 200):
        assert text.count(old) == 1
        hand_in(f"matmul/v{number}", text.replace(old, new), line, words)
    code, out, _ = cli(
        "check", "--against", "HEAD", "--engine", "emulator", "--seed", "1", "--format", "json"
    )
    assert code == 1 and len(right) >= 10
    gates: list[dict[str, Any]] = json.loads(out)["gates"]
    told = {name: [each for each in gates if each["version"] == name] for name in (*wrong, *right)}
    for name in right:
        assert [each["status"] for each in told[name]] == ["pass"], told[name]
        assert re.search(r"right on n\d+, odd", str(told[name][0]["message"]))
    for name, (number, words) in wrong.items():
        assert {each["status"] for each in told[name]} == {"fail"}, told[name]
        places = {(each["file"], each["line"]) for each in told[name]}
        assert places == {(f"kernels/{name}.cu", number)}, told[name]
        assert re.search(words, str(told[name][0]["message"])), told[name]
