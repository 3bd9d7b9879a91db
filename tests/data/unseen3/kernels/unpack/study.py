"""Delta-coded integers in blocks of 128: a first value, a width in bits, and packed deltas.

The words of block b start at offset[b]; value i of a block is first + the sum of its deltas 0 … i.
"""

import numpy as np

title = "Decode of delta and bit-packed blocks"
input_names = ("packed", "offset", "width", "first")
problems = {
    "b16k": {"B": 16384, "uses": ("profile", "verify")},
    "odd": {"B": 37, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "integers"


def inputs(p, rng):
    b = p["B"]
    width = rng.integers(1, 14, b)
    delta = rng.integers(0, 1 << 13, (b, 128)) & ((1 << width[:, None]) - 1)
    words = width * 4
    offset = np.concatenate([[0], np.cumsum(words)])
    bit = np.arange(128)[None] * width[:, None]
    flat = np.zeros(b * 52 + 1, "uint64")
    at = offset[:-1, None] + bit // 32
    wide = delta.astype("uint64") << (bit % 32).astype("uint64")
    np.add.at(flat, at, wide & np.uint64(0xFFFFFFFF))
    np.add.at(flat, at + 1, wide >> np.uint64(32))
    return {
        "packed": flat.astype("uint32"),
        "offset": offset.astype("int32"),
        "width": width.astype("uint8"),
        "first": rng.integers(0, 1 << 20, b).astype("int32"),
    }


def outputs(p):
    return {"value": ((p["B"], 128), "int32")}


def reference(p, inputs):
    flat = np.concatenate([inputs["packed"], [0]]).astype("uint64")
    width = inputs["width"].astype("int64")[:, None]
    bit = np.arange(128)[None] * width
    at = inputs["offset"][:-1, None] + bit // 32
    both = flat[at] | flat[at + 1] << np.uint64(32)
    delta = (both >> (bit % 32).astype("uint64")).astype("int64") & ((1 << width) - 1)
    return {"value": (inputs["first"][:, None] + delta.cumsum(1)).astype("float64")}


def flops(p):
    return 128 * 6 * p["B"]


def bytes(p):
    return p["B"] * (512 + 28 * 4 + 9)
