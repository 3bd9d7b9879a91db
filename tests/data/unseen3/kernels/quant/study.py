"""Rows of half quantised to int8 by their largest magnitude: q = round(x · 127 / max), scale = max / 127."""

import numpy as np

title = "Per-row int8 quantisation"
input_names = ("x",)
problems = {
    "r4096": {"R": 4096, "C": 768, "uses": ("profile", "verify")},
    "odd": {"R": 13, "C": 91, "uses": ("verify",)},
}
tolerance = 2e-3
tolerance_why = "a value half way between two integers may go to either"


def inputs(p, rng):
    s = np.exp(rng.standard_normal((p["R"], 1)))
    return {"x": (rng.standard_normal((p["R"], p["C"])) * s).astype("float16")}


def outputs(p):
    return {"q": ((p["R"], p["C"]), "int8"), "scale": ((p["R"],), "float32")}


def reference(p, inputs):
    x = inputs["x"].astype("float64")
    scale = np.abs(x).max(1) / 127
    return {"q": np.rint(x / scale[:, None]), "scale": scale}


def flops(p):
    return 3 * p["R"] * p["C"]


def bytes(p):
    return 3 * p["R"] * p["C"] + 4 * p["R"]
