"""Histogram equalization of an 8-bit grey image.

With c(v) the number of pixels up to grey value v, m = c(smallest value present) and n pixels,
v becomes (255 (c(v) − m) + (n − m) // 2) // (n − m), in integers; an image of a single grey
value stays as it is.
"""

import numpy as np

title = "Histogram equalization of an 8-bit image"
input_names = ("image",)
problems = {
    "w1500_h1001": {"W": 1500, "H": 1001, "uses": ("profile", "verify")},
    "w123_h57": {"W": 123, "H": 57, "uses": ("verify",)},
    "pixels": {"W": 5, "H": 1, "uses": ("verify",)},
}
tolerance = 0
tolerance_why = "integer arithmetic"


def inputs(p, rng):
    # Dark, low in contrast, with a smooth gradient: what one equalizes.
    y, x = np.mgrid[0 : p["H"], 0 : p["W"]]
    smooth = 60 + 30 * np.sin(x / 190.0) * np.cos(y / 130.0)
    noisy = smooth + 6 * rng.standard_normal((p["H"], p["W"]))
    return {"image": np.clip(np.rint(noisy), 0, 255).astype("uint8")}


def outputs(p):
    return {"equal": ((p["H"], p["W"]), "uint8")}


def reference(_p, inputs):
    image = inputs["image"]
    counts = np.bincount(image.ravel(), minlength=256).astype("int64")
    upto = np.cumsum(counts)
    first = upto[np.nonzero(counts)[0][0]]
    rest = image.size - first
    if rest == 0:
        return {"equal": image.astype("float64")}
    table = np.maximum(255 * (upto - first) + rest // 2, 0) // rest
    return {"equal": table[image].astype("float64")}


def flops(p):
    return p["W"] * p["H"]


def bytes(p):
    return 2 * p["W"] * p["H"]
