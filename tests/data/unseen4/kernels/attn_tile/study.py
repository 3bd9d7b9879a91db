"""Causal attention, forward: O = softmax(Q·Kᵀ / √64, masked) · V for each head.

Q, K, V and O are in float16, heads × sequence × 64.
"""

import numpy as np

title = "Causal attention forward, head dimension 64, float16"
input_names = ("Q", "K", "V")
problems = {
    "h6_s400": {"H": 6, "S": 400, "uses": ("profile", "verify")},
    "h3_s77": {"H": 3, "S": 77, "uses": ("verify",)},
    "h1_s5": {"H": 1, "S": 5, "uses": ("verify",)},
}
tolerance = 2e-3
tolerance_why = "probabilities and output rounded to float16, 2⁻¹¹ each; sums in float32"


def inputs(p, rng):
    shape = (p["H"], p["S"], 64)
    return {k: rng.standard_normal(shape, dtype="float32").astype("float16") for k in ("Q", "K", "V")}


def outputs(p):
    return {"O": ((p["H"], p["S"], 64), "float16")}


def reference(p, inputs):
    q, k, v = (inputs[name].astype("float64") for name in ("Q", "K", "V"))
    scores = q @ k.transpose(0, 2, 1) / 8
    scores[:, ~np.tril(np.ones((p["S"], p["S"]), dtype=bool))] = -np.inf
    weight = np.exp(scores - scores.max(axis=2, keepdims=True))
    return {"O": weight @ v / weight.sum(axis=2, keepdims=True)}


def flops(p):
    return 4 * 64 * p["H"] * (p["S"] * (p["S"] + 1) // 2)


def bytes(p):
    return 4 * 2 * 64 * p["H"] * p["S"]
