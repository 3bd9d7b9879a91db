"""One pass of a radix sort: pairs of key and value, stably ordered by eight bits of the key."""

import numpy as np

title = "One stable 8-bit pass of an LSD radix sort, 32-bit keys and values"
input_names = ("keys", "values")
problems = {
    "n250k": {"N": 250007, "SHIFT": 8, "uses": ("profile", "verify")},
    "n5003_top": {"N": 5003, "SHIFT": 24, "uses": ("verify",)},
    "n2049": {"N": 2049, "SHIFT": 0, "uses": ("verify",)},
    "n6": {"N": 6, "SHIFT": 0, "uses": ("verify",)},
}
tolerance = 0
tolerance_why = "integers"


def inputs(p, rng):
    # Skewed: squares of uniform numbers make small digits at the top more frequent.
    u = rng.random(p["N"])
    return {
        "keys": (u * u * 4294967295.0).astype("uint32"),
        "values": rng.permutation(p["N"]).astype("uint32"),
    }


def outputs(p):
    return {"sorted_keys": ((p["N"],), "uint32"), "sorted_values": ((p["N"],), "uint32")}


def reference(p, inputs):
    digit = (inputs["keys"] >> np.uint32(p["SHIFT"])) & np.uint32(255)
    order = np.argsort(digit, kind="stable")
    return {
        "sorted_keys": inputs["keys"][order].astype("float64"),
        "sorted_values": inputs["values"][order].astype("float64"),
    }


def flops(p):
    return p["N"]


def bytes(p):
    return 16 * p["N"]
