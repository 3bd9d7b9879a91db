"""The sum of N floats: trees in shared memory, shuffles, atomics, one pass and two."""

title = "Sum of N floats"

input_names = ("x",)

problems = {
    "n1m": {"N": 1 << 20, "uses": ("profile",)},
    "n70001": {"N": 70001, "uses": ("verify",)},
    "n257": {"N": 257, "uses": ("verify",)},
}

tolerance = 1e-5
tolerance_why = "a million positive floats, added in trees whose branches are a few thousand long"


def inputs(problem, rng):
    """Between 0 and 1: no sum comes near zero."""
    return {"x": rng.random(problem["N"], dtype="float32")}


def outputs(_problem):
    return {"total": ((1,), "float32")}


def reference(_problem, inputs):
    return {"total": inputs["x"].astype("float64").sum().reshape(1)}


def flops(problem):
    return problem["N"]


def bytes(problem):
    return 4 * problem["N"]
