"""A Bloom filter of 2^LOG bits and three hashes: keys go in, queries are tested; 64-bit keys."""

import numpy as np

title = "Bloom filter: build and probe"
input_names = ("keys", "queries")
problems = {
    "n256k": {"N": 262144, "Q": 524288, "LOG": 22, "uses": ("profile", "verify")},
    "odd": {"N": 301, "Q": 777, "LOG": 12, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "bits"


def inputs(p, rng):
    keys = rng.integers(1, 1 << 62, p["N"]).astype("uint64")
    other = rng.integers(1, 1 << 62, p["Q"]).astype("uint64")
    return {"keys": keys, "queries": np.where(rng.random(p["Q"]) < 0.3, rng.choice(keys, p["Q"]), other)}


def outputs(p):
    return {"bits": ((1 << p["LOG"] - 5,), "uint32"), "maybe": ((p["Q"],), "uint8")}


def places(key, log):
    h = key ^ (key >> np.uint64(33))
    h = h * np.uint64(0xFF51AFD7ED558CCD)
    h = h ^ (h >> np.uint64(33))
    a, b = h & np.uint64(0xFFFFFFFF), h >> np.uint64(32)
    return [((a + np.uint64(k) * b) & np.uint64((1 << log) - 1)).astype("int64") for k in range(3)]


def reference(p, inputs):
    bits = np.zeros(1 << p["LOG"], bool)
    for at in places(inputs["keys"], p["LOG"]):
        bits[at] = True
    maybe = np.ones(p["Q"], bool)
    for at in places(inputs["queries"], p["LOG"]):
        maybe &= bits[at]
    words = (bits.reshape(-1, 32) * (2.0 ** np.arange(32))).sum(1)
    return {"bits": words, "maybe": maybe.astype("float64")}


def flops(p):
    return 12 * (p["N"] + p["Q"])


def bytes(p):
    return 8 * p["N"] + 9 * p["Q"] + (2 << p["LOG"]) // 8
