"""No choice is passed over on a GPU by an estimate that says nothing of it."""

from __future__ import annotations

import time
from typing import cast
from unittest import mock

import pytest
from msgspec.structs import replace

from tests.engines.stand_ins import VERSION
from workbench.compile import compilers
from workbench.engines import RunOptions, Subject, Where
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.engines.ncu.engine import GpuEngine
from workbench.ladder.tunings import Fate, Trial, Values
from workbench.measure.experiment import SILENT, Experiment
from workbench.project import Project
from workbench.study.folder import load_study
from workbench.tune.prefilter import Sieve, Sifted
from workbench.tune.running import Tuner
from workbench.tune.search import Sampled
from workbench.tune.space import Space

pytestmark = pytest.mark.skipif(not compilers.available(), reason="no compiler is on this machine")
WRITE = "if (i < n) y[i] = 2 * x[i];"
#: Bodies of a kernel, in which a thread does much work.
STEADY = "float s = 0; for (int k = 0; k < 99; ++k) s += x[(i + k) % n]; if (i < n) y[i] = s;"
UNEVEN = STEADY.replace("k < 99", "k < blockIdx.x")
WAITING = "if (i < n) { volatile float *v = y; while (v[0] < 0) { } y[i] = 1.0f; }"


def tuning(project: Project, engine: str) -> tuple[Tuner, Space]:
    """A tuning that has not begun, of a space of three choices."""
    text = VERSION.replace("[[launch]]", "[defines]\nA = 1\n[tune]\nA = [0, 1, 2]\n[[launch]]")
    (project.kernels / "double" / "v1_tuned.cu").write_text(
        text.replace(WRITE, f"(void)A; {WRITE}")
    )
    study, options = load_study(project, "double"), RunOptions(seed=1, arch="sm_90")
    gpu = GpuEngine(project, Where(arch="sm_90"))
    runner = Experiment(
        project, study, gpu if engine == "gpu" else EmulatorEngine(project, options)
    )
    space = Space(study, study.version("v1"), study.problem("n7"))
    return Tuner(runner, study.version("v1"), options, SILENT), space


def sifted(project: Project, body: str, device: str, problem: str = "n1000") -> Trial:
    """The trial of a choice that was sifted for a device."""
    text = VERSION.replace("[[launch]]", "[defines]\nA = 1\n[tune]\nA = [1]\n[[launch]]")
    text = text.replace(WRITE, f"(void)A; {body}")
    (project.kernels / "double" / "v1_tuned.cu").write_text(text)
    study = load_study(project, "double")
    options = RunOptions(seed=1, arch="sm_90")
    runner = Experiment(project, study, EmulatorEngine(project, options))
    space = Space(study, study.version("v1"), study.problem(problem))
    sieve = Sieve(runner, space, options, "sm_90", device, time.monotonic() + 60)
    with mock.patch.object(Sieve, "_verified", return_value=None):
        return sieve.sift([{"A": 1}])[0].trial


@pytest.fixture(autouse=True)
def large(project: Project) -> None:
    path = project.kernels / "double" / "study.py"
    more = '"n60000": {"n": 60000, "uses": ("profile",)}, "n7"'
    path.write_text(path.read_text().replace('"n7"', more))


@pytest.mark.parametrize("device", ["h100-80gb-hbm3", "emulator-sm90"])
def test_a_bound_is_of_the_chip_that_runs_the_choices(project: Project, device: str) -> None:
    found = sifted(project, STEADY, device)
    assert found.bound_s and found.estimate and found.bound_s < found.estimate


@pytest.mark.parametrize("device", ["h100-pcie", "h100-80gb-hbm3-mig-1g-10gb", "h200-nvl", "gh200"])
def test_no_bound_is_told_of_another_chip(project: Project, device: str) -> None:
    found = sifted(project, STEADY, device)
    assert found.bound_s is None and found.estimate


def test_the_memory_of_a_data_sheet_bounds_nothing(project: Project) -> None:
    """The second-level cache may hold all of it, and every choice moves as much."""
    bound = sifted(project, WRITE, "h100-80gb-hbm3").bound_s
    path = project.kernels / "double" / "study.py"
    path.write_text(path.read_text().replace("return 8 *", "return 8000 *"))
    assert bound and sifted(project, WRITE, "h100-80gb-hbm3").bound_s == bound


def test_a_sample_of_unlike_blocks_bounds_less_than_they_did(project: Project) -> None:
    steady = sifted(project, STEADY, "h100-80gb-hbm3", "n60000")
    uneven = sifted(project, UNEVEN, "h100-80gb-hbm3", "n60000")
    assert steady.bound_s and steady.estimate and uneven.estimate
    ratio = steady.bound_s / steady.estimate
    assert (uneven.bound_s or 0.0) / uneven.estimate < 0.5 * ratio


def test_counts_of_one_order_of_the_warps_bound_nothing(project: Project) -> None:
    found = sifted(project, WAITING, "h100-80gb-hbm3")
    assert found.bound_s is None and found.estimate


@pytest.mark.parametrize(
    ("estimates", "order"),
    [
        ((3.0, None, 1.0, 2.0), [2, 1, 3, 0]),
        ((None, 2.0, 1.0), [0, 2, 1]),
        ((2.0, 1.0, None), [1, 0, 2]),
        ((None, None), [0, 1]),
    ],
)
def test_a_choice_without_an_estimate_keeps_its_turn(
    project: Project, estimates: tuple[float | None, ...], order: list[int]
) -> None:
    class Counted:
        def sift(self, choices: list[Values], _tell: object) -> list[Sifted]:
            made = [
                Trial(each, "not run", "n7", estimate=estimates[int(each["A"])]) for each in choices
            ]
            return [Sifted(x.values, cast(Subject, "there"), x) for x in made]

    tuner, space = tuning(project, "emulator")
    choices: list[Values] = [{"A": place} for place in range(len(estimates))]
    found = tuner._sift(space, cast(Sieve, Counted()), choices)
    assert [each.values["A"] for each in found] == order


@pytest.mark.parametrize(
    ("engine", "fate", "told"),
    [
        ("emulator", "counted", 1e-6),
        ("gpu", "timed", 2e-6),
        ("gpu", "dropped", 2e-6),
        ("emulator", "wrong", None),
        ("gpu", "wrong", None),
        ("emulator", "not run", None),
    ],
)
def test_a_search_goes_on_from_trials_that_were_counted_or_timed(
    project: Project, engine: str, fate: Fate, told: float | None
) -> None:
    pytest.importorskip("optuna")
    tuner, space = tuning(project, engine)
    kept = Trial({"A": 2}, fate, "n7", estimate=1e-6, median_s=2e-6 if engine == "gpu" else None)
    other = replace(kept, problem="n1000", estimate=1e-9, median_s=1e-9)
    tuner._trials = {each.key: each for each in (kept, other)}
    search = tuner._search(space, False)
    assert isinstance(search, Sampled)
    assert search._best == ((told, {"A": 2}) if told else None)
