# ruff: noqa: E501 (rows of a table)
"""What is expected of each shipped ladder: one row a fact, which test_ladders.py holds against it.

A problem is one of the study's, by its name, or one that is made: ``M=3 N=5 K=16``.
"""

from __future__ import annotations

from typing import NamedTuple

STUDIES = (
    "conv2d",
    "conv2d_direct",
    "conv2d_half",
    "conv2d_int8",
    "conv2d_tile",
    "scale_add",
    "sgemm",
)


class Job(NamedTuple):
    """A study's problems and baselines.

    Attributes:
        default: The problem that is meant where none is named.
        profiled: Those that are recorded.
        swept: How many are swept.
        verified: No problem of `verify` takes as many floating-point operations.
        baselines: What is not ours; the first one is what others are compared with.
        work: Floating-point operations and bytes of problems.
        sampled: Problems of which single outputs are computed, and by how much, as a share of
            the largest, they may differ from those of the whole.
    """

    default: str
    profiled: tuple[str, ...]
    swept: int
    verified: float
    baselines: tuple[str, ...]
    work: dict[str, tuple[int, int]]
    sampled: dict[str, float]


JOBS = {
    "conv2d": Job(
        "c64_h128_k256",
        ("c64_h128_k256", "c32_h64_k128"),
        8,
        2e7,
        ("cudnn", "cudnn_nhwc", "cudnn_tf32", "cudnn_tf32_nhwc"),
        # N=2, C=4, 19×22, K=15, 5×3, strides 3 and 2: 7×11 outputs
        {
            "strided": (
                2 * (2 * 15 * 7 * 11) * (4 * 5 * 3),
                4 * (2 * 4 * 19 * 22 + 15 * 4 * 5 * 3 + 2 * 15 * 7 * 11),
            )
        },
        dict.fromkeys(("strided", "moat", "same", "even_taps"), 1e-12),
    ),
    "conv2d_direct": Job(
        "n4096",
        ("n4096",),
        24,
        1e7,
        ("cudnn",),
        {
            "n4096": (54 * 4096**2, 4 * (4 * 4096**2 + 27)),
            "n4096_s3": (54 * 1366**2, 4 * (3 * 4096**2 + 27 + 1366**2)),
        },
        dict.fromkeys(("h65_w131", "h34_w267_s2", "h26_w391_s3"), 1e-14),
    ),
    "conv2d_half": Job(
        "n32_c128",
        ("n32_c128",),
        4,
        50e6,
        ("cudnn", "cutlass"),
        {"n32_c128": (94_371_840_000, 2 * (2 * 32 * 100 * 100 * 128 + 9 * 128 * 128))},
        dict.fromkeys(("odd", "c72_k136"), 1e-14),
    ),
    "conv2d_int8": Job(
        "n32_c128",
        ("n32_c128",),
        4,
        50e6,
        ("cublas_im2col", "cublas_product_only"),
        {"n32_c128": (94_371_840_000, 320_000 * 128 * (1 + 4) + 9 * 128 * 128)},
        dict.fromkeys(("odd", "c144_k24"), 0.0),
    ),
    "conv2d_tile": Job(
        "c6",
        ("c6",),
        9,
        15e6,
        ("cudnn",),
        {"c6": (2 * 216 * 6 * 507 * 763, 4 * (6 * 512 * 768 + 36 * 36 + 6 * 507 * 763))},
        {"c5_k7_w33": 1e-14},
    ),
    "scale_add": Job(
        "n8192",
        ("n8192",),
        5,
        200_001,
        ("pytorch",),
        {"r33_c65": (2 * 33 * 65, 8 * 33 * 65)},
        {"r33_c65": 0.0},
    ),
    "sgemm": Job(
        "n1024",
        ("n1024", "n4096"),
        8,
        2 * 256**3 + 1,
        ("cublas",),
        {"m33_n65_k17": (2 * 33 * 65 * 17, 4 * (33 * 17 + 17 * 65 + 33 * 65))},
        # K below, at and beyond one slab of 256.
        dict.fromkeys(("m33_n65_k17", "n256", "M=5 N=7 K=600"), 1e-13),
    ),
}

