"""B = a·A + b for every element of a row-major matrix: a study of memory bandwidth.

A and B are R×C, a = 1.25 and b = −0.75. Two operations for eight bytes of traffic: no GPU
can be kept busy by that, so the roof is what the device's own copy B = A reaches, which
moves the same bytes (4.15 TB/s at 8192² on the H200 of docs/measurements.md).
A copy does not compute a·A + b and could not be verified; the baseline is therefore
PyTorch's single kernel for the whole expression, which has the same traffic as the copy.
"""

title = "Scale and add: B = a·A + b in float32, row-major"

input_names = ("A",)

# Exact in float32, so that nobody's rounding of a constant counts as an error; 1.25 has
# three significant bits, so the product itself still rounds. The launches repeat them.
SCALE = 1.25
OFFSET = -0.75


def _square(n, *uses):
    return {"R": n, "C": n, "uses": uses}


def _awkward(rows, columns):
    return {"R": rows, "C": columns, "uses": ("verify",)}


problems = {
    # 256 MiB per matrix: several times the L2 of any chip so far, so memory is what counts.
    "n8192": _square(8192, "profile", "sweep"),
    "n1024": _square(1024, "sweep"),
    "n2048": _square(2048, "sweep"),
    "n4096": _square(4096, "sweep"),
    "n16384": _square(16384, "sweep"),
    # One element, less than one float4, a row, a column.
    "one": _awkward(1, 1),
    "three": _awkward(1, 3),
    "row": _awkward(1, 1000),
    "column": _awkward(1000, 1),
    # All four remainders of R·C after division by four, with rows that no float4 divides.
    "r33_c65": _awkward(33, 65),
    "r127_c129": _awkward(127, 129),
    "r63_c66": _awkward(63, 66),
    "r64_c1027": _awkward(64, 1027),
    # Rows a multiple of four floats and nothing else.
    "r128_c132": _awkward(128, 132),
    # One block of v3 is 4096 floats: one less, exactly one, one more.
    "r63_c65": _awkward(63, 65),
    "r64_c64": _awkward(64, 64),
    "r17_c241": _awkward(17, 241),
}

tolerance = 1e-6
tolerance_why = """
One multiplication and one addition: fused, each element is off by at most u = 2⁻²⁴ = 6e-8 of
itself; rounded one after the other, by at most u·(|a·A| + |B|) to first order, about 2u of
the norm. 1e-6 is 17 u, room for a 1×1 matrix whose terms partly cancel. It is still 60 times
less than one element left out of 16384², 6e-5, and far below any 16-bit format (2⁻¹² in half).
"""


def inputs(problem, rng):
    """Standard normal: signs are mixed, so a dropped offset or a wrong sign shows."""
    return {"A": rng.standard_normal((problem["R"], problem["C"]), dtype="float32")}


def outputs(problem):
    return {"B": ((problem["R"], problem["C"]), "float32")}


def reference(_problem, inputs):
    return {"B": SCALE * inputs["A"].astype("float64") + OFFSET}


def reference_at(_problem, inputs, indices):
    """Single elements: all of n16384 would be two gigabytes in float64."""
    return {"B": SCALE * inputs["A"].ravel()[indices["B"]].astype("float64") + OFFSET}


def flops(problem):
    """A multiplication and an addition for each element."""
    return 2 * problem["R"] * problem["C"]


def bytes(problem):
    """A read once, B written once, four bytes each."""
    return 8 * problem["R"] * problem["C"]
