"""Sobel edge detection on an 8-bit image: gradient magnitude and a binary edge map.

Border pixels see the image continued by its outermost row or column. The magnitude is the
root of gx² + gy², cut to an integer and to at most 255; an edge is where it exceeds T.
"""

import numpy as np

title = "Sobel edges of an 8-bit image"
input_names = ("image",)
problems = {
    "hd": {"H": 720, "W": 1280, "T": 90, "uses": ("profile", "verify")},
    "odd": {"H": 61, "W": 83, "T": 70, "uses": ("verify",)},
}
tolerance = 0
tolerance_why = "integers below 2^24, whose square roots float32 cuts to the right integer"


def inputs(p, rng):
    y, x = np.mgrid[0 : p["H"], 0 : p["W"]]
    shapes = 70 * (np.sin(x / 17.0) > 0.3) + 60 * (np.cos((x + 2 * y) / 23.0) > 0) + 40
    noise = rng.integers(0, 40, (p["H"], p["W"]))
    return {"image": (shapes + noise).astype("uint8")}


def outputs(p):
    shape = (p["H"], p["W"])
    return {"magnitude": (shape, "uint8"), "edges": (shape, "uint8")}


def reference(p, inputs):
    h, w = p["H"], p["W"]
    a = np.pad(inputs["image"].astype("int64"), 1, mode="edge")

    def at(dy, dx):
        return a[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]

    gx = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1)
    gy = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1)
    m = np.minimum(np.floor(np.sqrt((gx * gx + gy * gy).astype("float64"))), 255)
    return {"magnitude": m, "edges": 255.0 * (m > p["T"])}


def flops(p):
    return 16 * p["H"] * p["W"]


def bytes(p):
    return 3 * p["H"] * p["W"]
