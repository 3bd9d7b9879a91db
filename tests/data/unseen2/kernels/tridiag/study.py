"""Tridiagonal systems of 128 unknowns"""

import numpy as np

title = "Tridiagonal systems of 128 unknowns"
input_names = ("a", "b", "c", "d")
problems = {"n": {"B": 40, "uses": ("profile", "verify")}, "s": {"B": 3, "uses": ("verify",)}}
tolerance = 0.0001
tolerance_why = "short sums"


def inputs(p, rng):
    s = (p["B"], 128)
    return {
        "a": rng.random(s, dtype="float32"),
        "b": rng.random(s, dtype="float32") + 3,
        "c": rng.random(s, dtype="float32"),
        "d": rng.standard_normal(s, dtype="float32"),
    }


def outputs(p):
    return {"x": ((p["B"], 128), "float32")}


def reference(p, inputs):
    a, b, c, d = (inputs[k].astype("float64") for k in "abcd")
    m = np.zeros((p["B"], 128, 128))
    i = np.arange(128)
    m[:, i, i] = b
    m[:, i[1:], i[:-1]] = a[:, 1:]
    m[:, i[:-1], i[1:]] = c[:, :-1]
    return {"x": np.linalg.solve(m, d[..., None])[..., 0]}


def flops(p):
    return 1000


def bytes(p):
    return 1000
