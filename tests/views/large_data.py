"""A ladder as large as they come: unrolled kernels, long sources, many versions and problems.

Numbers are drawn from a seed: they mean nothing, but they have the shapes that real ones have.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.factories import METRICS, RULE, make_launch, make_metrics, make_profile, make_timing
from workbench.model import Build, Column, Estimate, InstructionTable, Profile, SourceFile
from workbench.store import Store

_SAMPLES = "smsp__pcsamp_sample_count"
_STALL = "smsp__pcsamp_warps_issue_stalled_"
_STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle"),
    *("long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc"),
    *("no_instructions", "not_selected", "selected", "short_scoreboard", "sleeping"),
    *("tex_throttle", "wait"),
)
#: Columns that nearly every instruction has, besides the stalls.
_DENSE = ("inst_executed", "thread_inst_executed", "thread_inst_executed_true")
_MEMORY = (
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
)
_OPERATIONS = (
    "IMMA.16832.S8.S8 R{0}, R{1}.ROW, R{2}.COL, R{0}",
    "LDSM.16.MT88.4 R{0}, [R{1}+UR4+0x{2:x}00]",
    "@!UP0 LDGSTS.E.BYPASS.LTC128B.128 [R{0}+0x{1:x}000], desc[UR18][R{2}.64]",
    "IADD3 R{0}, P{3}, R{1}, R{2}, RZ",
    "LOP3.LUT R{0}, R{1}, 0x{2:x}, R{0}, 0x78, !PT",
)


VERSIONS = tuple(f"v{n}" for n in range(14))
PROBLEMS = tuple(f"c{c}_h{h}_k{k}" for c in (32, 64) for h in (64, 128) for k in (64, 128, 256))


def source(lines: int, seed: int) -> str:
    """CUDA-like text in which some lines differ from seed to seed."""
    rng = random.Random(seed)
    out = ["#include <mma.h>", "", "__global__ void conv(const int8_t* x, int* y) {"]
    for line in range(lines - 4):
        row, column = line % 16, rng.choice((8, 16)) if line % 9 == 0 else 8
        step = f"__dp4a(a_frag[{row}], b_frag[{line % 8}], acc[{row}][0])"
        comment = f"// step {line}: row {row} of the tile"
        out.append(f"  {comment}" if line % 7 == 0 else f"  acc[{row}][{column}] = {step};")
    return "\n".join([*out, "}", ""])


def instructions(count: int, lines: int, seed: int) -> InstructionTable:
    """`count` instructions over `lines` source lines, with some 40 columns of counters."""
    rng = random.Random(seed)
    weight = [rng.paretovariate(1.2) for _ in range(count)]

    def column(density: float, scale: float) -> Column:
        rows = [row for row in range(count) if rng.random() < density]
        values = [max(1, int(scale * weight[row] * rng.uniform(0.5, 1.5))) for row in rows]
        return Column(rows=tuple(rows), values=tuple(values))

    columns = {name: column(0.99, 120_000) for name in _DENSE}
    columns |= {name: column(0.25, 260_000) for name in _MEMORY}
    columns[_SAMPLES] = column(0.95, 60)
    columns |= {f"{_STALL}{name}": column(0.3, 20) for name in _STALLS}
    columns |= {f"{_STALL}{name}_not_issued": column(0.2, 9) for name in _STALLS}
    text = tuple(
        rng.choice(_OPERATIONS).format(*(rng.randrange(1, 240) for _ in range(3)), rng.randrange(7))
        for _ in range(count)
    )
    line = tuple(4 + (row * 7 + rng.randrange(40)) % (lines - 5) for row in range(count))
    return InstructionTable(
        address=tuple(range(0, 16 * count, 16)),
        text=text,
        file=(0,) * count,
        line=line,
        columns=columns,
    )


def ptx(count: int, lines: int) -> str:
    """The PTX of kernel ``conv``, as a compiler writes it."""
    body = []
    for number in range(count):
        if number % 3 == 0:
            body.append(f"\t.loc\t1 {4 + number % (lines - 5)} 9")
        body.append(f"\tmad.lo.s32 \t%r{number}, %r{number + 1}, %r{number + 2}, %r{number};")
    head = [".version 9.0", ".target sm_90", ".visible .entry conv(", ")", "{"]
    return "\n".join([*head, *body, "}", '\t.file\t1 "kernels/study/v.cu"', ""])


def profile(number: int, instruction_count: int, lines: int, **fields: Any) -> Profile:
    """A version's profile: its product, and before it a kernel that unfolds the input."""
    rng = random.Random(number)

    def metrics(seconds: float) -> Any:
        moved = {
            name: value * rng.uniform(0.6, 1.4)
            for name, (value, unit) in METRICS.items()
            if isinstance(value, float) and unit != "%"
        }
        return make_metrics(**{**moved, "gpu__time_duration.sum": seconds})

    path = "kernels/study/v.cu"
    whole = 9e-3 / (number + 1)
    launches = [
        make_launch(
            kernel="conv",
            metrics=metrics(whole * 0.8),
            instructions=instructions(instruction_count, lines, number),
            rules=(RULE,) * 6,
        )
    ]
    if number % 2:
        launches.insert(
            0, make_launch(kernel="im2col", metrics=metrics(whole * 0.2), rules=(RULE,))
        )
    launches = [
        type(launch)(**{f: getattr(launch, f) for f in launch.__struct_fields__} | {"index": place})
        for place, launch in enumerate(launches)
    ]
    return make_profile(
        launches=tuple(launches),
        sources=(SourceFile(path=path, text=source(lines, number)),),
        build=Build(compiler="nvcc 13.0.88", arch="sm_90", ptx=ptx(instruction_count, lines)),
        **fields,
    )


def ladder(
    root: Path,
    study: str = "conv",
    versions: Sequence[str] = VERSIONS,
    baselines: Sequence[str] = ("cudnn", "cublas_im2col", "cublas_product_only", "pytorch"),
    problems: Sequence[str] = PROBLEMS,
    instruction_count: int = 300,
    lines: int = 120,
) -> Path:
    """A project with one ladder, swept over many problems that some versions refuse."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "workbench.toml").write_text(f'default_study = "{study}"\n', encoding="utf-8")
    store = Store(root / "profiles")
    rng = random.Random(1)
    for number, version in enumerate([*versions, *baselines]):
        baseline = version in baselines
        fields = {"study": study, "version": version, "problem": problems[-1]}
        if not baseline:
            store.save(
                profile(number, instruction_count, lines, parameters={"C": 64, "H": 128}, **fields)
            )
        for place, problem in enumerate(problems):
            if not baseline and number % 4 == 3 and place % 3 == 0:
                continue  # refused: its tiles do not fit this problem
            work = (1 << 27) * (place + 1)
            speed = 12e12 * rng.uniform(0.8, 1.2) if baseline else 2e11 * 1.42**number
            seconds = work / speed * rng.uniform(0.95, 1.05) + 4e-6
            ratio = work / 12e12 / seconds
            store.save_timing(
                make_timing(
                    seconds,
                    study=study,
                    version=version,
                    problem=problem,
                    flops=work,
                    parameters={"C": 32 + 32 * (place % 2), "H": 64 << (place % 3), "K": place},
                    baseline="" if baseline else baselines[0],
                    ratio=None
                    if baseline
                    else Estimate(value=ratio, low=ratio * 0.98, high=ratio * 1.02, n=50),
                )
            )
    return root
