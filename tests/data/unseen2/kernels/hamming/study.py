"""Nearest of M codes of 256 bits by Hamming distance"""

import numpy as np

title = "Nearest of M codes of 256 bits by Hamming distance"
input_names = ("q", "base")
problems = {
    "n": {"Q": 64, "M": 256, "uses": ("profile", "verify")},
    "s": {"Q": 9, "M": 100, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "q": rng.integers(0, 1 << 63, (p["Q"], 4)).astype("uint64"),
        "base": rng.integers(0, 1 << 63, (p["M"], 4)).astype("uint64"),
    }


def outputs(p):
    return {"best": ((p["Q"],), "int32"), "dist": ((p["Q"],), "int32")}


def reference(p, inputs):
    d = np.array(
        [
            [sum(bin(int(v)).count("1") for v in (a ^ b)) for b in inputs["base"]]
            for a in inputs["q"]
        ]
    )
    return {"best": d.argmin(1).astype("float64"), "dist": d.min(1).astype("float64")}


def flops(p):
    return 1000


def bytes(p):
    return 1000
