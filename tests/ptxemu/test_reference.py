"""Counters against real Nsight Compute reports, line by line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ptxemu.arena import memory_for
from ptxemu.counts import Counts
from ptxemu.launch import KernelLaunch
from ptxemu.ptx.instructions import Ptx
from ptxemu.run import run, sample
from tests.ptxemu.conftest import Compile, scalar

pytestmark = pytest.mark.nvcc

Report = Callable[[str], Path]
Lines = dict[int, dict[str, float]]
#: ncu's line metric -> the emulator's counter.
COUNTERS = {
    "memory_l2_theoretical_sectors_global": "sectors",
    "memory_l2_theoretical_sectors_global_ideal": "ideal",
    "memory_l1_tag_requests_global": "tags",
    "memory_l1_wavefronts_shared": "wavefronts",
    "memory_l1_wavefronts_shared_ideal": "wideal",
}


def recorded(path: Path, index: int) -> tuple[Lines, float, str]:
    """Sums of a kernel's line counters, its instructions, its source."""
    ncu_report = pytest.importorskip("ncu_report")
    action = ncu_report.load_report(str(path)).range_by_idx(0).action_by_idx(index)
    lines: Lines = defaultdict(lambda: defaultdict(float))
    total = 0.0
    for name in (*COUNTERS, "inst_executed"):
        metric = action.metric_by_name(name)
        ids = metric.correlation_ids()
        for i in range(metric.num_instances()):
            line = action.source_info(ids.as_uint64(i)).line()
            if name == "inst_executed":
                total += metric.as_double(i)
            else:
                lines[line][name] += metric.as_double(i)
    (text,) = dict(action.source_files()).values()
    return lines, total, text


def counted(outcome: Counts) -> tuple[Lines, float]:
    lines: Lines = defaultdict(lambda: defaultdict(float))
    for row in outcome.rows:
        for name, field in COUNTERS.items():
            lines[row.instr.loc.line][name] += getattr(row.site, field)
    code = outcome.machine_code()
    assert code is not None
    return lines, code.total


def check(seen: Lines, want: Lines) -> None:
    for line, counters in want.items():
        for name, value in counters.items():
            assert round(seen[line][name]) == round(value), f"line {line}: {name}"


@pytest.mark.parametrize("version", range(5))
def test_the_reference_ladder(ladder: Ptx, report: Report, version: int) -> None:
    """Every line's sectors, tags and wavefronts are exact; instructions are near."""
    n = 1024
    tile, block = (128, (256, 1, 1)) if version == 4 else (32, (32, 32, 1))
    launch = KernelLaunch(
        f"sgemm_v{version}", (n // tile, n // tile, 1), block,
        ["A", "B", "C", scalar(n)],
    )  # fmt: skip
    zeros = np.zeros((n, n), "f4")
    arena = memory_for(ladder, {"A": zeros, "B": zeros, "C": zeros})
    # Every block of these kernels does the same, so a sample scales exactly.
    outcome = run(ladder, launch, arena, blocks=sample(launch.geometry, 16))
    seen, instructions = counted(outcome)
    want, recorded_instructions, _ = recorded(report("ladder_full"), version)
    check(seen, want)
    assert abs(instructions / recorded_instructions - 1) < 0.15


@pytest.mark.parametrize("index", range(5))
def test_somebody_elses_transposes(cuda: Compile, report: Report, index: int) -> None:
    """Kernels that were not written with the emulator in mind, on another chip."""
    want, _, text = recorded(report("rtx4090-ncu2023.1-transpose-source-no-rules"), index)
    text = re.sub(r"^#include.*$", "", text.partition("int main()")[0], flags=re.MULTILINE)
    module = cuda(text.replace("__global__", 'extern "C" __global__'))
    names = ["naiveGmem", "copyGmem", "transposeSmem", "transposeSmemPad", "transposeSmemUnrollPad"]
    n = 4096
    launch = KernelLaunch(
        names[index], (n // (64 if index == 4 else 32), n // 16, 1), (32, 16, 1),
        ["A", "C", scalar(n), scalar(n)],
    )  # fmt: skip
    zeros = np.zeros((n, n), "f4")
    arena = memory_for(module, {"A": zeros, "C": zeros})
    seen, _ = counted(run(module, launch, arena, blocks=sample(launch.geometry, 64)))
    check(seen, want)


def test_the_prototypes_counts(ladder: Ptx) -> None:
    """The counts of the reference page at n = 128; at n = 1024 they are 512 times as many."""
    n = 128
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n)).astype("f4") for _ in range(2))
    counts: dict[tuple[int, int], Lines] = {}
    for version in range(5):
        tile, block = (128, (256, 1, 1)) if version == 4 else (32, (32, 32, 1))
        arena = memory_for(ladder, {"A": a, "B": b, "C": np.full((n, n), np.nan, "f4")})
        launch = KernelLaunch(
            f"sgemm_v{version}", (n // tile, n // tile, 1), block,
            ["A", "B", "C", scalar(n)],
        )  # fmt: skip
        seen, _ = counted(run(ladder, launch, arena))
        product = arena.read("C")
        want = a.astype("f8") @ b
        assert np.linalg.norm(product - want) / np.linalg.norm(want) < 1e-6
        counts[version, 0] = seen

    def at(version: int, line: int, name: str) -> float:
        return counts[version, 0][line][name] * 512

    sectors, waves = "memory_l2_theoretical_sectors_global", "memory_l1_wavefronts_shared"
    assert at(0, 8, sectors) == 1_107_296_256
    assert at(1, 17, sectors) == 167_772_160
    assert at(2, 28, sectors) == at(3, 44, sectors) == 4_194_304
    assert at(2, 28, waves) == 33_554_432
    assert at(3, 44, waves) == 1_048_576
    assert (at(4, 64, waves), at(4, 64, waves + "_ideal")) == (524_288, 262_144)
    assert at(4, 65, waves) == at(4, 65, waves + "_ideal") == 262_144
    assert (at(4, 71, waves), at(4, 71, waves + "_ideal")) == (10_485_760, 6_291_456)
