"""How good the gate is, by the pairs that were recorded; and the campaign that records them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.gate.__main__ import main
from benchmarks.gate.curve import in_turns, read_runs, rolling, table
from benchmarks.gate.project import PLANTED, write_project
from tests.engines.stand_ins import NO_COMPILER
from workbench.project import require_project
from workbench.study.folder import load_study

REPO = Path(__file__).resolve().parents[3]
RECORDED = REPO / "tests" / "data" / "gate" / "h200.jsonl.xz"
STAND_INS = REPO / "tests" / "engines"


def test_the_recorded_pairs_reach_the_goals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curve", str(RECORDED)]) == 0
    said = capsys.readouterr().out
    assert "Goals reached" in said
    words = (REPO / "docs" / "measurements.md").read_text(encoding="utf-8")
    turns = next(part for part in said.split("\n\n") if part.startswith("|"))
    assert turns in words, f"docs/measurements.md lacks\n{turns}"


def test_a_missed_goal_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = read_runs(RECORDED)
    for run in runs:  # what was planted is hidden behind half of it
        for pairs in run["measured"].values():
            pairs["new_ns"] = [new * 97 // 100 for new in pairs["new_ns"]]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, runs)))
    assert main(["curve", str(path)]) == 1
    assert "in turns: goal missed: false alarms 0.0%, 0.0% of 3% found" in capsys.readouterr().out


def test_every_process_counts_once() -> None:
    runs = read_runs(RECORDED)
    for planted in PLANTED:
        assert in_turns(runs, planted).ends.total() == 50
        assert rolling(runs, planted).ends.total() == 30  # twenty are kept before the first
        assert rolling(runs, planted, "noisy").ends == {"inconclusive": 6}
    assert "| 3% | — | 0 | 0 | 0 | 0 |" in table([in_turns([], 3)])


def test_what_is_planted_is_in_the_sources(tmp_path: Path) -> None:
    work = {}
    for name, slower in (("before", False), ("after", True)):
        write_project(tmp_path / name, slower=slower, remark=name)
        versions = load_study(require_project(tmp_path / name), "planted").versions
        work[name] = {key: int(each.defines["WORK"]) for key, each in versions.items()}
    assert work["before"] == dict.fromkeys(work["after"], 1000)
    assert {key: value / 10 - 100 for key, value in work["after"].items()} == {
        f"v{planted}": planted for planted in PLANTED
    }


@pytest.mark.slow
def test_a_campaign_on_a_device_with_a_noise_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = NO_COMPILER.format(folder=str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text(text)
    path = (tmp_path, STAND_INS / "fake_pycuda", REPO)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, path)))
    monkeypatch.setenv("FAKE_CLOCK", "0.0002 0.003")
    monkeypatch.setenv("FAKE_SEED", "3")
    file = tmp_path / "runs.jsonl"
    words = ("--options", "--launcher env --arch sm_90")
    assert main(["run", str(file), "--quiet", "1", "--noisy", "0", *words]) == 0
    runs = read_runs(file)
    assert [(run["kind"], run["exit"]) for run in runs] == [("first", 1), ("quiet", 1)]
    for planted, status in ((0, "pass"), (3, "fail"), (5, "fail")):
        assert in_turns(runs, planted).ends == {status: 1}
