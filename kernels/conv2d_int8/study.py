"""A 3×3 convolution of 8-bit integers, channels last, summed in 32 bits: no rounding anywhere.

The input is N×H×W×C and the filters are K×3×3×C, both int8; the output is N×H×W×K, int32: one
pixel of padding on every side, stride 1, cross-correlation as in every deep-learning library.
As a matrix product it has N·H·W rows, K columns and 9·C products a sum. A product is at most
2¹⁴, so sums fit 32 bits while 9·C is below 2¹⁷: that is the versions' limit on C, beside
32-bit indices. Nothing is imported at the top, so that listing the ladder costs nothing.
"""

title = "conv2d in int8, NHWC, 3×3, padding 1, int32 sums"

input_names = ("input", "weight")


def _shape(n, h, w, c, k, *uses):
    return {"N": n, "H": h, "W": w, "C": c, "K": k, "uses": uses or ("verify",)}


problems = {
    # 94.4 G operations: the size of the course report that this ladder follows.
    "n32_c128": _shape(32, 100, 100, 128, 128, "profile", "sweep"),
    "n32_c64": _shape(32, 100, 100, 64, 64, "sweep"),
    "n32_c256_h50": _shape(32, 50, 50, 256, 256, "sweep"),
    "n1_c128": _shape(1, 100, 100, 128, 128, "sweep"),
    # One pixel: eight of the nine taps lie in the padding.
    "one": _shape(1, 1, 1, 1, 1),
    # Nothing is a multiple of anything: only versions that load single bytes take it.
    "odd": _shape(2, 5, 7, 3, 5),
    # One channel and one filter more than four; two images in one block.
    "c5_k17": _shape(2, 3, 4, 5, 17),
    # Channels in fours and no more; a row and a column of pixels, 65 and 63 of them.
    "row": _shape(1, 1, 65, 4, 2),
    "column": _shape(3, 21, 1, 12, 33),
    # Channels in sixteens, one filter beyond a tile of 32, rows longer than a square of 8×8.
    "c48_k33": _shape(1, 9, 17, 48, 33),
    # 130 channels in a chunk of 128 and one of two; in a chunk of 64, one of 64 and of 16.
    "c130_k3": _shape(1, 2, 3, 130, 3),
    "c144_k24": _shape(1, 6, 9, 144, 24),
    # One tile of 128 pixels and one more, one tile of 128 filters and one more.
    "p129_k129": _shape(1, 3, 43, 32, 129),
    # Filters in fours, four beyond a tile of 128; pixels beyond a rectangle of 10×25.
    "c16_k132": _shape(1, 11, 13, 16, 132),
    # More images than an H200 has SMs: some blocks take a second tile.
    "n140": _shape(140, 1, 2, 16, 8),
    # 157 tiles of 128 places (pixels, a column more a row, a row more an image): some of the 132
    # blocks of v21 and v22, which stay, take a second tile.
    "n140_h10": _shape(140, 10, 12, 16, 8),
    # Exactly one tile of everything, and the channels and filters of the large problem.
    "c128_k128": _shape(2, 8, 8, 128, 128),
}

tolerance = 1e-10
tolerance_why = """
Integers neither round nor depend on the order, so the right error is exactly 0, and a bound
must only be positive. A single sum of n32_c128 that is off by one is an error of 8e-10 of the
whole (random int8 have a standard deviation of 74, a sum of 1152 products one of 1.9e5, and
there are 41 million sums), so 1e-10 lets no mistake pass in any problem of that size or
smaller.
"""


def inputs(problem, rng):
    """Uniform over all 256 values: −128 too, whose negative does not fit into eight bits."""

    def draw(*shape):
        # Whole words are drawn, which is several times as fast as single bytes.
        size = 1
        for length in shape:
            size *= length
        return (
            rng.integers(0, 1 << 64, -(-size // 8), dtype="uint64")
            .view("int8")[:size]
            .reshape(shape)
        )

    n, h, w, c, k = (problem[name] for name in "NHWCK")
    return {"input": draw(n, h, w, c), "weight": draw(k, 3, 3, c)}


def outputs(problem):
    return {"output": (tuple(problem[name] for name in "NHWK"), "int32")}


def reference(problem, inputs):
    """Nine matrix products, one a tap, of the input shifted under the padding.

    In float64, where integers below 2⁵³ are exact: so is every partial sum.
    """
    import numpy as np

    h, w = problem["H"], problem["W"]
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    padded = np.pad(inputs["input"].astype("float64"), around)
    weight = inputs["weight"].astype("float64")
    taps = [
        padded[:, r : r + h, s : s + w, :] @ weight[:, r, s, :].T
        for r in range(3)
        for s in range(3)
    ]
    return {"output": np.sum(taps, axis=0)}


def reference_at(problem, inputs, indices):
    """Single outputs: all of n32_c128 would take minutes and gigabytes."""
    import numpy as np

    n, h, w, k = np.unravel_index(indices["output"], [problem[name] for name in "NHWK"])
    total = np.zeros(len(k))
    for r in range(3):
        for s in range(3):
            y, x = h + r - 1, w + s - 1
            inside = (y >= 0) & (y < problem["H"]) & (x >= 0) & (x < problem["W"])
            # A pixel of the padding is read somewhere inside and counted as zero.
            pixel = inputs["input"][n, y * inside, x * inside].astype("float64")
            total += inside * np.einsum("ic,ic->i", pixel, inputs["weight"][k, r, s])
    return {"output": total}


def flops(problem):
    """A multiplication and an addition for each product, those with the padding included."""
    n, h, w, c, k = (problem[name] for name in "NHWCK")
    return 2 * n * h * w * k * 9 * c


def bytes(problem):
    """Input and filters read once, a byte each; output written once, four bytes each."""
    n, h, w, c, k = (problem[name] for name in "NHWCK")
    return n * h * w * (c + 4 * k) + 9 * k * c
