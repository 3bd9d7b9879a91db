"""What is the conv2d_direct ladder's own: the job by brute force, strides."""

from __future__ import annotations

import numpy as np
import pytest

from tests import ladders
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches, resolve_scratch


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


def test_problems_are_those_of_the_story(study: Study) -> None:
    assert study.problem().parameters == {"C": 3, "H": 4096, "W": 4096, "U": 1}
    sweep = [each.parameters for each in study.problems_for("sweep")]
    for stride in (1, 2, 3):
        sizes = sorted(each["H"] for each in sweep if each["U"] == stride)
        assert sizes == [2**i for i in range(5, 13)]
    assert all(each["C"] == 3 and each["H"] == each["W"] for each in sweep)
    verify = [each.parameters for each in study.problems_for("verify")]
    assert max(each["C"] * each["H"] * each["W"] for each in verify) < 50_000
    for stride in (1, 2, 3):
        # Rows that 16 bytes divide take another path than those that they do not.
        widths = {each["W"] % 4 == 0 for each in verify if each["U"] == stride}
        assert widths == {True, False}, stride


def test_every_rung_does_every_stride_of_the_sweep_but_winograd(study: Study) -> None:
    for version in ladders.rungs(study):
        for problem in study.problems_for("sweep"):
            if version.id == "v4" and problem.parameters["U"] != 1:
                continue
            study.check_requirements(version, problem)
            launches = resolve_launches(study, version, problem)
            assert len(launches) == (2 if version.id == "v1" else 1)


def test_im2col_writes_every_window_once(study: Study) -> None:
    problem = study.problem("n4096")
    (windows,) = resolve_scratch(study, study.version("v1"), problem)
    assert windows.shape == (27, 4096**2)
    assert all(
        not resolve_scratch(study, version, problem)
        for version in ladders.rungs(study)
        if version.id != "v1"
    )


@ladders.needs_compiler
@pytest.mark.slow
def test_v5_and_v7_leave_more_warps_on_an_sm(study: Study) -> None:
    registers = {
        name: ladders.built(study.version(name)).resources[0].registers
        for name in ("v3", "v5", "v7")
    }
    assert registers["v7"] < registers["v5"] < registers["v3"]
