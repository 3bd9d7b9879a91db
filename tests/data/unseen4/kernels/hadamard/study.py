"""Walsh-Hadamard transform of every row of an R×N matrix, in natural order, scaled by 1/√N."""

import numpy as np

title = "Fast Walsh-Hadamard transform of rows"
input_names = ("x",)
problems = {
    "r1000": {"R": 1000, "N": 1024, "uses": ("profile", "verify")},
    "odd": {"R": 13, "N": 256, "uses": ("verify",)},
    "few": {"R": 3, "N": 1024, "uses": ("verify",)},
}
tolerance = 1e-6
tolerance_why = "ten float32 additions for each element, and a scaling"


def inputs(p, rng):
    return {"x": rng.standard_normal((p["R"], p["N"]), dtype="float32")}


def outputs(p):
    return {"y": ((p["R"], p["N"]), "float32")}


def reference(p, inputs):
    a = inputs["x"].astype("float64")
    h = 1
    while h < p["N"]:
        pairs = a.reshape(p["R"], p["N"] // (2 * h), 2, h)
        a = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
        a = a.reshape(p["R"], p["N"])
        h *= 2
    return {"y": a / np.sqrt(p["N"])}


def flops(p):
    return p["R"] * p["N"] * (p["N"].bit_length() - 1)


def bytes(p):
    return 8 * p["R"] * p["N"]
