"""Cholesky factors of a batch of small matrices"""

import numpy as np

title = "Cholesky factors of a batch of small matrices"
input_names = ("a",)
problems = {
    "b64": {"B": 64, "N": 16, "uses": ("profile", "verify")},
    "b7": {"B": 7, "N": 16, "uses": ("verify",)},
}
tolerance = 0.0001
tolerance_why = "short sums"


def inputs(p, rng):
    g = rng.standard_normal((p["B"], p["N"], p["N"]))
    return {"a": (g @ g.transpose(0, 2, 1) + p["N"] * np.eye(p["N"])).astype("float32")}


def outputs(p):
    return {"l": ((p["B"], p["N"], p["N"]), "float32")}


def reference(p, inputs):
    return {"l": np.linalg.cholesky(inputs["a"].astype("float64"))}


def flops(p):
    return 1000


def bytes(p):
    return 1000
