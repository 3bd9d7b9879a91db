"""Embedding bag: means of rows of a table"""

import numpy as np

title = "Embedding bag: means of rows of a table"
input_names = ("table", "index", "offsets")
problems = {
    "n": {"V": 500, "D": 64, "B": 100, "uses": ("profile", "verify")},
    "s": {"V": 50, "D": 64, "B": 9, "uses": ("verify",)},
}
tolerance = 0.0001
tolerance_why = "short sums"


def inputs(p, rng):
    l = rng.integers(0, 12, p["B"])
    o = np.zeros(p["B"] + 1, np.int64)
    o[1:] = np.cumsum(l)
    return {
        "table": rng.standard_normal((p["V"], p["D"]), dtype="float32"),
        "index": rng.integers(0, p["V"], 12 * p["B"]).astype("int64"),
        "offsets": o,
    }


def outputs(p):
    return {"y": ((p["B"], p["D"]), "float32")}


def reference(p, inputs):
    t = inputs["table"].astype("float64")
    o = inputs["offsets"]
    y = np.zeros((p["B"], p["D"]))
    for b in range(p["B"]):
        if o[b + 1] > o[b]:
            y[b] = t[inputs["index"][o[b] : o[b + 1]]].mean(0)
    return {"y": y}


def flops(p):
    return 1000


def bytes(p):
    return 1000
