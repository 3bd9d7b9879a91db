"""Textures of a study under the emulator: named in front matter, read by a kernel, checked."""

from __future__ import annotations

import pytest

from tests.ladders import needs_compiler, tried
from tests.study_maker import Maker
from workbench.engines import ProfileOptions, RunOptions, Subject
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.errors import KernelError

pytestmark = [pytest.mark.nvcc, needs_compiler]

#: An image turned about its middle, as CUDA's sample `simpleTexture` does it, and a table.
STUDY = """
title = "An image, turned"
input_names = ("image", "table")
problems = {"n20": {"W": 20, "H": 12, "uses": ("profile", "verify")}}
tolerance = 1e-5
tolerance_why = "weights have 8 bits behind the point, and are the reference's too"

def inputs(problem, rng):
    image = rng.random((problem["H"], problem["W"]), dtype="float32")
    return {"image": image, "table": rng.random(problem["W"], dtype="float32")}

def outputs(problem):
    return {"y": ((problem["H"], problem["W"]), "float32")}

def reference(problem, inputs):
    import numpy as np
    image, (h, w) = inputs["image"].astype("float64"), inputs["image"].shape
    y, x = np.mgrid[:h, :w]
    u = (x.astype("float32") / np.float32(w) - np.float32(0.5)) * np.float32(0.5)
    v = (y.astype("float32") / np.float32(h) - np.float32(0.5)) * np.float32(2)
    def taps(at, size):
        place = (at.astype("float64") + 0.5) * size - 0.5
        steps = np.floor(place * 256 + 0.5).astype(int)
        return steps // 256, (steps % 256) / 256
    (i, a), (j, b) = taps(u, w), taps(v, h)
    at = lambda i, j: image[j % h, i % w]
    both = (1 - b) * ((1 - a) * at(i, j) + a * at(i + 1, j))
    both += b * ((1 - a) * at(i, j + 1) + a * at(i + 1, j + 1))
    return {"y": both + inputs["table"].astype("float64")[None, :]}

def flops(problem):
    return 10 * problem["W"] * problem["H"]

def bytes(problem):
    return 8 * problem["W"] * problem["H"]
"""
TURNED = """/* ---
title = "Through a texture"
[[texture]]
name = "picture"
buffer = "image"
dtype = "float32"
dims = ["W", "H"]
address = "wrap"
filter = "linear"
normalized = true
[[texture]]
name = "lines"
buffer = "table"
dtype = "float32"
dims = ["W"]
layout = "linear"
[[launch]]
kernel = "turn"
grid = ["cdiv(W, 8)", "cdiv(H, 8)"]
block = [8, 8]
args = ["picture", "lines", "y", "W", "H"]
--- */
__global__ void turn(cudaTextureObject_t picture, cudaTextureObject_t lines, float* y, int W,
                     int H) {
    int i = blockIdx.x * 8 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
    if (i >= W || j >= H) return;
    float u = (i / (float)W - 0.5f) * 0.5f + 0.5f, v = (j / (float)H - 0.5f) * 2.0f + 0.5f;
    y[j * W + i] = tex2D<float>(picture, u, v) + tex1Dfetch<float>(lines, i);
}
"""


def test_a_kernel_reads_the_textures_that_were_described(maker: Maker) -> None:
    assert tried(maker, TURNED, STUDY).ok


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('filter = "linear"', 'filter = "point"', "wrong result"),
        ('address = "wrap"', 'address = "mirror"', "wrong result"),
        ('dims = ["W", "H"]', 'dims = ["H", "W"]', "wrong result"),
        ('layout = "linear"', "", r"v0\.cu:28 .*: .*which is of an array: only tex1D reads that"),
    ],
)
def test_with_other_values_the_result_is_another(
    maker: Maker, right: str, wrong: str, said: str
) -> None:
    assert right in TURNED
    with pytest.raises(KernelError, match=said):
        tried(maker, TURNED.replace(right, wrong), STUDY)


def test_what_a_fetch_costs_is_absent_and_says_why(maker: Maker) -> None:
    maker.write("study.py", STUDY)
    maker.write("v0.cu", TURNED)
    study, engine = maker.load(), EmulatorEngine(maker.project, RunOptions(seed=3))
    version = study.version("v0")
    subject = Subject.of(study, version, study.problem(), engine.build)
    made = engine.profile(subject, ProfileOptions())[0]
    (launch,) = made.launches
    (notice,) = [each.message for each in made.notices if each.code == "not-counted"]
    assert notice == (
        "turn: requests of texture fetches to L1 and L2 are unknown and not counted "
        "(kernels/s/v0.cu:28)."
    )
    for name in ("ptx__operations_per_l2_byte", "ptx__bound_by", "ptx__bound_cycles"):
        assert name not in launch.metrics and "not counted" in launch.absent[name]
    # Stores are counted as ever, and loads are none: tables and image come through textures.
    requests = {
        kind: launch.metrics[f"l1tex__t_requests_pipe_lsu_mem_global_op_{kind}.sum"].value
        for kind in ("ld", "st")
    }
    assert requests["ld"] == 0 != requests["st"]
