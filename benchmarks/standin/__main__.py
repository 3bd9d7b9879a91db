"""How many public CUDA programs `workbench run` runs, how many pass, and what it finds in them.

``python -m benchmarks.standin run LIST.toml --out FILE.jsonl`` runs the programs of a list, one
after the other, and appends a line for each; without a list it runs those of this project
(``tests/data/programs``: mistakes and legal programs). ``--bare`` runs them on a GPU without
workbench, for comparison. ``report FILE.jsonl`` prints the table.

The public programs are not part of this project, and neither is what builds them. A list gives
name, executable, folder, arguments and own check of each (`benchmarks.standin.outcomes.Listed`).
They were chosen by a rule before any was tried. A program is a folder (cuda-samples, HeCBench,
Rodinia, PolyBench-GPU) or a file with ``main`` that launches (courses). In alphabetical order:

- NVIDIA/cuda-samples: every folder of Samples/0, 2, 3, 5 and 6
- zjin-lcf/HeCBench: every ninth ``src/*-cuda`` that is admitted
- yuhc/gpu-rodinia and sgrauerg/polybenchGpu: every program of ``cuda`` and ``CUDA``
- courses: every third file of CoffeeBeforeArch/cuda_programming, of
  NVIDIA-developer-blog/code-samples and of the solutions of olcf/cuda-training-series, every
  fifth of Tony-Tan/CUDA_Freshman and brucefan1983/CUDA-Programming

Not admitted, by the text of the sources: closed libraries (cuBLAS, cuDNN, cuFFT, cuRAND's host
side, cuSOLVER, cuSPARSE, NPP, nvJPEG, NVRTC, NCCL, NvSci), libraries beside the toolkit,
graphics, MPI, several devices or processes, kernels loaded from a file, texture references (gone
since CUDA 12), data files that are missing or larger than 1 MB, and work that cannot be made
smaller without losing the program's own check. Dynamic parallelism, surfaces and virtual memory
are admitted; programs that CUDA 13's compiler does not take with at most one define are not.

All have line information, PTX and the shared runtime. Sizes are set by arguments, or by a
substitution within a line, from the sources alone: about 30 s at 10 to 50 million thread
instructions a second. Those of seven programs were misjudged, and set again after the first run.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from benchmarks.standin.outcomes import Outcome, listed, own_programs, run, summary


def _run(options: argparse.Namespace) -> int:
    """Run what is listed and not yet in the file."""
    known = set()
    if options.out.exists():
        known = {Outcome.read(line).name for line in options.out.read_text().splitlines()}
    for program in listed(options.list) if options.list else own_programs():
        if program.name in known or not re.search(options.only, program.name):
            continue
        outcome = run(program, options.timeout, bare=options.bare)
        with options.out.open("a", encoding="utf-8") as file:
            file.write(outcome.line)
        sys.stderr.write(
            f"{outcome.name}: {outcome.stopped or outcome.verdict}, {outcome.seconds:.1f} s, "
            f"{outcome.launches} launches, {len(outcome.faults)} faults\n"
        )
    return 0


def _report(options: argparse.Namespace) -> int:
    lines = options.out.read_text("utf-8").splitlines()
    sys.stdout.write(summary(map(Outcome.read, lines)))
    return 0


def main() -> int:
    """Run programs, or report what came of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="run the programs of a list")
    running.add_argument("list", type=Path, nargs="?", help="default: this project's own")
    running.add_argument("--out", type=Path, required=True, help="results; those there are kept")
    running.add_argument("--only", default="", metavar="RE", help="programs whose name matches")
    running.add_argument("--timeout", type=float, default=60.0, metavar="S", help="default: 60")
    running.add_argument("--bare", action="store_true", help="on a GPU, without workbench")
    running.set_defaults(do=_run)
    reporting = commands.add_parser("report", help="print the table")
    reporting.add_argument("out", type=Path)
    reporting.set_defaults(do=_report)
    options = parser.parse_args()
    return int(options.do(options))


if __name__ == "__main__":
    sys.exit(main())
