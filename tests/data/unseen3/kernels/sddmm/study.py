"""Sampled dense-dense product: out[e] = w[e]·⟨x[row], y[col[e]]⟩ for the edges of a CSR matrix."""

import numpy as np

title = "SDDMM on a CSR pattern"
input_names = ("row", "col", "w", "x", "y")
problems = {
    "graph": {"N": 16384, "K": 64, "DEG": 16, "uses": ("profile", "verify")},
    "odd": {"N": 77, "K": 64, "DEG": 5, "uses": ("verify",)},
}
tolerance = 2e-6
tolerance_why = "64 products in float32"


def derive(p):
    return {"E": p["N"] * p["DEG"]}


def inputs(p, rng):
    n, e = p["N"], p["E"]
    # Row lengths that differ: edges thrown at rows, denser at the low ones.
    owner = np.sort((rng.random(e) ** 1.5 * n).astype("int64"))
    row = np.zeros(n + 1, "int32")
    row[1:] = np.cumsum(np.bincount(owner, minlength=n))
    return {
        "row": row,
        "col": rng.integers(0, n, e).astype("int32"),
        "w": rng.standard_normal(e, dtype="float32"),
        "x": rng.standard_normal((n, p["K"]), dtype="float32"),
        "y": rng.standard_normal((n, p["K"]), dtype="float32"),
    }


def outputs(p):
    return {"out": ((p["E"],), "float32")}


def reference(p, inputs):
    owner = np.repeat(np.arange(p["N"]), np.diff(inputs["row"]))
    x, y = inputs["x"].astype("float64"), inputs["y"].astype("float64")
    return {"out": inputs["w"] * np.einsum("ek,ek->e", x[owner], y[inputs["col"]])}


def flops(p):
    return p["E"] * (2 * p["K"] + 1)


def bytes(p):
    return 4 * (p["N"] * (2 * p["K"] + 1) + 3 * p["E"])
