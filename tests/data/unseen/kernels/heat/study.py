"""One step of the heat equation on a grid of X·Y·Z points: seven neighbours, edges kept."""

title = "Seven-point stencil in float32"

input_names = ("u",)

problems = {
    "x128": {"X": 128, "Y": 96, "Z": 40, "uses": ("profile",)},
    "x67": {"X": 67, "Y": 35, "Z": 9, "uses": ("verify",)},
    "x64": {"X": 64, "Y": 16, "Z": 12, "uses": ("verify",)},
}

tolerance = 1e-6
tolerance_why = "eight products a point"


def inputs(problem, rng):
    shape = (problem["Z"], problem["Y"], problem["X"])
    return {"u": rng.standard_normal(shape, dtype="float32")}


def outputs(problem):
    return {"v": ((problem["Z"], problem["Y"], problem["X"]), "float32")}


def reference(_problem, inputs):
    u = inputs["u"].astype("float64")
    v = u.copy()
    inner = (slice(1, -1),) * 3
    around = (
        u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1]
        + u[1:-1, :-2, 1:-1] + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
    )  # fmt: skip
    v[inner] = 0.4 * u[inner] + 0.1 * around
    return {"v": v}


def flops(problem):
    return 8 * problem["X"] * problem["Y"] * problem["Z"]


def bytes(problem):
    return 8 * problem["X"] * problem["Y"] * problem["Z"]
