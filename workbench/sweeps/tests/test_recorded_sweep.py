"""A sweep as it is stored: its documents, its schema, its devices, and the session's method."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from tests import goldens
from tests.commands.test_schema import holds, printed
from tests.factories import make_timing
from tests.views import site_data
from workbench.cli import main
from workbench.model import Device
from workbench.project import Project
from workbench.store import Store
from workbench.sweeps.recorded import recorded_devices

REPO = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("format_", "suffix"), [("json", "json"), ("csv", "csv"), ("markdown", "md")]
)
def test_documents(
    format_: str,
    suffix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site_data.wide(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "--recorded", "--format", format_]) == 0
    goldens.same(f"sweeps/sweep.{suffix}", capsys.readouterr().out)


def test_a_sweep_with_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site_data.wide(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert holds("sweep", printed(["sweep", "--recorded"]))["gaps"]


@pytest.mark.parametrize("study", ["sgemm", "conv2d"])
def test_the_sweep_of_a_shipped_ladder(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPO)
    holds("sweep", printed(["sweep", study, "--recorded"]))


def test_the_shipped_sweep_has_a_best_version_at_every_size() -> None:
    sweep = wb.open(REPO).sweep("sgemm")
    assert set(sweep.best) == set(sweep.problems) and sweep.device


def test_devices_stand_with_the_newest_time_first(project: Project) -> None:
    other = Device(name="NVIDIA A100-SXM4-80GB", slug="a100-sxm4-80gb")
    times = (
        make_timing(study="double", problem="n7", captured="2026-11-20T10:05:00Z"),
        make_timing(study="double", captured="2026-11-21T10:05:00Z", device=other),
        make_timing(study="double", captured="2026-11-19T10:05:00Z"),
    )
    for each in times:
        Store.of(project).save_timing(each)
    assert list(recorded_devices(project, "double").items()) == [
        ("a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB"),
        ("h200", "NVIDIA H200"),
    ]
    assert recorded_devices(project, "other") == {}
