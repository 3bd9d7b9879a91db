"""Dilation of bytes by a 3x3 square, edges clamped"""

import numpy as np

title = "Dilation of bytes by a 3x3 square, edges clamped"
input_names = ("img",)
problems = {
    "n": {"W": 256, "H": 60, "uses": ("profile", "verify")},
    "s": {"W": 64, "H": 9, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {"img": rng.integers(0, 256, (p["H"], p["W"])).astype("uint8")}


def outputs(p):
    return {"out": ((p["H"], p["W"]), "uint8")}


def reference(p, inputs):
    q = np.pad(inputs["img"], 1, mode="edge")
    h, w = p["H"], p["W"]
    return {
        "out": np.max([q[a : a + h, b : b + w] for a in range(3) for b in range(3)], axis=0).astype(
            "float64"
        )
    }


def flops(p):
    return 1000


def bytes(p):
    return 1000
