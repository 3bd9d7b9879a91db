"""What is the conv2d_tile ladder's own: the job by brute force, blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests import ladders
from workbench.model import Problem
from workbench.study.folder import Study


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("conv2d_tile")


def brute_force(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The definition, tap by tap."""
    planes, height, width = x.shape
    y = np.zeros((len(w), height - 5, width - 5))
    for k, p, q in np.ndindex(*y.shape):
        for c, r, s in np.ndindex(planes, 6, 6):
            y[k, p, q] += float(x[c, p + r, q + s]) * float(w[k, c, r, s])
    return y


@pytest.mark.parametrize(
    ("channels_in", "channels_out", "height", "width"), [(1, 1, 6, 6), (2, 3, 8, 9), (3, 2, 6, 10)]
)
def test_the_reference_is_the_definition(
    study: Study, channels_in: int, channels_out: int, height: int, width: int
) -> None:
    parameters = {"C": channels_in, "K": channels_out, "H": height, "W": width}
    problem = Problem(name="p", parameters=parameters)
    inputs = study.inputs(problem, np.random.default_rng(5))
    y = study.reference(problem, inputs)["y"]
    assert y.shape == study.outputs(problem)["y"][0]
    np.testing.assert_allclose(y, brute_force(inputs["x"], inputs["w"]), rtol=1e-11, atol=1e-12)


def test_tolerance_passes_float32_and_no_filter_turned_round(study: Study) -> None:
    problem = study.problem("c6_k6_w140")
    inputs = study.inputs(problem, np.random.default_rng(6))
    y = study.reference(problem, inputs)["y"]
    half = {name: array.astype("float16").astype("float32") for name, array in inputs.items()}
    assert ladders.relative_error(study.reference(problem, half)["y"], y) > 10 * study.tolerance
    # A convolution in the mathematician's sense; channels in and out exchanged.
    for wrong in (inputs["w"][:, :, ::-1, ::-1], inputs["w"].transpose(1, 0, 2, 3)):
        other = study.reference(problem, {"x": inputs["x"], "w": wrong})["y"]
        assert ladders.relative_error(other, y) > 0.1


def test_every_rung_does_every_problem_of_the_sweep(study: Study) -> None:
    for version in ladders.rungs(study):
        for problem in study.problems_for("sweep"):
            study.check_requirements(version, problem)
