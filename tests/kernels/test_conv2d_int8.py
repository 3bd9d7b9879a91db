"""The conv2d_int8 ladder: exact integers, and every rung has what its step is about."""

from __future__ import annotations

import itertools
import re

import msgspec
import numpy as np
import pytest

from tests import ladders
from workbench.counters import Reading, read
from workbench.engines import RunOptions
from workbench.engines.emulated.emulation import verified
from workbench.engines.host import buffers as check
from workbench.errors import UsageError
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches

EIGHT_BLOCKS = ("v3", "v4", "v5", "v6", "v7", "v8", "v9")
TENSOR = ("v10", "v11", "v12", "v13", "v14", "v15")
HOPPER = ("v16", "v17", "v18", "v19", "v20", "v21", "v22")

# One block of every early version, four warps' worth of rows, all channels of a chunk.
TILE = Problem(name="tile", parameters={"N": 1, "H": 8, "W": 8, "C": 128, "K": 64})


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("conv2d_int8")


def sized(n: int, h: int, w: int, c: int, k: int) -> Problem:
    return Problem(name="made", parameters={"N": n, "H": h, "W": w, "C": c, "K": k})


def counter(study: Study, version: str, name: str, problem: Problem = TILE) -> float:
    """What the emulator counts for a version."""
    profile = ladders.profile(study, study.version(version), problem)
    reading = read(profile.launches[0], name)
    assert isinstance(reading, Reading), f"{version}: {name}"
    return reading.value


# --- the job -------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 3, 4, 3, 2), (1, 1, 5, 2, 3)])
def test_the_reference_is_the_sum_in_python_s_own_integers(
    study: Study, sizes: tuple[int, int, int, int, int]
) -> None:
    problem = sized(*sizes)
    inputs = study.inputs(problem, np.random.default_rng(4))
    image, weight = (inputs[name].tolist() for name in ("input", "weight"))
    reference = study.reference(problem, inputs)["output"]
    n, h, w, c, k = sizes
    for at in itertools.product(range(n), range(h), range(w), range(k)):
        expected = sum(
            image[at[0]][at[1] + r - 1][at[2] + s - 1][channel] * weight[at[3]][r][s][channel]
            for r, s, channel in itertools.product(range(3), range(3), range(c))
            if 0 < at[1] + r <= h and 0 < at[2] + s <= w
        )
        assert reference[at] == expected


@pytest.mark.parametrize("name", ["odd", "c144_k24"])
def test_single_outputs_are_exactly_those_of_the_whole(study: Study, name: str) -> None:
    assert study.can_sample
    ladders.check_sampled_reference(study, study.problem(name))


def test_inputs_are_all_256_values_alike(study: Study) -> None:
    inputs = study.inputs(sized(1, 40, 40, 32, 40), np.random.default_rng(5))
    for array in inputs.values():
        assert array.dtype == np.int8
        values, counts = np.unique(array, return_counts=True)
        assert (values.min(), values.max(), len(values)) == (-128, 127, 256)
        assert counts.min() > 0.5 * array.size / 256


def test_no_sum_leaves_32_bits_at_the_limit_of_the_channels(study: Study) -> None:
    most = (2**17 - 1) // 9
    for name in ("v0", "v1"):
        study.check_requirements(study.version(name), sized(1, 1, 1, most, 1))
        with pytest.raises(UsageError, match="sums are 32-bit integers"):
            study.check_requirements(study.version(name), sized(1, 1, 1, most + 1, 1))
    assert 9 * most * 128 * 128 < 2**31


def test_the_tolerance_passes_no_single_mistake(study: Study) -> None:
    """One sum that is off by one is found, in the largest problem as in a small one."""
    problem = study.problem("c144_k24")
    inputs = study.inputs(problem, np.random.default_rng(6))
    right = study.reference(problem, inputs)
    assert check.compare({"output": right["output"].astype("int32")}, right, study.tolerance).ok
    wrong = right["output"].astype("int32")
    wrong[0, 3, 4, 5] += 1
    assert not check.compare({"output": wrong}, right, study.tolerance).ok

    largest = study.problem()
    elements = np.prod(study.outputs(largest)["output"][0])
    # Uniform over 256 values: a variance of (256² − 1) / 12, squared for a product.
    norm = np.sqrt(elements * 9 * largest.parameters["C"]) * (256**2 - 1) / 12
    assert 5 * study.tolerance < 1 / norm


def test_work_and_traffic_of_the_report_s_size(study: Study) -> None:
    problem = study.problem()
    assert problem.name == "n32_c128"
    assert study.flops(problem) == 94_371_840_000
    assert study.bytes(problem) == 320_000 * 128 * (1 + 4) + 9 * 128 * 128
    assert [each.name for each in study.problems_for("profile")] == ["n32_c128"]
    assert len(study.problems_for("sweep")) == 4
    assert max(study.flops(each) for each in study.problems_for("verify")) < 50e6


