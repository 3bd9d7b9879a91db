"""The positive ones of N integers, in their order, then zeros; and how many there are."""

title = "Stream compaction"

input_names = ("x",)

problems = {
    "n256k": {"N": 1 << 18, "uses": ("profile",)},
    "n3000": {"N": 3000, "uses": ("verify",)},
    "n70": {"N": 70, "uses": ("verify",)},
}

tolerance = 1e-12
tolerance_why = "integers are moved, not computed with"


def inputs(problem, rng):
    return {"x": rng.integers(-60, 40, problem["N"], dtype="int32")}


def outputs(problem):
    return {"y": ((problem["N"],), "int32"), "count": ((1,), "int32")}


def reference(problem, inputs):
    import numpy as np

    kept = inputs["x"][inputs["x"] > 0]
    y = np.zeros(problem["N"])
    y[: len(kept)] = kept
    return {"y": y, "count": np.array([float(len(kept))])}


def flops(problem):
    return problem["N"]


def bytes(problem):
    return 8 * problem["N"]
