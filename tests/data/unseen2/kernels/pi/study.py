"""Points in the circle, by Philox or xorshift"""

import numpy as np

title = "Points in the circle, by Philox or xorshift"
input_names = ("seeds",)
problems = {
    "n": {"N": 2048, "T": 32, "uses": ("profile", "verify")},
    "s": {"N": 100, "T": 5, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {"seeds": rng.integers(1, 1 << 31, p["N"]).astype("uint32")}


def outputs(p):
    return {"hits": ((1,), "uint32")}


def reference(p, inputs):
    s = inputs["seeds"].astype("uint64")
    hits = 0
    M = np.uint64(0xFFFFFFFF)

    def step(s):
        s = s ^ ((s << np.uint64(13)) & M)
        s = s ^ (s >> np.uint64(17))
        return s ^ ((s << np.uint64(5)) & M)

    for _ in range(p["T"]):
        s = step(s)
        x = (s >> np.uint64(8)).astype("int64")
        s = step(s)
        y = (s >> np.uint64(8)).astype("int64")
        x //= 1 << 8
        y //= 1 << 8
        hits += int((x * x + y * y < (1 << 32)).sum())
    return {"hits": np.array([float(hits)])}


def flops(p):
    return 1000


def bytes(p):
    return 1000
