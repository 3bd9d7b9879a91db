"""k-means: assignment and the new sums"""

import numpy as np

title = "k-means: assignment and the new sums"
input_names = ("x", "centers")
problems = {
    "n": {"N": 4096, "K": 16, "D": 4, "uses": ("profile", "verify")},
    "s": {"N": 500, "K": 16, "D": 4, "uses": ("verify",)},
}
tolerance = 0.0001
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "x": rng.standard_normal((p["N"], 4), dtype="float32"),
        "centers": rng.standard_normal((p["K"], 4), dtype="float32"),
    }


def outputs(p):
    return {
        "label": ((p["N"],), "int32"),
        "sums": ((p["K"], 4), "float32"),
        "counts": ((p["K"],), "int32"),
    }


def reference(p, inputs):
    x = inputs["x"].astype("float64")
    c = inputs["centers"].astype("float64")
    d = ((x[:, None] - c[None]) ** 2).sum(-1)
    label = d.argmin(1)
    sums = np.zeros((p["K"], 4))
    np.add.at(sums, label, x)
    return {
        "label": label.astype("float64"),
        "sums": sums,
        "counts": np.bincount(label, minlength=p["K"]).astype("float64"),
    }


def flops(p):
    return 1000


def bytes(p):
    return 1000
