"""One step of AdamW: bfloat16 gradients, float32 weights and moments, a bfloat16 copy of the weights.

Bfloat16 travels as its bits in uint16; the new copy is rounded to nearest even.
"""

import numpy as np

title = "AdamW step with bfloat16 gradients"
input_names = ("grad", "w", "m", "v")
problems = {
    "n2m": {"N": 2000001, "uses": ("profile", "verify")},
    "odd": {"N": 1021, "uses": ("verify",)},
}
tolerance = 2e-6
tolerance_why = "a handful of float32 operations"


def inputs(p, rng):
    n = p["N"]
    g = rng.standard_normal(n, dtype="float32") * np.float32(0.1)
    return {
        "grad": (g.view("uint32") >> 16).astype("uint16"),
        "w": rng.standard_normal(n, dtype="float32"),
        "m": rng.standard_normal(n, dtype="float32") * np.float32(0.01),
        "v": rng.random(n, dtype="float32") * np.float32(0.01),
    }


def outputs(p):
    n = (p["N"],)
    return {"w2": (n, "float32"), "m2": (n, "float32"), "v2": (n, "float32")}


def reference(p, inputs):
    g = (inputs["grad"].astype("uint32") << 16).view("float32").astype("float64")
    w, m, v = (inputs[k].astype("float64") for k in ("w", "m", "v"))
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    w = w - 1e-3 * (m / 0.271 / (np.sqrt(v / 0.002997) + 1e-8) + 0.01 * w)
    return {"w2": w, "m2": m, "v2": v}


def flops(p):
    return 16 * p["N"]


def bytes(p):
    return 28 * p["N"]
