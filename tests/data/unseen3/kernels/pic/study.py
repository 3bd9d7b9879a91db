"""Charge deposition of particles on a periodic grid, cloud in cell: four weights each."""

import numpy as np

title = "Particle-in-cell charge deposition"
input_names = ("pos", "q")
problems = {
    "n1m": {"N": 1048576, "G": 64, "uses": ("profile", "verify")},
    "odd": {"N": 1003, "G": 17, "uses": ("verify",)},
}
tolerance = 2e-5
tolerance_why = "float32 sums of some dozens of deposits in any order"


def inputs(p, rng):
    g = p["G"]
    pos = (rng.random((p["N"], 2), dtype="float32") * np.float32(g)).astype("float32")
    # Half of the particles sit in a beam, as a beam in a plasma does.
    pos[: p["N"] // 2, 0] = (rng.standard_normal(p["N"] // 2) * g / 16 + g / 2) % g
    pos = np.minimum(pos, np.nextafter(np.float32(g), np.float32(0)))
    return {"pos": pos.astype("float32"), "q": rng.random(p["N"], dtype="float32")}


def outputs(p):
    return {"rho": ((p["G"], p["G"]), "float32")}


def reference(p, inputs):
    g = p["G"]
    x, y = inputs["pos"].astype("float64").T
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    fx, fy = x - i, y - j
    rho = np.zeros(g * g)
    for dj, wy in ((0, 1 - fy), (1, fy)):
        for di, wx in ((0, 1 - fx), (1, fx)):
            rho += np.bincount((j + dj) % g * g + (i + di) % g, inputs["q"] * wx * wy, g * g)
    return {"rho": rho.reshape(g, g)}


def flops(p):
    return 14 * p["N"]


def bytes(p):
    return 12 * p["N"] + 4 * p["G"] * p["G"]
