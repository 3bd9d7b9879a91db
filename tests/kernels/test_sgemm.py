"""The sgemm ladder: every rung computes the product, compiles cleanly, is one idea."""

from __future__ import annotations

import difflib
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import ladders
from workbench.engines import RunOptions
from workbench.engines.emulated import emulation as emulation_module
from workbench.engines.host import buffers
from workbench.model import Problem
from workbench.study import frontmatter
from workbench.study.folder import Study, resolve_launches
from workbench.study.launches import ScalarArg

LADDER = ("v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10")
# What the CPU shim can run; float2, asynchronous copies and matrix units need the emulator.
PLAIN = LADDER[:5]
# v5 is a second answer to v3, and v6 goes on from v4.
PARENTS = {"v5": "v3", "v6": "v4", "v9": "v22"}
# On the warpgroups of compute capability 9.0, what is for small matrices, and the small steps from
# v8 to v9; and whose step each is.
LATER = {
    "v11": "v10",
    "v12": "v11",
    "v13": "v11",
    "v14": "v9",
    "v15": "v10",
    "v16": "v13",
    "v17": "v8",
    "v18": "v17",
    "v19": "v18",
    "v22": "v19",
    "v23": "v9",
}
# Registers that keep as many threads on an SM as the rung means to have there.
REGISTERS = {
    **dict.fromkeys(("v0", "v1", "v2", "v3"), 40),
    **dict.fromkeys(("v4", "v5", "v6", "v7"), 128),
    **dict.fromkeys(("v8", "v9", "v10"), 255),
}
TILE_FLOATS = {
    "v0": 0,
    "v1": 2 * 32 * 32,
    "v2": 2 * 32 * 32,
    "v3": 32 * 33 + 32 * 32,
    "v4": 2 * 8 * 128,
    "v5": 8 * (132 + 128),
    "v6": 2 * 8 * (132 + 128),
    "v7": 2 * 8 * (132 + 128),
    "v8": 3 * 8 * (132 + 128),
    "v9": 3 * 8 * (132 + 256),
    "v10": 0,  # all of it dynamic
}


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("sgemm")


@ladders.needs_host_compiler
@pytest.mark.parametrize("version", PLAIN)
def test_every_plain_rung_computes_the_product_at_every_awkward_size(
    study: Study, version: str, tmp_path: Path
) -> None:
    # 256³ is left to the GPU: it takes longer here than all the others together, and a
    # size that every tile divides is in the list all the same.
    problems = [each for each in study.problems_for("verify") if study.flops(each) < 5e6]
    problems.append(Problem(name="even", parameters={"M": 128, "N": 128, "K": 32}))
    ladders.check_on_the_shim(study, study.version(version), problems, "C", tmp_path)


@ladders.needs_host_compiler
@pytest.mark.parametrize(
    ("version", "right", "wrong", "symptom"),
    [
        ("v4", "a_wide = K % 4 == 0", "a_wide = true", "misaligned address"),
        ("v4", "if (r >= M) break;", "", "heap-buffer-overflow"),
        ("v2", "t + tx < K ?", "true ?", "heap-buffer-overflow"),
        ("v3", "        __syncthreads();\n        for", "        for", "wrong"),
        ("v3", "col < N && t + ty < K ? B[(t + ty) * N + col] : 0.0f", "B[0]", "wrong"),
    ],
)
def test_the_shim_finds_a_kernel_that_is_wrong(
    study: Study, version: str, right: str, wrong: str, symptom: str, tmp_path: Path
) -> None:
    broken = ladders.mutated(study.version(version), right, wrong)
    problem = study.problem("m33_n65_k17")
    ladders.check_shim_finds(study, broken, problem, "C", symptom, tmp_path)


