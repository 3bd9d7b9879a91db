"""The scale_add ladder alone: the definition and the tolerance."""

from __future__ import annotations

import numpy as np
import pytest

from tests import ladders
from workbench.model import Problem
from workbench.study.folder import Study

SCALE, OFFSET = 1.25, -0.75


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("scale_add")


def test_the_reference_is_the_definition(study: Study) -> None:
    problem = study.problem("r33_c65")
    inputs = study.inputs(problem, np.random.default_rng(3))
    np.testing.assert_array_equal(
        study.reference(problem, inputs)["B"], SCALE * inputs["A"].astype("float64") + OFFSET
    )


def test_tolerance_passes_both_roundings_and_no_missing_element(study: Study) -> None:
    problem = Problem(name="n", parameters={"R": 512, "C": 512})
    inputs = study.inputs(problem, np.random.default_rng(4))
    reference = study.reference(problem, inputs)["B"]
    # NumPy rounds the product before it adds; a fused multiply-add does better.
    twice = np.add(np.multiply(inputs["A"], SCALE, dtype="float32"), OFFSET, dtype="float32")
    assert ladders.relative_error(twice, reference) < study.tolerance / 5
    assert ladders.relative_error(reference.astype("float16").astype("float32"), reference) > (
        50 * study.tolerance
    )
    # One element of the largest size, of the mean size √(a² + b²): its share of the norm.
    assert 50 * study.tolerance < 1 / 16384
