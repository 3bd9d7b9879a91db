"""Rotary embedding of half rows"""

import numpy as np

title = "Rotary embedding of half rows"
input_names = ("x",)
problems = {
    "n": {"T": 50, "H": 4, "D": 64, "uses": ("profile", "verify")},
    "s": {"T": 9, "H": 2, "D": 64, "uses": ("verify",)},
}
tolerance = 0.004
tolerance_why = "short sums"


def inputs(p, rng):
    return {"x": rng.standard_normal((p["T"], p["H"], p["D"])).astype("float16")}


def outputs(p):
    return {"y": ((p["T"], p["H"], p["D"]), "float16")}


def reference(p, inputs):
    x = inputs["x"].astype("float64")
    h = p["D"] // 2
    a = np.arange(p["T"])[:, None] * 10000.0 ** (-np.arange(h) / h)
    c, s = np.cos(a)[:, None], np.sin(a)[:, None]
    return {
        "y": np.stack(
            [x[..., 0::2] * c - x[..., 1::2] * s, x[..., 0::2] * s + x[..., 1::2] * c], -1
        ).reshape(x.shape)
    }


def flops(p):
    return 1000


def bytes(p):
    return 1000
