"""Particles put into cells: counts and sums of mass"""

import numpy as np

title = "Particles put into cells: counts and sums of mass"
input_names = ("pos", "mass")
problems = {
    "n": {"N": 3000, "G": 8, "uses": ("profile", "verify")},
    "s": {"N": 100, "G": 4, "uses": ("verify",)},
}
tolerance = 0.0001
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "pos": rng.random((p["N"], 4), dtype="float32"),
        "mass": rng.random(p["N"], dtype="float32"),
    }


def outputs(p):
    return {
        "count": ((p["G"] ** 3,), "int32"),
        "total": ((p["G"] ** 3,), "float32"),
        "order": ((p["N"],), "int32"),
    }


def reference(p, inputs):
    g = p["G"]
    c = np.minimum((inputs["pos"][:, :3] * np.float32(g)).astype(int), g - 1)
    i = c[:, 0] + g * (c[:, 1] + g * c[:, 2])
    t = np.zeros(g**3)
    np.add.at(t, i, inputs["mass"].astype("float64"))
    return {
        "count": np.bincount(i, minlength=g**3).astype("float64"),
        "total": t,
        "order": i.astype("float64"),
    }


def flops(p):
    return 1000


def bytes(p):
    return 1000
