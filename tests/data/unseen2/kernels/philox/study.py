"""Uniform numbers by Philox 4x32-10, dropout"""

import numpy as np

title = "Uniform numbers by Philox 4x32-10, dropout"
input_names = ("x",)
problems = {
    "n": {"N": 16384, "SEED": 12345, "uses": ("profile", "verify")},
    "s": {"N": 1000, "SEED": 7, "uses": ("verify",)},
}
tolerance = 1e-06
tolerance_why = "short sums"


def inputs(p, rng):
    return {"x": rng.standard_normal(p["N"], dtype="float32")}


def outputs(p):
    return {"y": ((p["N"],), "float32")}


def reference(p, inputs):
    n4 = -(-p["N"] // 4)
    M = 0xFFFFFFFF
    c = [
        np.arange(n4, dtype="uint64"),
        np.zeros(n4, "uint64"),
        np.zeros(n4, "uint64"),
        np.zeros(n4, "uint64"),
    ]
    k0, k1 = p["SEED"], 0
    for r in range(10):
        p0 = c[0] * np.uint64(0xD2511F53)
        p1 = c[2] * np.uint64(0xCD9E8D57)
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & np.uint64(M),
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & np.uint64(M),
        ]
        k0 = (k0 + 0x9E3779B9) & M
        k1 = (k1 + 0xBB67AE85) & M
    u = np.stack(c, 1).reshape(-1)[: p["N"]]
    return {"y": np.where(u < np.uint64(0xC0000000), inputs["x"].astype("float64") / 0.75, 0.0)}


def flops(p):
    return 1000


def bytes(p):
    return 1000
