"""8×8 DCT-II of each block of a grey image, divided by a table and rounded, as JPEG does."""

import numpy as np

title = "8×8 DCT with quantisation"
input_names = ("img", "table")
problems = {
    "hd": {"W": 2048, "H": 1024, "uses": ("profile", "verify")},
    "odd": {"W": 88, "H": 24, "uses": ("verify",)},
}
tolerance = 2e-3
tolerance_why = "a coefficient half way between two integers may go to either"


def inputs(p, rng):
    y, x = np.mgrid[0 : p["H"], 0 : p["W"]]
    img = 128 + 60 * np.sin(x * 0.05) * np.cos(y * 0.07) + rng.normal(0, 20, x.shape)
    t = (1 + (np.arange(8)[:, None] + np.arange(8)) * 0.75 + rng.random((8, 8))).astype("float32")
    return {"img": np.clip(img, 0, 255).astype("uint8"), "table": t}


def outputs(p):
    return {"coef": ((p["H"], p["W"]), "int16")}


def reference(p, inputs):
    k, n = np.mgrid[0:8, 0:8]
    c = np.cos((2 * n + 1) * k * np.pi / 16) * np.where(k == 0, np.sqrt(1 / 8), 0.5)
    b = inputs["img"].astype("float64") - 128
    b = b.reshape(p["H"] // 8, 8, p["W"] // 8, 8).transpose(0, 2, 1, 3)
    f = np.rint(c @ b @ c.T / inputs["table"].astype("float64"))
    return {"coef": f.transpose(0, 2, 1, 3).reshape(p["H"], p["W"])}


def flops(p):
    return 32 * p["W"] * p["H"]


def bytes(p):
    return 3 * p["W"] * p["H"]
