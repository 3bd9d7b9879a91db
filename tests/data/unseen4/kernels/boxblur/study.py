"""Separable box blur of a float image, radius R, borders replicated."""

import numpy as np

title = "Separable box blur in float32"
input_names = ("image",)
problems = {
    "p512": {"H": 512, "W": 1000, "R": 7, "uses": ("profile", "verify")},
    "odd": {"H": 71, "W": 1037, "R": 5, "uses": ("verify",)},
    "small": {"H": 9, "W": 6, "R": 12, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "sums of a few hundred positive float32 numbers, some of them running sums"


def inputs(p, rng):
    return {"image": rng.random((p["H"], p["W"]), dtype="float32")}


def outputs(p):
    return {"blurred": ((p["H"], p["W"]), "float32")}


def reference(p, inputs):
    r = p["R"]
    size = 2 * r + 1
    a = np.pad(inputs["image"].astype("float64"), r, mode="edge")
    rows = sum(a[:, k : k + p["W"]] for k in range(size))
    return {"blurred": sum(rows[k : k + p["H"]] for k in range(size)) / size**2}


def flops(p):
    return 6 * p["H"] * p["W"]


def bytes(p):
    return 8 * p["H"] * p["W"]
