"""Two steps of the wave equation in two dimensions, eighth order in space, second in time.

next = 2 now − prev + courant · (D_xx now + D_yy now), with nothing but zeros outside of the grid.
`courant` is (c Δt / h)² of each cell.
"""

import numpy as np

title = "2-D wave equation, two time steps, 17-point stencil"
input_names = ("prev", "now", "courant")
problems = {
    "x1024_y700": {"NX": 1024, "NY": 700, "uses": ("profile", "verify")},
    "x100_y37": {"NX": 100, "NY": 37, "uses": ("verify",)},
    "x4_y131": {"NX": 4, "NY": 131, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "some forty float32 operations a cell"

WEIGHTS = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)


def inputs(p, rng):
    shape = (p["NY"], p["NX"])
    return {
        "prev": rng.standard_normal(shape, dtype="float32"),
        "now": rng.standard_normal(shape, dtype="float32"),
        "courant": np.float32(0.05) + np.float32(0.2) * rng.random(shape, dtype="float32"),
    }


def outputs(p):
    return {"wave": ((p["NY"], p["NX"]), "float32")}


def _step(prev, now, courant):
    ny, nx = now.shape
    padded = np.pad(now, 4)
    second = 2 * WEIGHTS[0] * now
    for r in range(1, 5):
        second = second + WEIGHTS[r] * (
            padded[4 : 4 + ny, 4 - r : 4 - r + nx]
            + padded[4 : 4 + ny, 4 + r : 4 + r + nx]
            + padded[4 - r : 4 - r + ny, 4 : 4 + nx]
            + padded[4 + r : 4 + r + ny, 4 : 4 + nx]
        )
    return 2 * now - prev + courant * second


def reference(_p, inputs):
    prev, now, courant = (inputs[k].astype("float64") for k in ("prev", "now", "courant"))
    after = _step(prev, now, courant)
    return {"wave": _step(now, after, courant)}


def flops(p):
    return 2 * 26 * p["NX"] * p["NY"]


def bytes(p):
    return 4 * 4 * p["NX"] * p["NY"]
