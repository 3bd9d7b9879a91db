"""One red-black Gauss-Seidel sweep"""

import numpy as np

title = "One red-black Gauss-Seidel sweep"
input_names = ("u0", "f")
problems = {
    "n": {"W": 130, "H": 66, "uses": ("profile", "verify")},
    "s": {"W": 35, "H": 20, "uses": ("verify",)},
}
tolerance = 1e-05
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "u0": rng.standard_normal((p["H"], p["W"]), dtype="float32"),
        "f": rng.standard_normal((p["H"], p["W"]), dtype="float32"),
    }


def outputs(p):
    return {"u": ((p["H"], p["W"]), "float32")}


def reference(p, inputs):
    u = inputs["u0"].astype("float64").copy()
    f = inputs["f"].astype("float64")
    jj, ii = np.mgrid[1 : p["H"] - 1, 1 : p["W"] - 1]
    for c in (0, 1):
        new = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - f[1:-1, 1:-1])
        m = (jj + ii) % 2 == c
        u[1:-1, 1:-1][m] = new[m]
    return {"u": u}


def flops(p):
    return 1000


def bytes(p):
    return 1000
