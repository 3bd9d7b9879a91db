"""The emulator's speed: thread instructions a second with all counters on.

SGEMM v1, v3 and v4 of the shipped study at n = 512, each several times, the median
taken, and a convolution by ``wgmma``, by multiply-adds; its memory; and, where numba is
installed, the same product under numba's CUDA simulator in the same run, compared by
multiply-adds a second. Results are checked, beside the time. ``make bench-emulator``.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time

from workbench.engines import RunOptions, Subject
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.project import require_project
from workbench.study.folder import load_study

N = 512
REPEATS = 5
VERSIONS = ("v1", "v3", "v4")
#: Study, version and problem of products by warpgroups, and the multiply-adds of that problem.
WARPGROUPS = ("conv2d_half", "v13", "n1_c128", 100 * 100 * 128 * 128 * 9)
#: What must hold on two cores.
LEAST_RATE = 100e6
LEAST_PRODUCTS = 1e9
LEAST_RATIO = 50
MOST_BYTES = 2 << 30

#: The tiled product of v1 for numba's simulator, at a size that it ends with.
NUMBA = """
import time
import numpy as np
from numba import cuda, float32
T, n = 16, 32
@cuda.jit
def sgemm(A, B, C, n):
    As = cuda.shared.array((16, 16), float32)
    Bs = cuda.shared.array((16, 16), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 16 + ty, cuda.blockIdx.x * 16 + tx
    total = float32(0)
    for t in range(0, n, 16):
        As[ty, tx] = A[row, t + tx]
        Bs[ty, tx] = B[t + ty, col]
        cuda.syncthreads()
        for k in range(16):
            total += As[ty, k] * Bs[k, tx]
        cuda.syncthreads()
    C[row, col] = total
A = np.random.rand(n, n).astype("f4"); B = np.random.rand(n, n).astype("f4"); C = np.zeros_like(A)
begin = time.perf_counter()
sgemm[(n // T, n // T), (T, T)](A, B, C, n)
seconds = time.perf_counter() - begin
assert np.allclose(C, A @ B, rtol=1e-4)
print(n ** 3 / seconds)
"""


def measure(study_name: str, version: str, problem: str) -> tuple[float, float]:
    """Median seconds, and thread instructions a second, of one version."""
    project = require_project()
    study = load_study(project, study_name)
    engine = EmulatorEngine(project, RunOptions(seed=1))
    chosen = study.version(version)
    subject = Subject.of(study, chosen, study.problem(problem), engine.build(chosen))
    seconds, instructions = [], 0
    for _ in range(REPEATS):
        done = engine.emulate(subject)
        assert done.check is not None and done.check.ok
        seconds.append(done.seconds)
        instructions = sum(outcome.thread_instructions for outcome in done.outcomes)
    median = statistics.median(seconds)
    return median, instructions / median


def simulator() -> float | None:
    """Multiply-adds a second of numba's CUDA simulator; None where numba is not installed."""
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(
        [sys.executable, "-c", NUMBA], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return None
    return float(done.stdout)


def peak_bytes() -> int:
    """The largest resident size of this process and of its children together."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return 1024 * (own + workers * len(os.sched_getaffinity(0)))


def main() -> int:
    """Print the table; exit code 1 where a promise does not hold."""
    begin = time.perf_counter()
    slowest, longest = float("inf"), 0.0
    sys.stdout.write(
        f"sgemm, n = {N}, all counters on, {len(os.sched_getaffinity(0))} cores" + "\n"
    )
    for version in VERSIONS:
        seconds, rate = measure("sgemm", version, f"n{N}")
        slowest, longest = min(slowest, rate), max(longest, seconds)
        sys.stdout.write(
            f"  {version}: {seconds:.3f} s, {rate / 1e6:,.0f} M thread instructions a second" + "\n"
        )
    *by_wgmma, multiply_adds = WARPGROUPS
    seconds, _ = measure(*by_wgmma)
    products = multiply_adds / seconds
    sys.stdout.write(
        f"  {' '.join(by_wgmma)}: {seconds:.3f} s, {products / 1e6:,.0f} M multiply-adds a second"
        + "\n"
    )
    memory = peak_bytes()
    sys.stdout.write(f"  memory: {memory / 2**20:,.0f} MiB at most" + "\n")
    ok = slowest >= LEAST_RATE and products >= LEAST_PRODUCTS and memory < MOST_BYTES
    there = simulator()
    if there is None:
        sys.stdout.write("  numba is not installed: no comparison with its CUDA simulator" + "\n")
    else:
        ratio = N**3 / longest / there
        sys.stdout.write(
            f"  numba's CUDA simulator: {there:,.0f} multiply-adds a second; ×{ratio:,.0f} here"
            + "\n"
        )
        ok = ok and ratio >= LEAST_RATIO
    sys.stdout.write(
        f"{'holds' if ok else 'DOES NOT HOLD'} ({time.perf_counter() - begin:.0f} s)" + "\n"
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
