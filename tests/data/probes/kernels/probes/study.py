"""One warp, one address pattern a source line: what does each cost on the hardware?

Every version reads or writes memory by the rows of one table of indices and checks each
value itself; y is x plus the number of values that were wrong.
"""

title = "Address patterns against the hardware's counters"

input_names = ("x", "at", "words")

problems = {"n64": {"n": 64, "uses": ("profile", "verify")}}

tolerance = 1e-7
tolerance_why = "y is x; one wrong value in a kernel adds 1"


def inputs(problem, rng):
    """x; `at`, the table of indices (rows of 32 lanes, -1: the lane does nothing); the words.

    The table is the same whatever the seed is: counters of recorded profiles depend on it.
    """
    import numpy as np

    lane = np.arange(32)
    fixed = np.random.default_rng(6)

    def some(high, *groups):
        """Random indices; lanes with equal `groups` get equal ones."""
        key = groups[0] if groups else lane
        return fixed.integers(0, high, 1024)[key]

    def only(row, lanes):
        return np.where(lanes, row, -1)

    rows = [
        # 0: every lane alone
        lane, 31 - lane, lane * 2, lane * 4, lane * 8, lane * 32, lane * 17, lane * 33,
        lane ^ (lane // 8), (lane % 8) * 8 + ((lane // 8) ^ (lane % 8)),
        # 10: lanes that share
        lane * 0, lane // 2, lane // 4, lane // 8, lane & ~1, lane & ~2, lane & ~4, lane & ~8,
        lane % 16, (lane & ~2) * 3,
        # 20: sharing, with conflicts between those that do not
        (lane // 2) * 16, (lane // 4) * 32, (lane & ~2) * 16, (lane % 16) * 16, (lane % 8) * 32,
        np.where(lane < 30, lane // 2, lane), np.where(lane < 16, lane // 2, lane & ~2),
        (lane & ~3) * 2, lane & ~3, (lane // 16) * 32 + lane % 4,
        # 30: lanes that do nothing
        only(lane, lane < 16), only(lane, lane % 2 == 0), only(lane, lane % 4 == 0),
        only(lane, lane == 5), only(lane * 8, lane % 2 == 1), only(lane * 16, lane % 4 < 2),
        only(lane * 8, (lane < 8) | (lane >= 24)), only(lane * 3, lane % 3 == 0),
        only(lane // 2, lane % 5 != 0), only((lane & ~2) * 8, lane % 7 != 0),
        # 40: random, without equals
        fixed.permutation(32), fixed.permutation(64)[:32], fixed.permutation(256)[:32],
        fixed.permutation(1024)[:32], fixed.permutation(1024)[:32],
        only(fixed.permutation(256)[:32], fixed.random(32) < 0.5),
        only(fixed.permutation(1024)[:32], fixed.random(32) < 0.7),
        only(fixed.permutation(1024)[:32], lane % 2 == 0),
        # 48: random, with equals
        some(8), some(16), some(32), some(64), some(1024),
        some(64, lane // 2), some(1024, lane // 2), some(1024, lane & ~2), some(64, lane & ~2),
        some(256, lane // 4), some(256, lane % 16), some(256, lane & ~4),
        only(some(1024, lane // 2), fixed.random(32) < 0.5),
        only(some(1024, lane & ~2), fixed.random(32) < 0.5),
        only(some(64, lane // 2), fixed.random(32) < 0.8),
        only(some(32), fixed.random(32) < 0.5),
        # 64: pairs of lanes that share, some of them idle
        only(lane // 2, lane != 0), only(lane // 2, lane != 1), only(lane // 2, lane != 5),
        only(lane // 2, lane != 10), only(lane // 2, lane != 16), only(lane // 2, lane != 20),
        only(lane // 2, lane != 25), only(lane // 2, (lane != 4) & (lane != 9)),
        only(lane // 2, (lane != 0) & (lane != 5)), only(lane // 2, lane % 4 != 0),
        only(lane // 2, lane % 4 != 3), only(lane // 2, lane % 2 == 0),
        only(lane & ~2, lane % 4 < 2), only((lane & ~2) // 2, lane % 5 != 0),
        only((lane // 4) * 2 + lane % 2, lane != 3), only(lane // 2, lane % 16 != 0),
    ]  # fmt: skip
    words = (np.arange(4096, dtype=np.uint64) * 2654435761 % 2**32).astype("uint32")
    return {
        "x": rng.standard_normal(problem["n"], dtype="float32"),
        "at": np.stack(rows).astype("int32"),
        "words": words,
    }


def outputs(problem):
    return {"y": ((problem["n"],), "float32")}


def reference(problem, inputs):
    return {"y": inputs["x"].astype("float64")}


def flops(problem):
    return problem["n"]


def bytes(problem):
    return 8 * problem["n"]
