"""Rays from one eye through the pixels of a screen against S spheres: one over the distance of the nearest hit, or 0."""

import numpy as np

title = "Nearest sphere along each ray"
input_names = ("sphere",)
problems = {
    "screen": {"W": 640, "H": 480, "S": 64, "uses": ("profile", "verify")},
    "odd": {"W": 37, "H": 19, "S": 11, "uses": ("verify",)},
}
tolerance = 1e-2
tolerance_why = "pixels on a rim may fall to either side in float32"


def inputs(p, rng):
    # Apart in depth by more than two radii, so that no two hits are near each other.
    s = np.empty((p["S"], 4), "float32")
    s[:, 0] = rng.uniform(-8, 8, p["S"])
    s[:, 1] = rng.uniform(-6, 6, p["S"])
    s[:, 2] = rng.permutation(p["S"]) * 2.5 + 10
    s[:, 3] = rng.uniform(0.5, 1.2, p["S"])
    return {"sphere": s}


def outputs(p):
    return {"depth": ((p["H"], p["W"]), "float32")}


def reference(p, inputs):
    y, x = np.mgrid[0 : p["H"], 0 : p["W"]]
    d = np.stack([(x + 0.5) / p["W"] * 2 - 1, (y + 0.5) / p["H"] * 2 - 1, np.full(x.shape, 2.0)], -1)
    d /= np.linalg.norm(d, axis=-1, keepdims=True)
    depth = np.full(x.shape, 1e4)
    for cx, cy, cz, r in inputs["sphere"].astype("float64"):
        b = d @ np.array([cx, cy, cz])
        far2 = cx * cx + cy * cy + cz * cz - b * b
        depth = np.where(far2 < r * r, np.minimum(depth, b - np.sqrt(np.maximum(r * r - far2, 0))), depth)
    return {"depth": np.where(depth < 1e4, 1 / depth, 0.0)}


def flops(p):
    return 14 * p["W"] * p["H"] * p["S"]


def bytes(p):
    return 4 * p["W"] * p["H"] + 16 * p["S"]
