"""The conv2d_tile ladder: the job by brute force, what rungs refuse and what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from tests import ladders
from workbench.errors import UsageError
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches


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


def test_sampled_reference_equals_the_full_one(study: Study) -> None:
    ladders.check_sampled_reference(study, study.problem("c5_k7_w33"), atol=1e-14)


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


def test_problems_are_those_of_the_story(study: Study) -> None:
    assert study.problem().parameters == {"C": 6, "K": 6, "H": 512, "W": 768}
    assert [each.name for each in study.problems_for("profile")] == ["c6"]
    sweep = [each.parameters for each in study.problems_for("sweep")]
    assert all(each["C"] == each["K"] and 2 * each["W"] == 3 * each["H"] for each in sweep)
    assert sorted(each["C"] for each in sweep if each["W"] == 768) == [1, 3, 6, 12, 32]
    widths = sorted(each["W"] for each in sweep if each["C"] == 6)
    assert widths == [192, 384, 768, 1536, 3072]
    verify = study.problems_for("verify")
    assert {each.parameters["W"] % 4 for each in verify} == {0, 1, 2, 3}
    assert {each.parameters["K"] % 6 == 0 for each in verify} == {True, False}
    assert max(study.flops(each) for each in verify) < 15e6


def test_work_and_traffic_of_the_profiled_problem(study: Study) -> None:
    problem = study.problem("c6")
    assert study.flops(problem) == 2 * 216 * 6 * 507 * 763
    assert study.bytes(problem) == 4 * (6 * 512 * 768 + 36 * 36 + 6 * 507 * 763)


def test_each_rung_says_what_it_changed_and_what_it_expects(study: Study) -> None:
    ladders.check_story(study)


def test_indices_and_grids_that_are_too_small_are_refused_with_the_reason(study: Study) -> None:
    large = Problem(name="large", parameters={"C": 2, "K": 1, "H": 32768, "W": 32768})
    many = Problem(name="many", parameters={"C": 1, "K": 2**18, "H": 6, "W": 6})
    for version in ladders.rungs(study):
        for problem in (large, many):
            with pytest.raises(UsageError, match=r"cannot do problem .*its indices are 32-bit"):
                study.check_requirements(version, problem)
        for problem in study.problems_for("sweep"):
            study.check_requirements(version, problem)


def test_output_channels_share_a_block_from_v3_on(study: Study) -> None:
    for name, problem, planes in (
        ("v2", "c12", 12),
        ("v3", "c12", 2),
        ("v3", "c32", 6),
        ("v4", "c1", 1),
    ):
        (launch,) = resolve_launches(study, study.version(name), study.problem(problem))
        assert launch.grid[2] == planes, (name, problem)


@ladders.needs_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_rung_compiles_clean(study: Study, arch: str) -> None:
    for version in ladders.rungs(study):
        # The copy engine is compute capability 9.0's.
        if version.id != "v11" or arch == "sm_90":
            ladders.check_clean_build(version, arch)


@ladders.needs_compiler
def test_what_each_step_is_about_is_in_the_code(study: Study) -> None:
    ptx = {version.id: ladders.built(version).ptx for version in ladders.rungs(study)}
    assert "ld.global.nc.v4.f32" not in ptx["v0"]
    for name in ("v1", "v2", "v3", "v4"):
        assert "ld.global.nc.v4.f32" in ptx[name], name
        assert "st.shared.v4.f32" in ptx[name], name
        assert "cp.async" not in ptx[name], name
    for name in ("v5", "v6", "v7"):
        assert "cp.async.cg.shared.global" in ptx[name], name
        # 4×2 outputs of six channels, 36 taps each, without a loop over the rows of the filter.
        assert ptx[name].count("fma.rn.f32") == 48 * 36, name
        # 18 vectors of taps and, at the most, 21 of values for each 288 multiply-adds.
        assert ptx[name].count("ld.shared.v4.f32") <= 6 * 9 + 7 * 3, name
    # 4×3 outputs of two channels.
    assert ptx["v8"].count("fma.rn.f32") == 24 * 36
    # Rows of 16 pixels for eight rows of outputs: six rows of taps, three pairs of columns, three
    # products; big and small terms are fetched once each.
    assert ptx["v9"].count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == 8 * 6 * 3 * 3
    assert ptx["v9"].count("ldmatrix.sync.aligned.m8n8.x4.shared.b16") == 13 * 3 * 2
    # 12 products of a row of taps for four outputs in three rows of six channels, and transforms.
    for name in ("v10", "v11"):
        assert 12 * 18 * 6 < ptx[name].count("fma.rn.f32") < 12 * 18 * 6 + 250, name
    assert "cp.async.bulk.tensor.3d" in ptx["v11"]
    assert "cp.async.c" not in ptx["v11"]


@ladders.needs_compiler
@pytest.mark.parametrize(
    ("version", "right", "wrong", "problem"),
    [
        ("v1", "constexpr int PIECES = 4", "constexpr int PIECES = 3", "p4_q8"),
        ("v1", "wide = W % 4 == 0", "wide = true", "c5_k7_w33"),
        ("v2", "if (c + 1 < C) fetch(c + 1);", "fetch(c);", "c4_k13_w38"),
        ("v3", "if (k + n < K) y", "y", "c4_k13_w38"),
        ("v4", "w[(min(k + n, K - 1) * C", "w[((k + n) * C", "c4_k13_w38"),
        ("v5", "__syncthreads();", "", "c6_k6_w140"),
        ("v5", "min(first + col, W - 1)", "first + col", "c5_k7_w33"),
        ("v7", "last ? -(STAGES - 1) * TILE_BYTES : TILE_BYTES", "TILE_BYTES", "c6_k6_w140"),
        ("v8", "taps[stage][r][threadIdx.z * KT + n]", "taps[stage][r][n]", "c6_k6_w140"),
        ("v6", "tile[C % 2][threadIdx.y * TR]", "tile[C % 2][threadIdx.y]", "c6_k6_w140"),
        ("v9", "mma(part[i - r], a_small, taps[r][s]);", ";", "p4_q8"),
        ("v9", "int channels = min(8, C - c)", "int channels = 8", "c5_k7_w33"),
        ("v10", "if (c + 1 < C) write_taps(c + 1);", "", "c3_k6_w133"),
        ("v10", "one_odd + 8 * two_odd + m[5]", "one_odd + 8 * two_odd", "p4_q8"),
        pytest.param(
            *("v11", "if (begin > 0) __syncthreads();", "", "c13_k7_w28"), marks=pytest.mark.slow
        ),
        pytest.param(*("v11", "parity ^= 1", "parity ^= 0", "c13_k7_w28"), marks=pytest.mark.slow),
    ],
)
def test_verification_finds_the_mistake(
    study: Study, version: str, right: str, wrong: str, problem: str
) -> None:
    broken = ladders.mutated(study.version(version), right, wrong)
    assert ladders.verdict(study, study.version(version), study.problem(problem)) == ""
    assert ladders.verdict(study, broken, study.problem(problem)) != ""


def test_cudnn_says_why_it_cannot_run_here(study: Study) -> None:
    assert study.baseline is not None
    assert study.baseline.id == "cudnn"
    ladders.check_library_says_why(study, "cudnn")
