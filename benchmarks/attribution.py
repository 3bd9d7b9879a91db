"""How long a diff of a large source takes: 5,000 lines, 200 hunks, two reports.

    python benchmarks/attribution.py [--counters 8]

Every line carries every counter, which no real kernel does; `import pandas` in the same
run is the yardstick.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from workbench.analysis.attribution import attribute
from workbench.model import Column, Device, InstructionTable, Launch, Profile, SourceFile

STEP = """  float v# = in[i + #];
  if (v# > 0.0f) {
    acc += v# * #;
    out[i + #] = acc;
  }
  __syncthreads();
  for (int k = 0; k < n; ++k)
    tile[k] += v#;

  // step #
"""
HEAD = """__global__ void k(const float* in, float* out, int n) {
  int i = threadIdx.x;
  float acc = 0.0f;
  __shared__ float tile[64];
"""


def profile(lines: list[str], counters: int, extra: int) -> Profile:
    """A profile with one instruction a line, each with every counter."""
    count = len(lines)
    columns = {
        f"c{k}": Column(
            rows=tuple(range(count)), values=tuple(n * (k + extra) for n in range(count))
        )
        for k in range(counters)
    }
    table = InstructionTable(
        address=tuple(16 * n for n in range(count)),
        text=("NOP",) * count,
        file=(0,) * count,
        line=tuple(range(1, count + 1)),
        columns=columns,
    )
    return Profile(
        engine="ncu",
        device=Device(name="none", slug="none"),
        captured="",
        launches=(Launch(kernel="k", index=0, instructions=table),),
        sources=(SourceFile(path="big.cu", text="\n".join(lines)),),
    )


def large_pair(counters: int) -> tuple[Profile, Profile]:
    """Two reports of a kernel of 5,005 lines that differ in 200 of them, far apart."""
    steps = "".join(STEP.replace("#", str(n)) for n in range(500))
    old = [*(HEAD + steps).splitlines(), "}"]
    new = list(old)
    for n in range(200):
        at = 4 + 25 * n if n % 2 == 0 else 4 + 25 * n - 5 + 2
        new[at] = new[at].replace(";", " + 1.0f;")
    return profile(old, counters, 1), profile(new, counters, 2)


def main() -> None:
    """Print lines, hunks, and the best of three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counters", type=int, default=8)
    counters = parser.parse_args().counters
    sides = large_pair(counters)
    lines = (sides[0].sources[0].text or "").count("\n") + 1
    best = pandas = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        result = attribute(*sides)
        best = min(best, time.perf_counter() - start)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import pandas"], check=True)
        pandas = min(pandas, time.perf_counter() - start)
    hunks = sum(hunk.kind == "code" for hunk in result.hunks)
    sys.stdout.write(
        f"{lines} lines, {hunks} hunks, {counters} counters on every line: {best:.2f} s; "
        f"import pandas {pandas:.2f} s\n"
    )


if __name__ == "__main__":
    main()
