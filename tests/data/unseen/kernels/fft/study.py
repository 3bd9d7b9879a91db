"""Discrete Fourier transforms of B rows of 512 complex numbers."""

title = "FFT of 512 points, float32"

input_names = ("x",)

problems = {
    "b256": {"B": 256, "uses": ("profile",)},
    "b3": {"B": 3, "uses": ("verify",)},
}

tolerance = 1e-5
tolerance_why = "nine stages of float32, and twiddle factors good to some 1e-7"


def inputs(problem, rng):
    return {"x": rng.standard_normal((problem["B"], 512, 2), dtype="float32")}


def outputs(problem):
    return {"y": ((problem["B"], 512, 2), "float32")}


def reference(_problem, inputs):
    import numpy as np

    x = inputs["x"].astype("float64")
    y = np.fft.fft(x[..., 0] + 1j * x[..., 1], axis=1)
    return {"y": np.stack([y.real, y.imag], axis=-1)}


def flops(problem):
    return problem["B"] * 5 * 512 * 9


def bytes(problem):
    return problem["B"] * 512 * 16
