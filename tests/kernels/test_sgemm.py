"""The sgemm ladder alone: tolerance, halves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import ladders
from workbench.engines import RunOptions
from workbench.engines.emulated import emulation as emulation_module
from workbench.engines.host import buffers
from workbench.model import Problem
from workbench.study.folder import Study


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
