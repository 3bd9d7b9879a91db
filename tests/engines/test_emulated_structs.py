"""Structs by value: what a kernel sees of the members, and what is said where they do not fit."""

from __future__ import annotations

import struct

import pytest

from tests.ladders import needs_compiler, tried
from tests.study_maker import Maker
from workbench.errors import KernelError, UsageError
from workbench.study.launches import CTYPES, format_of

STUDY = """
title = "Rows of a matrix, scaled"
input_names = ("x", "scales")
problems = {"r9": {"ROWS": 9, "COLUMNS": 37, "uses": ("profile", "verify")}}
tolerance = 1e-6
tolerance_why = "two roundings"

def inputs(problem, rng):
    rows, columns = problem["ROWS"], problem["COLUMNS"]
    return {
        "x": rng.random((rows, columns), dtype="float32"),
        "scales": rng.random(rows, dtype="float32"),
    }

def outputs(problem):
    return {"y": ((problem["ROWS"], problem["COLUMNS"]), "float32")}

def reference(problem, inputs):
    x, scales = (inputs[name].astype("float64") for name in ("x", "scales"))
    return {"y": -0.25 * x * scales[:, None] + 3 + 2**-40}

def flops(problem):
    return 3 * problem["ROWS"] * problem["COLUMNS"]

def bytes(problem):
    return 8 * problem["ROWS"] * problem["COLUMNS"]
"""

#: Members of every size, with gaps before `scales`, `offset` and at the end.
VERSION = """/* ---
title = "One struct"
[[launch]]
kernel = "scale"
grid = ["ROWS"]
block = [64]
args = [
    "x",
    ["short(COLUMNS)", "char(-1)", "scales", "uint(ROWS)", "double(3.0000000000009095)", 0.25],
    "y",
    "ROWS",
]
--- */
struct Rows {
    short columns;
    signed char sign;
    const float* scales;
    unsigned rows;
    double offset;
    float factor;
};

extern "C" __global__ void scale(const float* x, Rows r, float* y, int last) {
    const int row = blockIdx.x, column = threadIdx.x;
    if (row < last && row < r.rows && column < r.columns) {
        const int i = row * r.columns + column;
        y[i] = float(double(r.sign * r.factor * x[i] * r.scales[row]) + r.offset);
    }
}
"""


@pytest.mark.nvcc
@needs_compiler
def test_a_kernel_sees_the_members_it_was_given(maker: Maker) -> None:
    assert tried(maker, VERSION, STUDY).ok


@pytest.mark.nvcc
@needs_compiler
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("char(-1)", "char(1)"),
        ("0.25]", "0.125]"),
        ("double(3.0000000000009095)", "double(3)"),
        ("uint(ROWS)", "uint(ROWS - 1)"),
    ],
)
def test_with_other_values_the_result_is_another(maker: Maker, right: str, wrong: str) -> None:
    assert right in VERSION
    text = VERSION.replace(right, wrong)
    if right.startswith("double"):  # beyond float32: told by the type alone
        text = text.replace("double(3)", "double(3.5)")
    with pytest.raises(KernelError, match=r"wrong result|does not write|unwritten|never"):
        tried(maker, text, STUDY)


@pytest.mark.nvcc
@needs_compiler
@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            ', "double(3.0000000000009095)", 0.25]',
            "]",
            "argument 2 of kernel scale has 24 bytes, but the kernel takes 40",
        ),
        ('"ROWS",\n]', "]", "kernel scale takes 4 arguments, not 3"),
        (
            '"ROWS",\n]',
            '"long(ROWS)",\n]',
            "argument 4 of kernel scale has 8 bytes, but the kernel takes 4",
        ),
    ],
)
def test_arguments_that_the_kernel_does_not_take(
    maker: Maker, right: str, wrong: str, said: str
) -> None:
    assert right in VERSION
    with pytest.raises(UsageError) as caught:
        tried(maker, VERSION.replace(right, wrong), STUDY)
    assert caught.value.message == f"kernels/s/v0.cu:7: {said}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kinds", "bytes_"),
    [
        (["int"], 4),
        (["int", "pointer"], 16),
        (["pointer", "int"], 16),
        (["char", "short", "char"], 6),
        (["float", "double", "float"], 24),
        (["int"] * 19, 76),
    ],
)
def test_a_struct_is_as_long_as_c_makes_it(kinds: list[str], bytes_: int) -> None:
    assert struct.calcsize(f"@{format_of(kinds)}") == bytes_
    # Behind a char it begins at a multiple of its widest member's size.
    widest = max(struct.calcsize(f"@{format_of([kind])}") for kind in kinds)
    assert struct.calcsize(f"@b{format_of(kinds)}") == bytes_ + widest


def test_every_type_has_its_size() -> None:
    sizes = {kind: struct.calcsize(f"@{format_of([kind])}") for kind in CTYPES}
    for kind, bounds in CTYPES.items():
        if bounds is not None:
            assert bounds[1] - bounds[0] == 2 ** (8 * sizes[kind]) - 1
    assert (sizes["float"], sizes["double"]) == (4, 8)
