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
OPTIONS = RunOptions(seed=1, arch="sm_90")
WRITE = "if (i < n) y[i] = 2 * x[i];"


def tuning(
    project: Project, engine: str, body: str = WRITE, problem: str = "n7"
) -> tuple[Tuner, Space]:
    """A tuning that has not begun, of a space of three choices."""
    text = VERSION.replace("[[launch]]", "[defines]\nA = 1\n[tune]\nA = [0, 1, 2]\n[[launch]]")
    (project.kernels / "double" / "v1_tuned.cu").write_text(text.replace(WRITE, f"(void)A; {body}"))
    study = load_study(project, "double")
    gpu, counts = GpuEngine(project, Where(arch="sm_90")), EmulatorEngine(project, OPTIONS)
    runner = Experiment(project, study, gpu if engine == "gpu" else counts)
    space = Space(study, study.version("v1"), study.problem(problem))
    return Tuner(runner, study.version("v1"), OPTIONS, SILENT), space


def sifted(project: Project, body: str, device: str, problem: str = "n1000") -> Trial:
    """The trial of a choice that was sifted for a device."""
    tuner, space = tuning(project, "emulator", body, problem)
    sieve = Sieve(tuner._runner, space, OPTIONS, "sm_90", device, time.monotonic() + 60)
    with mock.patch.object(Sieve, "_verified", return_value=None):
        return sieve.sift([{"A": 1}])[0].trial


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


@pytest.mark.parametrize(
    ("body", "turns"),
    [
        ("if (i < n) atomicAdd(y, x[i]);", 1000),
        ("if (i < n) atomicAdd(&y[5], x[i]);", 1000),
        ("if (i < n) atomicAdd((int*)y, n);", 32),
        ("if (threadIdx.x == 0) atomicAdd(y, x[0]);", 4),
        ("for (int k = 0; k < 2; ++k) if (i < n) atomicAdd(y, x[k]);", 2000),
        ("if (i < n) atomicAdd(&y[i], x[i]);", 0),
        ("if (i < n) atomicAdd(&y[blockIdx.x], x[i]);", 0),
        ("if (i < n) atomicAdd(&y[(int)x[i] & 3], 1.0f);", 0),
        ("for (int k = 0; k < n; k += 500) if (i < n) atomicAdd(&y[k], 1.0f);", 0),
        ("__shared__ float s; atomicAdd(&s, 1.0f);", 0),
    ],
)
def test_atomics_at_one_address_take_turns(project: Project, body: str, turns: int) -> None:
    found = sifted(project, body, "h100-80gb-hbm3")
    assert found.facts["atomics"] == turns and found.estimate
    assert found.facts["atomics_s"] == pytest.approx(turns / 1.98e9)
