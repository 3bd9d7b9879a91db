"""Segmented inclusive sum of a long array: a flag that is set starts a new sum."""

import numpy as np

title = "Segmented inclusive scan in float32"
input_names = ("x", "head")
problems = {
    "n1500k": {"N": 1500013, "LENGTH": 300, "uses": ("profile", "verify")},
    # Segments that are much longer than a tile, and much shorter.
    "long": {"N": 30011, "LENGTH": 9000, "uses": ("verify",)},
    "short": {"N": 5003, "LENGTH": 3, "uses": ("verify",)},
    "few": {"N": 7, "LENGTH": 3, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "sums of positive float32 numbers over some ten thousand elements at most, by tiles"


def inputs(p, rng):
    # The first flag is not set in general: the array's start needs none.
    return {
        "x": rng.random(p["N"], dtype="float32"),
        "head": (rng.random(p["N"]) * p["LENGTH"] < 1).astype("uint8"),
    }


def outputs(p):
    return {"y": ((p["N"],), "float32")}


def reference(p, inputs):
    x = inputs["x"].astype("float64")
    upto = np.cumsum(x)
    start = np.where(inputs["head"] != 0, np.arange(p["N"]), 0)
    start = np.maximum.accumulate(start)
    return {"y": upto - upto[start] + x[start]}


def flops(p):
    return p["N"]


def bytes(p):
    return 9 * p["N"]
