"""The sum of a vector."""

title = "Sum of N floats"
input_names = ("x",)
problems = {
    "n64m": {"N": 1 << 26, "uses": ("profile",)},
    "n1m": {"N": 1 << 20, "uses": ("profile",)},
    "n5000": {"N": 5000, "uses": ("verify",)},
    "n3": {"N": 3, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "sums of positive floats, added in a tree: far below u·√N"


def inputs(problem, rng):
    return {"x": rng.random(problem["N"], dtype="float32")}


def outputs(_problem):
    return {"y": ((1,), "float32")}


def reference(_problem, inputs):
    return {"y": inputs["x"].astype("float64").sum(keepdims=True)}


def flops(problem):
    return problem["N"]


def bytes(problem):
    return 4 * problem["N"] + 4
