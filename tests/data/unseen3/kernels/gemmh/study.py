"""C = A·Bᵀ in half with float sums: A is M×K, B is N×K, both row-major (a linear layer)."""

import numpy as np

title = "Half linear layer, float accumulators"
input_names = ("a", "b")
problems = {
    "m1024": {"M": 1024, "N": 1024, "K": 512, "uses": ("profile", "verify")},
    "small": {"M": 128, "N": 256, "K": 96, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "float sums of exact products of halves"


def inputs(p, rng):
    return {
        "a": rng.standard_normal((p["M"], p["K"])).astype("float16"),
        "b": rng.standard_normal((p["N"], p["K"])).astype("float16"),
    }


def outputs(p):
    return {"c": ((p["M"], p["N"]), "float32")}


def reference(p, inputs):
    return {"c": inputs["a"].astype("float64") @ inputs["b"].astype("float64").T}


def flops(p):
    return 2 * p["M"] * p["N"] * p["K"]


def bytes(p):
    return 2 * p["K"] * (p["M"] + p["N"]) + 4 * p["M"] * p["N"]
