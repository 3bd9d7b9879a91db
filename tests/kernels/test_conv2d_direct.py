"""What is the conv2d_direct ladder's own: the job by brute force, strides."""

from __future__ import annotations

import numpy as np
import pytest

from tests import ladders
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("conv2d_direct")


def brute_force(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    """The definition, tap by tap: no padding array, no slices."""
    planes, height, width = x.shape
    rows, columns = (height + 2 - 3) // stride + 1, (width + 2 - 3) // stride + 1
    y = np.zeros((rows, columns))
    for p, q in np.ndindex(rows, columns):
        for c, r, s in np.ndindex(planes, 3, 3):
            h, v = p * stride + r - 1, q * stride + s - 1
            if 0 <= h < height and 0 <= v < width:
                y[p, q] += float(x[c, h, v]) * float(w[c, r, s])
    return y


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (5, 8), (7, 6), (9, 4)])
def test_the_reference_is_the_definition(
    study: Study, height: int, width: int, stride: int
) -> None:
    problem = Problem(name="p", parameters={"C": 2, "H": height, "W": width, "U": stride})
    inputs = study.inputs(problem, np.random.default_rng(5))
    y = study.reference(problem, inputs)["y"]
    expected = brute_force(inputs["x"], inputs["w"], stride)
    assert y.shape == expected.shape == study.outputs(problem)["y"][0]
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-13)


def test_tolerance_passes_float32_and_no_border_taken_for_another(study: Study) -> None:
    problem = study.problem("h65_w131")
    inputs = study.inputs(problem, np.random.default_rng(6))
    y = study.reference(problem, inputs)["y"]
    half = {name: array.astype("float16").astype("float32") for name, array in inputs.items()}
    assert ladders.relative_error(study.reference(problem, half)["y"], y) > 50 * study.tolerance
    repeated = np.pad(inputs["x"], ((0, 0), (1, 1), (1, 1)), mode="edge").astype("float64")
    edges = np.zeros_like(y)
    for c, r, s in np.ndindex(3, 3, 3):
        edges += inputs["w"][c, r, s] * repeated[c, r : r + 65, s : s + 131]
    np.testing.assert_allclose(edges[1:-1, 1:-1], y[1:-1, 1:-1], rtol=1e-9, atol=1e-12)
    assert ladders.relative_error(edges, y) > 1000 * study.tolerance
    # One output of the largest size, of the mean size.
    assert 50 * study.tolerance < 1 / 4096


def test_every_rung_does_every_stride_of_the_sweep_but_winograd(study: Study) -> None:
    for version in ladders.rungs(study):
        for problem in study.problems_for("sweep"):
            if version.id == "v4" and problem.parameters["U"] != 1:
                continue
            study.check_requirements(version, problem)
            launches = resolve_launches(study, version, problem)
            assert len(launches) == (2 if version.id == "v1" else 1)
