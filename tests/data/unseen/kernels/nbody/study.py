"""Accelerations of N bodies that attract each other, softened, in double precision."""

title = "N-body in float64"

input_names = ("body",)

problems = {
    "n1024": {"N": 1024, "uses": ("profile",)},
    "n130": {"N": 130, "uses": ("verify",)},
    "n31": {"N": 31, "uses": ("verify",)},
}

tolerance = 1e-5
tolerance_why = "the version in single precision rounds to 24 bits"


def inputs(problem, rng):
    """Positions and masses: x, y, z, m."""
    return {"body": rng.random((problem["N"], 4)) - (0.5, 0.5, 0.5, -0.1)}


def outputs(problem):
    return {"acceleration": ((problem["N"], 3), "float64")}


def reference(_problem, inputs):
    import numpy as np

    body = inputs["body"]
    apart = body[None, :, :3] - body[:, None, :3]
    r2 = (apart**2).sum(axis=2) + 1e-3
    return {"acceleration": np.einsum("ij,ijk->ik", body[:, 3] / r2**1.5, apart)}


def flops(problem):
    return 20 * problem["N"] ** 2


def bytes(problem):
    return 56 * problem["N"]
