"""LU factors with partial pivoting, solved for one right side, doubles"""

import numpy as np

title = "LU factors with partial pivoting, solved for one right side, doubles"
input_names = ("a", "b")
problems = {
    "b32": {"B": 32, "N": 12, "uses": ("profile", "verify")},
    "b5": {"B": 5, "N": 12, "uses": ("verify",)},
}
tolerance = 1e-08
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "a": rng.standard_normal((p["B"], p["N"], p["N"])),
        "b": rng.standard_normal((p["B"], p["N"])),
    }


def outputs(p):
    return {"x": ((p["B"], p["N"]), "float64")}


def reference(p, inputs):
    return {"x": np.linalg.solve(inputs["a"], inputs["b"][..., None])[..., 0]}


def flops(p):
    return 1000


def bytes(p):
    return 1000
