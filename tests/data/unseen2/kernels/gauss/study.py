"""Separable filter of 17 taps, zero border"""

import numpy as np

title = "Separable filter of 17 taps, zero border"
input_names = ("img", "taps")
problems = {
    "n": {"W": 256, "H": 64, "uses": ("profile", "verify")},
    "s": {"W": 160, "H": 40, "uses": ("verify",)},
}
tolerance = 1e-05
tolerance_why = "short sums"


def inputs(p, rng):
    t = rng.random(17).astype("float32")
    return {"img": rng.random((p["H"], p["W"]), dtype="float32"), "taps": t / t.sum()}


def outputs(p):
    return {"out": ((p["H"], p["W"]), "float32")}


def reference(p, inputs):
    x = inputs["img"].astype("float64")
    t = inputs["taps"].astype("float64")
    q = np.pad(x, ((0, 0), (8, 8)))
    r = sum(t[k] * q[:, k : k + p["W"]] for k in range(17))
    q = np.pad(r, ((8, 8), (0, 0)))
    return {"out": sum(t[k] * q[k : k + p["H"]] for k in range(17))}


def flops(p):
    return 1000


def bytes(p):
    return 1000
