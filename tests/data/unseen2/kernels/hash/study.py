"""Hash table: insert keys with values, look queries up"""

import numpy as np

title = "Hash table: insert keys with values, look queries up"
input_names = ("keys", "values", "queries")
problems = {
    "n4096": {"N": 4096, "Q": 5000, "CAP": 8192, "uses": ("profile", "verify")},
    "n300": {"N": 300, "Q": 77, "CAP": 1024, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    keys = rng.permutation(1 << 20)[: p["N"]].astype("uint32") + 1
    q = np.where(
        rng.random(p["Q"]) < 0.6, rng.choice(keys, p["Q"]), rng.integers(1 << 21, 1 << 22, p["Q"])
    ).astype("uint32")
    return {"keys": keys, "values": rng.integers(0, 1 << 20, p["N"]).astype("uint32"), "queries": q}


def outputs(p):
    return {"found": ((p["Q"],), "uint32")}


def reference(p, inputs):
    d = dict(zip(inputs["keys"].tolist(), inputs["values"].tolist()))
    return {"found": np.array([float(d.get(k, 0xFFFFFFFF)) for k in inputs["queries"].tolist()])}


def flops(p):
    return 1000


def bytes(p):
    return 1000
