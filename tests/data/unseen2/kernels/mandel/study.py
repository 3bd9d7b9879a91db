"""Mandelbrot counts"""

import numpy as np

title = "Mandelbrot counts"
input_names = ()
problems = {
    "n": {"W": 96, "H": 64, "T": 64, "uses": ("profile", "verify")},
    "s": {"W": 50, "H": 31, "T": 20, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {}


def outputs(p):
    return {"n": ((p["H"], p["W"]), "int32")}


def reference(p, inputs):
    f = np.float64
    y, x = np.mgrid[0 : p["H"], 0 : p["W"]]
    cr = x.astype(f) * f(3.0 / 128) - f(2.0)
    ci = y.astype(f) * f(1.0 / 32) - f(1.0)
    zr = np.zeros_like(cr)
    zi = np.zeros_like(cr)
    n = np.zeros(cr.shape, int)
    on = np.ones(cr.shape, bool)
    with np.errstate(all="ignore"):
        for _ in range(p["T"]):
            on &= zr * zr + zi * zi < 4.0
            n += on
            zr, zi = zr * zr - zi * zi + cr, (zr * zi + zr * zi) + ci
    return {"n": n.astype("float64")}


def flops(p):
    return 1000


def bytes(p):
    return 1000
