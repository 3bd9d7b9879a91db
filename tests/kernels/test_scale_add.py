"""The scale_add ladder: every rung is right at every size, compiles cleanly, is one idea."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests import ladders
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches
from workbench.study.launches import ScalarArg

LADDER = ("v0", "v1", "v2", "v3", "v4")
# What the CPU shim can run; v4 says in PTX how it loads.
PLAIN = LADDER[:4]
SCALE, OFFSET = 1.25, -0.75


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("scale_add")


@ladders.needs_host_compiler
@pytest.mark.parametrize("version", PLAIN)
def test_every_plain_rung_is_right_at_every_awkward_size(
    study: Study, version: str, tmp_path: Path
) -> None:
    problems = list(study.problems_for("verify"))
    ladders.check_on_the_shim(study, study.version(version), problems, "B", tmp_path)


@ladders.needs_host_compiler
@pytest.mark.parametrize(
    ("version", "right", "wrong", "symptom"),
    [
        ("v0", "row < R && col < C", "row < R", "heap-buffer-overflow"),
        ("v1", "row < R && col < C", "col < C", "heap-buffer-overflow"),
        ("v2", "const int vectors = n / 4;", "const int vectors = (n + 3) / 4;", "overflow"),
        ("v2", "else if (i == vectors)", "else if (false)", "wrong"),
        ("v3", "(A);", "(A + 1);", "misaligned"),
        ("v3", "blockIdx.x == 0 &&", "false &&", "wrong"),
    ],
)
def test_the_shim_finds_a_kernel_that_is_wrong(
    study: Study, version: str, right: str, wrong: str, symptom: str, tmp_path: Path
) -> None:
    broken = ladders.mutated(study.version(version), right, wrong)
    problem = study.problem("r33_c65")
    ladders.check_shim_finds(study, broken, problem, "B", symptom, tmp_path)


@ladders.needs_compiler
@pytest.mark.parametrize(
    ("right", "wrong", "symptom"),
    [
        ("const int vectors = n / 4;", "const int vectors = (n + 3) / 4;", "out of bounds"),
        ("else if (i == vectors)", "else if (false)", "never written"),
    ],
)
def test_the_emulator_finds_a_kernel_that_is_wrong(
    study: Study, right: str, wrong: str, symptom: str
) -> None:
    problem = study.problem("r33_c65")
    assert ladders.verdict(study, study.version("v4"), problem) == ""
    broken = ladders.mutated(study.version("v4"), right, wrong)
    assert symptom in ladders.verdict(study, broken, problem)


@ladders.needs_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_rung_compiles_clean_and_small(study: Study, arch: str) -> None:
    for version in ladders.rungs(study):
        ladders.check_clean_build(version, arch)
        (kernel,) = ladders.built(version, arch).resources
        # 32 registers let 2048 threads share an SM, which the bytes in flight count on.
        assert kernel.registers <= 32, version.id
        assert kernel.static_shared == 0, version.id


@ladders.needs_compiler
def test_v2_and_v3_move_four_floats_at_a_time(study: Study) -> None:
    for name, count in (("v1", 0), ("v2", 1), ("v3", 4), ("v4", 0)):
        ptx = ladders.built(study.version(name)).ptx
        assert ptx.count("ld.global.nc.v4.f32") == count, name
        assert ptx.count("st.global.v4.f32") == count, name
    # v4 says besides that nobody will ask again.
    assert ptx.count("ld.global.nc.L1::no_allocate.v4.f32") == 1
    assert ptx.count("st.global.cs.v4.f32") == 1


@ladders.needs_compiler
def test_v3_issues_every_wide_load_before_the_first_wide_store(study: Study) -> None:
    ptx = ladders.built(study.version("v3")).ptx
    assert ptx.rindex("ld.global.nc.v4.f32") < ptx.index("st.global.v4.f32")


def test_each_rung_says_what_it_changed_and_what_it_expects(study: Study) -> None:
    assert tuple(version.id for version in ladders.rungs(study)) == LADDER
    ladders.check_story(study)


def test_the_default_problem_is_n8192_and_verify_sizes_are_small(study: Study) -> None:
    assert study.problem().name == "n8192"
    assert [each.name for each in study.problems_for("profile")] == ["n8192"]
    sweep = [each.parameters["R"] for each in study.problems_for("sweep")]
    assert sorted(sweep) == [1024, 2048, 4096, 8192, 16384]
    verify = [each.parameters["R"] * each.parameters["C"] for each in study.problems_for("verify")]
    assert max(verify) < 100_000
    assert {count % 4 for count in verify} == {0, 1, 2, 3}


def test_sampled_reference_equals_the_full_one(study: Study) -> None:
    problem = study.problem("r33_c65")
    assert study.can_sample
    ladders.check_sampled_reference(study, problem)
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


def test_work_and_traffic(study: Study) -> None:
    problem = study.problem("r33_c65")
    assert study.flops(problem) == 2 * 33 * 65
    assert study.bytes(problem) == 8 * 33 * 65


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


def test_indices_beyond_32_bits_are_refused_with_the_reason(study: Study) -> None:
    huge = {"R": 65536, "C": 32768}
    ladders.check_refused(study, LADDER, huge, "its indices are 32")


def test_pytorch_says_why_it_cannot_run_here(study: Study) -> None:
    assert study.baseline is not None
    assert study.baseline.id == "pytorch"
    ladders.check_library_says_why(study, "pytorch")
