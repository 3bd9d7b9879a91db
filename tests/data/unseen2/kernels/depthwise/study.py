"""Depthwise 3x3 convolution, NCHW"""

import numpy as np

title = "Depthwise 3x3 convolution, NCHW"
input_names = ("x", "w", "b")
problems = {
    "n": {"C": 8, "H": 30, "W": 44, "uses": ("profile", "verify")},
    "s": {"C": 3, "H": 9, "W": 13, "uses": ("verify",)},
}
tolerance = 1e-05
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "x": rng.standard_normal((p["C"], p["H"], p["W"]), dtype="float32"),
        "w": rng.standard_normal((p["C"], 9), dtype="float32"),
        "b": rng.standard_normal(p["C"], dtype="float32"),
    }


def outputs(p):
    return {"y": ((p["C"], p["H"], p["W"]), "float32")}


def reference(p, inputs):
    x = np.pad(inputs["x"].astype("float64"), ((0, 0), (1, 1), (1, 1)))
    w = inputs["w"].astype("float64")
    h, ww = p["H"], p["W"]
    return {
        "y": sum(
            w[:, 3 * a + b, None, None] * x[:, a : a + h, b : b + ww]
            for a in range(3)
            for b in range(3)
        )
        + inputs["b"].astype("float64")[:, None, None]
    }


def flops(p):
    return 1000


def bytes(p):
    return 1000
