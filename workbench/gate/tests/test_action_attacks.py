"""The GitHub action, step by step, in the folder of a hostile pull request."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.attacks.conftest import cache, ready, told  # noqa: F401 - fixtures
from tests.attacks.test_folders import KINDS, plant
from tests.attacks.test_repositories import bare
from tests.engines.stand_ins import STUDY, VERSION
from workbench.compile import compilers
from workbench.gate.tests.test_action import STEPS, Runner
from workbench.gate.tests.test_check_past import git

pytestmark = [pytest.mark.attack, pytest.mark.timeout(600)]

#: Steps that run something, and what is put into the pull request.
CASES = [
    (step, kind)
    for step in ("Install", "Judge", "Report", "Comment", "Verdict")
    for kind in (*KINDS, "bare, ssh", "bare, ext")
]
#: Stands for the workbench: of it other suites tell.
STUB = '#!/bin/sh\nfor word; do case $word in markdown=*) echo x > "${word#*=}";; esac; done\n'


def test_every_step_that_runs_something_is_tried() -> None:
    assert {name for name, step in STEPS.items() if "run" in step} == {step for step, _ in CASES}


@pytest.mark.parametrize("portion", dealt("judge in a hostile folder", len(CASES)))
def test_steps(tmp_path: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    evil = tmp_path / "evil.sh"
    evil.write_text(f'#!/bin/sh\necho "$0" >> "{outside}/pwned"\nexit 1\n')
    evil.chmod(0o755)
    for turn in book.turns(portion):
        step, kind = CASES[turn.number]
        place = tmp_path / str(turn.number)
        (place / "pull" / "project").mkdir(parents=True)
        runner = Runner(place / "pull", place / "temporary")
        runner.program(STUB)
        runner.inputs["working-directory"] = "project"
        runner.github["base"] = "1" * 40
        runner.outputs["folder"] = str(place / "temporary")
        # Nothing to install: pip says so, after it has been imported.
        nothing = place / "action"
        shutil.copytree(Path(__file__).parents[3] / "action", nothing / "action")
        runner.more["GITHUB_ACTION_PATH"] = str(nothing)
        # What a runner has no right to is refused, and is no matter here.
        runner.more["GITHUB_API_URL"] = "http://127.0.0.1:9"
        for folder in (place / "pull", place / "pull" / "project"):
            if kind in KINDS:
                plant(folder, kind, outside / "pwned")
            else:
                url = {"ssh": "ssh://nobody.invalid/x", "ext": f"ext::sh {evil}"}[kind[6:]]
                bare(folder, evil, url)
        (place / "temporary" / "gate.md").write_text("x")
        with harness.untouched(outside, turn.kind):
            done = runner.run(step)
        book.tried(turn.kind)
        book.ended(turn.kind, done.returncode)
        book.must(
            done.returncode in (range(3) if step == "Install" else (0, 70)),
            turn.kind,
            (step, kind, done),
        )
        assert os.listdir(outside) in ([], ["pwned"])  # noqa: PTH208


BOOK = tomllib.loads(Path(__file__).with_name("pulls.toml").read_text(encoding="utf-8"))
#: Kind, attempt, deed.
PULLS = [
    (kind, line, deed)
    for kind, lines in BOOK["attempts"].items()
    for line, deed in itertools.product(lines, BOOK["deeds"])
]


@pytest.mark.nvcc
@pytest.mark.skipif(not compilers.available(), reason="no CUDA compiler here")
@pytest.mark.parametrize("portion", dealt("hostile pull requests", len(PULLS), 12))
def test_no_deed_is_passed(
    tmp_path: Path, cache: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    base = tmp_path / "base"
    for study in ("double", "other"):
        folder = base / "kernels" / study
        folder.mkdir(parents=True)
        (folder / "study.py").write_text(STUDY)
        (folder / "part.cuh").write_text("#define TWO 2\n")
        (folder / "v0_plain.cu").write_text(VERSION)
        part = VERSION.replace("--- */", '--- */\n#include "part.cuh"').replace("= 2", "= TWO")
        (folder / "v1_part.cu").write_text(part)
    (base / "workbench.toml").write_text('default_study = "double"\n')
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        git(base, *words)
    for turn in book.turns(portion):
        kind, line, deed = PULLS[turn.number]
        place = tmp_path / str(turn.number)
        shutil.copytree(base, place / "pull")
        lines = f"{BOOK['helpers']}\n{deed}\n{line}"
        folder = place / "pull" / "kernels" / "double"
        done = subprocess.run(["bash", "-c", lines], cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0 and not done.stderr, (line, done)
        words = ["check", "--against", "HEAD", "--engine", "emulator", "--seed", "1"]
        words += ["--timeout", "60", "--also", f"json={place}/verdict.json"]
        ended = harness.run(harness.real(words), place / "pull", f"pull requests, {kind}")
        book.must(ended.code != 0, turn.kind, (line, deed, ended))
        if (place / "verdict.json").exists():
            verdict = json.loads((place / "verdict.json").read_text())
            book.must(verdict["status"] != "pass", turn.kind, (line, deed, verdict))
        shutil.rmtree(place)
