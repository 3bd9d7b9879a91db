"""y[i] = (x[i-1] + x[i] + x[i+1]) / 3, with zeros beyond both ends."""

title = "Moving average of three neighbours"

input_names = ("x",)

problems = {
    "n4096": {"n": 4096, "uses": ("profile", "verify")},
    "n1000": {"n": 1000, "uses": ("verify",)},
    "n1": {"n": 1, "uses": ("verify",)},
}

tolerance = 1e-6
tolerance_why = "three additions and a division in float32 round by a few parts in 1e-7"


def inputs(problem, rng):
    return {"x": rng.standard_normal(problem["n"], dtype="float32")}


def outputs(problem):
    return {"y": ((problem["n"],), "float32")}


def reference(problem, inputs):
    import numpy as np

    padded = np.pad(inputs["x"].astype("float64"), 1)
    return {"y": (padded[:-2] + padded[1:-1] + padded[2:]) / 3}


def flops(problem):
    return 3 * problem["n"]


def bytes(problem):
    return 8 * problem["n"]
