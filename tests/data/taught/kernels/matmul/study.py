"""C = A·B in float32, as it is written in a first course: tiles of 16×16 in shared memory."""

title = "Tiled matrix product"

input_names = ("A", "B")

problems = {
    "n64": {"M": 64, "N": 64, "K": 64, "uses": ("profile", "verify")},
    "odd": {"M": 37, "N": 50, "K": 29, "uses": ("verify",)},
}

tolerance = 1e-5
tolerance_why = "a sum of 64 products in float32"


def inputs(problem, rng):
    shape_a, shape_b = (problem["M"], problem["K"]), (problem["K"], problem["N"])
    return {
        "A": rng.standard_normal(shape_a, dtype="float32"),
        "B": rng.standard_normal(shape_b, dtype="float32"),
    }


def outputs(problem):
    return {"C": ((problem["M"], problem["N"]), "float32")}


def reference(problem, inputs):
    return {"C": inputs["A"].astype("float64") @ inputs["B"].astype("float64")}


def flops(problem):
    return 2 * problem["M"] * problem["N"] * problem["K"]


def bytes(problem):
    m, n, k = problem["M"], problem["N"], problem["K"]
    return 4 * (m * k + k * n + m * n)
