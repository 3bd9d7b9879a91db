"""Game of life, one generation, torus, 32 cells a word"""

import numpy as np

title = "Game of life, one generation, torus, 32 cells a word"
input_names = ("cells",)
problems = {
    "n": {"W": 8, "H": 64, "uses": ("profile", "verify")},
    "s": {"W": 3, "H": 10, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {"cells": rng.integers(0, 1 << 32, (p["H"], p["W"])).astype("uint32")}


def outputs(p):
    return {"next": ((p["H"], p["W"]), "uint32")}


def reference(p, inputs):
    b = (
        ((inputs["cells"][..., None] >> np.arange(32, dtype="uint32")) & 1)
        .reshape(p["H"], -1)
        .astype(int)
    )
    n = sum(np.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - b
    o = ((n == 3) | ((n == 2) & (b == 1))).reshape(p["H"], p["W"], 32)
    return {"next": (o * (2.0 ** np.arange(32))).sum(-1)}


def flops(p):
    return 1000


def bytes(p):
    return 1000
