"""Sparse matrix by vector in ELLPACK, column-major, padded with column −1; values in double."""

import numpy as np

title = "ELL SpMV in double"
input_names = ("col", "val", "x")
problems = {
    "n256k": {"N": 262144, "W": 12, "uses": ("profile", "verify")},
    "odd": {"N": 301, "W": 7, "uses": ("verify",)},
}
tolerance = 1e-14
tolerance_why = "a dozen products in double"


def inputs(p, rng):
    n, w = p["N"], p["W"]
    length = rng.integers(1, w + 1, n)
    near = np.arange(n)[None] + rng.integers(-200, 201, (w, n))
    far = rng.integers(0, n, (w, n))
    col = np.where(rng.random((w, n)) < 0.8, np.clip(near, 0, n - 1), far)
    col = np.where(np.arange(w)[:, None] < length, col, -1)
    return {
        "col": col.astype("int32"),
        "val": rng.standard_normal((w, n)),
        "x": rng.standard_normal(n),
    }


def outputs(p):
    return {"y": ((p["N"],), "float64")}


def reference(p, inputs):
    col = inputs["col"]
    return {"y": (np.where(col >= 0, inputs["val"], 0.0) * inputs["x"][np.maximum(col, 0)]).sum(0)}


def flops(p):
    return p["N"] * p["W"]


def bytes(p):
    return p["N"] * (p["W"] * 12 + 16)
