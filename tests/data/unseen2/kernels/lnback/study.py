"""Layer norm backward"""

import numpy as np

title = "Layer norm backward"
input_names = ("dy", "x", "gamma")
problems = {
    "n": {"R": 40, "C": 256, "uses": ("profile", "verify")},
    "s": {"R": 7, "C": 256, "uses": ("verify",)},
}
tolerance = 0.0001
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "dy": rng.standard_normal((p["R"], p["C"]), dtype="float32"),
        "x": rng.standard_normal((p["R"], p["C"]), dtype="float32"),
        "gamma": rng.random(p["C"], dtype="float32"),
    }


def outputs(p):
    return {
        "dx": ((p["R"], p["C"]), "float32"),
        "dgamma": ((p["C"],), "float32"),
        "dbeta": ((p["C"],), "float32"),
    }


def reference(p, inputs):
    x = inputs["x"].astype("float64")
    dy = inputs["dy"].astype("float64")
    g = inputs["gamma"].astype("float64")
    m = x.mean(1, keepdims=True)
    r = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    h = (x - m) * r
    d = dy * g
    return {
        "dx": r * (d - d.mean(1, keepdims=True) - h * (d * h).mean(1, keepdims=True)),
        "dgamma": (dy * h).sum(0),
        "dbeta": dy.sum(0),
    }


def flops(p):
    return 1000


def bytes(p):
    return 1000
