"""Longest common subsequence of pairs of strings, by antidiagonals."""

title = "Longest common subsequence"

input_names = ("a", "b")

problems = {
    "p64": {"P": 64, "L": 192, "uses": ("profile",)},
    "p3_l50": {"P": 3, "L": 50, "uses": ("verify",)},
}

tolerance = 1e-12
tolerance_why = "lengths are integers"


def inputs(problem, rng):
    shape = (problem["P"], problem["L"])
    return {name: rng.integers(0, 4, shape, dtype="int8") for name in ("a", "b")}


def outputs(problem):
    return {"length": ((problem["P"],), "int32")}


def reference(problem, inputs):
    import numpy as np

    best = np.zeros((problem["P"], problem["L"] + 1), dtype="int64")
    for i in range(problem["L"]):
        before = best.copy()
        for j in range(problem["L"]):
            same = inputs["a"][:, i] == inputs["b"][:, j]
            longest = np.maximum(before[:, j + 1], best[:, j])
            best[:, j + 1] = np.where(same, before[:, j] + 1, longest)
    return {"length": best[:, -1].astype("float64")}


def flops(problem):
    return 3 * problem["P"] * problem["L"] ** 2


def bytes(problem):
    return 2 * problem["P"] * problem["L"]
