"""What is the conv2d ladder's own: the definition, layers, halves."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.ladders import emulated, needs_compiler, relative_error, rungs, shipped, verdict
from workbench.engines import RunOptions
from workbench.engines.emulated import emulation
from workbench.engines.host import buffers
from workbench.model import Problem
from workbench.study.folder import Study

STUDY = shipped("conv2d")
LADDER = [version.id for version in rungs(STUDY)]
NAMES = ("N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q")


def layer(*sizes: int) -> Problem:
    return Problem(name="layer", parameters=dict(zip(NAMES, sizes, strict=True)))


def brute_force(problem: Problem, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The definition, output by output, on an input that is padded by hand."""
    at = problem.parameters
    shape = (at["N"], at["C"], at["H"] + 2 * at["P"], at["W"] + 2 * at["Q"])
    padded = np.zeros(shape)
    padded[:, :, at["P"] : at["P"] + at["H"], at["Q"] : at["Q"] + at["W"]] = x
    rows = range(0, shape[2] - at["R"] + 1, at["U"])
    columns = range(0, shape[3] - at["S"] + 1, at["V"])
    y = np.zeros((at["N"], at["K"], len(rows), len(columns)))
    for (i, top), (j, left) in itertools.product(enumerate(rows), enumerate(columns)):
        window = padded[:, :, top : top + at["R"], left : left + at["S"]]
        for n, k in itertools.product(range(at["N"]), range(at["K"])):
            y[n, k, i, j] = np.sum(window[n] * w[k])
    return y


@pytest.mark.parametrize(
    "problem",
    [
        layer(2, 3, 6, 7, 4, 3, 3, 1, 1, 0, 0),
        layer(1, 2, 5, 6, 3, 3, 2, 1, 1, 1, 1),
        layer(2, 2, 9, 8, 2, 2, 3, 3, 2, 1, 2),
        layer(1, 3, 2, 3, 2, 4, 5, 1, 1, 2, 2),
        layer(1, 1, 4, 3, 2, 1, 1, 2, 2, 1, 3),
    ],
)
def test_the_reference_is_the_definition(problem: Problem) -> None:
    inputs = STUDY.inputs(problem, np.random.default_rng(2))
    expected = brute_force(problem, inputs["x"].astype("float64"), inputs["w"].astype("float64"))
    got = STUDY.reference(problem, inputs)["y"]
    assert got.shape == STUDY.outputs(problem)["y"][0]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_only_what_rounds_its_inputs_has_a_tolerance_of_its_own() -> None:
    for version in STUDY.versions.values():
        expected = 1e-3 if version.id.startswith("cudnn_tf32") else STUDY.tolerance
        assert STUDY.tolerance_of(version.id) == expected, version.id
    # What TF32 costs: inputs cut to 11 significant bits miss the study's tolerance, and
    # keep the baselines' own.
    problem = STUDY.problem("deep")
    inputs = STUDY.inputs(problem, np.random.default_rng(4))
    cut = {
        name: ((each.view("uint32") + 0x1000) & 0xFFFFE000).view("float32")
        for name, each in inputs.items()
    }
    error = relative_error(
        STUDY.reference(problem, cut)["y"], STUDY.reference(problem, inputs)["y"]
    )
    assert STUDY.tolerance < error < STUDY.tolerance_of("cudnn_tf32")


@pytest.mark.parametrize("name", LADDER)
def test_every_rung_does_every_problem(name: str) -> None:
    for problem in (*STUDY.problems_for("verify"), *STUDY.problems_for("sweep")):
        STUDY.check_requirements(STUDY.version(name), problem)


@needs_compiler
@pytest.mark.parametrize("name", ["v13", pytest.param("v15", marks=pytest.mark.slow)])
def test_windows_in_steps_with_padding_are_right(name: str) -> None:
    assert verdict(STUDY, STUDY.version(name), STUDY.problem("moat")) == ""


#: Powers of two of images and of filters; the products' are from 2^-210, which is no float32, to
#: 2^226, which is none either.
IMAGES, FILTERS = (-110, -90, 0, 99, 100), (126, 80, 3, -60, -100)


@needs_compiler
@pytest.mark.slow
def test_halves_hold_images_and_filters_of_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each output is as exact as its own image and filter allow, whatever the others are like."""
    problem = layer(6, 3, 5, 6, 5, 3, 3, 1, 1, 1, 0)
    drawn = STUDY.inputs(problem, np.random.default_rng(4))
    images = np.array([*(2.0**power for power in IMAGES), 0], "float32")
    filters = np.array([2.0**power for power in FILTERS], "float32")
    scales = {"x": images, "w": filters}
    inputs = {name: drawn[name] * scales[name].reshape(-1, 1, 1, 1) for name in ("x", "w")}
    monkeypatch.setattr(Study, "inputs", lambda *_: inputs)
    seen: list[np.ndarray] = []
    original = buffers.compare

    def compare(outputs: dict[str, np.ndarray], *rest: Any, **more: Any) -> Any:
        seen.append(outputs["y"].copy())
        return original(outputs, *rest, **more)

    monkeypatch.setattr(emulation, "compare", compare)
    emulated(STUDY, STUDY.version("v14"), problem, RunOptions(seed=1))
    exact = STUDY.reference(problem, inputs)["y"]
    size = STUDY.reference(problem, {name: np.abs(each) for name, each in inputs.items()})["y"]
    (out,) = seen
    assert (out[5] == 0).all()
    held = (size < 2.0**126) & (size > 2.0**-100)
    assert held.sum() == 15 * exact[0, 0].size
    assert (np.abs(out - exact)[held] / size[held]).max() < 2.0**-21
    assert np.isinf(out[np.abs(exact) > 2.0**129]).all()
    assert (np.abs(out[size < 2.0**-130]) < 2.0**-126).all()
