"""Option prices: European calls and puts by Black and Scholes, American puts on a binomial tree.

N European options; the first M of them are priced once more as American puts, on trees of
STEPS steps (Cox, Ross and Rubinstein). Interest 3%, volatility 25% a year.
"""

import math

import numpy as np

title = "Option pricing: Black-Scholes and a binomial tree"
RATE = 0.03
VOLATILITY = 0.25
input_names = ("spot", "strike", "years")
problems = {
    "n200k": {"N": 200001, "M": 2000, "STEPS": 100, "uses": ("profile", "verify")},
    "odd": {"N": 1035, "M": 47, "STEPS": 37, "uses": ("verify",)},
}
tolerance = 2e-4
tolerance_why = "float32 logarithms, fast exponentials and a hundred steps of rounding"


def inputs(p, rng):
    n = p["N"]
    return {
        "spot": rng.uniform(20, 100, n).astype("float32"),
        "strike": rng.uniform(20, 100, n).astype("float32"),
        "years": rng.uniform(0.25, 3, n).astype("float32"),
    }


def outputs(p):
    return {
        "call": ((p["N"],), "float32"),
        "put": ((p["N"],), "float32"),
        "american": ((p["M"],), "float32"),
    }


def reference(p, inputs):
    s, k, t = (inputs[name].astype("float64") for name in input_names)
    normal = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
    root = VOLATILITY * np.sqrt(t)
    d1 = (np.log(s / k) + (RATE + 0.5 * VOLATILITY**2) * t) / root
    paid = k * np.exp(-RATE * t)
    call = s * normal(d1) - paid * normal(d1 - root)
    put = paid * normal(root - d1) - s * normal(-d1)

    m, steps = p["M"], p["STEPS"]
    s, k, dt = s[:m, None], k[:m, None], t[:m, None] / steps
    x = VOLATILITY * np.sqrt(dt)
    chance = (np.exp(RATE * dt) - np.exp(-x)) / (np.exp(x) - np.exp(-x))
    discount = np.exp(-RATE * dt)
    j = np.arange(steps + 1)[None, :]
    value = np.maximum(k - s * np.exp(x * (2 * j - steps)), 0)
    for i in range(steps - 1, -1, -1):
        held = discount * (chance * value[:, 1:] + (1 - chance) * value[:, :-1])
        value = np.maximum(held, k - s * np.exp(x * (2 * j[:, : i + 1] - i)))
    return {"call": call, "put": put, "american": value[:, 0]}


def flops(p):
    return 30 * p["N"] + 3 * p["M"] * p["STEPS"] * (p["STEPS"] + 1)


def bytes(p):
    return 20 * p["N"] + 16 * p["M"]
