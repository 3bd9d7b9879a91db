"""Deliberately wrong kernels (tests/data/broken): each must be caught, and at its line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.engines.stand_ins import time_one
from tests.frauds.test_frauds import ROWS, SEED, made, told
from tests.gpu.conftest import experiment_within
from workbench.engines import Subject, Where
from workbench.engines.gpu.nvml import Gpu
from workbench.engines.host import presence
from workbench.engines.host.job import TimeOptions
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import KernelError
from workbench.measure.experiment import Experiment
from workbench.measure.sanitizer import Tool
from workbench.processes.bounds import Deadline
from workbench.study.folder import load_study

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

#: Version -> words of the error that verify must give.
VERIFY = {
    "v2": "wrong result",
    "v3": "never written",
    "v5": "outside a buffer: y",
    "v8": "are NaN",
    "v9": "crashed on",
}
#: Version -> the tool that must name the line marked "// <- wrong".
SANITIZE: dict[str, Tool] = {
    "v1": "racecheck",
    "v4": "racecheck",
    "v5": "memcheck",
    "v7": "synccheck",
    "v8": "initcheck",
    "v9": "memcheck",
}
#: What only the emulator finds: on a GPU one of the values stays, and it may be the right one.
CHANCE = {"v10", "v11"}


def subjects(broken: Experiment, version: str, *problems: str) -> list[Subject]:
    study = broken.study
    chosen = problems or tuple(study.problems)
    return [broken.subject(study.version(version), study.problem(name)) for name in chosen]


def hasty(broken: Experiment, timeout_s: float) -> Experiment:
    """The same with a short time limit."""
    where = Where(arch=broken.gpu.where.arch, limit=Deadline(timeout_s))
    return experiment_within(broken.project, broken.study.name, where)


def wrong_line(broken: Experiment, version: str) -> int:
    lines = broken.study.version(version).text.splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith("// <- wrong")]
    return number


def test_every_wrong_version_is_listed_here(broken: Experiment) -> None:
    assert set(broken.study.versions) == {"v0", "v6"} | set(VERIFY) | set(SANITIZE) | CHANCE


def test_the_right_version_passes_everything(broken: Experiment, compute_sanitizer: str) -> None:
    chosen = subjects(broken, "v0")
    assert [verdict.error for verdict in broken.verify(chosen)] == [None] * len(chosen)
    for tool in ("memcheck", "racecheck", "initcheck", "synccheck"):
        assert broken.sanitize(chosen, tool, compute_sanitizer) == []


@pytest.mark.parametrize("version", VERIFY)
def test_verify_catches(broken: Experiment, version: str) -> None:
    errors = [v.error for v in broken.verify(subjects(broken, version)) if v.error is not None]
    assert errors and all(isinstance(error, KernelError) for error in errors)
    assert any(VERIFY[version] in error.message for error in errors), errors[0].message


@pytest.mark.parametrize("version", SANITIZE)
def test_the_sanitizer_names_the_line(
    broken: Experiment, compute_sanitizer: str, version: str
) -> None:
    findings = broken.sanitize(
        subjects(broken, version, "n1000"), SANITIZE[version], compute_sanitizer
    )
    places = {(place.file, place.line) for finding in findings for place in finding.places}
    name = Path(broken.study.version(version).path).name
    assert (name, wrong_line(broken, version)) in {(Path(f).name, n) for f, n in places}, findings


def test_a_kernel_that_never_ends_leaves_no_process(broken: Experiment) -> None:
    broken = hasty(broken, 15.0)
    begin = time.monotonic()
    (verdict, *_) = broken.verify(subjects(broken, "v6", "n1000"))
    assert isinstance(verdict.error, KernelError)
    assert "did not end within 15 s" in verdict.error.message
    assert time.monotonic() - begin < 60
    assert _processes_in(broken.project.root) == []


def test_a_kernel_that_never_ends_under_ncu_leaves_nothing(broken: Experiment, ncu: str) -> None:
    broken = hasty(broken, 25.0)
    (subject,) = subjects(broken, "v6", "n4096")
    with pytest.raises(KernelError, match="did not end within 25 s"):
        broken.profile(subject)
    assert _processes_in(broken.project.root) == []
    assert broken.store.find() == []


@pytest.mark.parametrize("version", ["v5", "v9"])
def test_out_of_bounds_leaves_no_profile(broken: Experiment, ncu: str, version: str) -> None:
    (subject,) = subjects(broken, version, "n1000")
    with pytest.raises(KernelError):
        broken.profile(subject)
    assert broken.store.find() == []


def test_frauds_are_refused(gpu: Gpu, tmp_path: Path) -> None:
    """Those of tests/frauds; a GPU does not see what is read outside of arrays or too early."""
    project = made(tmp_path)
    engine = GpuEngine(project, Where(arch=presence.arch_of(gpu)), seed=SEED)
    said = told(project, engine)
    for place, row in enumerate(ROWS, 1):
        got, words = said.get(f"v{place}0", ""), row.get("said", "")
        if "code" in row and words not in ("out of bounds", "uninitialized", "shared memory"):
            assert words in got and bool(words) is bool(got), row["kind"]
        assert not said.get(f"v{place}1"), row["kind"]
    experiment = Experiment(project, load_study(project, "sums"), engine)
    with pytest.raises(KernelError, match="a second run of the loaded code"):
        time_one(experiment, subjects(experiment, "v10", "n300")[0], TimeOptions())


def _processes_in(folder: Path) -> list[str]:
    """Processes that still run with this working folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            cwd = (entry / "cwd").readlink()
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if cwd == folder and state not in ("Z", "X"):
            found.append(words)
    return found
