"""Loops that share a head, tickets of a warp, accesses that another one proves aligned.

What is stored in the loops is always x: y is x, and one more where a kernel's own check fails.
"""

title = "Loops in each other, tickets, proofs of alignment"

input_names = ("x",)

problems = {"n4096": {"n": 4096, "uses": ("profile", "verify")}}

tolerance = 1e-12
tolerance_why = "integers are copied"


def inputs(problem, rng):
    """Words of 28 bits whose upper two are set: every loop over their bits ends."""
    return {"x": (rng.integers(1 << 25, 1 << 26, problem["n"]) | 3 << 26).astype("uint32")}


def outputs(problem):
    return {"y": ((problem["n"],), "uint32")}


def reference(problem, inputs):
    return {"y": inputs["x"].astype("float64")}


def flops(problem):
    return problem["n"]


def bytes(problem):
    return 8 * problem["n"]
