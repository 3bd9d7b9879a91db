"""The conv2d_int8 ladder alone: exact integers, sizes, blocks that stay."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from tests import ladders
from workbench.engines import RunOptions
from workbench.engines.emulated.emulation import verified
from workbench.engines.host import buffers as check
from workbench.errors import UsageError
from workbench.model import Problem
from workbench.study.folder import Study, resolve_launches

HOPPER = ("v16", "v17", "v18", "v19", "v20", "v21", "v22")


@pytest.fixture(scope="module")
def study() -> Study:
    return ladders.shipped("conv2d_int8")


def sized(n: int, h: int, w: int, c: int, k: int) -> Problem:
    return Problem(name="made", parameters={"N": n, "H": h, "W": w, "C": c, "K": k})


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