@ladders.needs_compiler
@pytest.mark.parametrize(
    ("version", "right", "wrong", "symptom"),
    [
        ("v5", "a_wide = K % 2 == 0", "a_wide = true", "misaligned"),
        ("v5", "+ i / 2 * 32 + i % 2;", "+ i;", "stores another value to C"),
        # Without the barrier a warp reads what another's copies have not brought yet.
        ("v6", "        __syncthreads();\n", "", "race"),
        ("v6", "block_row + a_row + i < M && t + a_k < K", "t + a_k < K", "out of bounds"),
        ("v7", "lane / 4 % 2 * 2 + lane % 2", "lane / 4 % 2 * 2", "never written"),
        ("v8", "fetch(stage == 0 ? STAGES - 1 : stage - 1,", "fetch(stage,", "race"),
        ("v8", "load((k + 1) % 2, next, 0);", "load((k + 1) % 2, stage, 0);", "race"),
        ("v9", "a_row + i * 32, M - 1)", "a_row + i * 32, M)", "out of bounds"),
        ("v9", "N % 4 == 0", "true", "misaligned"),
        ("v17", "a_row + i * 16, M - 1)", "a_row + i * 16, M)", "out of bounds"),
        ("v18", "b_col = tid % B_LANES * WIDTH", "b_col = tid % B_LANES * 4", "race"),
        (
            "v19",
            "&shared[at + k * PITCH + row + i * 8]",
            "&shared[at + k * PITCH + row + i]",
            "wrong",
        ),
        ("v22", "TN - 1 - step : step", "TN - 2 - step : step", "a wrong result"),
        # A part of a tile that is not there yet, and one that is forgotten.
        ("v23", "            wait_for(&ready[other]);\n", "", "uninitialized"),
        ("v23", "(tile + 1) * steps; ++other", "tile * steps + 2; ++other", "wrong result"),
        # One of the three products left out: TF32 with one operand rounded.
        ("v10", "mma(part[n], a_small[k], b_big[k][j + n])", "", "a wrong result"),
        ("v10", "min(block_col + b_col, N - WIDTH)", "block_col + b_col", "out of bounds"),
    ],
)
def test_the_emulator_finds_a_kernel_that_is_wrong(
    study: Study, version: str, right: str, wrong: str, symptom: str
) -> None:
    broken = ladders.mutated(study.version(version), right, wrong)
    problem = study.problem("m33_n65_k17")
    assert symptom in ladders.verdict(study, broken, problem)


@ladders.needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "size", "right", "wrong", "symptom"),
    [
        # The small term of A left out, a stage filled again while products read it, sums that
        # are used before they are there.
        ("v11", (3, 5, 16), "part, A + 4, B, false", "part, A, B, false", "wrong result"),
        ("v11", (3, 5, 80), "wait(&empty[stage], phase);", "", "race"),
        ("v11", (3, 5, 16), "wgmma_wait<0>();", "wgmma_wait<1>();", "used before its wait"),
        # The other block has not read this stage yet.
        ("v12", (3, 5, 80), "init(&empty[i], 4)", "init(&empty[i], 2)", "never completes"),
        ("v14", (3, 8, 70), "at_block(&ring[i], block)", "at_block(&ring[i], 0)", "wrong result"),
        # The other blocks' sums may not be there yet.
        ("v14", (3, 8, 70), "    cluster_barrier();\n", "", "race"),
        ("v15", (3, 8, 70), "load_a(next, 0);", "load_a(stage, 0);", "race"),
    ],
)
def test_the_emulator_finds_what_is_wrong_with_warpgroups_and_clusters(
    study: Study, version: str, size: tuple[int, int, int], right: str, wrong: str, symptom: str
) -> None:
    broken = ladders.mutated(study.version(version), right, wrong)
    problem = Problem(name="made", parameters=dict(zip("MNK", size, strict=True)))
    assert symptom in ladders.verdict(study, broken, problem)


