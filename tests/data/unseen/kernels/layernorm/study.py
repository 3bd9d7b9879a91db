"""Layer normalisation of the rows of a float16 matrix, with gain and bias."""

title = "Layernorm in float16"

input_names = ("x", "gain", "bias")

problems = {
    "r1024_c768": {"R": 1024, "C": 768, "uses": ("profile",)},
    "r3_c256": {"R": 3, "C": 256, "uses": ("verify",)},
    "r7_c1280": {"R": 7, "C": 1280, "uses": ("verify",)},
}

tolerance = 2e-3
tolerance_why = "the output is rounded to float16, and one version adds half2 in float16 once"


def inputs(problem, rng):
    r, c = problem["R"], problem["C"]
    return {
        "x": rng.standard_normal((r, c), dtype="float32").astype("float16"),
        "gain": (1 + rng.random(c, dtype="float32")).astype("float16"),
        "bias": rng.standard_normal(c, dtype="float32").astype("float16"),
    }


def outputs(problem):
    return {"y": ((problem["R"], problem["C"]), "float16")}


def reference(_problem, inputs):
    import numpy as np

    x = inputs["x"].astype("float64")
    x = x - x.mean(axis=1, keepdims=True)
    x /= np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)
    return {"y": x * inputs["gain"].astype("float64") + inputs["bias"].astype("float64")}


def flops(problem):
    return 8 * problem["R"] * problem["C"]


def bytes(problem):
    return 4 * problem["R"] * problem["C"]
