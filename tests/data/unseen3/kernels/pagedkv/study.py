"""Attention scores of one query per sequence against keys in pages of 16 tokens, of varying length.

score[b, h, t] = q[b, h]·k[page[b, t / 16], t % 16, h] / √D for t below the length, else −1.
"""

import numpy as np

title = "Decode scores over a paged key cache"
input_names = ("q", "k", "page", "length")
problems = {
    "b32": {"B": 32, "NH": 4, "D": 128, "T": 512, "NP": 700, "uses": ("profile", "verify")},
    "odd": {"B": 3, "NH": 2, "D": 128, "T": 80, "NP": 31, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "128 exact products of halves, summed in float32"


def inputs(p, rng):
    pages = p["T"] // 16
    return {
        "q": rng.standard_normal((p["B"], p["NH"], p["D"])).astype("float16"),
        "k": rng.standard_normal((p["NP"], 16, p["NH"], p["D"])).astype("float16"),
        "page": rng.integers(0, p["NP"], (p["B"], pages)).astype("int32"),
        "length": rng.integers(p["T"] // 4, p["T"] + 1, p["B"]).astype("int32"),
    }


def outputs(p):
    return {"score": ((p["B"], p["NH"], p["T"]), "float32")}


def reference(p, inputs):
    out = np.full((p["B"], p["NH"], p["T"]), -1.0)
    for b in range(p["B"]):
        n = int(inputs["length"][b])
        k = inputs["k"][inputs["page"][b]].reshape(p["T"], p["NH"], p["D"])[:n].astype("float64")
        out[b, :, :n] = np.einsum("thd,hd->ht", k, inputs["q"][b].astype("float64")) / np.sqrt(p["D"])
    return {"score": out}


def flops(p):
    return 2 * p["B"] * p["NH"] * p["D"] * p["T"] * 5 // 8


def bytes(p):
    return p["B"] * p["NH"] * p["T"] * (2 * p["D"] * 5 // 8 + 4)
