"""RGBA bytes to planar YUV 4:2:0 in integer arithmetic of eight fractional bits; even sizes."""

import numpy as np

title = "RGBA to YUV 4:2:0"
input_names = ("rgba",)
problems = {
    "hd": {"W": 1920, "H": 1080, "uses": ("profile", "verify")},
    "odd": {"W": 74, "H": 22, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "integers"


def inputs(p, rng):
    return {"rgba": rng.integers(0, 256, (p["H"], p["W"], 4)).astype("uint8")}


def outputs(p):
    c = (p["H"] // 2, p["W"] // 2)
    return {"luma": ((p["H"], p["W"]), "uint8"), "u": (c, "uint8"), "v": (c, "uint8")}


def reference(p, inputs):
    r, g, b = (inputs["rgba"][..., k].astype(int) for k in range(3))
    luma = ((66 * r + 129 * g + 25 * b + 128) >> 8) + 16
    r, g, b = ((q[::2, ::2] + q[::2, 1::2] + q[1::2, ::2] + q[1::2, 1::2] + 2) >> 2 for q in (r, g, b))
    u = ((-38 * r - 74 * g + 112 * b + 128) >> 8) + 128
    v = ((112 * r - 94 * g - 18 * b + 128) >> 8) + 128
    return {"luma": luma.astype("float64"), "u": u.astype("float64"), "v": v.astype("float64")}


def flops(p):
    return 12 * p["W"] * p["H"]


def bytes(p):
    return 11 * p["W"] * p["H"] // 2
