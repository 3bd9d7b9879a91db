"""Matrix of 4-bit weights in groups of 64 by a half vector"""

import numpy as np

title = "Matrix of 4-bit weights in groups of 64 by a half vector"
input_names = ("w", "scale", "x")
problems = {
    "n": {"M": 128, "K": 1024, "uses": ("profile", "verify")},
    "s": {"M": 20, "K": 512, "uses": ("verify",)},
}
tolerance = 0.002
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "w": rng.integers(0, 1 << 32, (p["M"], p["K"] // 8)).astype("uint32"),
        "scale": (rng.random((p["M"], p["K"] // 64)) * 0.1).astype("float16"),
        "x": rng.standard_normal(p["K"]).astype("float16"),
    }


def outputs(p):
    return {"y": ((p["M"],), "float32")}


def reference(p, inputs):
    w = inputs["w"].astype("int64")
    q = np.stack([(w >> (4 * i)) & 15 for i in range(8)], -1).reshape(p["M"], p["K"]) - 8.0
    s = np.repeat(inputs["scale"].astype("float64"), 64, axis=1)
    return {"y": (q * s) @ inputs["x"].astype("float64")}


def flops(p):
    return 1000


def bytes(p):
    return 1000
