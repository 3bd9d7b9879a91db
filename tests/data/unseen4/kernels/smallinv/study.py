"""Inverses of B matrices of 8×8 in float32, by Gauss-Jordan elimination with row pivoting.

The matrices have one large element in each row and column, in random places: well conditioned,
but wrong or far off without pivoting.
"""

import numpy as np

title = "Batched inverse of 8x8 matrices"
input_names = ("A",)
problems = {
    "b20k": {"B": 20000, "uses": ("profile", "verify")},
    "odd": {"B": 77, "uses": ("verify",)},
}
tolerance = 2e-5
tolerance_why = "float32 elimination of matrices with condition numbers of about ten"


def inputs(p, rng):
    a = rng.uniform(-1, 1, (p["B"], 8, 8))
    large = np.eye(8)[np.argsort(rng.random((p["B"], 8)), axis=1)]
    sign = rng.choice([-1.0, 1.0], (p["B"], 8, 1))
    return {"A": (a + 6 * sign * large).astype("float32")}


def outputs(p):
    return {"inverse": ((p["B"], 8, 8), "float32")}


def reference(p, inputs):
    return {"inverse": np.linalg.inv(inputs["A"].astype("float64"))}


def flops(p):
    return 2 * 8**3 * p["B"]


def bytes(p):
    return 2 * 4 * 64 * p["B"]
