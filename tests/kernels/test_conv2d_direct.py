"""The conv2d_direct ladder: the job by brute force, what rungs refuse and what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from tests import ladders
from workbench.errors import UsageError
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches, resolve_scratch

STRIDE_ONE = {"C": 3, "H": 4096, "W": 4096, "U": 1}


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


@pytest.mark.parametrize("name", ["h65_w131", "h34_w267_s2", "h26_w391_s3"])
def test_sampled_reference_equals_the_full_one(study: Study, name: str) -> None:
    ladders.check_sampled_reference(study, study.problem(name), atol=1e-14)


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
    assert study.problem().parameters == STRIDE_ONE
    assert [each.name for each in study.problems_for("profile")] == ["n4096"]
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


def test_work_and_traffic_of_the_profiled_problem(study: Study) -> None:
    problem = study.problem("n4096")
    assert study.flops(problem) == 54 * 4096**2
    assert study.bytes(problem) == 4 * (4 * 4096**2 + 27)
    assert study.flops(study.problem("n4096_s3")) == 54 * 1366**2


def test_each_rung_says_what_it_changed_and_what_it_expects(study: Study) -> None:
    ladders.check_story(study)
    assert study.version("v2").parent == "v0"  # v1 was a way that led nowhere
    assert study.version("v5").parent == "v3"  # and so was v4
    assert study.version("v7").parent == "v5"  # and v6


@pytest.mark.parametrize(
    ("version", "parameters", "sentence"),
    [
        ("v0", {"C": 3, "H": 32768, "W": 32768, "U": 1}, "32-bit integers"),
        ("v1", {"C": 3, "H": 16384, "W": 16384, "U": 1}, "into the matrix of windows"),
        ("v2", {"C": 3, "H": 64, "W": 64, "U": 8}, "must fit into 48 KiB"),
        ("v3", {"C": 3, "H": 64, "W": 64, "U": 4}, "strides of 1 to 3"),
        ("v4", {"C": 3, "H": 64, "W": 64, "U": 2}, "made for a stride of 1"),
        ("v4", {"C": 769, "H": 8, "W": 8, "U": 1}, "transformed filter must fit"),
        ("v5", {"C": 3, "H": 64, "W": 64, "U": 4}, "strides of 1 to 3"),
        ("v6", {"C": 16, "H": 64, "W": 64, "U": 1}, "rings must fit into 96 KiB"),
        ("v7", {"C": 3, "H": 64, "W": 64, "U": 4}, "strides of 1 to 3"),
        ("v8", {"C": 3, "H": 64, "W": 65, "U": 1}, "multiples of 16 bytes"),
        ("v8", {"C": 21, "H": 64, "W": 64, "U": 1}, "must fit into 192 KiB"),
    ],
)
def test_what_a_rung_cannot_do_it_refuses_with_the_reason(
    study: Study, version: str, parameters: dict[str, int], sentence: str
) -> None:
    problem = Problem(name="beyond", parameters=parameters)
    with pytest.raises(UsageError, match=f"{version} cannot do problem beyond: .*{sentence}"):
        study.check_requirements(study.version(version), problem)


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
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_rung_compiles_clean(study: Study, arch: str) -> None:
    for version in ladders.rungs(study):
        # v7's 72 registers a thread are too few on 8.0, and v8's copy engine came with 9.0.
        if version.id not in ("v7", "v8") or arch == "sm_90":
            ladders.check_clean_build(version, arch)


@ladders.needs_compiler
def test_vectors_and_shuffles_come_with_v3(study: Study) -> None:
    ptx = {version.id: ladders.built(version).ptx for version in ladders.rungs(study)}
    for name in ("v0", "v1", "v2"):
        assert "ld.global.nc.v4.f32" not in ptx[name]
        assert "shfl.sync" not in ptx[name]
    for name in ("v3", "v4", "v5"):
        assert "shfl.sync.up" in ptx[name]
        assert "shfl.sync.down" in ptx[name]
        assert "st.global.v4.f32" in ptx[name]
    # Six rows of one vector at stride 1, and what two larger strides take.
    assert ptx["v4"].count("ld.global.nc.v4.f32") == 6
    assert ptx["v5"].count("ld.global.nc.v4.f32") == 6 + 5 * 2 + 3 * 3
    # Nothing of the input passes a register on its way into the ring.
    assert "ld.global.nc.v4.f32" not in ptx["v6"]
    assert "cp.async.ca.shared.global" in ptx["v6"]
    # v7's stores, wide ones, are evicted first. v8 has one copy for each stride, and no loads.
    assert "st.global.cs.v4.f32" in ptx["v7"]
    assert "st.global.v4.f32" not in ptx["v7"]
    copy = "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    assert ptx["v8"].count(copy) == 3
    assert "ld.global.nc.v4.f32" not in ptx["v8"]


@ladders.needs_compiler
def test_v5_and_v7_leave_more_warps_on_an_sm(study: Study) -> None:
    registers = {
        name: ladders.built(study.version(name)).resources[0].registers
        for name in ("v3", "v5", "v7")
    }
    assert registers["v7"] < registers["v5"] < registers["v3"]
    assert registers["v7"] <= 65536 // (7 * 128)


@ladders.needs_compiler
@pytest.mark.parametrize(
    ("version", "right", "wrong", "problem"),
    [
        # An off-by-one halo: the last row of the tile is never loaded.
        ("v2", "height = 7 * U + 3", "height = 7 * U + 2", "h9_w33"),
        # A row below the plane taken for one of it: the next plane's first row comes in.
        ("v3", "row >= 0 && row < H ?", "row >= 0 && row <= H ?", "h17_w128"),
        ("v3", "left > 4 ? row[first + 4] : 0.0f", "0.0f", "h33_w140"),
        ("v3", "first > 0 && left > -1 ? row[first - 1] : 0.0f", "0.0f", "h19_w264_s2"),
        ("v4", "t[2] = c - b;", "t[2] = b - c;", "h8_w32"),
        ("v5", "if (leftmost) v[0] = edge[i];", "", "h24_w396_s3"),
        ("v5", "first > 0 : rightmost", "true : rightmost", "h8_w32"),
        # One group of copies too few is waited for.
        ("v6", "DEPTH - 2", "DEPTH - 1", "h17_w128"),
        ("v6", "top + row >= 0 && ", "", "h9_w33"),
        ("v6", "first + at >= 0 && ", "", "h24_w396_s3"),
        ("v7", "p + j >= P", "false", "h37_w129"),
        # The tile begins four columns before its first window, and one row above.
        ("v8", '"r"(first * U - 4)', '"r"(first * U - 3)', "h17_w128"),
        ("v8", '"r"(top * U - 1)', '"r"(top * U)', "h19_w264_s2"),
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
