"""Two sorted arrays merged"""

import numpy as np

title = "Two sorted arrays merged"
input_names = ("a", "b")
problems = {
    "n": {"A": 9000, "B": 7001, "uses": ("profile", "verify")},
    "s": {"A": 100, "B": 1500, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "a": np.sort(rng.integers(0, 1 << 20, p["A"], dtype="int32")),
        "b": np.sort(rng.integers(0, 1 << 20, p["B"], dtype="int32")),
    }


def outputs(p):
    return {"c": ((p["A"] + p["B"],), "int32")}


def reference(p, inputs):
    return {"c": np.sort(np.concatenate([inputs["a"], inputs["b"]])).astype("float64")}


def flops(p):
    return 1000


def bytes(p):
    return 1000