def test_verify_problems_reach_every_version_beyond_one_tile(study: Study) -> None:
    """Each version is checked on sums, pixels and filters that end inside of a tile."""
    for version in ladders.rungs(study):
        does = []
        for problem in study.problems_for("verify"):
            try:
                study.check_requirements(version, problem)
            except UsageError:
                continue
            does.append(problem.parameters)
        assert len(does) >= 3, version.id
        assert any(each["N"] * each["H"] * each["W"] % 64 for each in does), version.id
        assert any(each["K"] % 32 and each["K"] > 128 for each in does), version.id
        grids = [
            resolve_launches(study, version, Problem(name="made", parameters=each))[0].grid
            for each in does
        ]
        assert max(grid[0] for grid in grids) > 1, version.id
        # Blocks that stay may count tiles of pixels and of filters alike.
        assert max(grid[1] for grid in grids) > 1 or version.id in ("v17", "v18"), version.id


# --- the ladder ------------------------------------------------------------------


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
    patterns = {
        "bytes": r"ld\.global\.nc\.[su]8",
        "words": r"ld\.global\.nc\.[subf]32",
        "vectors": r"ld\.global\.nc\.v4",
        "group": r"cp\.async\.commit_group",
        "async": r"cp\.async\.cg\.shared\.global",
        "dp4a": r"dp4a\.s32\.s32",
        "mma": r"mma\.sync\.aligned\.m16n8k32\.row\.col\.s32\.s8\.s8\.s32",
        "ldmatrix": r"ldmatrix\.sync\.aligned\.m8n8\.x4",
        "tma": r"cp\.async\.bulk\.tensor\.4d\.shared::cluster\.global\.im2col",
        "wgmma": r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k32\.s32\.s8\.s8 \{[^}]*\}, %rd",
        "from registers": r"wgmma\.mma_async\.sync\.aligned\.m64n128k32\.s32\.s8\.s8 \{[^}]*\}, \{",
        "registers": r"setmaxnreg",
        "bulk": r"cp\.async\.bulk\.global\.shared::cta",
    }
    has = {
        version.id: {
            name for name, pattern in patterns.items()
            if re.search(pattern, ladders.built(version).ptx)
        }
        for version in ladders.rungs(study)
    }  # fmt: skip
    for name in ("v6", "v7", "v8", "v9"):
        has[name].remove("dp4a")
    # Before v6 it is the choice of the compiler: some pack bytes for dp4a by themselves.
    has = {name: found - {"dp4a"} for name, found in has.items()}
    assert has["v0"] == has["v1"] == has["v7"] == {"bytes"}
    # A pipeline's commits, and not one asynchronous copy.
    for name in ("v2", "v3", "v4", "v5", "v6"):
        assert has[name] == {"bytes", "group"}, name
    assert has["v8"] == has["v9"] == {"words"}
    assert has["v10"] == has["v11"] == {"vectors", "mma", "ldmatrix"}
    assert has["v12"] == has["v13"] == {"async", "group", "mma", "ldmatrix"}
    assert has["v14"] == has["v15"] == {"async", "mma", "ldmatrix"}
    assert has["v16"] == {"tma", "wgmma"}
    for name in ("v17", "v18", "v19", "v20"):
        assert has[name] == {"tma", "wgmma", "registers"}, name
    # Filters come in words, once.
    assert has["v21"] == {"words", "tma", "from registers", "registers"}
    assert has["v22"] == {"words", "tma", "from registers", "registers", "bulk"}


@ladders.needs_compiler
def test_occupancy_is_a_quarter_then_full(study: Study) -> None:
    """By shared memory: 50%, 25% with two buffers, and eight blocks from v3 to v9."""
    occupancy = "theoretical_occupancy"
    assert counter(study, "v1", occupancy) == 50
    assert counter(study, "v2", occupancy) == 25
    for name in EIGHT_BLOCKS:
        (kernel,) = ladders.built(study.version(name)).resources
        assert kernel.registers <= 32, name
        assert 8 * (kernel.static_shared + 1024) <= 228 * 1024, name


@ladders.needs_compiler
def test_bytes_are_loaded_one_a_sector_until_v8(study: Study) -> None:
    for name in ("v0", "v1", "v3", "v7"):
        assert counter(study, name, "global_load_bytes_per_sector") == 1, name
    for name in ("v8", "v9", "v10"):
        assert counter(study, name, "global_load_bytes_per_sector") == 32, name


@ladders.needs_compiler
def test_padding_and_swizzle_leave_no_conflict(study: Study) -> None:
    def ways(version: str) -> float:
        return counter(study, version, "shared_wavefronts") / counter(
            study, version, "shared_wavefronts_ideal"
        )

    assert ways("v3") > 2
    assert ways("v4") == ways("v6") == ways("v9") == 1
    # Eight rows of 64 bytes: four meet in each bank.
    assert ways("v10") > 3
    assert ways("v11") == 1
    # Copies with a zero fill cost turns of their own; the recorded profile has 1.19.
    assert 1 <= ways("v12") < 1.3
    # Rows that cross the end of a line of pixels are two pixels further: some still meet.
    assert 1 < ways("v13") < 1.3


