"""im2col of 3x3 windows"""

import numpy as np

title = "im2col of 3x3 windows"
input_names = ("x",)
problems = {
    "n": {"C": 5, "H": 20, "W": 30, "uses": ("profile", "verify")},
    "s": {"C": 2, "H": 7, "W": 9, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {"x": rng.standard_normal((p["C"], p["H"], p["W"]), dtype="float32")}


def outputs(p):
    return {"y": ((p["C"] * 9, p["H"] * p["W"]), "float32")}


def reference(p, inputs):
    x = np.pad(inputs["x"].astype("float64"), ((0, 0), (1, 1), (1, 1)))
    h, w = p["H"], p["W"]
    return {
        "y": np.stack(
            [
                x[c, a : a + h, b : b + w].reshape(-1)
                for c in range(p["C"])
                for a in range(3)
                for b in range(3)
            ]
        )
    }


def flops(p):
    return 1000


def bytes(p):
    return 1000
