"""``workbench tune --gpus`` on stand-ins: who does which choices, and where the race is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.engines.stand_ins import VERSION, Cli
from tests.engines.test_spread import UUIDS, gpu, gpus, log
from workbench.ladder.tunings import load
from workbench.project import Project

__all__ = ["gpus", "log"]  # fixtures
pytestmark = pytest.mark.usefixtures("stand_in")
SPACE = "[defines]\nWORK = 2\n\n[tune]\nWORK = [2, 3, 4, 5]\n\n[[launch]]"


@pytest.fixture(autouse=True)
def version(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    text = VERSION.replace("[[launch]]", SPACE).replace("int n) {", "int n) {  // WORK")
    (project.kernels / "double" / "v1_tuned.cu").write_text(text)
    monkeypatch.setenv("FAKE_CLOCK", "0.0002 0.002")
    monkeypatch.setenv("FAKE_SEED", "1")


def test_the_gpus_share_the_choices_and_one_of_them_runs_the_race(
    cli: Cli,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    gpus: Callable[..., None],
    log: Callable[[], list[dict[str, Any]]],
) -> None:
    gpus(gpu(0), gpu(1))
    monkeypatch.setenv("FAKE_MEET", "2")
    code, _, err = cli("tune", "v1", "--seed", "1", "--gpus", "all", "--no-profile")
    assert code == 0, err
    (path,) = project.profiles.glob("stand-in-1/double/tuned/v1/gpu.jsonl")
    tuning = load(path)
    assert tuning.winners["n1000"].values == {"WORK": 2} and len(tuning.trials) == 4
    assert {row["gpu"] for row in log()} == set(UUIDS[:2])
    assert tuning.fates.get("timed", 0) + tuning.fates.get("dropped", 0) == 4


def test_gpus_of_two_models_are_refused_before_anything_is_run(
    cli: Cli, project: Project, gpus: Callable[..., None], log: Callable[[], list[dict[str, Any]]]
) -> None:
    gpus(gpu(0), gpu(1, "NVIDIA Stand-In 2", 8))
    code, out, err = cli("tune", "v1", "--gpus", "all", "--no-profile")
    assert code == 2 and "2 models, whose times are not comparable" in err and not out
    assert not log() and not list(project.profiles.glob("*/double/tuned/v1/*"))
