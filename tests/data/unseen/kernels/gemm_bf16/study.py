"""C = A·B for bfloat16 A and B (held as 16-bit words), float32 sums and results."""

title = "Matrix product in bfloat16"

input_names = ("A", "B")

problems = {
    "n256": {"M": 256, "N": 256, "K": 256, "uses": ("profile",)},
    "m64_n128_k96": {"M": 64, "N": 128, "K": 96, "uses": ("verify",)},
    "m128_n64_k64": {"M": 128, "N": 64, "K": 64, "uses": ("verify",)},
}

tolerance = 2e-5
tolerance_why = "float32 sums of at most 256 exact products; matrix units cut off low bits"


def inputs(problem, rng):
    def draw(*shape):
        values = rng.standard_normal(shape, dtype="float32")
        return (values.view("uint32") >> 16).astype("uint16")

    m, n, k = problem["M"], problem["N"], problem["K"]
    return {"A": draw(m, k), "B": draw(k, n)}


def outputs(problem):
    return {"C": ((problem["M"], problem["N"]), "float32")}


def reference(_problem, inputs):
    def wide(words):
        return (words.astype("uint32") << 16).view("float32").astype("float64")

    return {"C": wide(inputs["A"]) @ wide(inputs["B"])}


def flops(problem):
    return 2 * problem["M"] * problem["N"] * problem["K"]


def bytes(problem):
    m, n, k = problem["M"], problem["N"], problem["K"]
    return 2 * (m * k + k * n) + 4 * m * n
