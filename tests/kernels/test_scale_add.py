"""What is the scale_add ladder's own: the numbers, the tolerance and the sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests import ladders
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches
from workbench.study.launches import ScalarArg

LADDER = ("v0", "v1", "v2", "v3", "v4")
SCALE, OFFSET = 1.25, -0.75


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("scale_add")


@ladders.needs_compiler
def test_v3_issues_every_wide_load_before_the_first_wide_store(study: Study) -> None:
    ptx = ladders.built(study.version("v3")).ptx
    assert ptx.rindex("ld.global.nc.v4.f32") < ptx.index("st.global.v4.f32")


def test_verify_sizes_are_small_and_end_anywhere(study: Study) -> None:
    sweep = [each.parameters["R"] for each in study.problems_for("sweep")]
    assert sorted(sweep) == [1024, 2048, 4096, 8192, 16384]
    sizes = [each.parameters["R"] * each.parameters["C"] for each in study.problems_for("verify")]
    assert {size % 4 for size in sizes} == {0, 1, 2, 3}


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


def test_everybody_scales_and_adds_the_same_numbers(study: Study) -> None:
    problem = study.problem("r33_c65")
    for name in LADDER:
        (launch,) = resolve_launches(study, study.version(name), problem)
        assert [getattr(each, "name", "") for each in launch.args[:2]] == ["A", "B"]
        assert launch.args[2:4] == (ScalarArg(SCALE, "float"), ScalarArg(OFFSET, "float"))
        sizes = (33, 65) if name in ("v0", "v1") else (33 * 65,)
        assert launch.args[4:] == tuple(ScalarArg(value=n) for n in sizes)
    for file in ("study", "pytorch"):
        module = ladders.python_file(study, file)
        assert (module.SCALE, module.OFFSET) == (SCALE, OFFSET)
