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
    rows += copies(np)
    words = (np.arange(4096, dtype=np.uint64) * 2654435761 % 2**32).astype("uint32")
    return {
        "x": rng.standard_normal(problem["n"], dtype="float32"),
        "at": np.stack(rows).astype("int32"),
        "words": words,
    }


def copies(np):
    """Rows 80 and up, in pairs: where each lane copies 16 bytes to, and where from.

    Both in units of 16 bytes; no two lanes copy to one place. The last rows are sizes.
    """
    lane = np.arange(32)
    fixed = np.random.default_rng(9)

    def few(*pairs):
        """Some lanes copy (from, to), the others from line 8 and up to where it is aligned."""
        to, source = lane + 64, lane + 64
        source[: len(pairs)], to[: len(pairs)] = np.array(pairs).T
        return to, source

    def line(to, source=range(8)):
        """Eight lanes copy from `source` to `to`."""
        return few(*zip(source, to, strict=True))

    def mixed(sources, places, count=8, repeated=False):
        """So many lanes copy from random `sources` to random `places`."""
        taken = fixed.choice(sources, count, replace=repeated)
        return line(fixed.permutation(places)[:count], taken)

    def pitched(length, source, to, shift=0):
        """Runs of so many lanes, from rows of `source` units to rows of `to`."""
        row, col = lane // length, lane % length
        return row * to + col, row * source + col + shift

    pairs = [
        # 0: one line to one line, every place once
        *(line(np.arange(8) ^ mask) for mask in (0, 1, 2, 3, 4, 7)),
        *(line((np.arange(8) + step) % 8) for step in (1, 2, 3, 4)),
        line(7 - np.arange(8)),
        *(line(fixed.permutation(8)) for _ in range(12)),
        # 23: a few lanes that do not share
        few((0, 1)), few((0, 1), (1, 2)), few((0, 1), (2, 3)), few((0, 0), (1, 2)),
        few((0, 0), (1, 3)), few((0, 1), (1, 0)), few((0, 0), (2, 1)), few((0, 0), (3, 1)),
        few((0, 0), (2, 2), (1, 5)), few((0, 0), (1, 1), (2, 3), (3, 2)),
        few((0, 0), (1, 1), (2, 3), (3, 4)), few((0, 1), (1, 2), (2, 3), (3, 4)),
        few((0, 0), (2, 2), (5, 7), (7, 5)), few((0, 2), (1, 4), (2, 6), (3, 0)),
        few((0, 0), (2, 1), (4, 2), (6, 3)), few((0, 0), (3, 1), (4, 2), (7, 3)),
        # 39: lanes that share one place of the source
        few((7, 0), (7, 1)), few((6, 0), (6, 1)), few((7, 0), (7, 2)), few((7, 0), (7, 3)),
        few((6, 0), (6, 2)), few((7, 0), (7, 1), (7, 2)), few((7, 0), (7, 2), (7, 4)),
        few((7, 0), (7, 1), (7, 2), (7, 3)), few((7, 0), (7, 2), (7, 4), (7, 6)),
        line(np.arange(8), np.full(8, 5)),
        # 49: some lanes that share, and some that do not
        few((6, 0), (7, 1), (7, 2)), few((6, 0), (7, 1), (7, 3)), few((6, 0), (7, 1), (6, 3)),
        few((6, 0), (7, 1), (7, 2), (7, 3)), few((6, 0), (7, 1), (6, 2), (7, 3)),
        few((6, 0), (7, 1), (6, 2), (7, 3), (6, 4), (7, 5)),
        few((4, 0), (5, 1), (6, 2), (7, 3), (7, 4)),
        few((4, 0), (5, 1), (6, 2), (7, 3), (7, 5)),
        few((4, 0), (5, 1), (6, 2), (7, 3), (7, 4), (7, 5)),
        few((2, 0), (3, 1), (4, 2), (5, 3), (6, 4), (7, 5), (7, 6), (7, 7)),
        few((4, 0), (5, 1), (7, 2)), few((4, 0), (5, 1), (7, 2), (7, 3)),
        few((4, 0), (5, 1), (7, 2), (7, 4)), few((4, 0), (7, 2), (7, 4)),
        few((0, 0), (1, 1), (2, 2), (3, 3), (0, 4), (1, 5), (2, 6), (3, 7)),
        few((0, 0), (1, 1), (0, 2), (1, 3), (2, 4), (3, 5), (2, 6), (3, 7)),
        *(mixed(8, 8, repeated=True) for _ in range(12)),
        *(mixed(4, 8, repeated=True) for _ in range(4)),
        # 81: two lines to one, one to two, two to two
        *(mixed(16, 8) for _ in range(5)), *(mixed(8, 16) for _ in range(5)),
        *(mixed(16, 16, 16) for _ in range(4)),
        *(mixed(16, 16, 16, repeated=True) for _ in range(4)),
        # 99: a whole warp
        *((fixed.permutation(32), lane) for _ in range(3)),
        *((lane, fixed.permutation(32)) for _ in range(2)),
        *((fixed.permutation(32), fixed.permutation(32)) for _ in range(3)),
        *((fixed.permutation(64)[:32], fixed.permutation(1024)[:32]) for _ in range(2)),
        *((fixed.permutation(32), fixed.integers(0, 32, 32)) for _ in range(3)),
        *((fixed.permutation(64)[:32], fixed.integers(0, 64, 32)) for _ in range(2)),
        *((fixed.permutation(1024)[:32], fixed.integers(0, 16, 32)) for _ in range(2)),
        # 116: neighbours, not aligned
        *((lane + to, lane + source) for to in (0, 1, 2, 5) for source in (0, 1, 2, 3, 6)),
        # 136: rows of 32, 64 and 128 bytes
        pitched(2, 8, 2), pitched(2, 5, 3), pitched(2, 3, 4), pitched(4, 16, 4),
        pitched(4, 16, 5), pitched(4, 5, 4), pitched(4, 7, 9, 3), pitched(8, 32, 9),
        pitched(8, 9, 8), pitched(8, 17, 10, 1),
    ]  # fmt: skip
    sizes = [
        np.full(32, 16), lane % 2 * 16, np.where(lane < 8, 0, 16), np.full(32, 8),
        np.where(lane % 3 == 0, 4, 16), fixed.integers(0, 5, 32) * 4,
    ]  # fmt: skip
    return [row for pair in pairs for row in pair] + sizes


def outputs(problem):
    return {"y": ((problem["n"],), "float32")}


def reference(problem, inputs):
    return {"y": inputs["x"].astype("float64")}


def flops(problem):
    return problem["n"]


def bytes(problem):
    return 8 * problem["n"]
