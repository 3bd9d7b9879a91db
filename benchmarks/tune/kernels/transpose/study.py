"""A matrix with rows and columns exchanged."""

title = "Transpose of M×N floats"
input_names = ("a",)
problems = {
    "n8192": {"M": 8192, "N": 8192, "uses": ("profile",)},
    "n1024": {"M": 1024, "N": 1024, "uses": ("profile",)},
    "m65_n33": {"M": 65, "N": 33, "uses": ("verify",)},
    "m3_n200": {"M": 3, "N": 200, "uses": ("verify",)},
}
tolerance = 0.0
tolerance_why = "nothing is computed"


def inputs(problem, rng):
    return {"a": rng.standard_normal((problem["M"], problem["N"]), dtype="float32")}


def outputs(problem):
    return {"b": ((problem["N"], problem["M"]), "float32")}


def reference(_problem, inputs):
    return {"b": inputs["a"].T.astype("float64")}


def flops(problem):
    return problem["M"] * problem["N"]


def bytes(problem):
    return 8 * problem["M"] * problem["N"]
