"""c[i] = a bᵢᵀ for many b of 32 rows: a stays in registers, sums leave by bulk copies of rows.

Two warpgroups take the b in turns, and use one place in shared memory for their sums.
"""

title = "Products of two warpgroups, stored by bulk copies in turns"

input_names = ("a", "b")

problems = {"n6": {"n": 6, "uses": ("profile", "verify")}}

tolerance = 1e-5
tolerance_why = "sums of products of float16 in float32 round by a few parts in 1e-7"


def inputs(problem, rng):
    return {
        "a": rng.standard_normal((64, 16)).astype("float16"),
        # (matrix, row block, column block, row, column): cores of 8×8, as products read them
        "b": rng.standard_normal((problem["n"], 4, 2, 8, 8)).astype("float16"),
    }


def outputs(problem):
    return {"c": ((problem["n"], 64, 32), "float32")}


def reference(problem, inputs):
    b = inputs["b"].astype("float64").transpose(0, 1, 3, 2, 4).reshape(problem["n"], 32, 16)
    return {"c": inputs["a"].astype("float64") @ b.transpose(0, 2, 1)}


def flops(problem):
    return 2 * 64 * 32 * 16 * problem["n"]


def bytes(problem):
    return 2 * 64 * 16 + problem["n"] * (2 * 32 * 16 + 4 * 64 * 32)
