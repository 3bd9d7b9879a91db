"""Four numbers of two vectors at once: x·y, the Euclidean norms of both, and the sum of |x|."""

import numpy as np

title = "Fused dot product and norms of two float32 vectors"
input_names = ("x", "y")
problems = {
    "n3m": {"N": 3000001, "uses": ("profile", "verify")},
    "odd": {"N": 10007, "uses": ("verify",)},
    "tiny": {"N": 3, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "sums of a few thousand float32 terms a thread at most, then trees"


def inputs(p, rng):
    x = rng.standard_normal(p["N"], dtype="float32")
    noise = rng.standard_normal(p["N"], dtype="float32")
    # Correlated, so that the dot product is not a small difference of large sums.
    return {"x": x, "y": (np.float32(0.75) * x + np.float32(0.5) * noise).astype("float32")}


def outputs(_p):
    return {"dot": ((1,), "float32"), "nrm2": ((2,), "float32"), "asum": ((1,), "float32")}


def reference(_p, inputs):
    x, y = inputs["x"].astype("float64"), inputs["y"].astype("float64")
    return {
        "dot": np.array([x @ y]),
        "nrm2": np.sqrt(np.array([x @ x, y @ y])),
        "asum": np.array([np.abs(x).sum()]),
    }


def flops(p):
    return 8 * p["N"]


def bytes(p):
    return 8 * p["N"]
