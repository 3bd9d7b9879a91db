"""The five nearest of N points in space for each of Q queries, by brute force.

Coordinates are small integers held in float32, so squared distances are exact and there are
ties; of two points as far away, the one of the lower index comes first.
"""

import numpy as np

title = "Brute-force 5 nearest neighbours in three dimensions"
K = 5
input_names = ("points", "queries")
problems = {
    "q4000": {"N": 1500, "Q": 4000, "uses": ("profile", "verify")},
    "odd": {"N": 701, "Q": 77, "uses": ("verify",)},
    "few": {"N": 6, "Q": 19, "uses": ("verify",)},
}
tolerance = 0
tolerance_why = "integers below 2^24"


def inputs(p, rng):
    return {
        "points": rng.integers(0, 100, (p["N"], 3)).astype("float32"),
        "queries": rng.integers(0, 100, (p["Q"], 3)).astype("float32"),
    }


def outputs(p):
    return {"distance": ((p["Q"], K), "float32"), "index": ((p["Q"], K), "int32")}


def reference(p, inputs):
    points, queries = (inputs[k].astype("float64") for k in ("points", "queries"))
    d = sum((queries[:, None, a] - points[None, :, a]) ** 2 for a in range(3))
    order = np.argsort(d, axis=1, kind="stable")[:, :K]
    return {"distance": np.take_along_axis(d, order, axis=1), "index": order.astype("float64")}


def flops(p):
    return 8 * p["N"] * p["Q"]


def bytes(p):
    return 12 * (p["N"] + p["Q"]) + 8 * K * p["Q"]
