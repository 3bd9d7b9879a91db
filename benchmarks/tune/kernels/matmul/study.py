"""A product of matrices of floats."""

title = "C = A·B in float32, row-major"
input_names = ("A", "B")
problems = {
    "n2048": {"M": 2048, "N": 2048, "K": 2048, "uses": ("profile",)},
    "n512": {"M": 512, "N": 512, "K": 512, "uses": ("profile",)},
    "m130_n70_k33": {"M": 130, "N": 70, "K": 33, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "float32 sums of K products"


def inputs(problem, rng):
    m, n, k = problem["M"], problem["N"], problem["K"]
    return {
        "A": rng.standard_normal((m, k), dtype="float32"),
        "B": rng.standard_normal((k, n), dtype="float32"),
    }


def outputs(problem):
    return {"C": ((problem["M"], problem["N"]), "float32")}


def reference(_problem, inputs):
    return {"C": inputs["A"].astype("float64") @ inputs["B"].astype("float64")}


def flops(problem):
    return 2 * problem["M"] * problem["N"] * problem["K"]


def bytes(problem):
    m, n, k = problem["M"], problem["N"], problem["K"]
    return 4 * (m * k + k * n + m * n)
