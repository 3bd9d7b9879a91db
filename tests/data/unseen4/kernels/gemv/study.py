"""y = A·x and z = Aᵀ·w for one tall row-major matrix A of M×N."""

title = "Matrix times vector, and transposed, for a tall matrix"
input_names = ("A", "x", "w")
problems = {
    "m6000": {"M": 6000, "N": 320, "uses": ("profile", "verify")},
    "odd": {"M": 1203, "N": 77, "uses": ("verify",)},
    "narrow": {"M": 301, "N": 12, "uses": ("verify",)},
}
tolerance = 5e-6
tolerance_why = "float32 sums of up to 6000 products of either sign"


def inputs(p, rng):
    return {
        "A": rng.standard_normal((p["M"], p["N"]), dtype="float32"),
        "x": rng.standard_normal(p["N"], dtype="float32"),
        "w": rng.standard_normal(p["M"], dtype="float32"),
    }


def outputs(p):
    return {"y": ((p["M"],), "float32"), "z": ((p["N"],), "float32")}


def reference(p, inputs):
    a, x, w = (inputs[k].astype("float64") for k in input_names)
    return {"y": a @ x, "z": a.T @ w}


def flops(p):
    return 4 * p["M"] * p["N"]


def bytes(p):
    return 4 * (p["M"] * p["N"] + 2 * p["M"] + 2 * p["N"])
