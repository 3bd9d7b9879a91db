"""Arguments that a kernel takes for another size, or their elements for another type."""

from __future__ import annotations

import pytest

from workbench.study.launches import BufferArg, ResolvedLaunch, ScalarArg
from workbench.study.signatures import misread, parameter_bytes

CODE = """
/* __global__ void scale(const double* a, double* b, int n) */
extern "C" __global__ void __launch_bounds__(256) scale(const float* __restrict__ a,
                                                        {out} b,  // not double*
                                                        int n) {{ b[n] = a[n]; }}
"""
LAUNCH = ResolvedLaunch(
    kernel="scale",
    grid=(1, 1, 1),
    block=(1, 1, 1),
    args=(BufferArg("a"), BufferArg("b"), ScalarArg(4)),
)


def said(a: str, b: str, out: str = "float*") -> tuple[str, ...]:
    found = misread(CODE.format(out=out), [LAUNCH, LAUNCH], {"a": a, "b": b})
    return tuple(each.words for each in found)


def test_types_that_agree_are_no_matter() -> None:
    assert said("float32", "float32") == ()
    assert said("float32", "float64", "double *") == ()
    assert said("float32", "float16", "__half* __restrict__") == ()


def test_float64_where_float_is_taken_is_said_once() -> None:
    (words,) = said("float64", "float32")
    assert words == "`a` is float64, but scale takes it as float*"
    assert len(said("float64", "float64")) == 2
    assert said("float32", "float32", "double* const")[0].startswith("`b` is float32, but scale")
    assert "takes it as int*" in said("float32", "int64", "int*")[0]


@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        ("int8", "int*"),  # four in a word
        ("float16", "unsigned int*"),
        ("float32", "float4*"),
        ("float32", "real*"),
        ("float64", "void*"),
        ("float64", "float**"),
        ("float64", "float"),
        ("bfloat16", "float*"),
    ],
)
def test_what_may_be_meant_or_is_not_written_out_is_not_blamed(dtype: str, out: str) -> None:
    assert said("float32", dtype, out) == ()


def test_another_number_of_parameters_is_left_to_others() -> None:
    short = ResolvedLaunch(kernel="scale", grid=(1, 1, 1), block=(1, 1, 1), args=(BufferArg("a"),))
    assert misread(CODE.format(out="float*"), [short], {"a": "float64"}) == ()
    assert misread("", [LAUNCH], {"a": "float64", "b": "float64"}) == ()


PTX = """
.visible .entry scale_all(
	.param .u32 scale_all_param_0
)
.visible .entry scale(
	.param .u64 .ptr .global .align 1 scale_param_0,
	.param .align 128 .b8 scale_param_1[128],
	.param .align 8 .b8 scale_param_2[40],
	.param .u8 scale_param_3,
	.param .f64 scale_param_4
)
.maxntid 256, 1, 1
{
.visible .entry none()
"""


def test_parameters_are_measured_in_the_ptx() -> None:
    assert parameter_bytes(PTX, "scale") == (8, 128, 40, 1, 8)
    assert parameter_bytes(PTX, "scale_all") == (4,)
    assert parameter_bytes(PTX, "none") == ()
    assert parameter_bytes(PTX, "scal") is None
    assert parameter_bytes(".entry odd(.param .texref t)", "odd") is None
