"""FDTD in two dimensions, one step of E and H"""

import numpy as np

title = "FDTD in two dimensions, one step of E and H"
input_names = ("ex", "ey", "hz")
problems = {
    "n": {"W": 128, "H": 48, "uses": ("profile", "verify")},
    "s": {"W": 37, "H": 19, "uses": ("verify",)},
}
tolerance = 1e-05
tolerance_why = "short sums"


def inputs(p, rng):
    return {k: rng.standard_normal((p["H"], p["W"]), dtype="float32") for k in ("ex", "ey", "hz")}


def outputs(p):
    return {
        "nex": ((p["H"], p["W"]), "float32"),
        "ney": ((p["H"], p["W"]), "float32"),
        "nhz": ((p["H"], p["W"]), "float32"),
    }


def reference(p, inputs):
    ex, ey, hz = (inputs[k].astype("float64").copy() for k in ("ex", "ey", "hz"))
    nex = ex.copy()
    ney = ey.copy()
    nhz = hz.copy()
    nex[1:] -= 0.5 * (hz[1:] - hz[:-1]) * -1 * -1
    ney[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
    nhz[:-1, :-1] -= 0.7 * (nex[:-1, 1:] - nex[:-1, :-1] + ney[1:, :-1] - ney[:-1, :-1])
    return {"nex": nex, "ney": ney, "nhz": nhz}


def flops(p):
    return 1000


def bytes(p):
    return 1000
