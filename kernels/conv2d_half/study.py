"""A 3×3 convolution in half precision, channels last, summed in float32.

The input is N×H×W×C, the filters K×3×3×C, the output N×H×W×K, all float16: one pixel of
padding on every side, stride 1, cross-correlation as in every deep-learning library. As a
matrix product it has N·H·W rows, K columns and 9·C products a sum. The output is rounded
to float16 once, after the whole sum: what cuDNN writes in this mode, so that both move the
same bytes. Nothing is imported at the top, so that listing the ladder costs nothing.
"""

title = "conv2d in float16, NHWC, 3×3, padding 1, float32 sums"

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
    # Nothing is a multiple of anything: only versions that copy single elements take it.
    "odd": _shape(2, 5, 7, 3, 5),
    "c17_k19": _shape(1, 6, 5, 17, 19),
    # The smallest that 16-byte copies take, in one row and in one column of pixels.
    "row": _shape(1, 1, 19, 8, 8),
    "column": _shape(2, 13, 1, 8, 16),
    # A chunk of channels, and a tile of filters, with eight fewer and eight more.
    "c56_k120": _shape(1, 9, 15, 56, 120),
    "c72_k136": _shape(1, 11, 12, 72, 136),
    "c136_k24": _shape(1, 5, 6, 136, 24),
    # Tiles of pixels that span rows and images and end inside of one: 2·127, 257 pixels.
    "p254": _shape(2, 1, 127, 16, 24),
    "p257": _shape(1, 257, 1, 8, 24),
    # Exactly one tile of everything.
    "p128": _shape(2, 8, 8, 64, 128),
}

tolerance = 6e-4
tolerance_why = """
Rounding the output to float16 moves each element by at most 2⁻¹¹ = 4.9e-4 of itself, so the
norm by no more, and by 2e-4 where there are many elements. Below it, a float32 sum of 1152
products adds 1e-6 if every step rounds, and some 1e-5 if tensor cores cut off low bits when
they align the terms. 6e-4 leaves room for both. A sum that is kept in float16 is off by
about 2⁻¹²·√(1152/3) = 5e-3 and does not pass; nor does one wrong element in two million.
"""


def inputs(problem, rng):
    """Random signs and all ten bits of the mantissa, sizes in [0.5, 1).

    Made from random bits, which is ten times as fast as drawing normal numbers for the 41
    million inputs of the largest problem. No product is near zero, so none that is left out
    stays unseen.
    """

    def draw(*shape):
        bits = rng.integers(0, 1 << 16, shape, dtype="uint16")
        bits &= 0x83FF  # sign and mantissa
        bits |= 0x3800  # the exponent of 0.5
        return bits.view("float16")

    n, h, w, c, k = (problem[name] for name in "NHWCK")
    return {"input": draw(n, h, w, c), "weight": draw(k, 3, 3, c)}


def outputs(problem):
    return {"output": (tuple(problem[name] for name in "NHWK"), "float16")}


def reference(problem, inputs):
    """Nine matrix products, one a tap, of the input shifted under the padding."""
    import numpy as np

    h, w = problem["H"], problem["W"]
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    padded = np.pad(inputs["input"].astype("float64"), around)
    weight = inputs["weight"].astype("float64")
    total = np.zeros([problem[name] for name in "NHWK"])
    for r in range(3):
        for s in range(3):
            total += padded[:, r : r + h, s : s + w, :] @ weight[:, r, s, :].T
    return {"output": total}


def reference_at(problem, inputs, indices):
    """Single outputs in float64: all of n32_c128 would take minutes and a gigabyte."""
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
    """Input and filters read once, output written once, two bytes each."""
    n, h, w, c, k = (problem[name] for name in "NHWCK")
    return 2 * (n * h * w * (c + k) + 9 * k * c)
