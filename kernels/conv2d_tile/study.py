"""Convolution of few channels with 6×6 filters, float32, no padding: a study of tiles.

y[k, p, q] = Σ_c Σ_r Σ_s x[c, p + r, q + s] · w[k, c, r, s]: a cross-correlation, as every
deep-learning library means it. x is C×H×W, w is K×C×6×6, y is K×P×Q with P = H − 5 and
Q = W − 5. The profiled problem has 6 channels in and out and 512 rows of 768 columns
(W = 768, H = 512).

432 operations an input element and channel: arithmetic binds, not memory, and yet a GPU's
library, made for hundreds of channels, has little to work with. The author of this ladder saw
his code swing between a tenth and ten times cuDNN with the number of channels and the size, so
the sweep goes over both: channels at 768×512, sizes at six channels.
"""

title = "Tiled convolution: 6×6 filters, few channels, float32"

input_names = ("x", "w")

FILTER = 6


def _problem(channels, width, height, *uses):
    return {"C": channels, "K": channels, "H": height, "W": width, "uses": uses}


def _awkward(channels_in, channels_out, height, width):
    return {"C": channels_in, "K": channels_out, "H": height, "W": width, "uses": ("verify",)}


problems = {
    "c6": _problem(6, 768, 512, "profile", "sweep"),
    # Channels: one, fewer than a group of six, two groups, a last group that is hardly filled.
    "c1": _problem(1, 768, 512, "sweep"),
    "c3": _problem(3, 768, 512, "sweep"),
    "c12": _problem(12, 768, 512, "sweep"),
    "c32": _problem(32, 768, 512, "sweep"),
    # Sizes: fewer blocks than SMs, and more than any of them can be busy with at once.
    "c6_w192": _problem(6, 192, 128, "sweep"),
    "c6_w384": _problem(6, 384, 256, "sweep"),
    "c6_w1536": _problem(6, 1536, 1024, "sweep"),
    "c6_w3072": _problem(6, 3072, 2048, "sweep"),
    # A single output, a row of them, a column.
    "one": _awkward(6, 6, 6, 6),
    "row": _awkward(2, 3, 6, 45),
    "column": _awkward(3, 2, 41, 6),
    # 8×4 outputs, one less and one more in each direction.
    "p3_q7": _awkward(6, 6, 8, 12),
    "p4_q8": _awkward(6, 6, 9, 13),
    "p5_q9": _awkward(6, 6, 10, 14),
    # Rows that 16 bytes divide, and all other remainders; channels beside groups of six.
    "c1_k1_w24": _awkward(1, 1, 13, 24),
    "c5_k7_w33": _awkward(5, 7, 21, 33),
    "c4_k13_w38": _awkward(4, 13, 18, 38),
    "c7_k5_w43": _awkward(7, 5, 14, 43),
    # More channels than six, in rows that 16 bytes divide.
    "c13_k7_w28": _awkward(13, 7, 19, 28),
    # Outputs one less than, exactly and one more than 128 columns and 8 rows.
    "c2_k6_w132": _awkward(2, 6, 12, 132),
    "c3_k6_w133": _awkward(3, 6, 13, 133),
    "c2_k8_w136": _awkward(2, 8, 22, 136),
    "c6_k6_w140": _awkward(6, 6, 37, 140),
}

tolerance = 1e-5
tolerance_why = """
A float32 sum of n products of independent, sign-mixed terms is off by about u·√n/2.4 relative
to its size when it is added up in order (u = 2⁻²⁴): 3.7e-7 for the 216 products of six
channels, 8.4e-7 for the 1152 of 32. 1e-5 leaves room for transforms and other orders, and is
29 times below the 2.9e-4 that TF32 inputs cost, so tensor cores by accident do not pass.
"""


def derive(problem):
    """Rows and columns of the output: no padding, so five fewer than the input's."""
    return {"P": problem["H"] - FILTER + 1, "Q": problem["W"] - FILTER + 1}


def inputs(problem, rng):
    """Standard normal: signs are mixed, so that errors do not hide in a large sum."""
    c, k = problem["C"], problem["K"]
    return {
        "x": rng.standard_normal((c, problem["H"], problem["W"]), dtype="float32"),
        "w": rng.standard_normal((k, c, FILTER, FILTER), dtype="float32"),
    }


def outputs(problem):
    return {"y": ((problem["K"], problem["P"], problem["Q"]), "float32")}


def reference(problem, inputs):
    """36 shifted views of x; each is multiplied with its K×C taps as a matrix, in float64."""
    import numpy

    p, q = problem["P"], problem["Q"]
    x, w = inputs["x"].astype("float64"), inputs["w"].astype("float64")
    total = numpy.zeros((problem["K"], p * q))
    for r in range(FILTER):
        for s in range(FILTER):
            view = x[:, r : r + p, s : s + q].reshape(problem["C"], p * q)
            total += w[:, :, r, s] @ view
    return {"y": total.reshape(problem["K"], p, q)}


def reference_at(problem, inputs, indices):
    """Single outputs: whole planes of 3072×2048 would be 400 MB and 36 products of matrices."""
    import numpy

    k, place = divmod(numpy.asarray(indices["y"]), problem["P"] * problem["Q"])
    p, q = divmod(place, problem["Q"])
    total = numpy.zeros(k.shape)
    for r in range(FILTER):
        for s in range(FILTER):
            taps = inputs["w"][k, :, r, s].astype("float64")
            values = inputs["x"][:, p + r, q + s].astype("float64")
            total += (taps * values.T).sum(axis=1)
    return {"y": total}


def flops(problem):
    """A multiplication and an addition for each tap of each output."""
    taps = FILTER * FILTER * problem["C"]
    return 2 * taps * problem["K"] * problem["P"] * problem["Q"]


def bytes(problem):
    """Input and filters read once, the output written once, four bytes each."""
    c, k = problem["C"], problem["K"]
    read = c * problem["H"] * problem["W"] + k * c * FILTER * FILTER
    return 4 * (read + k * problem["P"] * problem["Q"])
