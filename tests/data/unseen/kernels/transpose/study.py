"""B = Aᵀ in float32."""

title = "Transpose"

input_names = ("A",)

problems = {
    "r992_c672": {"R": 992, "C": 672, "uses": ("profile",)},
    "r77_c45": {"R": 77, "C": 45, "uses": ("verify",)},
    "r64_c96": {"R": 64, "C": 96, "uses": ("verify",)},
}

tolerance = 1e-12
tolerance_why = "floats are moved, not computed with"


def inputs(problem, rng):
    return {"A": rng.standard_normal((problem["R"], problem["C"]), dtype="float32")}


def outputs(problem):
    return {"B": ((problem["C"], problem["R"]), "float32")}


def reference(_problem, inputs):
    return {"B": inputs["A"].T.astype("float64")}


def flops(problem):
    return problem["R"] * problem["C"]


def bytes(problem):
    return 8 * problem["R"] * problem["C"]
