"""Bilinear resize of an interleaved 8-bit RGB image, H×W to OH×OW.

Pixel centres stand at half integers; positions beyond the outermost centres take the
outermost pixel. Results are rounded to the nearest integer.
"""

import numpy as np

title = "Bilinear resize of an RGB image"
input_names = ("src",)
problems = {
    "up": {"H": 443, "W": 601, "OH": 719, "OW": 1000, "uses": ("profile", "verify")},
    "mixed": {"H": 37, "W": 95, "OH": 64, "OW": 53, "uses": ("verify",)},
    "odd": {"H": 29, "W": 211, "OH": 31, "OW": 303, "uses": ("verify",)},
}
tolerance = 2e-3
tolerance_why = "a value next to a half may be rounded either way: one unit in a few hundred pixels"


def derive(p):
    """Source pixels that 256 output pixels in a row may touch."""
    return {"SPAN": -(-256 * p["W"] // p["OW"]) + 3}


def inputs(p, rng):
    return {"src": rng.integers(0, 256, (p["H"], p["W"], 3), dtype="uint8")}


def outputs(p):
    return {"dst": ((p["OH"], p["OW"], 3), "uint8")}


def _taps(n_out, n_in):
    f = np.clip((np.arange(n_out) + 0.5) * n_in / n_out - 0.5, 0, n_in - 1)
    i = np.floor(f).astype("int64")
    return i, np.minimum(i + 1, n_in - 1), f - i


def reference(p, inputs):
    s = inputs["src"].astype("float64")
    y0, y1, wy = _taps(p["OH"], p["H"])
    x0, x1, wx = _taps(p["OW"], p["W"])
    rows = s[y0] * (1 - wy)[:, None, None] + s[y1] * wy[:, None, None]
    out = rows[:, x0] * (1 - wx)[None, :, None] + rows[:, x1] * wx[None, :, None]
    return {"dst": np.floor(out + 0.5)}


def flops(p):
    return 3 * 9 * p["OH"] * p["OW"]


def bytes(p):
    return 3 * (p["H"] * p["W"] + p["OH"] * p["OW"])
