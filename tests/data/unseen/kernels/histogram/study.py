"""How often each of 256 byte values occurs: global, shared and warp-aggregated atomics."""

title = "Histogram of bytes"

input_names = ("data",)

problems = {
    "n1m": {"N": 1 << 20, "uses": ("profile",)},
    "n40003": {"N": 40003, "uses": ("verify",)},
    "n4096": {"N": 4096, "uses": ("verify",)},
    "n100": {"N": 100, "uses": ("verify",)},
}

tolerance = 1e-12
tolerance_why = "counts are integers"


def inputs(problem, rng):
    """Half of the values are crowded around 128, as in a picture."""
    import numpy as np

    n = problem["N"]
    crowd = np.clip(rng.normal(128, 12, n), 0, 255)
    flat = rng.integers(0, 256, n)
    return {"data": np.where(rng.random(n) < 0.5, crowd, flat).astype("uint8")}


def outputs(_problem):
    return {"bins": ((256,), "int32")}


def reference(_problem, inputs):
    import numpy as np

    return {"bins": np.bincount(inputs["data"], minlength=256).astype("float64")}


def flops(problem):
    return problem["N"]


def bytes(problem):
    return problem["N"] + 4 * 256