def test_v9_loads_each_input_of_a_block_once(study: Study) -> None:
    inputs, filters = 10 * 10, 9 * 32
    blocks = 2  # of 32 filters
    # Rows of 128 channels, each a request of a warp; those of the padding are not loaded.
    assert counter(study, "v9", "global_load_requests") == blocks * (64 + filters)
    assert counter(study, "v8", "global_load_requests") > blocks * (4 * inputs + filters)


@ladders.needs_compiler
@pytest.mark.parametrize(
    ("version", "problem", "right", "wrong", "symptom"),
    [
        ("v1", "c5_k17", "pixel < pixels && in(h", "in(h", "out of bounds|wrong"),
        ("v2", "c130_k3", "        __syncthreads();\n", "", "race"),
        ("v6", "odd", "c = tid / BN; c < whole", "c = tid / BN; c < channels", "uninit"),
        ("v8", "p129_k129", "pixel / W % H : -2", "pixel / W % H : 0", "out of bounds|wrong"),
        ("v9", "c48_k33", "row % HALO - 1", "row % HALO", "wrong"),
        ("v11", "c48_k33", "lane / 16 * 8 + lane % 8", "lane % 16", "wrong"),
        ("v12", "p129_k129", "wait<STAGES - 2>()", "wait<STAGES - 1>()", "uninit|wrong"),
        ("v12", "c48_k33", "in(w[i] + dw, W) && c < C", "in(w[i] + dw, W)", "out of bounds|wrong"),
        ("v13", "c144_k24", "if (c0 > 0) __syncthreads();", "", "race"),
        ("v14", "n140", "copy_input(next, 1 - buffer)", "copy_input(next, buffer)", "race|wrong"),
        ("v18", "c48_k33", "((group - 1) * 128 + s) * 128", "(group - 1) * 16384", "wrong"),
        ("v19", "c48_k33", "    wait(&filters_there, 0);\n", "", "may still be writing|uninit"),
        ("v20", "c16_k132", "arrive(&turns[2 - group]);", ";", "never"),
        ("v21", "c48_k33", "row<2>(d, &filters[r * 3]", "row<2>(d, filters", "wrong"),
        ("v22", "c16_k132", '"fence.proxy.async.shared::cta;"', '""', "proxy"),
    ],
)  # fmt: skip
def test_a_mistake_is_caught(
    study: Study, version: str, problem: str, right: str, wrong: str, symptom: str
) -> None:
    broken = ladders.mutated(study.version(version), right, wrong)
    said = ladders.verdict(study, broken, study.problem(problem))
    assert any(word in said for word in symptom.split("|")), said or "nothing"


@pytest.mark.parametrize(
    ("versions", "sizes", "sentence"),
    [
        (("v8", "v9"), (1, 4, 4, 6, 8), "it loads four channels as one aligned word"),
        (TENSOR, (1, 4, 4, 24, 8), "it loads 16 channels at once"),
        (HOPPER, (1, 4, 4, 24, 8), "rows of a tensor map"),
        (("v19", "v20"), (1, 4, 4, 144, 8), "shared memory holds filters of at most 128 channels"),
        (("v21", "v22"), (1, 4, 4, 144, 8), "registers hold filters of at most 128 channels"),
        (("v22",), (1, 4, 4, 16, 6), "bulk copies are multiples of 16 bytes"),
        (("v14", "v15"), (1, 4, 4, 144, 8), "128 filters of at most 128 channels"),
        (("v15",), (1, 4, 4, 128, 6), "stores four filters at once"),
        (("v0", "v7", "v9", *TENSOR), (1024, 256, 256, 64, 32), "its indices and its sums"),
    ],
)
def test_what_a_rung_cannot_do_is_refused_with_the_reason(
    study: Study, versions: tuple[str, ...], sizes: tuple[int, ...], sentence: str
) -> None:
    ladders.check_refused(study, versions, dict(zip("NHWCK", sizes, strict=True)), sentence)


def test_the_baseline_is_the_whole_job_and_says_why_it_cannot_run_here(study: Study) -> None:
    assert study.baseline is not None
    assert study.baseline.id == "cublas_im2col"
    for name in ("cublas_im2col", "cublas_product_only"):
        ladders.check_library_says_why(study, name)
        study.check_requirements(study.version(name), study.problem())
        with pytest.raises(UsageError, match="more than 16 rows"):
            study.check_requirements(study.version(name), study.problem("odd"))


@ladders.needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", HOPPER[1:])
def test_one_block_does_the_tiles_of_all(study: Study, name: str) -> None:
    """Small problems have fewer tiles than a chip has blocks: one block must do them in turns."""
    version = study.version(name)
    (launch,) = version.launches
    alone = msgspec.structs.replace(launch, grid=("1", *launch.grid[1:]))
    changed = msgspec.structs.replace(version, launches=(alone,))
    problem = sized(3, 9, 11, 16, 72)
    assert resolve_launches(study, version, problem)[0].grid[0] > 1
    verified(*ladders.emulated(study, changed, problem, RunOptions(seed=3)))
