"""Convolution in float32, NCHW: the layer of a neural network, as an implicit matrix product.

y[n, k, i, j] = Σ_c Σ_r Σ_s x[n, c, i·U − P + r, j·V − Q + s] · w[k, c, r, s], with zeros outside
of x: a cross-correlation, as every deep-learning library means it. x is N×C×H×W, w is K×C×R×S,
U and V are the strides, P and Q the padding above and left, below and right; y is N×K×OH×OW.

Seen as a matrix product, w is K rows of C·R·S numbers, as it lies in memory. The other factor
has a row for each of the C·R·S taps and a column for each of the N·OH·OW outputs of one filter;
it never exists, since every element of it is an element of x or a zero of the padding, to be
found by arithmetic. That arithmetic is what sets this ladder apart from sgemm's.
"""

title = "conv2d in float32, NCHW, as an implicit matrix product"

input_names = ("x", "w")


def _layer(channels, size, filters, *uses):
    """The sweep's layers: a batch of eight squares, 3×3, stride 1, no padding."""
    return _any(8, channels, (size, size), filters, (3, 3), (1, 1), (0, 0)) | {"uses": uses}


def _any(images, channels, size, filters, taps, stride, padding):
    (h, w), (r, s), (u, v), (p, q) = size, taps, stride, padding
    shape = {"N": images, "C": channels, "H": h, "W": w, "K": filters, "R": r, "S": s}
    return shape | {"U": u, "V": v, "P": p, "Q": q, "uses": ("verify",)}


problems = {
    # 37.5 G operations, and the smallest of the sweep, in which few blocks meet 132 SMs.
    "c64_h128_k256": _layer(64, 128, 256, "profile", "sweep"),
    "c32_h64_k128": _layer(32, 64, 128, "profile", "sweep"),
    "c32_h64_k256": _layer(32, 64, 256, "sweep"),
    "c64_h64_k128": _layer(64, 64, 128, "sweep"),
    "c64_h64_k256": _layer(64, 64, 256, "sweep"),
    "c32_h128_k128": _layer(32, 128, 128, "sweep"),
    "c32_h128_k256": _layer(32, 128, 256, "sweep"),
    "c64_h128_k128": _layer(64, 128, 128, "sweep"),
    # One product.
    "one": _any(1, 1, (1, 1), 1, (1, 1), (1, 1), (0, 0)),
    # One tap per channel, with padding: all outputs of the border are zero.
    "pointwise": _any(2, 17, (5, 7), 33, (1, 1), (1, 1), (1, 1)),
    # The default layer in small; images end inside of tiles, tiles of 16, 64 and 128.
    "plain": _any(3, 3, (9, 14), 65, (3, 3), (1, 1), (0, 0)),
    "same": _any(2, 5, (13, 11), 31, (3, 3), (1, 1), (1, 1)),
    # A row and a column of pixels: most taps of the filter lie in the padding.
    "row": _any(1, 2, (1, 67), 17, (3, 5), (1, 2), (1, 2)),
    "column": _any(2, 3, (45, 1), 7, (5, 3), (2, 1), (2, 1)),
    # Different in every direction; the last windows do not reach the end of x.
    "strided": _any(2, 4, (19, 22), 15, (5, 3), (3, 2), (2, 1)),
    "even_filter": _any(1, 7, (8, 23), 9, (2, 4), (1, 3), (0, 2)),
    # A filter larger than x; more padding than filter.
    "overhang": _any(3, 6, (3, 4), 5, (5, 6), (1, 1), (1, 2)),
    "moat": _any(1, 3, (4, 5), 6, (2, 3), (2, 2), (3, 4)),
    # One output of a filter and many taps: the sum is long, and nearly all of a tile is empty.
    "deep": _any(1, 70, (3, 3), 20, (3, 3), (1, 1), (0, 0)),
    # Exactly one tile of 128 filters and 128 outputs, then one less and one more of each.
    "tile": _any(2, 16, (8, 8), 128, (1, 1), (1, 1), (0, 0)),
    "tile_less": _any(1, 7, (1, 129), 127, (1, 3), (1, 1), (0, 0)),
    "tile_more": _any(3, 2, (45, 3), 129, (3, 3), (1, 1), (0, 0)),
    # No padding, and taps that 16 and that 32 divide: nothing of a tile of taps is empty.
    "even_taps": _any(2, 16, (9, 12), 130, (3, 3), (1, 1), (0, 0)),
    "even_taps_strided": _any(3, 32, (7, 11), 21, (1, 3), (2, 1), (0, 0)),
    # 257 filters of four taps: a weight row of 16 bytes, three tiles of filters.
    "many_filters": _any(1, 4, (3, 6), 257, (1, 1), (1, 1), (0, 0)),
    # Tiles of 256 outputs that begin within a row, in steps of two and three.
    "strided_tiles": _any(3, 2, (41, 53), 5, (2, 3), (2, 3), (1, 0)),
    # 133 tiles of 256 outputs: one of 132 blocks that stay takes a second tile.
    "second_tile": _any(2, 1, (130, 130), 3, (1, 1), (1, 1), (0, 0)),
}

