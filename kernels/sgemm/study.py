"""Single-precision matrix multiplication, C = A·B, all three row-major.

A is M×K, B is K×N, C is M×N. Nothing is imported at the top, so that listing the
ladder costs nothing; NumPy comes in with the arrays themselves.
"""

title = "SGEMM: C = A·B in float32, row-major"

input_names = ("A", "B")


def _square(n, *uses):
    return {"M": n, "N": n, "K": n, "uses": uses}


problems = {
    # Profiled sizes first: the first one marked "profile" is the default.
    "n1024": _square(1024, "profile", "sweep"),
    "n4096": _square(4096, "profile", "sweep"),
    # Small and awkward: one element, a row, a column, one less and one more than a
    # tile in every direction, a K that ends inside a tile of 8 or 32, primes.
    "one": {"M": 1, "N": 1, "K": 1, "uses": ("verify",)},
    "row": {"M": 1, "N": 300, "K": 40, "uses": ("verify",)},
    "column": {"M": 300, "N": 1, "K": 40, "uses": ("verify",)},
    # Few outputs of many products each. Not a single one: a sum that happens to end near
    # zero has a large relative error, however right it is.
    "dots": {"M": 3, "N": 11, "K": 1000, "uses": ("verify",)},
    "outer": {"M": 130, "N": 66, "K": 1, "uses": ("verify",)},
    "m33_n65_k17": {"M": 33, "N": 65, "K": 17, "uses": ("verify",)},
    "m31_n32_k33": {"M": 31, "N": 32, "K": 33, "uses": ("verify",)},
    "m127_n129_k131": {"M": 127, "N": 129, "K": 131, "uses": ("verify",)},
    # Rows a multiple of four floats and nothing else: vector loads with a tail.
    "m129_n132_k140": {"M": 129, "N": 132, "K": 140, "uses": ("verify",)},
    # One of A's and B's rows is aligned to 16 bytes, the other's is not.
    "m60_n130_k64": {"M": 60, "N": 130, "K": 64, "uses": ("verify",)},
    "m60_n132_k63": {"M": 60, "N": 132, "K": 63, "uses": ("verify",)},
    # Multiples of 16 and of nothing else: for what copies whole rows of 64 bytes.
    "m144_n80_k48": {"M": 144, "N": 80, "K": 48, "uses": ("verify",)},
    "n256": _square(256, "verify", "sweep"),
    "n128": _square(128, "sweep"),
    "n512": _square(512, "sweep"),
    "n2048": _square(2048, "sweep"),
    "n8192": _square(8192, "sweep"),
    "n16384": _square(16384, "sweep"),
}

tolerance = 1e-5
tolerance_why = """
A float32 sum of K products of independent, sign-mixed terms is off by about u·√K/2.4
relative to its size when it is added up in order (u = 2⁻²⁴): 1.6e-6 at K = 4096,
3.2e-6 at K = 16384. 1e-5 leaves a factor of three for other orders, and is 29 times
below the 2.9e-4 that TF32 inputs cost, so tensor cores by accident do not pass. Inputs
split into two TF32 terms each cost less than 1e-6; sums that a matrix unit truncates
towards zero all along K = 4096 would cost 2e-5, and must be cut into shorter ones.
"""


def inputs(problem, rng):
    """Standard normal: half of the products are negative, so errors do not hide in a large sum."""
    m, n, k = problem["M"], problem["N"], problem["K"]
    return {
        "A": rng.standard_normal((m, k), dtype="float32"),
        "B": rng.standard_normal((k, n), dtype="float32"),
    }


def outputs(problem):
    return {"C": ((problem["M"], problem["N"]), "float32")}


def reference(_problem, inputs):
    return {"C": inputs["A"].astype("float64") @ inputs["B"].astype("float64")}


def reference_at(problem, inputs, indices):
    """Single elements of C, each a dot product in float64: for sizes where all is too slow."""
    import numpy

    rows, columns = divmod(numpy.asarray(indices["C"]), problem["N"])
    sums = numpy.zeros(len(rows))
    # In slabs of K: rows and columns of n16384 in float64 would take a gigabyte, and a
    # single column is one float from each of 16384 pages.
    for k in range(0, problem["K"], 256):
        a = inputs["A"][rows, k : k + 256].astype("float64")
        b = inputs["B"][k : k + 256].take(columns, axis=1).astype("float64")
        sums += numpy.einsum("ik,ki->i", a, b)
    return {"C": sums}


def flops(problem):
    """A multiplication and an addition for each of the M·N·K products."""
    return 2 * problem["M"] * problem["N"] * problem["K"]


def bytes(problem):
    """A and B read once, C written once, four bytes each."""
    m, n, k = problem["M"], problem["N"], problem["K"]
    return 4 * (m * k + k * n + m * n)
