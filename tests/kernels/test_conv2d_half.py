"""The conv2d_half ladder: the job is the one it says, every rung has what its step is about."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from tests import ladders
from workbench.counters import Reading, read
from workbench.engines import RunOptions
from workbench.engines.emulated.emulation import verified
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches

HOPPER = ("v13", "v14", "v15", "v16", "v17", "v18", "v19", "v22")
TENSOR = ("v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12")


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("conv2d_half")


def problem_of(n: int, h: int, w: int, c: int, k: int) -> Problem:
    return Problem(name="made", parameters={"N": n, "H": h, "W": w, "C": c, "K": k})


def by_hand(image: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """The sum as a textbook writes it, one output after the other."""
    n, h, w, _ = image.shape
    out = np.zeros((n, h, w, len(filters)))
    for at in np.ndindex(*out.shape):
        for r, s in itertools.product(range(3), range(3)):
            y, x = at[1] + r - 1, at[2] + s - 1
            if 0 <= y < h and 0 <= x < w:
                left, right = image[at[0], y, x], filters[at[3], r, s]
                out[at] += sum(float(a) * float(b) for a, b in zip(left, right, strict=True))
    return out


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 4, 5, 3, 2), (1, 1, 6, 2, 3)])
def test_the_reference_is_the_textbook_sum(
    study: Study, sizes: tuple[int, int, int, int, int]
) -> None:
    problem = problem_of(*sizes)
    inputs = study.inputs(problem, np.random.default_rng(2))
    expected = by_hand(inputs["input"], inputs["weight"])
    got = study.reference(problem, inputs)["output"]
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", ["odd", "c72_k136"])
def test_single_outputs_are_those_of_the_whole(study: Study, name: str) -> None:
    assert study.can_sample
    ladders.check_sampled_reference(study, study.problem(name), atol=1e-14)


def test_inputs_are_halves_of_both_signs_and_never_small(study: Study) -> None:
    problem = problem_of(2, 9, 9, 16, 24)
    inputs: Mapping[str, Any] = study.inputs(problem, np.random.default_rng(5))
    for array in inputs.values():
        assert array.dtype == np.float16
        assert np.abs(array).min() >= 0.5
        assert np.abs(array).max() < 1
        assert 0.45 < (array < 0).mean() < 0.55
        assert len(np.unique(np.abs(array))) > 800  # of the 1024 mantissas


def test_tolerance_is_one_rounding_and_not_a_sum_in_half(study: Study) -> None:
    problem = problem_of(1, 6, 6, 128, 16)
    inputs: Mapping[str, Any] = study.inputs(problem, np.random.default_rng(6))
    reference = study.reference(problem, inputs)["output"]
    assert ladders.relative_error(reference.astype("float16"), reference) < study.tolerance / 2
    # The worst that one rounding to ten bits can do to a single output, and still no more.
    assert 2**-11 < study.tolerance < 2**-10
    image, filters = inputs["input"][0, 1:4, 1:4], inputs["weight"]
    products = (image * filters).reshape(len(filters), -1)
    in_half = np.zeros(len(filters), dtype="float16")
    for column in products.T:
        in_half += column
    exact = reference[0, 2, 2]
    assert ladders.relative_error(in_half, exact) > 3 * study.tolerance


def test_work_and_traffic_of_the_report_s_size(study: Study) -> None:
    problem = study.problem()
    assert problem.name == "n32_c128"
    assert study.flops(problem) == 94_371_840_000
    assert study.bytes(problem) == 2 * (2 * 32 * 100 * 100 * 128 + 9 * 128 * 128)
    assert [each.name for each in study.problems_for("profile")] == ["n32_c128"]
    assert len(study.problems_for("sweep")) == 4
    assert max(study.flops(each) for each in study.problems_for("verify")) < 50e6


def test_every_rung_says_what_it_changed_and_expects(study: Study) -> None:
    ladders.check_story(study)
    assert study.version("v0").expectations


@ladders.needs_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_rung_compiles_clean(study: Study, arch: str) -> None:
    for version in ladders.rungs(study):
        # What is for one chip alone is compiled for no other.
        if not version.arch_specific or arch == "sm_90":
            ladders.check_clean_build(version, arch)


@ladders.needs_compiler
def test_each_step_is_in_the_instructions(study: Study) -> None:
    """What a step is about appears with it, and what it replaces is gone."""
    counts: dict[str, Callable[[str], int]] = {
        "wmma": lambda ptx: ptx.count("wmma.mma.sync"),
        "mma": lambda ptx: ptx.count("mma.sync.aligned.m16n8k16.row.col.f32"),
        "ldmatrix": lambda ptx: ptx.count("ldmatrix.sync"),
        "async": lambda ptx: ptx.count("cp.async.cg.shared.global"),
        "vectors": lambda ptx: ptx.count("ld.global.nc.v4") + ptx.count("ld.global.v4"),
        "tma": lambda ptx: ptx.count("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"),
        "wgmma": lambda ptx: ptx.count("wgmma.mma_async.sync.aligned.m64n128k16"),
        "wide": lambda ptx: ptx.count("wgmma.mma_async.sync.aligned.m64n256k16"),
        "248": lambda ptx: ptx.count("wgmma.mma_async.sync.aligned.m64n248k16"),
        "160": lambda ptx: ptx.count("wgmma.mma_async.sync.aligned.m64n160k16"),
        "registers": lambda ptx: ptx.count("setmaxnreg"),
    }
    has = {
        version.id: {name for name, count in counts.items() if count(ladders.built(version).ptx)}
        for version in ladders.rungs(study)
    }
    assert has["v0"] == set()
    assert has["v1"] == {"wmma"}
    assert has["v2"] == {"wmma", "vectors"}
    assert has["v3"] == has["v4"] == {"mma", "ldmatrix", "vectors"}
    for name in TENSOR[2:7]:
        assert has[name] == {"mma", "ldmatrix", "async"}, name
    for name in TENSOR[7:]:  # the filters are packed eight channels at a time
        assert has[name] == {"mma", "ldmatrix", "async", "vectors"}, name
    assert has["v13"] == {"tma", "wgmma"}
    for name in HOPPER[1:4]:
        assert has[name] == {"tma", "wgmma", "registers"}, name
    for name in HOPPER[4:6]:
        assert has[name] == {"tma", "wide", "registers"}, name
    assert has["v19"] == {"tma", "wide", "248", "160", "registers"}
    assert has["v22"] == {"tma", "248", "registers"}


@ladders.needs_compiler
def test_two_blocks_of_every_warp_tile_fit_on_an_sm(study: Study) -> None:
    for name in TENSOR[2:]:
        version = study.version(name)
        (kernel,) = [each for each in ladders.built(version).resources if each.name == "conv2d"]
        launch = resolve_launches(study, version, study.problem())[-1]
        threads = launch.block[0]
        assert kernel.registers * 2 * threads <= 64 * 1024, name
        assert 2 * (launch.dynamic_shared + 1024) <= 228 * 1024, name


@ladders.needs_compiler
def test_the_swizzle_leaves_no_conflict_and_its_parent_is_full_of_them(study: Study) -> None:
    """Eight rows 128 bytes apart: eight wavefronts a matrix before, one after."""
    excess = {}
    for name in TENSOR[:3]:
        profile = ladders.profile(study, study.version(name), study.problem("p128"))
        used = read(profile.launches[0], "shared_wavefronts")
        ideal = read(profile.launches[0], "shared_wavefronts_ideal")
        assert isinstance(used, Reading)
        assert isinstance(ideal, Reading)
        excess[name] = used.value / ideal.value
    assert excess["v3"] > 4
    assert excess["v4"] == excess["v5"] == 1


@ladders.needs_compiler
@pytest.mark.parametrize(
    ("version", "problem", "right", "wrong", "symptom"),
    [
        ("v1", "odd", "first_k + i < K && product < 9 * C", "first_k + i < K", "wrong|bounds"),
        ("v2", "column", "unsigned(w[i] + s) < unsigned(W)", "true", "wrong|bounds"),
        ("v4", "c56_k120", "            __syncthreads();\n#pragma", "#pragma", "race"),
        ("v5", "c72_k136", '"n"(STAGES - 2)', '"n"(STAGES - 1)', "never written|uninit|wrong"),
        (
            "v5",
            "p254",
            "inside);\n        }\n#pragma",
            "true);\n        }\n#pragma",
            "wrong|bounds",
        ),
        ("v6", "c72_k136", "c < C && first_k + row < K", "first_k + row < K", "wrong|bounds"),
        ("v7", "p257", "inside[i] >> tap & 1", "true", "wrong result"),
        ("v7", "c136_k24", "(8 + chunk % 2 * rows + row)", "(8 + row)", "race"),
        ("v8", "c136_k24", "load((step + 1) % STAGES, 0)", "load(step % STAGES, 0)", "race"),
        ("v9", "p128", "h % (H + 1) < H", "true", "wrong|bounds"),
        ("v10", "c72_k136", "k < K && from_c < C", "k < K", "wrong|bounds"),
        ("v11", "c136_k24", "wait_group 1", "wait_group 2", "never|uninit|wrong"),
        ("v12", "p254", "row < rows; row += 2 * ROWS", "false;", "uninit|wrong"),
        ("v19", "c72_k136", "convolve<160>(", "convolve<248>(", "out of bounds"),
        ("v22", "c136_k24", "if (s == 0) arrive(&empty_a[last_a]);", "", "never"),
    ],
)
def test_a_mistake_is_caught(
    study: Study, version: str, problem: str, right: str, wrong: str, symptom: str
) -> None:
    broken = ladders.mutated(study.version(version), right, wrong)
    said = ladders.verdict(study, broken, study.problem(problem))
    assert any(word in said for word in symptom.split("|")), said or "nothing"


@pytest.mark.parametrize(
    ("versions", "sizes", "sentence"),
    [
        (("v2",), (1, 4, 4, 12, 8), "it copies eight channels at a time"),
        (TENSOR[:6], (1, 4, 4, 8, 7), "it copies eight channels and stores two filters"),
        (TENSOR[6:], (1, 4, 4, 8, 12), "it copies eight channels and stores eight filters"),
        (
            TENSOR[4:],
            (1, 4, 257, 8, 8),
            "two rows of the image, which stand in shared memory twice",
        ),
        (("v0", "v1", "v2", *TENSOR), (1024, 256, 256, 8, 64), "its indices are 32-bit integers"),
    ],
)
def test_what_a_rung_cannot_do_is_refused_with_the_reason(
    study: Study, versions: tuple[str, ...], sizes: tuple[int, ...], sentence: str
) -> None:
    ladders.check_refused(study, versions, dict(zip("NHWCK", sizes, strict=True)), sentence)


def test_cudnn_says_why_it_cannot_run_here(study: Study) -> None:
    assert study.baseline is not None
    assert study.baseline.id == "cudnn"
    ladders.check_library_says_why(study, "cudnn")


@ladders.needs_compiler
@pytest.mark.parametrize(
    ("name", "kernel"),
    [*((name, "conv2d") for name in HOPPER[2:] if name != "v19")]
    + [("v19", f"conv2d_{places}") for places in (256, 248, 160)],
)
def test_one_block_does_the_tiles_of_all(study: Study, name: str, kernel: str) -> None:
    """Small problems have fewer tiles than a chip has blocks: one block must do them in turns.

    They are small enough for v19's narrowest tiles, too: its others are asked for by name.
    """
    version = study.version(name)
    (launch,) = (each for each in version.launches if each.kernel == kernel)
    alone = msgspec.structs.replace(launch, grid=("1",), when="1")
    changed = msgspec.structs.replace(version, launches=(alone,))
    problem = study.problem("c72_k136")
    assert resolve_launches(study, version, problem)[0].grid[0] > 1
    verified(*ladders.emulated(study, changed, problem, RunOptions(seed=3)))
