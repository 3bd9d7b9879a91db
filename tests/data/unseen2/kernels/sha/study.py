"""SHA-256 of one block each"""

import numpy as np

title = "SHA-256 of one block each"
input_names = ("msg",)
problems = {"n": {"N": 512, "uses": ("profile", "verify")}, "s": {"N": 70, "uses": ("verify",)}}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {"msg": rng.integers(0, 1 << 32, (p["N"], 8)).astype("uint32")}


def outputs(p):
    return {"digest": ((p["N"], 8), "uint32")}


def reference(p, inputs):
    import hashlib

    return {
        "digest": np.array(
            [
                np.frombuffer(hashlib.sha256(m.astype(">u4").tobytes()).digest(), ">u4").astype(
                    "float64"
                )
                for m in inputs["msg"]
            ]
        )
    }


def flops(p):
    return 1000


def bytes(p):
    return 1000
