"""Fills under the emulator: constants copied from inputs, buffers that start as they should."""

from __future__ import annotations

import re

import pytest

from tests.ladders import needs_compiler, tried
from tests.study_maker import Maker
from workbench.engines import RunOptions, Subject, Verdict
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.errors import KernelError, UsageError

pytestmark = [pytest.mark.nvcc, needs_compiler]

STUDY = """
title = "Three taps, and the sum of what they give"
input_names = ("x", "taps")
problems = {"n1000": {"N": 1000, "T": 3, "uses": ("profile", "verify")}}
tolerance = 1e-6
tolerance_why = "a few roundings"

def inputs(problem, rng):
    return {
        "x": rng.random(problem["N"] + 2, dtype="float32"),
        "taps": rng.random(problem["T"], dtype="float32"),
    }

def outputs(problem):
    return {"y": ((problem["N"],), "float32"), "most": ((1,), "float32")}

def reference(problem, inputs):
    import numpy as np
    y = np.convolve(inputs["x"].astype("float64"), inputs["taps"][::-1].astype("float64"), "valid")
    return {"y": y, "most": y.max(keepdims=True)}

def flops(problem):
    return 6 * problem["N"]

def bytes(problem):
    return 8 * problem["N"]
"""

VERSION = """/* ---
title = "Taps in constant memory"
[[scratch]]
name = "most_bits"
dtype = "int32"
shape = [1]
[[fill]]
name = "weights"
input = "taps"
[[fill]]
name = "most_bits"
value = "-T"
[[fill]]
name = "signs"
dtype = "float64"
value = [1.0, -1.0]
[[launch]]
kernel = "filter"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["x", "y", "most_bits", "N"]
[[launch]]
kernel = "finish"
grid = [1]
block = [32]
args = ["most", "most_bits"]
--- */
__constant__ float weights[3];
__device__ double signs[4];

extern "C" __global__ void filter(const float* x, float* y, int* most_bits, int N) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= N) return;
    float sum = 0;
    for (int t = 0; t < 3; ++t) sum += x[i + t] * weights[t];
    y[i] = sum * float(signs[2] * signs[1] * signs[3]);
    atomicMax(most_bits, __float_as_int(y[i]));
}

extern "C" __global__ void finish(float* most, const int* most_bits) {
    if (threadIdx.x == 0) *most = __int_as_float(*most_bits);
}
"""


def test_what_is_filled_is_there_before_the_first_launch(maker: Maker) -> None:
    assert tried(maker, VERSION, STUDY).ok


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('[[fill]]\nname = "weights"\ninput = "taps"\n', "", "wrong result"),
        ('input = "taps"', 'dtype = "float32"\nvalue = 1', "wrong result"),
        ("value = [1.0, -1.0]", "value = [1.0, 1.0, -1.0]", "wrong result"),
        ('[[fill]]\nname = "most_bits"\nvalue = "-T"\n', "", "uninitialized memory"),
    ],
)
def test_without_a_fill_the_result_is_another(
    maker: Maker, right: str, wrong: str, said: str
) -> None:
    assert right in VERSION
    with pytest.raises(KernelError, match=said):
        tried(maker, VERSION.replace(right, wrong), STUDY)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            'name = "weights"',
            'name = "weigths"',
            "8: `weigths` is neither an output nor a scratch buffer",
        ),
        ("weights[3]", "weights[2]", "8: input `taps` has 12 bytes, but `weights` has room for 8"),
        ("double signs[4]", "float signs[5]", "14: `signs` has 20 bytes, which is not a whole"),
    ],
)
def test_a_fill_that_the_build_has_no_room_for(
    maker: Maker, right: str, wrong: str, said: str
) -> None:
    line, _, words = said.partition(": ")
    with pytest.raises(UsageError) as caught:
        tried(maker, VERSION.replace(right, wrong), STUDY)
    assert words in caught.value.message and caught.value.hint
    assert caught.value.message.startswith(f"kernels/s/v0.cu:{line}: ")


#: A kernel of the study y = 2x: what it keeps, its body for one thread an element, the second call.
KEPT = {
    "sum": ("float sum[1000]", "sum[i] += 2 * x[i]; y[i] = sum[i];", "far off|off by more"),
    "ticket": ("int t", "if (atomicAdd(&t, 1) < n) y[i] = 2 * x[i];", "elements were never wri"),
    "done": ("int done[1000]", "if (done[i]) return; done[i] = 1; y[i] = 2 * x[i];", "never wri"),
    "place": ("int next", "int k = atomicAdd(&next, 1); y[k] = 2 * x[k];", "out of bounds"),
    "turn": ("float t[1000]", "y[i] = (2 - t[i]) * x[i]; t[i] = 1 - t[i];", "far off|off by more"),
    "input": ("int unused", "x[i] *= 2; y[i] = x[i];", "it wrote into an input"),
    "wraps": ("unsigned w", "if (atomicInc(&w, n - 1) < n) y[i] = 2 * x[i];", ""),
    "cache": ("float c[1000]", "if (c[i] == 0) c[i] = 2 * x[i]; y[i] = c[i];", "far off|off by"),
    "fill": ("float filled", "atomicAdd(&filled, x[i]); y[i] = filled < 9e3f ? 2 * x[i] : 0;", ""),
}


@pytest.mark.parametrize("kind", KEPT)
def test_a_second_call_that_is_wrong_is_told(maker: Maker, kind: str) -> None:
    """Timing calls a version many times: what one call keeps is what the next one finds."""
    kept, body, said = KEPT[kind]
    fill = '[[fill]]\nname = "filled"\ndtype = "float32"\nvalue = 0\n' * (kind == "fill")
    text = f"""/* ---
title = "t"
{fill}[[launch]]
kernel = "k"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["x", "y", "N"]
--- */
__device__ {kept};
extern "C" __global__ void k(float* x, float* y, int n) {{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {{ {body} }}
}}
"""
    maker.write("v0.cu", text)
    study = maker.load()
    version, problem = study.version("v0"), study.problem("n7")
    engine = EmulatorEngine(maker.project, RunOptions(seed=3))
    verdicts: list[Verdict] = []
    engine.verify(
        [Subject.of(study, version, problem, engine.build)],
        lambda _, verdict: verdicts.append(verdict),
        lambda _: None,
    )
    (error,) = [verdict.error for verdict in verdicts]
    if error is None or not said:
        assert error is None and not said
        return
    assert re.search(said, str(error))
    line = text[: text.index("__device__")].count("\n") + 1
    name = kept.split()[1].partition("[")[0]
    if kind != "input":
        assert f"It found `{name}` (kernels/s/v0.cu:{line}) as the first run left it." in str(error)
