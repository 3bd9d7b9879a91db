"""Where a pattern stands in a text"""

import numpy as np

title = "Where a pattern stands in a text"
input_names = ("text", "pattern")
problems = {
    "n": {"N": 5000, "M": 6, "uses": ("profile", "verify")},
    "s": {"N": 333, "M": 4, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "text": rng.integers(97, 99, p["N"]).astype("uint8"),
        "pattern": rng.integers(97, 99, p["M"]).astype("uint8"),
    }


def outputs(p):
    return {"hit": ((p["N"],), "uint8"), "count": ((1,), "int32")}


def reference(p, inputs):
    t = inputs["text"].tobytes()
    q = inputs["pattern"].tobytes()
    h = np.array([float(t[i : i + len(q)] == q) for i in range(len(t))])
    return {"hit": h, "count": np.array([h.sum()])}


def flops(p):
    return 1000


def bytes(p):
    return 1000
