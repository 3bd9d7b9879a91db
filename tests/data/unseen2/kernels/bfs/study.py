"""Breadth-first levels of a random graph"""

import numpy as np

title = "Breadth-first levels of a random graph"
input_names = ("row", "col")
problems = {
    "n2000": {"N": 2000, "D": 6, "uses": ("profile", "verify")},
    "n333": {"N": 333, "D": 4, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "short sums"


def graph(p, rng):
    n, d = p["N"], p["D"]
    deg = rng.integers(1, 2 * d, n)
    row = np.zeros(n + 1, np.int32)
    row[1:] = np.cumsum(deg)
    col = np.zeros(n * 2 * d, np.int32)
    col[: row[-1]] = rng.integers(0, n, row[-1])
    return row, col


def inputs(p, rng):
    row, col = graph(p, rng)
    return {"row": row, "col": col}


def outputs(p):
    return {"level": ((p["N"],), "int32")}


def reference(p, inputs):
    row, col = inputs["row"], inputs["col"]
    level = np.full(p["N"], -1.0)
    level[0] = 0
    front = [0]
    for k in range(10):
        nxt = []
        for v in front:
            for w in col[row[v] : row[v + 1]]:
                if level[w] < 0:
                    level[w] = k + 1
                    nxt.append(int(w))
        front = nxt
    return {"level": level}


def flops(p):
    return 1000


def bytes(p):
    return 1000
