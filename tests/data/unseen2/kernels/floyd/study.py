"""All shortest paths, 64 nodes"""

import numpy as np

title = "All shortest paths, 64 nodes"
input_names = ("w",)
problems = {"n64": {"N": 64, "uses": ("profile", "verify")}}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    w = rng.integers(1, 100, (p["N"], p["N"])).astype("int32")
    np.fill_diagonal(w, 0)
    return {"w": w}


def outputs(p):
    return {"d": ((p["N"], p["N"]), "int32")}


def reference(p, inputs):
    d = inputs["w"].astype("float64").copy()
    for k in range(p["N"]):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1])
    return {"d": d}


def flops(p):
    return 1000


def bytes(p):
    return 1000
