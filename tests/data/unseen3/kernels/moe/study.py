"""Tokens of a mixture of experts brought into the order of their experts, stably, with their rows.

dest[t] is where token t goes; rows of D halves follow it; offset[e] is where expert e begins.
"""

import numpy as np

title = "Mixture-of-experts token permutation"
input_names = ("expert", "x")
problems = {
    "t8192": {"T": 8192, "E": 16, "D": 256, "uses": ("profile", "verify")},
    "odd": {"T": 333, "E": 16, "D": 40, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "a permutation"


def inputs(p, rng):
    e = np.minimum((rng.random(p["T"]) ** 1.4 * p["E"]).astype("int32"), p["E"] - 1)
    return {"expert": e, "x": rng.standard_normal((p["T"], p["D"])).astype("float16")}


def outputs(p):
    return {"offset": ((p["E"] + 1,), "int32"), "dest": ((p["T"],), "int32"), "y": ((p["T"], p["D"]), "float16")}


def reference(p, inputs):
    order = np.argsort(inputs["expert"], kind="stable")
    dest = np.empty(p["T"])
    dest[order] = np.arange(p["T"])
    offset = np.zeros(p["E"] + 1)
    offset[1:] = np.cumsum(np.bincount(inputs["expert"], minlength=p["E"]))
    return {"offset": offset, "dest": dest, "y": inputs["x"][order].astype("float64")}


def flops(p):
    return p["T"] * p["D"]


def bytes(p):
    return 4 * p["T"] * p["D"] + 8 * p["T"]
