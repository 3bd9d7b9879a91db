"""Fixtures for a machine with an NVIDIA GPU; elsewhere all is skipped, with the reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.engines import Where
from workbench.engines.gpu.nvml import Gpu
from workbench.engines.host import presence
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import MissingError
from workbench.measure.experiment import Experiment
from workbench.processes.bounds import Deadline
from workbench.project import Project, require_project
from workbench.study.folder import load_study

REPO = Path(__file__).resolve().parents[2]
BROKEN = REPO / "tests" / "data" / "broken"


def _lacking(*needs: Callable[[], object]) -> str:
    try:
        for need in needs:
            need()
    except MissingError as error:
        return error.message
    return ""


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    """The GPU; skips where there is none, or no PyCUDA to run kernels with."""
    if lacking := _lacking(presence.need_gpu, presence.need_pycuda):
        pytest.skip(lacking)
    return presence.need_gpu()


@pytest.fixture(scope="session")
def ncu(gpu: Gpu) -> str:
    """Path of ncu, where its counters may be read."""
    if lacking := _lacking(presence.need_ncu):
        pytest.skip(lacking)
    if presence.counters_locked():
        pytest.skip("the driver keeps the counters from this user (ERR_NVGPUCTRPERM)")
    return presence.need_ncu()


@pytest.fixture(scope="session")
def compute_sanitizer(gpu: Gpu) -> str:
    """Path of compute-sanitizer."""
    if lacking := _lacking(presence.need_sanitizer):
        pytest.skip(lacking)
    return presence.need_sanitizer()


def _experiment(source: Path, target: Path, study: str, arch: str) -> Experiment:
    shutil.copytree(source / "kernels", target / "kernels")
    (target / "workbench.toml").write_text(f'default_study = "{study}"\n')
    project = require_project(target)
    return experiment_within(project, study, Where(arch=arch, limit=Deadline(120.0)))


def experiment_within(project: Project, study: str, where: Where) -> Experiment:
    """A study on the GPU here; under ncu, where that is installed."""
    ncu = presence.find_tool("ncu", "WORKBENCH_NCU") or ""
    engine = GpuEngine(project, where, seed=20261121, ncu=ncu)
    return Experiment(project, load_study(project, study), engine)


@pytest.fixture
def sgemm(gpu: Gpu, tmp_path: Path) -> Experiment:
    """The sgemm study in a project of its own, so that no recorded profile is touched."""
    return _experiment(REPO, tmp_path / "project", "sgemm", presence.arch_of(gpu))


@pytest.fixture
def broken(gpu: Gpu, tmp_path: Path) -> Experiment:
    """The deliberately wrong kernels."""
    return _experiment(BROKEN, tmp_path / "project", "broken", presence.arch_of(gpu))


Ladders = Callable[[str], Experiment]


@pytest.fixture
def ladders(gpu: Gpu, tmp_path: Path) -> Ladders:
    """``ladders("sgemm")``: a shipped study in a project of its own."""
    return lambda name: _experiment(REPO, tmp_path / name, name, presence.arch_of(gpu))
