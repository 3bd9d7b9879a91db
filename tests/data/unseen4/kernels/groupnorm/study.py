"""Group normalization of an NCHW tensor in float16, with a scale and an offset per channel.

Mean and variance are taken over the C/G channels and all pixels of a group; sums in float32.
"""

import numpy as np

title = "Group normalization, NCHW in float16"
EPSILON = 1e-5
input_names = ("x", "gamma", "beta")
problems = {
    "c128": {"B": 8, "C": 128, "H": 28, "W": 28, "G": 32, "uses": ("profile", "verify")},
    "odd": {"B": 3, "C": 12, "H": 5, "W": 7, "G": 3, "uses": ("verify",)},
    "thin": {"B": 2, "C": 10, "H": 4, "W": 6, "G": 5, "uses": ("verify",)},
}
tolerance = 1e-3
tolerance_why = "results are rounded to float16, 2^-11 of themselves each"


def inputs(p, rng):
    shape = (p["B"], p["C"], p["H"], p["W"])
    level = rng.uniform(-1, 1, (p["B"], p["C"], 1, 1))
    return {
        "x": (rng.standard_normal(shape) * 1.5 + level).astype("float16"),
        "gamma": rng.uniform(0.5, 1.5, p["C"]).astype("float32"),
        "beta": rng.uniform(-1, 1, p["C"]).astype("float32"),
    }


def outputs(p):
    return {"y": ((p["B"], p["C"], p["H"], p["W"]), "float16")}


def reference(p, inputs):
    shape = (p["B"], p["C"], p["H"], p["W"])
    x = inputs["x"].astype("float64").reshape(p["B"], p["G"], -1)
    mean = x.mean(axis=2, keepdims=True)
    var = x.var(axis=2, keepdims=True)
    x = ((x - mean) / np.sqrt(var + EPSILON)).reshape(shape)
    gamma, beta = (inputs[k].astype("float64")[None, :, None, None] for k in ("gamma", "beta"))
    return {"y": x * gamma + beta}


def flops(p):
    return 8 * p["B"] * p["C"] * p["H"] * p["W"]


def bytes(p):
    return 4 * p["B"] * p["C"] * p["H"] * p["W"] + 8 * p["C"]
