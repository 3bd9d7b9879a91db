"""Median of the five by five pixels around each, edges repeated."""

title = "Median filter, 5×5, bytes"

input_names = ("image",)

problems = {
    "w320_h200": {"W": 320, "H": 200, "uses": ("profile",)},
    "w37_h19": {"W": 37, "H": 19, "uses": ("verify",)},
}

tolerance = 1e-12
tolerance_why = "pixels are chosen, not computed with"


def inputs(problem, rng):
    return {"image": rng.integers(0, 256, (problem["H"], problem["W"]), dtype="uint8")}


def outputs(problem):
    return {"out": ((problem["H"], problem["W"]), "uint8")}


def reference(_problem, inputs):
    import numpy as np

    wide = np.pad(inputs["image"], 2, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(wide, (5, 5))
    return {"out": np.median(windows, axis=(2, 3))}


def flops(problem):
    return problem["W"] * problem["H"]


def bytes(problem):
    return 2 * problem["W"] * problem["H"]
