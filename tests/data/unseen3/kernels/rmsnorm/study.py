"""h = x + residual, y = h / rms(h) · g, all in half, rows of C; h is written too."""

import numpy as np

title = "RMS norm of a sum with the residual, in half"
input_names = ("x", "residual", "g")
problems = {
    "r2048": {"R": 2048, "C": 1024, "uses": ("profile", "verify")},
    "odd": {"R": 7, "C": 264, "uses": ("verify",)},
}
tolerance = 2e-3
tolerance_why = "outputs are halves, and the sum is rounded to half before or after its norm"


def inputs(p, rng):
    s = (p["R"], p["C"])
    return {
        "x": rng.standard_normal(s).astype("float16"),
        "residual": rng.standard_normal(s).astype("float16"),
        "g": (1 + 0.1 * rng.standard_normal(p["C"])).astype("float16"),
    }


def outputs(p):
    return {"h": ((p["R"], p["C"]), "float16"), "y": ((p["R"], p["C"]), "float16")}


def reference(p, inputs):
    h = inputs["x"].astype("float64") + inputs["residual"].astype("float64")
    y = h / np.sqrt((h * h).mean(1, keepdims=True) + 1e-6) * inputs["g"].astype("float64")
    return {"h": h, "y": y}


def flops(p):
    return 5 * p["R"] * p["C"]


def bytes(p):
    return 8 * p["R"] * p["C"] + 2 * p["C"]
