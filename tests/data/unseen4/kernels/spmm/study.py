"""C = A·B, A sparse in CSR form, B dense with few columns, both float32.

Row lengths are skewed: most rows are short, some are empty, a few are many times the mean.
"""

import numpy as np

title = "CSR sparse matrix times a narrow dense matrix"
input_names = ("row_start", "column", "value", "B")
problems = {
    "m20k_n32": {"M": 20000, "K": 15000, "N": 32, "MEAN": 12, "uses": ("profile", "verify")},
    "m333_n20": {"M": 333, "K": 211, "N": 20, "MEAN": 7, "uses": ("verify",)},
    "m9_n4": {"M": 9, "K": 50, "N": 4, "MEAN": 40, "uses": ("verify",)},
}
tolerance = 1e-5
tolerance_why = "sums of at most some hundred float32 products"


def inputs(p, rng):
    weight = rng.pareto(2.0, p["M"])
    weight[rng.random(p["M"]) < 0.1] = 0
    weight[0] += 1
    lengths = rng.multinomial(p["M"] * p["MEAN"], weight / weight.sum())
    start = np.concatenate([[0], np.cumsum(lengths)]).astype("int32")
    total = int(start[-1])
    # Columns ascend inside a row, as CSR usually has them; a column may come twice.
    row = np.repeat(np.arange(p["M"]), lengths)
    column = rng.integers(0, p["K"], total)
    column = column[np.lexsort((column, row))].astype("int32")
    return {
        "row_start": start,
        "column": column,
        "value": rng.standard_normal(total, dtype="float32"),
        "B": rng.standard_normal((p["K"], p["N"]), dtype="float32"),
    }


def outputs(p):
    return {"C": ((p["M"], p["N"]), "float32")}


def reference(p, inputs):
    row = np.repeat(np.arange(p["M"]), np.diff(inputs["row_start"]))
    value = inputs["value"].astype("float64")
    dense = inputs["B"].astype("float64")
    out = np.empty((p["M"], p["N"]))
    for n in range(p["N"]):
        out[:, n] = np.bincount(row, value * dense[inputs["column"], n], minlength=p["M"])
    return {"C": out}


def flops(p):
    return 2 * p["M"] * p["MEAN"] * p["N"]


def bytes(p):
    return 4 * (p["M"] + 1 + 2 * p["M"] * p["MEAN"] + p["K"] * p["N"] + p["M"] * p["N"])
