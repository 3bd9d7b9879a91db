"""CRC-32 of messages of 64 bytes"""

import numpy as np

title = "CRC-32 of messages of 64 bytes"
input_names = ("msg", "table")
problems = {"n": {"N": 1000, "uses": ("profile", "verify")}, "s": {"N": 77, "uses": ("verify",)}}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    t = []
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ (0xEDB88320 if c & 1 else 0)
        t.append(c)
    return {
        "msg": rng.integers(0, 256, (p["N"], 64)).astype("uint8"),
        "table": np.array(t, "uint32"),
    }


def outputs(p):
    return {"crc": ((p["N"],), "uint32")}


def reference(p, inputs):
    import zlib

    return {"crc": np.array([float(zlib.crc32(m.tobytes())) for m in inputs["msg"]])}


def flops(p):
    return 1000


def bytes(p):
    return 1000
