"""Needleman–Wunsch scores of B pairs of sequences: match 2, mismatch −1, gap −2."""

import numpy as np

title = "Needleman–Wunsch alignment scores of many pairs"
input_names = ("a", "b")
problems = {
    "pairs": {"B": 2048, "M": 96, "L": 128, "uses": ("profile", "verify")},
    "odd": {"B": 7, "M": 33, "L": 45, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "integers"


def inputs(p, rng):
    return {
        "a": rng.integers(0, 4, (p["B"], p["M"])).astype("uint8"),
        "b": rng.integers(0, 4, (p["B"], p["L"])).astype("uint8"),
    }


def outputs(p):
    return {"score": ((p["B"],), "int32")}


def reference(p, inputs):
    a, b = inputs["a"], inputs["b"]
    steps = np.arange(p["L"] + 1)
    row = np.broadcast_to(-2 * steps, (p["B"], p["L"] + 1)).astype("int64")
    for i in range(p["M"]):
        sub = np.where(a[:, i : i + 1] == b, 2, -1)
        new = np.full(row.shape, -2 * (i + 1), "int64")
        new[:, 1:] = np.maximum(row[:, :-1] + sub, row[:, 1:] - 2)
        # Gaps along the row are a running maximum of the score plus twice the column.
        row = np.maximum.accumulate(new + 2 * steps, axis=1) - 2 * steps
    return {"score": row[:, -1].astype("float64")}


def flops(p):
    return 5 * p["B"] * p["M"] * p["L"]


def bytes(p):
    return p["B"] * (p["M"] + p["L"] + 4)
