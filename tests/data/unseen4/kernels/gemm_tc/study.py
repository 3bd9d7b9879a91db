"""C = A·Bᵀ + bias in bfloat16 with float32 sums; A is M×K, B is N×K, bias has N float32.

Bfloat16 travels in as its bits in uint16.
"""

title = "bfloat16 matrix product C = A·Bᵀ + bias on tensor cores"
input_names = ("A", "B", "bias")
problems = {
    "m700_n520_k520": {"M": 700, "N": 520, "K": 520, "uses": ("profile", "verify")},
    "m77_n53_k40": {"M": 77, "N": 53, "K": 40, "uses": ("verify",)},
    "m130_n66_k8": {"M": 130, "N": 66, "K": 8, "uses": ("verify",)},
}
tolerance = 4e-3
tolerance_why = "the result is rounded to bfloat16, by at most 2⁻⁹ of itself"


def _bits(x):
    return (x.view("uint32") >> 16).astype("uint16")


def _value(bits):
    return (bits.astype("uint32") << 16).view("float32").astype("float64")


def inputs(p, rng):
    return {
        "A": _bits(rng.standard_normal((p["M"], p["K"]), dtype="float32")),
        "B": _bits(rng.standard_normal((p["N"], p["K"]), dtype="float32")),
        "bias": 10 * rng.standard_normal(p["N"], dtype="float32"),
    }


def outputs(p):
    return {"C": ((p["M"], p["N"]), "bfloat16")}


def reference(_p, inputs):
    return {"C": _value(inputs["A"]) @ _value(inputs["B"]).T + inputs["bias"].astype("float64")}


def flops(p):
    return 2 * p["M"] * p["N"] * p["K"]


def bytes(p):
    return 2 * (p["M"] * p["K"] + p["N"] * p["K"] + p["M"] * p["N"]) + 4 * p["N"]
