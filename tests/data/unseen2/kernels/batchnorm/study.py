"""Batch norm over N,H,W with ReLU"""

import numpy as np

title = "Batch norm over N,H,W with ReLU"
input_names = ("x", "gamma", "beta")
problems = {
    "n": {"N": 6, "C": 12, "S": 400, "uses": ("profile", "verify")},
    "s": {"N": 3, "C": 4, "S": 49, "uses": ("verify",)},
}
tolerance = 0.0001
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "x": rng.standard_normal((p["N"], p["C"], p["S"]), dtype="float32"),
        "gamma": rng.random(p["C"], dtype="float32"),
        "beta": rng.random(p["C"], dtype="float32"),
    }


def outputs(p):
    return {
        "y": ((p["N"], p["C"], p["S"]), "float32"),
        "mean": ((p["C"],), "float32"),
        "var": ((p["C"],), "float32"),
    }


def reference(p, inputs):
    x = inputs["x"].astype("float64")
    m = x.mean((0, 2))
    v = x.var((0, 2))
    g = inputs["gamma"].astype("float64")
    b = inputs["beta"].astype("float64")
    y = (x - m[:, None]) / np.sqrt(v + 1e-5)[:, None] * g[:, None] + b[:, None]
    return {"y": np.maximum(y, 0), "mean": m, "var": v}


def flops(p):
    return 1000


def bytes(p):
    return 1000
