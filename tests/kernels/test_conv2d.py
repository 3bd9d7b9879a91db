"""The conv2d ladder: an implicit matrix product from one thread an output to tensor cores."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.ladders import (
    built,
    check_clean_build,
    check_library_says_why,
    check_sampled_reference,
    check_story,
    emulated,
    mutated,
    needs_compiler,
    relative_error,
    rungs,
    shipped,
    verdict,
)
from workbench.engines import RunOptions
from workbench.engines.emulated import emulation
from workbench.engines.host import buffers
from workbench.errors import UsageError
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches

STUDY = shipped("conv2d")
LADDER = [version.id for version in rungs(STUDY)]
BASELINES = ["cudnn", "cudnn_nhwc", "cudnn_tf32", "cudnn_tf32_nhwc"]
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


@pytest.mark.parametrize("name", ["strided", "moat", "same", "even_taps"])
def test_the_sampled_reference_is_the_full_one(name: str) -> None:
    check_sampled_reference(STUDY, STUDY.problem(name), atol=1e-12)


def test_the_sweep_is_the_eight_layers_of_the_job() -> None:
    sweep = STUDY.problems_for("sweep")
    shapes = {tuple(each.parameters[name] for name in NAMES) for each in sweep}
    assert shapes == {
        (8, c, size, size, k, 3, 3, 1, 1, 0, 0)
        for c, size, k in itertools.product((32, 64), (64, 128), (128, 256))
    }
    assert len(sweep) == 8
    profiled = [each.name for each in STUDY.problems_for("profile")]
    assert profiled == ["c64_h128_k256", "c32_h64_k128"]
    assert STUDY.problem().name == "c64_h128_k256"


def test_work_and_traffic() -> None:
    problem = STUDY.problem("strided")  # N=2, C=4, 19×22, K=15, 5×3, strides 3 and 2
    assert STUDY.parameters(problem)["OH"] == (19 + 4 - 5) // 3 + 1 == 7
    assert STUDY.parameters(problem)["OW"] == (22 + 2 - 3) // 2 + 1 == 11
    assert STUDY.flops(problem) == 2 * (2 * 15 * 7 * 11) * (4 * 5 * 3)
    assert STUDY.bytes(problem) == 4 * (2 * 4 * 19 * 22 + 15 * 4 * 5 * 3 + 2 * 15 * 7 * 11)
    assert max(STUDY.flops(each) for each in STUDY.problems_for("verify")) < 2e7


def test_the_story_has_its_steps_and_reasons() -> None:
    check_story(STUDY)
    assert [STUDY.versions[name].baseline for name in BASELINES] == [True] * 4
    assert STUDY.baseline is not None
    assert STUDY.baseline.id == "cudnn"


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
def test_indices_beyond_32_bits_are_refused_with_the_reason(name: str) -> None:
    version = STUDY.version(name)
    for problem in (*STUDY.problems_for("verify"), *STUDY.problems_for("sweep")):
        STUDY.check_requirements(version, problem)
    huge = layer(64, 64, 1024, 1024, 64, 1, 1, 1, 1, 0, 0)
    with pytest.raises(UsageError, match=f"{name} cannot do problem layer: its indices are 32-bit"):
        STUDY.check_requirements(version, huge)


@pytest.mark.parametrize("name", BASELINES)
def test_a_library_says_why_it_cannot_run_here(name: str) -> None:
    check_library_says_why(STUDY, name)


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", LADDER)
def test_every_rung_compiles_cleanly(name: str, arch: str) -> None:
    # What is for one chip alone is compiled for no other.
    if not STUDY.version(name).arch_specific or arch == "sm_90":
        check_clean_build(STUDY.version(name), arch)


@needs_compiler
def test_registers_and_shared_memory_are_what_the_blocks_need() -> None:
    # Two blocks of 256 threads or four of 128 on an SM leave 128 registers, three leave 168.
    limits = {"v4": 128, "v10": 128, "v11": 128, "v12": 168} | {f"v{i}": 128 for i in range(5, 10)}
    # One of 384 as well, which setmaxnreg hands out anew.
    limits |= {"v13": 168, "v14": 168, "v15": 168, "v16": 128}
    windows = 16
    shared = {
        "v1": 2 * 16 * 16 * 4,
        "v4": 8 * (128 + 128) * 4,
        "v6": 2 * 8 * (132 + 128) * 4 + 128 * windows,
        "v9": 3 * 8 * (128 + 128) * 4 + 128 * windows,
        "v10": 3 * 16 * (128 + 64) * 4 + 64 * windows,
        "v12": 3 * 16 * (128 + 68) * 4 + 64 * windows,
    }
    for name, limit in limits.items():
        kernel = next(r for r in built(STUDY.version(name)).resources if r.name == "conv2d")
        assert kernel.registers <= limit, name
    for name, size in shared.items():
        kernel = next(r for r in built(STUDY.version(name)).resources if r.name == "conv2d")
        assert kernel.static_shared == size, name


@needs_compiler
@pytest.mark.parametrize(
    ("name", "instruction", "before"),
    [
        ("v5", "st.global.v4.f32", "v4"),
        ("v5", "ld.global.nc.v4.f32", "v4"),
        ("v7", "cp.async.ca.shared.global", "v6"),
        ("v9", "cp.async.cg.shared.global", "v8"),
        ("v11", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "v10"),
        ("v12", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "v10"),
        ("v13", "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32", "v12"),
        ("v13", "cp.async.bulk.tensor.4d.shared::cluster.global.im2col", "v12"),
        ("v14", "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", "v13"),
    ],
)
def test_a_step_is_about_its_instruction(name: str, instruction: str, before: str) -> None:
    assert instruction in built(STUDY.version(name)).ptx
    assert instruction not in built(STUDY.version(before)).ptx


@needs_compiler
def test_the_loop_of_v6_divides_nothing() -> None:
    # Windows and the first tap are found by division, before the loop; v5 divides for each tap.
    counts = {name: built(STUDY.version(name)).ptx for name in ("v5", "v6")}
    ends = {name: ptx.rindex("bar.sync") for name, ptx in counts.items()}
    starts = {name: ptx.index("fma.rn.f32") for name, ptx in counts.items()}
    loop = counts["v6"][starts["v6"] : ends["v6"]]
    assert "fma.rn.f32" in loop
    assert not any(word in loop for word in ("div.s32", "rem.s32", "div.u32", "rem.u32"))
    whole = counts["v5"][: ends["v5"]]
    assert whole.count("div.s32") + whole.count("rem.s32") > 12


def test_one_block_that_stays_takes_a_second_tile() -> None:
    version = STUDY.version("v15")
    tiles = resolve_launches(STUDY, STUDY.version("v14"), STUDY.problem("second_tile"))[-1].grid
    blocks = resolve_launches(STUDY, version, STUDY.problem("second_tile"))[-1].grid
    assert (tiles, blocks) == ((133, 1, 1), (132, 1, 1))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "problem", "right", "wrong", "symptom"),
    [
        # The small term of the filters left out, and sums used before they are there.
        ("v13", "moat", "part, A + 4, B, false", "part, A, B, false", "wrong result"),
        ("v13", "moat", "wgmma_wait<0>();", "wgmma_wait<1>();", "used before its wait"),
        # A stage filled again while products read it.
        ("v13", "moat", "wait(&empty[stage], phase);", "", "race"),
        # The first window starts without its padding, or where no step leads.
        ("v13", "moat", "/ OW * U - P", "/ OW * U", "wrong result"),
        ("v13", "strided_tiles", "first % OW * V - Q", "first % OW - Q", "wrong result"),
        # Powers of two that are never taken back.
        ("v14", "moat", "K, plane, w_power);", "K, plane);", "wrong result"),
    ],
)
def test_the_emulator_finds_what_is_wrong_with_copies_and_warpgroups(
    name: str, problem: str, right: str, wrong: str, symptom: str
) -> None:
    said = verdict(STUDY, mutated(STUDY.version(name), right, wrong), STUDY.problem(problem))
    assert said
    assert symptom in said


@needs_compiler
@pytest.mark.parametrize("name", ["v13", "v15"])
def test_windows_in_steps_with_padding_are_right(name: str) -> None:
    assert verdict(STUDY, STUDY.version(name), STUDY.problem("moat")) == ""


#: Powers of two of images and of filters; the products' are from 2^-210, which is no float32, to
#: 2^226, which is none either.
IMAGES, FILTERS = (-110, -90, 0, 99, 100), (126, 80, 3, -60, -100)


@needs_compiler
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

    def compare(outputs: dict[str, np.ndarray], *rest: Any) -> Any:
        seen.append(outputs["y"].copy())
        return original(outputs, *rest)

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


def test_truncated_sums_are_refused_beyond_what_the_tolerance_bears() -> None:
    deep = layer(1, 114, 8, 8, 4, 3, 3, 1, 1, 0, 0)  # 1026 products an output
    with pytest.raises(UsageError, match="tensor cores truncate every sum"):
        STUDY.check_requirements(STUDY.version("v11"), deep)
    STUDY.check_requirements(STUDY.version("v12"), deep)


@needs_compiler
@pytest.mark.parametrize(
    ("name", "problem", "right", "wrong", "symptom"),
    [
        # A border that is read beyond the first row of an image.
        ("v0", "same", "i >= 0 && i < H && j", "i < H && j", ""),
        # A digit that is never carried: windows of the wrong column.
        ("v6", "plain", "if (s >= S) s -= S, ++r, offset += W - S;", "", ""),
        # The next tile's copies start while others still read the stage.
        (
            "v7",
            "deep",
            "        __syncthreads();  // everybody's",
            "        // everybody's",
            "race",
        ),
        # What lies behind the last filter is read there.
        ("v8", "even_taps", "min(k, K - 1)", "k", "out of bounds"),
        # TF32 alone: off by 3e-4, where the low parts are left out.
        ("v11", "plain", "mma(sum[i][j], a_low, b[j]);", "(void)a_low;", "wrong result"),
        ("v12", "plain", "mma(part[j], a, b_low[k / 8][j]);", ";", "wrong result"),
        # The fifth filter of a thread is sixteen further, not four: others store there.
        ("v16", "tile", "float4*>(to + f * plane)", "float4*>(to + i * plane)", "race"),
    ],
)
def test_verification_catches_the_mistakes_of_this_ladder(
    name: str, problem: str, right: str, wrong: str, symptom: str
) -> None:
    broken = mutated(STUDY.version(name), right, wrong)
    said = verdict(STUDY, broken, STUDY.problem(problem))
    assert said
    assert symptom in said
