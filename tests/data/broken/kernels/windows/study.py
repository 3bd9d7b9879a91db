"""y[o] = Σ over taps and channels of x · w, of images whose channels come last, with padding.

As a layer of one filter: windows of R×S pixels of eight channels, in steps of U and V.
"""

title = "Windows of images, by im2col copies"

input_names = ("x", "w")


def _problem(size, taps, steps, padding, *uses):
    (h, w), (r, s), (u, v), (p, q) = size, taps, steps, padding
    names = {"H": h, "W": w, "R": r, "S": s, "U": u, "V": v, "P": p, "Q": q}
    return {"N": 4, **names, "uses": uses}


problems = {
    # 160 outputs are three tiles of 64, for two blocks; a window is five pixels wide.
    "steps": _problem((9, 16), (2, 5), (2, 2), (1, 2), "profile", "verify"),
    "plain": _problem((5, 6), (3, 3), (1, 1), (0, 0), "verify"),
}

tolerance = 1e-5
tolerance_why = "sums of 80 products in float32 round by a few parts in 1e-7"


def derive(problem):
    rows = problem["H"] + 2 * problem["P"] - problem["R"]
    columns = problem["W"] + 2 * problem["Q"] - problem["S"]
    return {"OH": rows // problem["U"] + 1, "OW": columns // problem["V"] + 1}


def inputs(problem, rng):
    x = rng.standard_normal([problem[name] for name in "NHW"] + [8], dtype="float32")
    return {"x": x, "w": rng.standard_normal((problem["R"], problem["S"], 8), dtype="float32")}


def outputs(problem):
    return {"y": (tuple(problem[name] for name in ("N", "OH", "OW")), "float32")}


def reference(problem, inputs):
    import numpy

    p, q, u, v, oh, ow = (problem[name] for name in ("P", "Q", "U", "V", "OH", "OW"))
    padded = numpy.pad(inputs["x"].astype("float64"), ((0, 0), (p, p), (q, q), (0, 0)))
    total = numpy.zeros((problem["N"], oh, ow))
    for r in range(problem["R"]):
        for s in range(problem["S"]):
            seen = padded[:, r : r + u * (oh - 1) + 1 : u, s : s + v * (ow - 1) + 1 : v]
            total += seen @ inputs["w"][r, s].astype("float64")
    return {"y": total}


def flops(problem):
    return 16 * problem["N"] * problem["OH"] * problem["OW"] * problem["R"] * problem["S"]


def bytes(problem):
    pixels = problem["N"] * problem["H"] * problem["W"] + problem["R"] * problem["S"]
    return 32 * pixels + 4 * problem["N"] * problem["OH"] * problem["OW"]
