"""Copies and products beside the threads, one a source line: what does ncu count of them?

Every version checks what it moves or multiplies itself; y is x plus the number of values that
were wrong.
"""

title = "What the counters say of bulk copies, tensor copies and warpgroup products"

input_names = ("x", "words", "pixels")

problems = {"n128": {"n": 128, "uses": ("profile", "verify")}}

tolerance = 1e-7
tolerance_why = "y is x; one wrong value in a kernel adds 1"


def inputs(problem, rng):
    """x; 16,384 words that are their own indices; an image of 2×9×10×64 small integers in half."""
    import numpy as np

    return {
        "x": rng.standard_normal(problem["n"], dtype="float32"),
        "words": np.arange(16384, dtype="int32"),
        "pixels": (np.arange(2 * 9 * 10 * 64) * 7 % 61).astype("float16").reshape(2, 9, 10, 64),
    }


def outputs(problem):
    return {"y": ((problem["n"],), "float32")}


def reference(problem, inputs):
    return {"y": inputs["x"].astype("float64")}


def flops(problem):
    return problem["n"]


def bytes(problem):
    return 8 * problem["n"]
