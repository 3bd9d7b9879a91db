"""What is the sgemm ladder's own: sizes, tolerance, halves."""

from __future__ import annotations

import difflib
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


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("sgemm")


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

    def compare(outputs: dict[str, np.ndarray], *rest: Any, **more: Any) -> Any:
        seen.append(outputs["C"].copy())
        return original(outputs, *rest, **more)

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
