"""The 8 largest of each row, in falling order"""

import numpy as np

title = "The 8 largest of each row, in falling order"
input_names = ("x",)
problems = {
    "r64": {"R": 64, "C": 1024, "uses": ("profile", "verify")},
    "r5": {"R": 5, "C": 1024, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {"x": rng.standard_normal((p["R"], p["C"]), dtype="float32")}


def outputs(p):
    return {"y": ((p["R"], 8), "float32")}


def reference(p, inputs):
    return {"y": -np.sort(-inputs["x"].astype("float64"), axis=1)[:, :8]}


def flops(p):
    return 1000


def bytes(p):
    return 1000
