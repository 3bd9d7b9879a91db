"""Bilateral filter, radius 2, edges clamped"""

import numpy as np

title = "Bilateral filter, radius 2, edges clamped"
input_names = ("img",)
problems = {
    "n": {"W": 80, "H": 48, "uses": ("profile", "verify")},
    "s": {"W": 33, "H": 19, "uses": ("verify",)},
}
tolerance = 0.0001
tolerance_why = "short sums"


def inputs(p, rng):
    return {"img": rng.random((p["H"], p["W"]), dtype="float32")}


def outputs(p):
    return {"out": ((p["H"], p["W"]), "float32")}


def reference(p, inputs):
    x = inputs["img"].astype("float64")
    q = np.pad(x, 2, mode="edge")
    s = np.zeros_like(x)
    w = np.zeros_like(x)
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            v = q[2 + dy : 2 + dy + p["H"], 2 + dx : 2 + dx + p["W"]]
            k = np.exp(-(dx * dx + dy * dy) / 8.0 - (v - x) ** 2 / (2 * 0.3**2))
            s += k * v
            w += k
    return {"out": s / w}


def flops(p):
    return 1000


def bytes(p):
    return 1000
