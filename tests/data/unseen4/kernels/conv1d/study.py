"""Depthwise causal convolution along time, 16 taps, with bias and SiLU.

y[b, c, t] = silu(bias[c] + Σ_k w[c, k] · x[b, c, t − 15 + k]), with zeros before the start.
"""

import numpy as np

title = "Causal depthwise 1-D convolution, 16 taps, SiLU"
input_names = ("x", "w", "bias")
problems = {
    "b2_c96_l4099": {"B": 2, "C": 96, "L": 4099, "uses": ("profile", "verify")},
    "b3_c5_l777": {"B": 3, "C": 5, "L": 777, "uses": ("verify",)},
    "b1_c7_l520": {"B": 1, "C": 7, "L": 520, "uses": ("verify",)},
    "b2_c3_l6": {"B": 2, "C": 3, "L": 6, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "17 float32 terms and an exponential"

TAPS = 16


def inputs(p, rng):
    return {
        "x": rng.standard_normal((p["B"], p["C"], p["L"]), dtype="float32"),
        "w": np.float32(0.25) * rng.standard_normal((p["C"], TAPS), dtype="float32"),
        "bias": rng.standard_normal(p["C"], dtype="float32"),
    }


def outputs(p):
    return {"y": ((p["B"], p["C"], p["L"]), "float32")}


def reference(p, inputs):
    x, w, bias = (inputs[k].astype("float64") for k in ("x", "w", "bias"))
    padded = np.pad(x, ((0, 0), (0, 0), (TAPS - 1, 0)))
    z = np.zeros(x.shape) + bias[None, :, None]
    for k in range(TAPS):
        z += w[None, :, k, None] * padded[:, :, k : k + p["L"]]
    return {"y": z / (1 + np.exp(-z))}


def flops(p):
    return (2 * TAPS + 5) * p["B"] * p["C"] * p["L"]


def bytes(p):
    return 4 * (2 * p["B"] * p["C"] * p["L"] + p["C"] * (TAPS + 1))
