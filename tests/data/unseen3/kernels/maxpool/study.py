"""Max pooling 3×3, stride 2, padding 1, NCHW, with the flat index of each maximum."""

import numpy as np

title = "Max pooling 3×3 stride 2 with argmax"
input_names = ("x",)
problems = {
    "resnet": {"P": 256, "H": 112, "W": 112, "uses": ("profile", "verify")},
    "odd": {"P": 5, "H": 19, "W": 37, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "a maximum is one of its inputs"


def derive(p):
    return {"OH": (p["H"] - 1) // 2 + 1, "OW": (p["W"] - 1) // 2 + 1}


def inputs(p, rng):
    return {"x": rng.standard_normal((p["P"], p["H"], p["W"]), dtype="float32")}


def outputs(p):
    s = (p["P"], p["OH"], p["OW"])
    return {"y": (s, "float32"), "index": (s, "int32")}


def reference(p, inputs):
    oh, ow = p["OH"], p["OW"]
    x = np.pad(inputs["x"], ((0, 0), (1, 2), (1, 2)), constant_values=-np.inf)
    best = np.full((p["P"], oh, ow), -np.inf)
    arg = np.zeros(best.shape)
    rows, cols = np.arange(oh)[:, None] * 2 - 1, np.arange(ow)[None] * 2 - 1
    for r in range(3):
        for s in range(3):
            v = x[:, r : r + 2 * oh : 2, s : s + 2 * ow : 2][:, :oh, :ow]
            better = v > best
            best = np.where(better, v, best)
            arg = np.where(better, ((rows + r) * p["W"] + cols + s)[None], arg)
    return {"y": best, "index": arg}


def flops(p):
    return 9 * p["P"] * p["OH"] * p["OW"]


def bytes(p):
    return 4 * p["P"] * (p["H"] * p["W"] + 2 * p["OH"] * p["OW"])
