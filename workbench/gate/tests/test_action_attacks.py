"""The GitHub action, step by step, in the folder of a hostile pull request."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.attacks.conftest import ready, told  # noqa: F401 - fixtures
from tests.attacks.test_folders import KINDS, plant
from tests.attacks.test_repositories import bare
from workbench.gate.tests.test_action import STEPS, Runner

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