@ladders.needs_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("version", LADDER)
def test_every_rung_compiles_without_spills_or_warnings(
    study: Study, version: str, arch: str
) -> None:
    ladders.check_clean_build(study.version(version), arch)
    (kernel,) = ladders.built(study.version(version), arch).resources
    assert kernel.name == "sgemm"
    assert kernel.registers <= REGISTERS[version]
    assert kernel.static_shared == 4 * TILE_FLOATS[version]


@ladders.needs_compiler
def test_v4_moves_four_floats_at_a_time_and_v5_two(study: Study) -> None:
    four = ladders.built(study.version("v4")).ptx
    assert four.count("ld.global.nc.v4.f32") == 2
    assert "st.shared.v4.f32" in four
    assert four.count("st.global.v4.f32") == 16
    two = ladders.built(study.version("v5")).ptx
    assert two.count("ld.global.nc.v2.f32") >= 4
    # Eight k of four pairs of A and four of B; ptxas cannot join them, they are 32 apart.
    assert two.count("ld.shared.v2.f32") == 8 * 8
    assert two.count("st.global.v2.f32") == 32
    assert ".v4.f32" not in two


@ladders.needs_compiler
def test_v6_and_its_heirs_copy_past_the_registers(study: Study) -> None:
    for name in ("v6", "v7", "v8", "v9", "v10"):
        ptx = ladders.built(study.version(name)).ptx
        assert "ld.global" not in ptx, name
        assert "cp.async.ca.shared.global" in ptx, name
        assert "cp.async.cg.shared.global" in ptx, name


@ladders.needs_compiler
def test_v10_multiplies_on_the_matrix_units_alone(study: Study) -> None:
    ptx = ladders.built(study.version("v10")).ptx
    # Two ways of loading; 4 by 8 tiles of a warp, two steps of eight k, three products.
    assert ptx.count("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") == 2 * 4 * 8 * 2 * 3
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx
    assert not re.search(r"\bfma\.rn\.f32\b", ptx)


@ladders.needs_compiler
@pytest.mark.parametrize("version", LATER)
def test_what_is_for_the_chip_or_for_small_sizes_compiles_without_spills(
    study: Study, version: str
) -> None:
    ladders.check_clean_build(study.version(version), "sm_90")
    made = ladders.built(study.version(version))
    kernels = {each.name for each in made.resources}
    assert kernels == {launch.kernel for launch in study.version(version).launches}


