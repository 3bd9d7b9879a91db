"""A 3×3 convolution of an image with zeros around it, as it is written in a first course."""

title = "3x3 convolution of an image"

input_names = ("image", "weight")

problems = {
    "n32": {"H": 32, "W": 32, "uses": ("profile", "verify")},
    "odd": {"H": 21, "W": 35, "uses": ("verify",)},
}

tolerance = 1e-5
tolerance_why = "a sum of nine products in float32"


def inputs(problem, rng):
    return {
        "image": rng.standard_normal((problem["H"], problem["W"]), dtype="float32"),
        "weight": rng.standard_normal((3, 3), dtype="float32"),
    }


def outputs(problem):
    return {"out": ((problem["H"], problem["W"]), "float32")}


def reference(problem, inputs):
    import numpy as np

    h, w = problem["H"], problem["W"]
    padded = np.pad(inputs["image"].astype("float64"), 1)
    return {
        "out": sum(
            inputs["weight"][dy, dx] * padded[dy : dy + h, dx : dx + w]
            for dy in range(3)
            for dx in range(3)
        )
    }


def flops(problem):
    return 18 * problem["H"] * problem["W"]


def bytes(problem):
    return 8 * problem["H"] * problem["W"]
