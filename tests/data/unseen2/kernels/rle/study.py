"""Run lengths"""

import numpy as np

title = "Run lengths"
input_names = ("x",)
problems = {"n": {"N": 2048, "uses": ("profile", "verify")}, "s": {"N": 1000, "uses": ("verify",)}}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {
        "x": np.repeat(rng.integers(0, 1000, p["N"]), rng.integers(1, 9, p["N"]))[: p["N"]].astype(
            "int32"
        )
    }


def outputs(p):
    return {
        "values": ((p["N"],), "int32"),
        "lengths": ((p["N"],), "int32"),
        "runs": ((1,), "int32"),
    }


def reference(p, inputs):
    x = inputs["x"]
    s = np.flatnonzero(np.r_[True, x[1:] != x[:-1]])
    v = np.zeros(p["N"])
    l = np.zeros(p["N"])
    v[: len(s)] = x[s]
    l[: len(s)] = np.diff(np.r_[s, len(x)])
    return {"values": v, "lengths": l, "runs": np.array([float(len(s))])}


def flops(p):
    return 1000


def bytes(p):
    return 1000
