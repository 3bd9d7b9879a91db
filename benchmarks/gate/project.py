"""The project whose kernel takes time in proportion to an integer, before and after.

Every version is the same kernel: loads that miss L1 in turns with multiplications, ``WORK`` times.
Before, all versions have the same ``WORK``; after, each has as many percent more as its name says,
and ``v0``, of which only a comment is another, has none.
"""

from __future__ import annotations

from pathlib import Path

#: Planted slow-downs in percent; version v3 has three of them.
PLANTED = (0, 1, 2, 3, 5)
STUDY = "planted"
#: One percent is ten rounds of the loop.
_WORK = 1000

_STUDY = '''"""y = 2x, and work that nobody needs."""

title = "Planted slow-downs"
input_names = ("x",)
problems = {"n18": {"n": 2**18, "uses": ("verify", "profile")}}
tolerance = 1e-6
tolerance_why = "a doubling is exact"


def inputs(problem, rng):
    return {"x": rng.standard_normal(problem["n"], dtype="float32")}


def outputs(problem):
    return {"y": ((problem["n"],), "float32")}


def reference(problem, inputs):
    return {"y": 2.0 * inputs["x"].astype("float64")}


def flops(problem):
    return problem["n"]


def bytes(problem):
    return 8 * problem["n"]
'''

_VERSION = """/* ---
title = "{title}"
parent = ""
[defines]
WORK = {work}
[[launch]]
kernel = "scale"
grid = ["cdiv(n, 256)"]
block = [256]
args = ["x", "y", "n"]
--- */

// {remark}
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, int n) {{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float sum = 0.0f;
    #pragma unroll 1
    for (int round = 0; round < WORK; ++round) {{
        const float value = x[(i + round * 4099) & (n - 1)];
        sum = fmaf(sum, 0.75f, value);
        sum = fmaf(sum, value, 0.5f);
    }}
    // Never true of normal numbers, which the compiler cannot know.
    if (i < n) y[i] = sum == 1e30f ? sum : 2.0f * x[i];
}}
"""


def write_project(folder: Path, *, slower: bool, remark: str = "As it was.") -> None:
    """Write the project into a folder that need not exist.

    Args:
        folder: Where to.
        slower: With the planted slow-downs.
        remark: A comment in every version, so that no file is the same as before.
    """
    kernels = folder / "kernels" / STUDY
    kernels.mkdir(parents=True, exist_ok=True)
    (folder / "workbench.toml").write_text(f'default_study = "{STUDY}"\n', encoding="utf-8")
    (kernels / "study.py").write_text(_STUDY, encoding="utf-8")
    for percent in PLANTED:
        work = _WORK * (100 + (percent if slower else 0)) // 100
        text = _VERSION.format(title=f"{percent}% more", work=work, remark=remark)
        (kernels / f"v{percent}_planted.cu").write_text(text, encoding="utf-8")
