"""The sgemm ladder: every rung computes the product, compiles cleanly, is one idea."""

from __future__ import annotations

import difflib
import importlib.util
import itertools
import shutil
from pathlib import Path

import cpu_shim
import msgspec
import numpy as np
import pytest

from workbench import build as building
from workbench import compilers, frontmatter
from workbench.launches import ScalarArg
from workbench.model import Problem
from workbench.project import find_project
from workbench.study import Study, load_study, resolve_launches

LADDER = ("v0", "v1", "v2", "v3", "v4")

needs_compiler = pytest.mark.skipif(
    not compilers.available(), reason="neither nvcc nor NVRTC is on this machine"
)
needs_host_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="the CPU shim needs g++"
)


@pytest.fixture(scope="module")
def study(repo: Path) -> Study:
    project = find_project(repo)
    assert project is not None
    return load_study(project, "sgemm")


def relative_error(out: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(out - reference) / np.linalg.norm(reference))


@needs_host_compiler
@pytest.mark.parametrize("version", LADDER)
def test_every_rung_computes_the_product_at_every_awkward_size(
    study: Study, version: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(20261121)
    # 256³ is left to the GPU: it takes longer here than all the others together, and a
    # size that every tile divides is in the list all the same.
    problems = [each for each in study.problems_for("verify") if study.flops(each) < 5e6]
    problems.append(Problem(name="even", parameters={"M": 128, "N": 128, "K": 32}))
    inputs = [study.inputs(problem, rng) for problem in problems]
    outputs = cpu_shim.run(study, study.version(version), problems, inputs, tmp_path)
    for problem, arrays, out in zip(problems, inputs, outputs, strict=True):
        reference = study.reference(problem, arrays)["C"]
        assert not np.isnan(out["C"]).any(), f"{problem.name}: an output was never written"
        assert relative_error(out["C"], reference) < study.tolerance, problem.name


@needs_host_compiler
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
    broken = study.version(version)
    assert broken.text.count(right) == 1
    broken = msgspec.structs.replace(broken, text=broken.text.replace(right, wrong))
    problem = study.problem("m33_n65_k17")
    inputs = study.inputs(problem, np.random.default_rng(1))
    if symptom == "wrong":
        (out,) = cpu_shim.run(study, broken, [problem], [inputs], tmp_path)
        assert not relative_error(out["C"], study.reference(problem, inputs)["C"]) < 1e-3
    else:
        with pytest.raises(AssertionError, match=symptom):
            cpu_shim.run(study, broken, [problem], [inputs], tmp_path)


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_rung_compiles_without_spills_or_warnings(
    repo: Path, study: Study, arch: str
) -> None:
    project = find_project(repo)
    assert project is not None
    for name in LADDER:
        made = building.build(project, study.version(name), arch).build
        (kernel,) = made.resources
        assert kernel.name == "sgemm"
        assert (kernel.stack, kernel.spill_stores, kernel.spill_loads) == (0, 0, 0), name
        assert made.log == "", name
        # 128 registers let two blocks of 256 threads share an SM; the tiles need far fewer.
        assert kernel.registers <= (128 if name == "v4" else 40), name
        tiles = {"v0": 0, "v1": 2 * 32 * 32, "v2": 2 * 32 * 32, "v3": 32 * 33 + 32 * 32}
        assert kernel.static_shared == 4 * tiles.get(name, 2 * 8 * 128), name


@needs_compiler
def test_v4_moves_four_floats_at_a_time(repo: Path, study: Study) -> None:
    project = find_project(repo)
    assert project is not None
    ptx = building.build(project, study.version("v4"), "sm_90").build.ptx
    assert ptx.count("ld.global.nc.v4.f32") == 2
    assert "st.shared.v4.f32" in ptx
    assert ptx.count("st.global.v4.f32") == 16


def test_v3_is_v2_with_one_float_of_padding(study: Study) -> None:
    old, new = (
        frontmatter.code(study.version(name).text, kind="cuda").split("\n") for name in ("v2", "v3")
    )
    changed = [line for line in difflib.ndiff(old, new) if line[:1] in "+-"]
    assert len(changed) == 2
    assert "As[T][T];" in changed[0]
    assert "As[T][T + 1];" in changed[1]


def test_each_rung_says_what_it_changed_and_what_it_expects(study: Study) -> None:
    assert tuple(each.id for each in study.versions.values() if not each.baseline) == LADDER
    for before, name in itertools.pairwise(LADDER):
        version = study.version(name)
        assert version.parent == before
        assert version.change.endswith(".")
        assert version.expectations
        assert all(each.why for each in version.expectations), name


def test_the_default_problem_is_n1024_and_verify_sizes_are_small(study: Study) -> None:
    assert study.problem().name == "n1024"
    assert [each.name for each in study.problems_for("profile")] == ["n1024", "n4096"]
    sizes = [each.parameters["M"] for each in study.problems_for("sweep")]
    assert min(sizes) == 128
    assert max(sizes) == 8192
    assert max(study.flops(each) for each in study.problems_for("verify")) <= 2 * 256**3


def test_sampled_reference_equals_the_full_one(study: Study) -> None:
    problem = study.problem("m33_n65_k17")
    rng = np.random.default_rng(3)
    inputs = study.inputs(problem, rng)
    indices = {"C": rng.integers(0, 33 * 65, size=50)}
    sample = study.reference_at(problem, inputs, indices)["C"]
    full = study.reference(problem, inputs)["C"].ravel()[indices["C"]]
    assert study.can_sample
    np.testing.assert_allclose(sample, full, rtol=1e-12)


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


def test_indices_beyond_32_bits_are_refused_with_the_reason(study: Study) -> None:
    from workbench.errors import UsageError

    huge = Problem(name="huge", parameters={"M": 65536, "N": 1, "K": 65536})
    with pytest.raises(UsageError, match="v4 cannot do problem huge: its indices are 32-bit"):
        study.check_requirements(study.version("v4"), huge)


def test_cublas_says_why_it_cannot_run_here(study: Study) -> None:
    assert study.baseline is not None
    assert study.baseline.id == "cublas"
    spec = importlib.util.spec_from_file_location("cublas", study.folder / "cublas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        import torch

        expected = "" if torch.cuda.is_available() else "no CUDA device"
    except ImportError:
        expected = "not installed"
    assert expected in module.available()
    assert bool(module.available()) == bool(expected)
