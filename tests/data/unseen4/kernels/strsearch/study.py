"""Where a few short patterns begin in a text of N letters, and how often each of them does.

P patterns (at most four) of 1 to 16 letters, each in a row of 16 bytes that is filled up with
zeros. Bit p of marks[i] is set where pattern p begins at letter i. The alphabet has four
letters, so that many comparisons fail late.
"""

import numpy as np

title = "Occurrences of short patterns in a text"
input_names = ("text", "patterns", "lengths")
problems = {
    "n1m": {"N": 1000003, "P": 3, "uses": ("profile", "verify")},
    "odd": {"N": 2309, "P": 4, "uses": ("verify",)},
    "short": {"N": 18, "P": 2, "uses": ("verify",)},
}
tolerance = 0
tolerance_why = "counts and bits are right or wrong"

LENGTHS = (5, 3, 12, 16)


def inputs(p, rng):
    text = rng.choice(np.frombuffer(b"acgt", "uint8"), p["N"], p=(0.4, 0.3, 0.2, 0.1))
    lengths = np.array(LENGTHS[: p["P"]], "int32")
    patterns = np.zeros((p["P"], 16), "uint8")
    for row, length in zip(patterns, lengths):
        at = rng.integers(0, p["N"] - length + 1)
        row[:length] = text[at : at + length]
    # The last letters are the start of the first pattern, but for one: no match over the end.
    text[-(lengths[0] - 1) :] = patterns[0, : lengths[0] - 1]
    return {"text": text, "patterns": patterns, "lengths": lengths}


def outputs(p):
    return {"marks": ((p["N"],), "uint8"), "counts": ((p["P"],), "int32")}


def reference(p, inputs):
    text = inputs["text"]
    marks = np.zeros(p["N"], "int64")
    counts = np.zeros(p["P"], "int64")
    for k in range(p["P"]):
        length = int(inputs["lengths"][k])
        hit = np.ones(p["N"] - length + 1, bool)
        for j in range(length):
            hit &= text[j : p["N"] - length + 1 + j] == inputs["patterns"][k, j]
        marks[: len(hit)] |= hit.astype("int64") << k
        counts[k] = hit.sum()
    return {"marks": marks.astype("float64"), "counts": counts.astype("float64")}


def flops(p):
    return 0


def bytes(p):
    return 2 * p["N"]
