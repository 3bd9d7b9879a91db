"""Connected components of a binary image, least index as label"""

import numpy as np

title = "Connected components of a binary image, least index as label"
input_names = ("img",)
problems = {
    "n": {"W": 64, "H": 40, "uses": ("profile", "verify")},
    "s": {"W": 33, "H": 17, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def inputs(p, rng):
    return {"img": (rng.random((p["H"], p["W"])) < 0.55).astype("uint8")}


def outputs(p):
    return {"label": ((p["H"], p["W"]), "int32")}


def reference(p, inputs):
    h, w = p["H"], p["W"]
    im = inputs["img"]
    lab = np.full((h, w), -1.0)
    for s in range(h * w):
        if im.flat[s] and lab.flat[s] < 0:
            st = [s]
            lab.flat[s] = s
            while st:
                v = st.pop()
                y, x = divmod(v, w)
                for a, b in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                    if 0 <= a < h and 0 <= b < w and im[a, b] and lab[a, b] < 0:
                        lab[a, b] = s
                        st.append(a * w + b)
    return {"label": lab}


def flops(p):
    return 1000


def bytes(p):
    return 1000