tolerance = 1e-5
tolerance_why = """
A float32 sum of C·R·S products of independent, sign-mixed terms, added up in order, is off by
about u·√(C·R·S)/2.4 of its size (u = 2⁻²⁴): 6e-7 at 576 products, 6.2e-7 at the 630 of `deep`.
A library may choose another algorithm: Winograd's F(4×4, 3×3) multiplies that error by about ten,
and tensor cores that truncate their sums instead of rounding them come near it. 1e-5 leaves room
for both, and is 29 times below the 2.9e-4 that TF32 inputs cost: tensor cores by accident do
not pass.
"""


def derive(problem):
    """Rows and columns of the output, and the products of one output."""
    rows = problem["H"] + 2 * problem["P"] - problem["R"]
    columns = problem["W"] + 2 * problem["Q"] - problem["S"]
    return {
        "OH": rows // problem["U"] + 1,
        "OW": columns // problem["V"] + 1,
        "D": problem["C"] * problem["R"] * problem["S"],
    }


def inputs(problem, rng):
    """Standard normal: half of the products are negative, so errors do not hide in a large sum."""
    return {
        "x": rng.standard_normal([problem[name] for name in "NCHW"], dtype="float32"),
        "w": rng.standard_normal([problem[name] for name in "KCRS"], dtype="float32"),
    }


def outputs(problem):
    return {"y": (tuple(problem[name] for name in ("N", "K", "OH", "OW")), "float32")}


def reference(problem, inputs):
    """One matrix product a tap, of the filters with a shifted view of the padded input."""
    import numpy

    n, c, k, oh, ow = (problem[name] for name in ("N", "C", "K", "OH", "OW"))
    p, q, u, v = (problem[name] for name in "PQUV")
    padded = numpy.pad(inputs["x"].astype("float64"), ((0, 0), (0, 0), (p, p), (q, q)))
    weights = inputs["w"].astype("float64")
    total = numpy.zeros((n, k, oh * ow))
    for r in range(problem["R"]):
        for s in range(problem["S"]):
            rows = slice(r, r + u * (oh - 1) + 1, u)
            columns = slice(s, s + v * (ow - 1) + 1, v)
            total += weights[:, :, r, s] @ padded[:, :, rows, columns].reshape(n, c, oh * ow)
    return {"y": total.reshape(n, k, oh, ow)}


def reference_at(problem, inputs, indices):
    """Single outputs in float64, tap by tap: all of c64_h128_k256 takes a gigabyte."""
    import numpy

    shape = tuple(problem[name] for name in ("N", "K", "OH", "OW"))
    n, k, i, j = numpy.unravel_index(numpy.asarray(indices["y"]), shape)
    total = numpy.zeros(n.shape)
    for r in range(problem["R"]):
        for s in range(problem["S"]):
            h = i * problem["U"] - problem["P"] + r
            w = j * problem["V"] - problem["Q"] + s
            inside = (h >= 0) & (h < problem["H"]) & (w >= 0) & (w < problem["W"])
            # Pixel 0 stands in for those outside, and is counted as zero.
            pixels = inputs["x"][n, :, h * inside, w * inside].astype("float64")
            weights = inputs["w"][k, :, r, s].astype("float64")
            total += inside * (pixels * weights).sum(axis=1)
    return {"y": total}


def flops(problem):
    """A multiplication and an addition for each tap of each output, padding included."""
    return 2 * problem["N"] * problem["K"] * problem["OH"] * problem["OW"] * problem["D"]


def bytes(problem):
    """Input and filters read once, output written once, four bytes each.

    All of the input, also where strides step over some of it: sectors are wider than strides.
    """
    n, k = problem["N"], problem["K"]
    read = n * problem["C"] * problem["H"] * problem["W"] + k * problem["D"]
    return 4 * (read + n * k * problem["OH"] * problem["OW"])