#: Of two ladders, the versions whose parent is not the one before them.
PARENTS = {
    "conv2d_direct": {
        "v2": "v0",  # v1 was a way that led nowhere
        "v5": "v3",  # and so was v4
        "v7": "v5",  # and v6
    },
    "sgemm": {
        # v5 is a second answer to v3, and v6 goes on from v4.
        "v5": "v3",
        "v6": "v4",
        "v9": "v22",
        # On the warpgroups of compute capability 9.0, what is for small matrices, and the small
        # steps from v8 to v9; and whose step each is.
        "v13": "v11",
        "v14": "v9",
        "v15": "v10",
        "v16": "v13",
        "v17": "v8",
        "v22": "v19",
        "v23": "v9",
    },
}
# --- what they are compiled to -----------------------------------------------------------

#: Which are compiled for compute capability 9.0 alone, besides those that say so themselves.
NOT_ON_8_0 = {
    # v7's 72 registers a thread are too few on 8.0, and v8's copy engine came with 9.0.
    "conv2d_direct": ("v7", "v8"),
    "conv2d_tile": ("v11",),  # the copy engine
    "sgemm": ("v14",),  # clusters
}

#: The kernel that the next table is about, where a version has several.
KERNEL = {"conv2d": "conv2d", "sgemm": "sgemm"}
#: The most registers of one of its threads.
REGISTERS: dict[str, dict[str, int]] = {
    # 32 registers let 2048 threads share an SM, which the bytes in flight count on.
    "scale_add": dict.fromkeys(("v0", "v1", "v2", "v3", "v4"), 32),
    # As many threads on an SM as the rung means to have there.
    "sgemm": {
        **dict.fromkeys(("v0", "v1", "v2", "v3"), 40),
        **dict.fromkeys(("v4", "v5", "v6", "v7"), 128),
    },
    "conv2d": {
        # Two blocks of 256 threads or four of 128 on an SM leave 128 registers, three 168.
        **dict.fromkeys(("v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v16"), 128),
        # One of 384 as well, which setmaxnreg hands out anew.
        **dict.fromkeys(("v12", "v13", "v14", "v15"), 168),
    },
    # Eight blocks on an SM.
    "conv2d_int8": dict.fromkeys(("v3", "v4", "v5", "v6", "v7", "v8", "v9"), 32),
    "conv2d_direct": {"v7": 65536 // (7 * 128)},
}

# --- what they refuse -----------------------------------------------------------------------

#: Versions, a problem that none of them does, and why; ``*`` is all that are ours.
REFUSED: dict[str, list[tuple[str, str, str]]] = {
    "conv2d": [
        ("*", "N=64 C=64 H=1024 W=1024 K=64 R=1 S=1 U=1 V=1 P=0 Q=0", "its indices are 32-bit"),
        # 1026 products an output, beyond what the tolerance bears.
        ("v11", "N=1 C=114 H=8 W=8 K=4 R=3 S=3 U=1 V=1 P=0 Q=0", "tensor cores truncate every sum"),
    ],
    "conv2d_direct": [
        ("v0", "C=3 H=32768 W=32768 U=1", "32-bit integers"),
        ("v1", "C=3 H=16384 W=16384 U=1", "into the matrix of windows"),
        ("v2", "C=3 H=64 W=64 U=8", "must fit into 48 KiB"),
        ("v3 v5 v7", "C=3 H=64 W=64 U=4", "strides of 1 to 3"),
        ("v4", "C=3 H=64 W=64 U=2", "made for a stride of 1"),
        ("v4", "C=769 H=8 W=8 U=1", "transformed filter must fit"),
        ("v6", "C=16 H=64 W=64 U=1", "rings must fit into 96 KiB"),
        ("v8", "C=3 H=64 W=65 U=1", "multiples of 16 bytes"),
        ("v8", "C=21 H=64 W=64 U=1", "must fit into 192 KiB"),
    ],
    "conv2d_half": [
        ("v2", "N=1 H=4 W=4 C=12 K=8", "it copies eight channels at a time"),
        (
            "v3 v4 v5 v6 v7 v8",
            "N=1 H=4 W=4 C=8 K=7",
            "it copies eight channels and stores two filters",
        ),
        (
            "v9 v10 v11 v12",
            "N=1 H=4 W=4 C=8 K=12",
            "it copies eight channels and stores eight filters",
        ),
        (
            "v7 v8 v9 v10 v11 v12",
            "N=1 H=4 W=257 C=8 K=8",
            "two rows of the image, which stand in shared memory twice",
        ),
        (
            "v0 v1 v2 v3 v4 v5 v6 v7 v8 v9 v10 v11 v12",
            "N=1024 H=256 W=256 C=8 K=64",
            "its indices are 32-bit integers",
        ),
    ],
    "conv2d_int8": [
        ("v8 v9", "N=1 H=4 W=4 C=6 K=8", "it loads four channels as one aligned word"),
        ("v10 v11 v12 v13 v14 v15", "N=1 H=4 W=4 C=24 K=8", "it loads 16 channels at once"),
        ("v16 v17 v18 v19 v20 v21 v22", "N=1 H=4 W=4 C=24 K=8", "rows of a tensor map"),
        ("v19 v20", "N=1 H=4 W=4 C=144 K=8", "shared memory holds filters of at most 128 channels"),
        ("v21 v22", "N=1 H=4 W=4 C=144 K=8", "registers hold filters of at most 128 channels"),
        ("v22", "N=1 H=4 W=4 C=16 K=6", "bulk copies are multiples of 16 bytes"),
        ("v14 v15", "N=1 H=4 W=4 C=144 K=8", "128 filters of at most 128 channels"),
        ("v15", "N=1 H=4 W=4 C=128 K=6", "stores four filters at once"),
        (
            "v0 v7 v9 v10 v11 v12 v13 v14 v15",
            "N=1024 H=256 W=256 C=64 K=32",
            "its indices and its sums",
        ),
        # No sum leaves 32 bits: 9 · (2^17 − 1) / 9 · 128 · 128 < 2^31.
        ("v0 v1", f"N=1 H=1 W=1 C={(2**17 - 1) // 9 + 1} K=1", "sums are 32-bit integers"),
        ("cublas_im2col cublas_product_only", "odd", "more than 16 rows"),
    ],
    "conv2d_tile": [
        ("*", "C=2 K=1 H=32768 W=32768", "its indices are 32-bit"),
        ("*", "C=1 K=262144 H=6 W=6", "its indices are 32-bit"),
    ],
    "scale_add": [("*", "R=65536 C=32768", "its indices are 32")],
    "sgemm": [("v0 v1 v2 v3 v4 v5 v6 v7 v8 v9 v10", "M=65536 N=1 K=65536", "its indices are 32")],
}
#: What is done at the edge of what is refused.
NOT_REFUSED = {
    "conv2d": [("v12", "N=1 C=114 H=8 W=8 K=4 R=3 S=3 U=1 V=1 P=0 Q=0")],
    "conv2d_int8": [
        ("v0 v1", f"N=1 H=1 W=1 C={(2**17 - 1) // 9} K=1"),
        ("cublas_im2col cublas_product_only", "n32_c128"),
    ],
    "sgemm": [("v0 v1 v2 v3 v4 v5 v6 v7 v8 v9 v10", "n16384")],
}

# --- mistakes, and how they are found ----------------------------------------------------------


class Mistake(NamedTuple):
    """A version with one place of its text replaced, and what is said of it on a problem.

    `says` are words of which one is in it, with ``|`` between them.
    """

    version: str
    problem: str
    right: str
    wrong: str
    says: str


# fmt: off
#: What the emulator finds.
MISTAKES: dict[str, list[Mistake]] = {
    "conv2d": [
        # A border that is read beyond the first row of an image.
        Mistake("v0", "same", "i >= 0 && i < H && j", "i < H && j", "out of bounds"),
        # A digit that is never carried: windows of the wrong column.
        Mistake("v6", "plain", "if (s >= S) s -= S, ++r, offset += W - S;", "", "wrong result"),
        # The next tile's copies start while others still read the stage.
        Mistake("v7", "deep", "        __syncthreads();  // everybody's", "        // everybody's", "race"),
        Mistake("v13", "moat", "wgmma_wait<0>();", "wgmma_wait<1>();", "used before its wait"),
    ],
    "conv2d_direct": [
        # An off-by-one halo: the last row of the tile is never loaded.
        Mistake("v2", "h9_w33", "height = 7 * U + 3", "height = 7 * U + 2", "uninitialized"),
        # A row below the plane taken for one of it: the next plane's first row comes in.
        Mistake("v3", "h17_w128", "row >= 0 && row < H ?", "row >= 0 && row <= H ?", "out of bounds"),
        Mistake("v3", "h33_w140", "left > 4 ? row[first + 4] : 0.0f", "0.0f", "wrong result"),
        # One group of copies too few is waited for.
        Mistake("v6", "h17_w128", "DEPTH - 2", "DEPTH - 1", "has not waited for its group"),
        # The tile begins four columns before its first window, and one row above.
        Mistake("v8", "h17_w128", '"r"(first * U - 4)', '"r"(first * U - 3)', "a tile starts at element -3"),
    ],
    "conv2d_half": [
        Mistake("v1", "odd", "first_k + i < K && product < 9 * C", "first_k + i < K", "wrong result|out of bounds"),
        Mistake("v4", "c56_k120", "            __syncthreads();\n#pragma", "#pragma", "race"),
        Mistake("v5", "c72_k136", '"n"(STAGES - 2)', '"n"(STAGES - 1)', "has not waited for its group"),
        Mistake("v12", "p254", "row < rows; row += 2 * ROWS", "false;", "uninitialized|wrong result"),
        Mistake("v19", "c72_k136", "convolve<160>(", "convolve<248>(", "out of bounds"),
        Mistake("v22", "c136_k24", "if (s == 0) arrive(&empty_a[last_a]);", "", "never completes"),
    ],
    "conv2d_int8": [
        Mistake("v1", "c5_k17", "pixel < pixels && in(h", "in(h", "out of bounds|wrong result"),
        Mistake("v2", "c130_k3", "        __syncthreads();\n", "", "race"),
        Mistake("v6", "odd", "else As[buffer][tid % BM][c] = 0;", "", "uninitialized"),
        Mistake("v9", "c48_k33", "row % HALO - 1", "row % HALO", "wrong result"),
        Mistake("v12", "p129_k129", "wait<STAGES - 2>()", "wait<STAGES - 1>()", "has not waited for its group"),
        Mistake("v19", "c48_k33", "    wait(&filters_there, 0);\n", "", "uninitialized|may still be writing"),
        Mistake("v20", "c16_k132", "arrive(&turns[2 - group]);", ";", "never completes"),
        Mistake("v22", "c16_k132", '"fence.proxy.async.shared::cta;"', '""', "proxy"),
    ],
    "conv2d_tile": [
        Mistake("v1", "p4_q8", "constexpr int PIECES = 4", "constexpr int PIECES = 3", "uninitialized"),
        Mistake("v1", "c5_k7_w33", "wide = W % 4 == 0", "wide = true", "misaligned"),
        Mistake("v2", "c4_k13_w38", "if (c + 1 < C) fetch(c + 1);", "fetch(c);", "wrong result"),
        Mistake("v3", "c4_k13_w38", "if (k + n < K) y", "y", "out of bounds"),
        Mistake("v5", "c6_k6_w140", "__syncthreads();", "", "race"),
        Mistake("v11", "c13_k7_w28", "parity ^= 1", "parity ^= 0", "never completes"),
    ],
    "scale_add": [
        Mistake("v4", "r33_c65", "const int vectors = n / 4;", "const int vectors = (n + 3) / 4;", "out of bounds"),
        Mistake("v4", "r33_c65", "else if (i == vectors)", "else if (false)", "never written"),
    ],
    "sgemm": [
        Mistake("v5", "m33_n65_k17", "a_wide = K % 2 == 0", "a_wide = true", "misaligned"),
        Mistake("v5", "m33_n65_k17", "+ i / 2 * 32 + i % 2;", "+ i;", "stores a different value to C"),
        # Without the barrier a warp reads what another's copies have not brought yet.
        Mistake("v6", "m33_n65_k17", "        __syncthreads();\n", "", "race"),
        Mistake("v6", "m33_n65_k17", "block_row + a_row + i < M && t + a_k < K", "t + a_k < K", "out of bounds"),
        Mistake("v7", "m33_n65_k17", "lane / 4 % 2 * 2 + lane % 2", "lane / 4 % 2 * 2", "never written"),
        Mistake("v19", "m33_n65_k17", "&shared[at + k * PITCH + row + i * 8]", "&shared[at + k * PITCH + row + i]", "wrong result"),
        # A part of a tile that is not there yet, and one that is forgotten.
        Mistake("v23", "m33_n65_k17", "            wait_for(&ready[other]);\n", "", "uninitialized"),
        Mistake("v11", "M=3 N=5 K=16", "wgmma_wait<0>();", "wgmma_wait<1>();", "used before its wait"),
        # The other block has not read this stage yet.
        Mistake("v12", "M=3 N=5 K=80", "init(&empty[i], 4)", "init(&empty[i], 2)", "never completes"),
    ],
}
