"""c = a bᵀ with a of 64 rows, b of 32: tiles by bulk copies through a ring, wgmma.

Both come as slices of 16 columns, each in cores of 8 rows of 8 elements, as products read them.
"""

title = "Product of a warpgroup, fed by bulk copies"

input_names = ("a", "b")

problems = {
    "k128": {"k": 128, "uses": ("profile", "verify")},
    "k16": {"k": 16, "uses": ("verify",)},
}

tolerance = 1e-5
tolerance_why = "sums of products of float16 in float32 round by a few parts in 1e-7"


def inputs(problem, rng):
    shapes = {
        name: (problem["k"] // 16, rows // 8, 2, 8, 8) for name, rows in (("a", 64), ("b", 32))
    }
    return {name: rng.standard_normal(shape).astype("float16") for name, shape in shapes.items()}


def outputs(problem):
    return {"c": ((64, 32), "float32")}


def reference(problem, inputs):
    # (slice, row block, column block, row, column) -> rows and columns
    a, b = (x.astype("float64").transpose(1, 3, 0, 2, 4) for x in (inputs["a"], inputs["b"]))
    return {"c": a.reshape(64, -1) @ b.reshape(32, -1).T}


def flops(problem):
    return 2 * 64 * 32 * problem["k"]


def bytes(problem):
    return 2 * (64 + 32) * problem["k"] + 4 * 64 * 32
