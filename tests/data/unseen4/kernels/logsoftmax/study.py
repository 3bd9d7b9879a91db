"""The logarithm of the softmax of each row, and where its largest element stands."""

import numpy as np

title = "Row-wise log-softmax and argmax in float32"
input_names = ("logits",)
problems = {
    "r1500_c1003": {"R": 1500, "C": 1003, "uses": ("profile", "verify")},
    "r21_c130": {"R": 21, "C": 130, "uses": ("verify",)},
    "r10_c5": {"R": 10, "C": 5, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "float32 exponentials, also the fast ones, and sums over a row"


def inputs(p, rng):
    return {"logits": np.float32(4) * rng.standard_normal((p["R"], p["C"]), dtype="float32")}


def outputs(p):
    return {"logp": ((p["R"], p["C"]), "float32"), "best": ((p["R"],), "int32")}


def reference(_p, inputs):
    x = inputs["logits"].astype("float64")
    shifted = x - x.max(axis=1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return {"logp": logp, "best": x.argmax(axis=1).astype("float64")}


def flops(p):
    return 5 * p["R"] * p["C"]


def bytes(p):
    return 8 * p["R"] * p["C"] + 4 * p["R"]
