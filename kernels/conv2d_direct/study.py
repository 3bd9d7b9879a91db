"""Direct convolution of a few large planes into one: 3×3, padding 1, float32, strides 1 to 3.

y[p, q] = Σ_c Σ_r Σ_s x[c, p·U − 1 + r, q·U − 1 + s] · w[c, r, s], with zeros outside of x: a
cross-correlation, as every deep-learning library means it. x is C×H×W, w is C×3×3, y is P×Q
with P = ⌈H/U⌉ and Q = ⌈W/U⌉. C is 3 wherever it is timed: an image in, one plane out.

54 operations for 16 bytes of traffic per output at stride 1 (3 planes read, one written) leave
any GPU waiting for its memory. The roof is a copy that moves as many bytes; it computes nothing
and could not be verified, so it stands in docs/measurements.md and not among the versions.

The author of this ladder measured 25 ms at every size, 32² as well as 4096²: the first launch
of a process loads the module and sets up the context, and that is what the clock had seen.
`workbench time` warms up and shows the first launch's cost apart; `workbench sweep` warns where
the time does not grow with the size.
"""

title = "Direct convolution: 3×3 over 3 planes into one, float32, strides 1 to 3"

input_names = ("x", "w")

FILTER = 3
SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)


def _square(n, stride, *uses):
    return {"C": 3, "H": n, "W": n, "U": stride, "uses": uses}


def _awkward(planes, height, width, stride):
    return {"C": planes, "H": height, "W": width, "U": stride, "uses": ("verify",)}


problems = {
    # 192 MiB in, 64 MiB out: several times the L2 of any chip so far.
    "n4096": _square(4096, 1, "profile", "sweep"),
    **{f"n{n}": _square(n, 1, "sweep") for n in SIZES if n != 4096},
    # A quarter and a ninth of the outputs, but the windows still read every input.
    **{f"n{n}_s2": _square(n, 2, "sweep") for n in SIZES},
    **{f"n{n}_s3": _square(n, 3, "sweep") for n in SIZES},
    # One plane; an input that is all border; a row and a column, whose halo is all padding.
    "one_plane": _awkward(1, 19, 23, 1),
    "two_by_two": _awkward(3, 2, 2, 1),
    "row": _awkward(3, 1, 141, 1),
    "column": _awkward(3, 77, 1, 1),
    # A tile of 32×8 outputs, one less and one more.
    "h7_w31": _awkward(3, 7, 31, 1),
    "h8_w32": _awkward(3, 8, 32, 1),
    "h9_w33": _awkward(3, 9, 33, 1),
    # Rows that 16 bytes divide and no tile does; one warp of four outputs per lane, and more.
    "h17_w128": _awkward(3, 17, 128, 1),
    "h33_w140": _awkward(2, 33, 140, 1),
    # All other remainders of a row after division by four.
    "h37_w129": _awkward(5, 37, 129, 1),
    "h16_w130": _awkward(3, 16, 130, 1),
    "h65_w131": _awkward(3, 65, 131, 1),
    # Strides: outputs whose last window leaves the input, and whose does not.
    "h19_w264_s2": _awkward(3, 19, 264, 2),
    "h34_w267_s2": _awkward(3, 34, 267, 2),
    "h17_w33_s2": _awkward(4, 17, 33, 2),
    "h24_w396_s3": _awkward(3, 24, 396, 3),
    "h26_w391_s3": _awkward(3, 26, 391, 3),
    "h2_w5_s3": _awkward(3, 2, 5, 3),
}

tolerance = 2e-6
tolerance_why = """
27 products added up in order are off by about u·√27/2.4 = 1.3e-7 of the sum's size (u = 2⁻²⁴),
and Winograd's F(2×2, 3×3) by three to four times as much, because its transforms subtract
neighbours that the products then weigh. 2e-6 leaves a factor of four. It is 145 times below the
2.9e-4 of TF32 inputs, and one output left out of 4096² would be off by 2.4e-4 of the norm.
"""


def derive(problem):
    """Rows and columns of the output: with a padding of 1, every U-th row and column has one."""
    stride = problem["U"]
    return {"P": -(-problem["H"] // stride), "Q": -(-problem["W"] // stride)}


def inputs(problem, rng):
    """Standard normal: signs are mixed, so that sums do not grow and errors do not hide in them."""
    planes, height, width = problem["C"], problem["H"], problem["W"]
    return {
        "x": rng.standard_normal((planes, height, width), dtype="float32"),
        "w": rng.standard_normal((planes, FILTER, FILTER), dtype="float32"),
    }


def outputs(problem):
    return {"y": ((problem["P"], problem["Q"]), "float32")}


def reference(problem, inputs):
    """Nine shifted views of each padded plane, weighted and added in float64."""
    import numpy

    p, q, stride = problem["P"], problem["Q"], problem["U"]
    total = numpy.zeros((p, q))
    for plane, taps in zip(inputs["x"], inputs["w"].astype("float64"), strict=True):
        padded = numpy.pad(plane.astype("float64"), 1)
        for r in range(FILTER):
            for s in range(FILTER):
                rows = slice(r, r + stride * (p - 1) + 1, stride)
                columns = slice(s, s + stride * (q - 1) + 1, stride)
                total += taps[r, s] * padded[rows, columns]
    return {"y": total}


def reference_at(problem, inputs, indices):
    """Single outputs: the padded planes of n4096 in float64 would be 400 MB."""
    import numpy

    p, q = divmod(numpy.asarray(indices["y"]), problem["Q"])
    total = numpy.zeros(p.shape)
    for plane, taps in zip(inputs["x"], inputs["w"].astype("float64"), strict=True):
        for r in range(FILTER):
            for s in range(FILTER):
                h, w = p * problem["U"] - 1 + r, q * problem["U"] - 1 + s
                inside = (h >= 0) & (h < problem["H"]) & (w >= 0) & (w < problem["W"])
                # Index 0 stands in for those outside; their products are not added.
                values = plane[numpy.where(inside, h, 0), numpy.where(inside, w, 0)]
                total += numpy.where(inside, taps[r, s] * values.astype("float64"), 0.0)
    return {"y": total}


def flops(problem):
    """A multiplication and an addition for each tap of each output, padding included."""
    return 2 * FILTER * FILTER * problem["C"] * problem["P"] * problem["Q"]


def bytes(problem):
    """Planes and filters read once, the output written once, four bytes each.

    A 3×3 window that moves by 3 at most touches every element, but for a last row or column.
    """
    read = problem["C"] * (problem["H"] * problem["W"] + FILTER * FILTER)
    return 4 * (read + problem["P"] * problem["Q"])
