"""Segments of 1024 integers, each sorted."""

title = "Sort of segments of 1024 int32"

input_names = ("x",)

problems = {
    "s128": {"S": 128, "uses": ("profile",)},
    "s3": {"S": 3, "uses": ("verify",)},
}

tolerance = 1e-12
tolerance_why = "integers are moved, not computed with"


def inputs(problem, rng):
    return {"x": rng.integers(-(1 << 20), 1 << 20, (problem["S"], 1024), dtype="int32")}


def outputs(problem):
    return {"y": ((problem["S"], 1024), "int32")}


def reference(_problem, inputs):
    import numpy as np

    return {"y": np.sort(inputs["x"], axis=1).astype("float64")}


def flops(problem):
    return problem["S"] * 1024 * 55 // 2


def bytes(problem):
    return problem["S"] * 1024 * 8
