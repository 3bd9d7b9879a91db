"""Lattice Boltzmann D2Q9, one step, periodic"""

import numpy as np

title = "Lattice Boltzmann D2Q9, one step, periodic"
input_names = ("f",)
problems = {
    "n": {"W": 96, "H": 40, "uses": ("profile", "verify")},
    "s": {"W": 33, "H": 17, "uses": ("verify",)},
}
tolerance = 1e-05
tolerance_why = "short sums"
CX = [0, 1, 0, -1, 0, 1, -1, -1, 1]
CY = [0, 0, 1, 0, -1, 1, 1, -1, -1]
WT = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4


def inputs(p, rng):
    return {
        "f": (np.array(WT)[:, None, None] * (1 + 0.1 * rng.random((9, p["H"], p["W"])))).astype(
            "float32"
        )
    }


def outputs(p):
    return {"g": ((9, p["H"], p["W"]), "float32")}


def reference(p, inputs):
    f = inputs["f"].astype("float64")
    s = np.stack([np.roll(f[k], (CY[k], CX[k]), (0, 1)) for k in range(9)])
    rho = s.sum(0)
    ux = sum(CX[k] * s[k] for k in range(9)) / rho
    uy = sum(CY[k] * s[k] for k in range(9)) / rho
    out = []
    for k in range(9):
        cu = 3 * (CX[k] * ux + CY[k] * uy)
        eq = WT[k] * rho * (1 + cu + 0.5 * cu * cu - 1.5 * (ux * ux + uy * uy))
        out.append(s[k] + 1.2 * (eq - s[k]))
    return {"g": np.stack(out)}


def flops(p):
    return 1000


def bytes(p):
    return 1000