@ladders.needs_compiler
def test_each_later_step_is_in_the_instructions(study: Study) -> None:
    def has(name: str, *instructions: str) -> tuple[int, ...]:
        ptx = ladders.built(study.version(name)).ptx
        return tuple(ptx.count(each) for each in instructions)

    tf32 = "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32"
    half = "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"
    multicast = "complete_tx::bytes.multicast::cluster"
    # Two halves of a tile, two steps of a stage, three products.
    assert has("v11", tf32, half, multicast) == (12, 0, 0)
    assert has("v12", tf32, half) == (12, 0)
    assert has("v12", multicast)[0] > 0
    assert has("v13", tf32, half, multicast) == (0, 12, 0)
    assert has("v14", "ld.shared::cluster.f32")[0] > 0
    assert has("v15", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")[0] > 0
    assert has("v16", half) == (12,)


@ladders.needs_compiler
def test_halves_hold_rows_and_columns_of_every_size(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each output is as exact as its own row and column allow, whatever the others are like."""
    problem = Problem(name="made", parameters={"M": 9, "N": 8, "K": 40})
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(shape, dtype="float32") for shape in ((9, 40), (40, 8)))
    a *= np.float32(2) ** np.array([[-90], [-40], [-14], [0], [0], [17], [30], [60], [99]])
    b *= np.float32(2) ** np.array([[-25, -20, -9, 0, 1, 12, 20, 25]])
    a[4] = 0
    monkeypatch.setattr(Study, "inputs", lambda *_: {"A": a, "B": b})
    seen: list[np.ndarray] = []
    original = buffers.compare

    def compare(outputs: dict[str, np.ndarray], *rest: Any) -> Any:
        seen.append(outputs["C"].copy())
        return original(outputs, *rest)

    monkeypatch.setattr(emulation_module, "compare", compare)
    ladders.emulated(study, study.version("v13"), problem, RunOptions(seed=1))
    exact = a.astype("float64") @ b.astype("float64")
    size = np.abs(a.astype("float64")) @ np.abs(b.astype("float64"))
    (out,) = seen
    assert (out[4] == 0).all()
    error = np.abs(out - exact)[size > 0] / size[size > 0]
    assert error.max() < 2.0**-21


def test_one_version_chooses_its_kernels_by_size(study: Study) -> None:
    chosen = {
        each.name: [launch.kernel for launch in resolve_launches(study, version, each)]
        for version in [study.version("v16")]
        for each in study.problems_for("sweep")
    }
    large = ["split_rows", "split_columns", "sgemm"]
    assert chosen == {
        "n128": ["tiles_32x32"],
        "n256": ["tiles_32x32"],
        "n512": ["tiles_32x64"],
        "n1024": ["tiles_64x128"],
        **dict.fromkeys(("n2048", "n4096", "n8192", "n16384"), large),
    }
    # Where it does what v13 and v15 do, it launches what they launch.
    for name, parent in (("n512", "v15"), ("n1024", "v15"), ("n4096", "v13")):
        problem = study.problem(name)
        ours, theirs = (
            [
                (each.kernel, each.grid, each.block, each.dynamic_shared)
                for each in resolve_launches(study, study.version(version), problem)
            ]
            for version in ("v16", parent)
        )
        assert ours == theirs


def test_v3_is_v2_with_one_float_of_padding(study: Study) -> None:
    old, new = (
        frontmatter.code(study.version(name).text, kind="cuda").split("\n") for name in ("v2", "v3")
    )
    changed = [line for line in difflib.ndiff(old, new) if line[:1] in "+-"]
    assert len(changed) == 2
    assert "As[T][T];" in changed[0]
    assert "As[T][T + 1];" in changed[1]


def test_each_rung_says_what_it_changed_and_what_it_expects(study: Study) -> None:
    found = tuple(version.id for version in ladders.rungs(study))
    assert found == tuple(sorted([*LADDER, *LATER, "v20", "v21"], key=lambda v: int(v[1:])))
    ladders.check_story(study)
    for name, parent in LATER.items():
        assert study.version(name).parent == parent
    for before, name in itertools.pairwise(LADDER):
        assert study.version(name).parent == PARENTS.get(name, before)


def test_the_default_problem_is_n1024_and_verify_sizes_are_small(study: Study) -> None:
    assert study.problem().name == "n1024"
    assert [each.name for each in study.problems_for("profile")] == ["n1024", "n4096"]
    sizes = [each.parameters["M"] for each in study.problems_for("sweep")]
    assert sorted(sizes) == [2**i for i in range(7, 15)]
    assert max(study.flops(each) for each in study.problems_for("verify")) <= 2 * 256**3


def test_sampled_reference_equals_the_full_one(study: Study) -> None:
    assert study.can_sample
    # K below, at and beyond one slab of 256.
    for problem in (
        study.problem("m33_n65_k17"),
        study.problem("n256"),
        Problem(name="slabs", parameters={"M": 5, "N": 7, "K": 600}),
    ):
        ladders.check_sampled_reference(study, problem, atol=1e-13)


def _rounded_to_zero(x: np.ndarray) -> np.ndarray:
    """float32 as a matrix unit reads it for TF32: the upper 19 bits."""
    bits = np.ascontiguousarray(x, dtype="float32").view("uint32") & np.uint32(0xFFFFE000)
    return bits.view("float32")


def test_tolerance_refuses_tf32_and_passes_three_products_of_it(study: Study) -> None:
    problem = Problem(name="n", parameters={"M": 64, "N": 64, "K": 4096})
    inputs = study.inputs(problem, np.random.default_rng(5))
    reference = study.reference(problem, inputs)["C"]
    big = {name: _rounded_to_zero(array) for name, array in inputs.items()}
    small = {name: _rounded_to_zero(inputs[name] - big[name]) for name in inputs}
    wide = {name: array.astype("float64") for name, array in big.items()}
    rest = {name: array.astype("float64") for name, array in small.items()}
    once = wide["A"] @ wide["B"]
    assert ladders.relative_error(once, reference) > 20 * study.tolerance
    two_terms = once + wide["A"] @ rest["B"]
    assert ladders.relative_error(two_terms, reference) > 10 * study.tolerance
    three_terms = two_terms + rest["A"] @ wide["B"]
    assert ladders.relative_error(three_terms, reference) < 1e-6


def test_tolerance_refuses_sums_truncated_all_along(study: Study) -> None:
    """Eight products at a time, cut to 24 bits towards zero, as matrix units add them."""
    problem = Problem(name="n", parameters={"M": 64, "N": 64, "K": 4096})
    inputs = study.inputs(problem, np.random.default_rng(6))
    reference = study.reference(problem, inputs)["C"]
    a, b = inputs["A"].astype("float64"), inputs["B"].astype("float64")

    def product(promote: int) -> np.ndarray:
        """Sums of `promote` products are truncated; those are added up in float32, rounded."""
        total = np.zeros((64, 64), dtype="float32")
        for start in range(0, 4096, promote):
            part = np.zeros((64, 64), dtype="float32")
            for k in range(start, start + promote, 8):
                exact = part + a[:, k : k + 8] @ b[k : k + 8]
                part = exact.astype("float32")
                # astype rounds to nearest: one step back where that led away from zero.
                away = np.abs(part.astype("float64")) > np.abs(exact)
                part = np.where(away, np.nextafter(part, np.float32(0)), part)
            total += part
        return total

    assert ladders.relative_error(product(4096), reference) > study.tolerance
    assert ladders.relative_error(product(16), reference) < study.tolerance / 5


def test_work_and_traffic(study: Study) -> None:
    problem = study.problem("m33_n65_k17")
    assert study.flops(problem) == 2 * 33 * 65 * 17
    assert study.bytes(problem) == 4 * (33 * 17 + 17 * 65 + 33 * 65)


def test_launch_arguments_are_three_matrices_and_three_integers(study: Study) -> None:
    problem = study.problem("m33_n65_k17")
    for name in LADDER:
        (launch,) = resolve_launches(study, study.version(name), problem)
        assert [getattr(each, "name", "") for each in launch.args[:3]] == ["A", "B", "C"]
        assert launch.args[3:] == tuple(ScalarArg(value=n) for n in (33, 65, 17))


def test_v10_asks_for_the_shared_memory_that_its_tiles_fill(study: Study) -> None:
    (launch,) = resolve_launches(study, study.version("v10"), study.problem("n256"))
    a_tile, b_tile = 128 * (16 + 4), 16 * (256 + 8)
    stages = int(study.version("v10").defines["STAGES"])
    assert launch.dynamic_shared == 4 * stages * (a_tile + b_tile)
    assert launch.block == (256, 1, 1)
    assert launch.grid == (1, 2, 1)


def test_indices_beyond_32_bits_are_refused_with_the_reason(study: Study) -> None:
    huge = {"M": 65536, "N": 1, "K": 65536}
    ladders.check_refused(study, LADDER, huge, "its indices are 32")
    for name in LADDER:
        study.check_requirements(study.version(name), study.problem("n16384"))


def test_cublas_says_why_it_cannot_run_here(study: Study) -> None:
    assert study.baseline is not None
    assert study.baseline.id == "cublas"
    ladders.check_library_says_why(study, "cublas")
