"""bfloat16 beside NumPy's types: names, bytes, fills, and a kernel that is verified in it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.study_maker import Maker
from workbench.compile import compilers
from workbench.engines import RunOptions, Subject
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.engines.host.buffers import (
    compare,
    dtype_of,
    interface_type,
    is_float,
    name_of,
    poison_byte,
    unit,
)
from workbench.errors import UsageError
from workbench.study.launches import ResolvedFill

STUDY = """
title = "Scale"
input_names = ("x",)
problems = {"n100": {"N": 100, "uses": ("profile", "verify")}}
tolerance = 4e-3
tolerance_why = "half a unit of eight bits"

def inputs(problem, rng):
    import ml_dtypes
    return {"x": rng.standard_normal(problem["N"]).astype(ml_dtypes.bfloat16)}

def outputs(problem):
    return {"y": ((problem["N"],), "bfloat16")}

def reference(problem, inputs):
    return {"y": inputs["x"].astype("float64") * FACTOR}

def flops(problem):
    return problem["N"]

def bytes(problem):
    return 4 * problem["N"]
"""
KERNEL = """/* ---
title = "Scale"
[[scratch]]
name = "tmp"
dtype = "bfloat16"
shape = ["N"]
[[fill]]
name = "tmp"
value = 1.5
[[launch]]
kernel = "scale"
grid = [1]
block = [128]
args = ["x", "tmp", "y", "N"]
--- */
#include <cuda_bf16.h>
extern "C" __global__ void scale(const __nv_bfloat16* x, const __nv_bfloat16* tmp,
                                 __nv_bfloat16* y, int n) {
    const int i = threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(__bfloat162float(x[i]) * __bfloat162float(tmp[i]));
}
"""


@pytest.mark.parametrize("name", ["bfloat16", "<f2", "<f4", "|i1", "<u8"])
def test_a_type_is_found_again_by_its_name(name: str) -> None:
    assert name_of(dtype_of(name)) == name
    assert is_float(dtype_of(name)) == (name in ("bfloat16", "<f2", "<f4"))


def test_what_is_said_of_bfloat16_to_others() -> None:
    assert interface_type(dtype_of("bfloat16")) == "<i2"
    assert interface_type(dtype_of("float16")) == "<f2"
    # The poison is no number: what nothing has written is never right by chance.
    poison = np.frombuffer(bytes([poison_byte(dtype_of("bfloat16"))] * 2), dtype_of("bfloat16"))
    assert np.isnan(poison.astype("float64")).all()


def test_a_type_that_there_is_not_is_named() -> None:
    with pytest.raises(UsageError, match="`bfloat17` is not a valid element type"):
        dtype_of("bfloat17")


def test_a_fill_writes_bfloat16() -> None:
    fill = ResolvedFill(name="t", values=("1.5", "-2"), dtype="bfloat16", symbol=False, where="x:1")
    assert unit(fill).tobytes() == b"\xc0\x3f\x00\xc0"


def test_results_are_compared_as_numbers() -> None:
    got = np.array([1.0, 2.0, 3.0], dtype_of("bfloat16"))
    want = {"y": np.array([1.0, 2.0, 3.5])}
    check = compare({"y": got}, want, 1e-3)
    assert not check.ok and check.worst is not None
    assert (check.worst.got, check.worst.want) == ("3", "3.5")


@pytest.mark.skipif(not compilers.available(), reason="no CUDA compiler")
@pytest.mark.parametrize(("factor", "right"), [("1.5", True), ("1.6", False)])
def test_a_kernel_in_bfloat16_is_verified_in_the_emulator(
    maker: Maker, factor: str, right: bool
) -> None:
    maker.write("study.py", STUDY.replace("FACTOR", factor))
    maker.write("v0.cu", KERNEL)
    study = maker.load()
    engine = EmulatorEngine(maker.project, RunOptions(seed=3))
    version = study.version("v0")
    subject = Subject.of(study, version, study.problem(), engine.build)
    check = engine.emulate(subject, watch=True).check
    assert check is not None and check.ok == right
    assert check.unwritten == 0
