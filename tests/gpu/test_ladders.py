"""Every shipped study on a real GPU: each version right on every verify problem, and a sweep.

One worker process a study, so that the whole takes as long as the kernels do.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.conftest import REPO, Ladders
from workbench.errors import MissingError, UsageError
from workbench.measure.plan import by_work, chosen
from workbench.project import require_project
from workbench.specs import Version
from workbench.study.folder import study_names

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

STUDIES = study_names(require_project(REPO))
#: Without them no baseline, or not this one, can run.
TORCH, CUTLASS = (importlib.util.find_spec(n) is not None for n in ("torch", "cutlass_library"))


def able_here(version: Version) -> bool:
    """Whether what a baseline needs is installed; a version of the ladder needs nothing."""
    return not version.baseline or (TORCH and (CUTLASS or version.id != "cutlass"))


@pytest.mark.parametrize("name", STUDIES)
def test_every_version_is_right_on_every_verify_problem(ladders: Ladders, name: str) -> None:
    runner = ladders(name)
    study = runner.study
    versions = list(study.versions.values())
    assert runner.build_all(versions) == {}
    # Raises for a version that refuses everything: it would pass for a right one.
    combinations = [each for v in versions for each in chosen(study, v, None, "verify")]
    verdicts = runner.verify([runner.subject(*each) for each in combinations])
    wrong = {}
    checked = set()
    for each, verdict in zip(combinations, verdicts, strict=True):
        if isinstance(verdict.error, MissingError) and not able_here(each.version):
            continue
        checked.add(each.version.id)
        if verdict.error is not None:
            wrong[each.key] = verdict.error.message
        else:
            assert verdict.check is not None and verdict.check.error is not None
            assert verdict.check.error <= verdict.check.tolerance
    assert wrong == {}
    assert checked >= {version.id for version in versions if version.kind != "python"}


def _times(root: Path, target: str) -> subprocess.CompletedProcess[str]:
    options = ("--limit", "1", "--format", "json")
    return subprocess.run(
        [sys.executable, "-m", "workbench.cli", "time", target, *options],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", STUDIES)
def test_times_of_the_smallest_problem_and_again_from_the_store(
    ladders: Ladders, name: str
) -> None:
    runner = ladders(name)
    study = runner.study
    smallest = by_work(study, study.problems_for("sweep"))[0]
    able = set()
    for version in study.versions.values():
        with contextlib.suppress(UsageError):
            study.check_requirements(version, smallest)
            able.add(version.id)
    done = _times(runner.project.root, f"{name}:{smallest.name}")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    times = {time["version"]: time for time in document["times"]}
    assert not any(able_here(study.versions[name]) for name in able - times.keys())
    assert times.keys() <= able
    for version, time in times.items():
        assert 0 < time["seconds"]["value"] < time["first_launch"], version
    baseline = study.baseline
    if baseline is not None and baseline.id in times:
        assert all((time["ratio"] is None) == (v == baseline.id) for v, time in times.items())
    again = _times(runner.project.root, f"{name}:{smallest.name}")
    assert again.returncode == 0, again.stderr
    assert f"{len(times)} of {len(able)} are taken from the store" in again.stderr
    captured = {time["version"]: time["captured"] for time in json.loads(again.stdout)["times"]}
    assert captured == {version: time["captured"] for version, time in times.items()}
