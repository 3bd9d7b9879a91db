"""The conv2d_half ladder alone: the sum of the textbook, blocks that stay."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from tests import ladders
from workbench.engines import RunOptions
from workbench.engines.emulated.emulation import verified
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches


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


@ladders.needs_compiler
@pytest.mark.parametrize(
    ("name", "kernel"),
    [("v15", "conv2d")]
    + [
        pytest.param(*each, marks=pytest.mark.slow)
        for each in (
            *((name, "conv2d") for name in ("v16", "v17", "v18", "v22")),
            *(("v19", f"conv2d_{places}") for places in (256, 248, 160)),
        )
    ],
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
