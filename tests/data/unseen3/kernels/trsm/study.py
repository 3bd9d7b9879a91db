"""L·X = B for a lower triangle of 32×32 and many right sides, row-major B of 32×C, doubles."""

import numpy as np

title = "Triangular solve, 32×32, many right sides"
input_names = ("l", "b")
problems = {
    "c64k": {"C": 65536, "uses": ("profile", "verify")},
    "odd": {"C": 131, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "a well conditioned triangle"


def inputs(p, rng):
    l = np.tril(rng.standard_normal((32, 32))) * 0.2
    np.fill_diagonal(l, 1 + rng.random(32))
    return {"l": l, "b": rng.standard_normal((32, p["C"]))}


def outputs(p):
    return {"x": ((32, p["C"]), "float64")}


def reference(p, inputs):
    return {"x": np.linalg.solve(inputs["l"], inputs["b"])}


def flops(p):
    return 32 * 32 * p["C"]


def bytes(p):
    return 8 * (2 * 32 * p["C"] + 1024)
