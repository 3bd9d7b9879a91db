"""Rows of a table by index, as in an embedding: out[i] = table[index[i]]."""

title = "Gather of rows"

input_names = ("table", "index")

problems = {
    "n8192_d64": {"T": 5000, "N": 8192, "D": 64, "uses": ("profile",)},
    "n100_d64": {"T": 37, "N": 100, "D": 64, "uses": ("verify",)},
    "n33_d128": {"T": 99, "N": 33, "D": 128, "uses": ("verify",)},
}

tolerance = 1e-12
tolerance_why = "floats are moved, not computed with"


def inputs(problem, rng):
    """Some rows are asked for far more often than others."""
    t = problem["T"]
    index = (t * rng.random(problem["N"]) ** 3).astype("int32")
    return {"table": rng.standard_normal((t, problem["D"]), dtype="float32"), "index": index}


def outputs(problem):
    return {"out": ((problem["N"], problem["D"]), "float32")}


def reference(_problem, inputs):
    return {"out": inputs["table"][inputs["index"]].astype("float64")}


def flops(problem):
    return problem["N"]


def bytes(problem):
    return 8 * problem["N"] * problem["D"]
