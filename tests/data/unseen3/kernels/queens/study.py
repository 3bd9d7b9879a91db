"""Solutions of the N queens, below each placement of the first three rows (N³ prefixes)."""

import numpy as np

title = "N queens from prefixes of three rows"
input_names = ()
problems = {
    "n11": {"N": 11, "uses": ("profile", "verify")},
    "n7": {"N": 7, "uses": ("verify",)},
}
tolerance = 1e-12
tolerance_why = "integers"


def inputs(p, rng):
    return {}


def outputs(p):
    return {"count": ((p["N"] ** 3,), "int32"), "total": ((1,), "uint64")}


def reference(p, inputs):
    n = p["N"]
    full = (1 << n) - 1

    def below(cols, left, right):
        if cols == full:
            return 1
        free, found = full & ~(cols | left | right), 0
        while free:
            bit = free & -free
            free ^= bit
            found += below(cols | bit, (left | bit) << 1 & full, (right | bit) >> 1)
        return found

    count = np.zeros(n**3)
    for i in range(n**3):
        cols = left = right = 0
        for q in (i // n // n, i // n % n, i % n):
            bit = 1 << q
            if (cols | left | right) & bit:
                break
            cols, left, right = cols | bit, (left | bit) << 1 & full, (right | bit) >> 1
        else:
            count[i] = below(cols, left, right)
    return {"count": count, "total": np.array([count.sum()])}


def flops(p):
    return p["N"] ** 5


def bytes(p):
    return 4 * p["N"] ** 3 + 8
