"""Sum, smallest, largest and sum of squares of N integers, in 64 bits."""

title = "Moments of integers, by 64-bit atomics"

input_names = ("x",)

problems = {
    "n128k": {"N": 1 << 17, "uses": ("profile",)},
    "n5001": {"N": 5001, "uses": ("verify",)},
    "n40": {"N": 40, "uses": ("verify",)},
}

tolerance = 1e-9
tolerance_why = "the version in double precision rounds to 53 bits"


def inputs(problem, rng):
    return {"x": rng.integers(-(1 << 16), 1 << 16, problem["N"], dtype="int32")}


def outputs(_problem):
    return {"m": ((4,), "int64")}


def reference(_problem, inputs):
    import numpy as np

    x = inputs["x"].astype("int64")
    return {"m": np.array([x.sum(), x.min(), x.max(), (x * x).sum()], dtype="float64")}


def flops(problem):
    return 4 * problem["N"]


def bytes(problem):
    return 4 * problem["N"]
