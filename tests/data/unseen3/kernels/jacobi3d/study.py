"""One Jacobi step of the seven-point Laplacian in three dimensions; the faces are copied."""

import numpy as np

title = "Jacobi step in three dimensions"
input_names = ("u", "f")
problems = {
    "n256": {"NX": 256, "NY": 128, "NZ": 96, "uses": ("profile", "verify")},
    "odd": {"NX": 37, "NY": 21, "NZ": 9, "uses": ("verify",)},
}
tolerance = 1e-6
tolerance_why = "seven terms in float32"


def inputs(p, rng):
    s = (p["NZ"], p["NY"], p["NX"])
    return {"u": rng.standard_normal(s, dtype="float32"), "f": rng.standard_normal(s, dtype="float32")}


def outputs(p):
    return {"v": ((p["NZ"], p["NY"], p["NX"]), "float32")}


def reference(p, inputs):
    u, f = inputs["u"].astype("float64"), inputs["f"].astype("float64")
    v = u.copy()
    c = slice(1, -1)
    around = u[2:, c, c] + u[:-2, c, c] + u[c, 2:, c] + u[c, :-2, c] + u[c, c, 2:] + u[c, c, :-2]
    v[c, c, c] = (around + f[c, c, c]) / 6
    return {"v": v}


def flops(p):
    return 7 * p["NX"] * p["NY"] * p["NZ"]


def bytes(p):
    return 12 * p["NX"] * p["NY"] * p["NZ"]
