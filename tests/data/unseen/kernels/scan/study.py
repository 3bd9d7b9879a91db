"""Inclusive prefix sums of N integers: five textbooks' ways."""

title = "Inclusive scan of int32"

input_names = ("x",)

problems = {
    "n512k": {"N": 1 << 19, "uses": ("profile",)},
    "n5000": {"N": 5000, "uses": ("verify",)},
    "n33": {"N": 33, "uses": ("verify",)},
}

tolerance = 1e-12
tolerance_why = "sums of integers are exact"


def inputs(problem, rng):
    return {"x": rng.integers(-9, 10, problem["N"], dtype="int32")}


def outputs(problem):
    return {"y": ((problem["N"],), "int32")}


def reference(_problem, inputs):
    return {"y": inputs["x"].astype("float64").cumsum()}


def flops(problem):
    return problem["N"]


def bytes(problem):
    return 8 * problem["N"]
