"""Sums of segments given by offsets"""

import numpy as np

title = "Sums of segments given by offsets"
input_names = ("x", "offsets")
problems = {
    "n": {"S": 700, "M": 40, "uses": ("profile", "verify")},
    "s": {"S": 33, "M": 200, "uses": ("verify",)},
}
tolerance = 1e-05
tolerance_why = "short sums"


def inputs(p, rng):
    lens = rng.integers(0, 2 * p["M"], p["S"])
    off = np.zeros(p["S"] + 1, np.int32)
    off[1:] = np.cumsum(lens)
    return {"x": rng.standard_normal(p["S"] * 2 * p["M"], dtype="float32"), "offsets": off}


def outputs(p):
    return {"y": ((p["S"],), "float32")}


def reference(p, inputs):
    o = inputs["offsets"]
    x = inputs["x"].astype("float64")
    return {"y": np.array([x[o[i] : o[i + 1]].sum() for i in range(p["S"])])}


def flops(p):
    return 1000


def bytes(p):
    return 1000
