"""Marching cubes, first pass: the case of each cell, and how many cells hold surface."""

import numpy as np

title = "Marching cubes classification"
input_names = ("field",)
problems = {
    "n160": {"NX": 160, "NY": 128, "NZ": 96, "uses": ("profile", "verify")},
    "odd": {"NX": 35, "NY": 11, "NZ": 7, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "integers"


def inputs(p, rng):
    z, y, x = np.mgrid[0 : p["NZ"], 0 : p["NY"], 0 : p["NX"]]
    a, b, c = rng.random(3) * 6
    f = np.sin(x * 0.2 + a) + np.sin(y * 0.17 + b) + np.sin(z * 0.25 + c)
    return {"field": f.astype("float32")}


def outputs(p):
    return {"code": ((p["NZ"] - 1, p["NY"] - 1, p["NX"] - 1), "uint8"), "active": ((1,), "int32")}


def reference(p, inputs):
    s = (inputs["field"] > 0).astype(int)
    lo, hi = slice(None, -1), slice(1, None)
    code, bit = 0, 0
    for z in (lo, hi):
        for y in (lo, hi):
            for x in (lo, hi):
                code = code + (s[z, y, x] << bit)
                bit += 1
    active = ((code != 0) & (code != 255)).sum()
    return {"code": code.astype("float64"), "active": np.array([float(active)])}


def flops(p):
    return 8 * p["NX"] * p["NY"] * p["NZ"]


def bytes(p):
    return 5 * p["NX"] * p["NY"] * p["NZ"]
