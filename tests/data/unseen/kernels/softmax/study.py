"""Softmax of every row of a matrix, float32."""

title = "Softmax of rows"

input_names = ("x",)

problems = {
    "r512_c1000": {"R": 512, "C": 1000, "uses": ("profile",)},
    "r5_c333": {"R": 5, "C": 333, "uses": ("verify",)},
    "r9_c1024": {"R": 9, "C": 1024, "uses": ("verify",)},
}

tolerance = 1e-5
tolerance_why = "exponentials good to a few units in the last place"


def inputs(problem, rng):
    return {"x": 3 * rng.standard_normal((problem["R"], problem["C"]), dtype="float32")}


def outputs(problem):
    return {"y": ((problem["R"], problem["C"]), "float32")}


def reference(_problem, inputs):
    import numpy as np

    x = inputs["x"].astype("float64")
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}


def flops(problem):
    return 5 * problem["R"] * problem["C"]


def bytes(problem):
    return 8 * problem["R"] * problem["C"]
