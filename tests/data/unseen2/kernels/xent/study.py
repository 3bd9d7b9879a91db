"""Cross entropy of logits with labels"""

import numpy as np

title = "Cross entropy of logits with labels"
input_names = ("logits", "label")
problems = {
    "n": {"R": 48, "C": 1000, "uses": ("profile", "verify")},
    "s": {"R": 5, "C": 333, "uses": ("verify",)},
}
tolerance = 0.0001
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "logits": rng.standard_normal((p["R"], p["C"]), dtype="float32"),
        "label": rng.integers(0, p["C"], p["R"]).astype("int64"),
    }


def outputs(p):
    return {"loss": ((p["R"],), "float32"), "grad": ((p["R"], p["C"]), "float32")}


def reference(p, inputs):
    x = inputs["logits"].astype("float64")
    m = x.max(1, keepdims=True)
    e = np.exp(x - m)
    s = e.sum(1, keepdims=True)
    g = e / s
    r = np.arange(p["R"])
    loss = np.log(s[:, 0]) + m[:, 0] - x[r, inputs["label"]]
    g[r, inputs["label"]] -= 1
    return {"loss": loss, "grad": g / p["R"]}


def flops(p):
    return 1000


def bytes(p):
    return 1000
