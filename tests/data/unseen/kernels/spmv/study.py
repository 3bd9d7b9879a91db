"""y = A·x for a sparse A in CSR, rows of very different lengths."""

title = "Sparse matrix times vector, float32"

input_names = ("start", "column", "value", "x")

problems = {
    "r30000": {"R": 30000, "C": 20000, "W": 64, "uses": ("profile",)},
    "r1001": {"R": 1001, "C": 333, "W": 64, "uses": ("verify",)},
    "r7": {"R": 7, "C": 5, "W": 64, "uses": ("verify",)},
}

tolerance = 1e-5
tolerance_why = "at most 64 products a row, signs mixed"


def inputs(problem, rng):
    """Most rows have some ten entries, a few up to 64 (W), some none."""
    import numpy as np

    r, c, w = problem["R"], problem["C"], problem["W"]
    length = np.minimum(rng.geometric(0.09, r) - 1, min(w, c))
    start = np.concatenate([[0], np.cumsum(length)]).astype("int32")
    n = max(int(start[-1]), 1)
    column = rng.integers(0, c, n, dtype="int32")
    return {
        "start": start,
        "column": column,
        "value": rng.standard_normal(n, dtype="float32"),
        "x": rng.standard_normal(c, dtype="float32"),
    }


def outputs(problem):
    return {"y": ((problem["R"],), "float32")}


def reference(problem, inputs):
    import numpy as np

    start = inputs["start"]
    terms = inputs["value"].astype("float64") * inputs["x"].astype("float64")[inputs["column"]]
    row = np.repeat(np.arange(problem["R"]), np.diff(start))
    return {"y": np.bincount(row, terms[: start[-1]], problem["R"])}


def flops(problem):
    return 20 * problem["R"]


def bytes(problem):
    return 80 * problem["R"] + 4 * problem["R"]
