"""Records built by hand for tests: small, complete, with numbers that are easy to check.

`make_profile()` is a two-line kernel on an H200 whose shared stores conflict; change
what a test is about and leave the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from workbench.ladder.tunings import Trial, Tuning, TuningBegun, TuningEnded, load, path_of, writing
from workbench.model import (
    Build,
    Capture,
    Column,
    Device,
    Estimate,
    InstructionTable,
    KernelResources,
    Launch,
    Metric,
    Number,
    Profile,
    Rule,
    RuleFocus,
    SourceFile,
    Timing,
)
from workbench.project import Project

H200 = Device(
    name="NVIDIA H200",
    slug="h200",
    compute_capability=(9, 0),
    sms=132,
    sm_clock=1.98e9,
    memory_clock=3.201e9,
    memory_bus_bits=6144,
    l2_bytes=60 << 20,
    memory_bytes=150_000_000_000,
)

SOURCE = """\
__global__ void scale(const float* in, float* out) {
  __shared__ float tile[32][32];
  tile[threadIdx.x][threadIdx.y] = in[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  out[threadIdx.y * 32 + threadIdx.x] = 2.0f * tile[threadIdx.y][threadIdx.x];
}
"""

#: ncu name -> (value, unit): enough for every section of `show`.
METRICS: dict[str, tuple[Number | str, str]] = {
    "gpu__time_duration.sum": (312e-6, "s"),
    "sm__cycles_elapsed.max": (617_000.0, "cycle"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": (63.0, "%"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": (92.0, "%"),
    "l1tex__throughput.avg.pct_of_peak_sustained_active": (95.0, "%"),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": (4.5, "%"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": (0.5, "%"),
    "smsp__sass_inst_executed_op_global_ld.sum": (1024.0, "inst"),
    "smsp__sass_inst_executed_op_global_st.sum": (1024.0, "inst"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": (1024.0, "request"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": (4096.0, "sector"),
    "memory_l2_theoretical_sectors_global": (8192, "sector"),
    "memory_l2_theoretical_sectors_global_ideal": (8192, "sector"),
    "memory_l1_wavefronts_shared": (33792, "wavefront"),
    "memory_l1_wavefronts_shared_ideal": (2048, "wavefront"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": (0.0, ""),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": (31744.0, ""),
    "l1tex__t_sector_hit_rate.pct": (0.5, "%"),
    "lts__t_sector_hit_rate.pct": (94.0, "%"),
    "sm__maximum_warps_per_active_cycle_pct": (100.0, "%"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": (93.8, "%"),
    "launch__occupancy_limit_registers": (2.0, "block"),
    "launch__occupancy_limit_shared_mem": (14.0, "block"),
    "launch__occupancy_limit_warps": (2.0, "block"),
    "launch__occupancy_limit_blocks": (32.0, "block"),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": (26.7, "%"),
    "smsp__average_warp_latency_per_inst_issued.ratio": (44.0, "cycle"),
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio": (33.0, "inst"),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": (5.4, "inst"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": (4.6, "inst"),
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": (1.0, "inst"),
    "smsp__inst_executed.sum": (20480.0, "inst"),
    "launch__registers_per_thread": (29, "register/thread"),
    "launch__shared_mem_per_block_static": (4096, "byte/block"),
    "launch__grid_size": (32, ""),
    "launch__block_size": (1024, ""),
    "launch__waves_per_multiprocessor": (0.12, ""),
    "smsp__pcsamp_sample_count": (1000, ""),
}


def make_metrics(**changes: Number | str | None) -> dict[str, Metric]:
    """`METRICS` as records. A change is ``ncu_name=value`` (None removes it)."""
    table = {name: Metric(value=value, unit=unit) for name, (value, unit) in METRICS.items()}
    for name, value in changes.items():
        if value is None:
            table.pop(name, None)
        else:
            unit = table[name].unit if name in table else ""
            table[name] = Metric(value=value, unit=unit)
    return table


def make_instructions(**columns: Mapping[int, Number]) -> InstructionTable:
    """Five instructions on lines 3, 3, 4, 5, 5 of `SOURCE`; columns are {row: value}."""
    chosen: Mapping[str, Mapping[int, Number]] = columns or {
        "inst_executed": {0: 1024, 1: 1024, 2: 1024, 3: 1024, 4: 1024},
        "thread_inst_executed_true": {0: 32768, 1: 32768, 2: 32768, 3: 32768, 4: 32768},
        "memory_l1_wavefronts_shared": {1: 32768, 3: 1024},
        "memory_l1_wavefronts_shared_ideal": {1: 1024, 3: 1024},
        "memory_l2_theoretical_sectors_global": {0: 4096, 4: 4096},
        "memory_l2_theoretical_sectors_global_ideal": {0: 4096, 4: 4096},
        "smsp__pcsamp_sample_count": {0: 100, 1: 700, 2: 120, 3: 60, 4: 20},
        "smsp__pcsamp_warps_issue_stalled_mio_throttle": {1: 650, 3: 30},
        "smsp__pcsamp_warps_issue_stalled_barrier": {2: 110},
        "smsp__pcsamp_warps_issue_stalled_long_scoreboard": {0: 20, 1: 50},
        "smsp__pcsamp_warps_issue_stalled_selected": {0: 80, 2: 10, 3: 30, 4: 20},
    }
    return InstructionTable(
        address=(0, 16, 32, 48, 64),
        text=(
            "LDG.E R4, [R2.64]",
            "STS [R6], R4",
            "BAR.SYNC 0x0",
            "LDS R5, [R7]",
            "@!P0 STG.E [R8.64], R5",
        ),
        file=(0, 0, 0, 0, 0),
        line=(3, 3, 4, 5, 5),
        columns={
            name: Column(rows=tuple(cells), values=tuple(cells.values()))
            for name, cells in chosen.items()
        },
    )


RULE = Rule(
    id="SOLBottleneck",
    section="SpeedOfLight",
    name="High memory throughput",
    kind="optimization",
    title="High Memory Throughput",
    message="Memory is more heavily utilized than compute.",
    speedup=12.5,
    scope="global",
    focus=(RuleFocus(metric="l1tex__throughput.avg.pct_of_peak_sustained_active", value=95.0),),
)


def make_launch(**overrides: Any) -> Launch:
    """A profiled launch of kernel ``scale``; any field of `Launch` can be given."""
    fields: dict[str, Any] = {
        "kernel": "scale",
        "index": 0,
        "grid": (32, 1, 1),
        "block": (32, 32, 1),
        "metrics": make_metrics(),
        "instructions": make_instructions(),
        "rules": (RULE,),
        "nvtx": ("workbench@v2",),
    }
    fields.update(overrides)
    return Launch(**fields)


def make_profile(**overrides: Any) -> Profile:
    """A profile of ``demo/v2`` on problem ``n1024``; any field of `Profile` can be given."""
    fields: dict[str, Any] = {
        "engine": "ncu",
        "device": H200,
        "captured": "2026-11-20T10:00:00Z",
        "launches": (make_launch(),),
        "study": "demo",
        "version": "v2",
        "problem": "n1024",
        "parameters": {"N": 1024},
        "tools": {"ncu": "2025.3.1.0", "driver": "580.95", "workbench": "0.1.0"},
        "capture": Capture(
            command=("ncu", "--clock-control", "none"), clock_control="none", passes=38
        ),
        "sources": (SourceFile(path="kernels/demo/v2_tile.cu", text=SOURCE),),
        "source_hash": "a" * 64,
        "build": Build(
            compiler="nvcc 13.0.88",
            arch="sm_90",
            resources=(KernelResources(name="scale", registers=29, static_shared=4096),),
        ),
    }
    fields.update(overrides)
    return Profile(**fields)


def make_timing(value: float = 310e-6, width: float = 0.005, **overrides: Any) -> Timing:
    """A timing of ``demo/v2``: `value` seconds with an interval of ±`width` (relative)."""
    fields: dict[str, Any] = {
        "study": "demo",
        "version": "v2",
        "problem": "n1024",
        "device": H200,
        "captured": "2026-11-20T10:05:00Z",
        "time": Estimate(value=value, low=value * (1 - width), high=value * (1 + width), n=50),
        "source_hash": "a" * 64,
    }
    fields.update(overrides)
    return Timing(**fields)


def with_metrics(profile: Profile, **changes: Number | str | None) -> Profile:
    """A copy of `profile` whose first launch has other metrics (None removes one)."""
    first = profile.launches[0]
    metrics = dict(first.metrics)
    for name, value in changes.items():
        if value is None:
            metrics.pop(name, None)
        else:
            unit = metrics[name].unit if name in metrics else ""
            metrics[name] = Metric(value=value, unit=unit)
    launch = msgspec.structs.replace(first, metrics=metrics)
    return msgspec.structs.replace(profile, launches=(launch, *profile.launches[1:]))


STUDY = '''\
"""Twice a matrix, through shared memory."""

title = "Scale: out = 2·in"
input_names = ("in_",)
problems = {
    "n1024": {"N": 1024, "uses": ("profile",)},
    "n64": {"N": 64, "uses": ("verify",)},
}
tolerance = 1e-6
tolerance_why = "a doubling is exact"


def inputs(problem, rng):
    return {"in_": rng.standard_normal(problem["N"], dtype="float32")}


def outputs(problem):
    return {"out": ((problem["N"],), "float32")}


def reference(_problem, inputs):
    return {"out": 2.0 * inputs["in_"].astype("float64")}


def flops(problem):
    return problem["N"]


def bytes(problem):
    return 8 * problem["N"]
'''

VERSION = """\
/* ---
title = "{title}"
{more}
[[launch]]
kernel = "scale"
grid   = ["cdiv(N, 1024)"]
block  = [32, 32]
args   = ["in_", "out"]
--- */
"""

BASELINE = '''\
"""A library to beat.

---
title = "The library"
baseline = true
---
"""


def prepare(problem, parameters, buffers):
    return lambda: None
'''

#: Version file -> (title, more front matter, code).
LADDER = {
    "v0_naive.cu": ("Naive", "", SOURCE.replace("__shared__ float tile[32][32];", "")),
    "v2_tile.cu": ("Through a tile", 'parent = "v0"', SOURCE),
    "v3_padded.cu": (
        "Padded tile",
        'parent = "v2"\nchange = "One float of padding a row."',
        SOURCE.replace("[32][32]", "[32][33]"),
    ),
}


def make_project(root: Path, *, recorded: bool = True) -> Project:
    """A project with study ``demo``: v0 (nothing recorded), v2, v3 and a baseline.

    v2 and v3 have a profile and a time on problem n1024; the padding of v3 removes
    the bank conflicts and a third of the time.
    """
    folder = root / "kernels" / "demo"
    folder.mkdir(parents=True)
    (root / "workbench.toml").write_text('default_study = "demo"\n', encoding="utf-8")
    (folder / "study.py").write_text(STUDY, encoding="utf-8")
    (folder / "library.py").write_text(BASELINE, encoding="utf-8")
    for name, (title, more, code) in LADDER.items():
        front = VERSION.format(title=title, more=more)
        (folder / name).write_text(front + code, encoding="utf-8")
    project = Project(root=root, default_study="demo")
    if recorded:
        record_demo(project)
    return project


def padded(profile: Profile) -> Profile:
    """What padding the tile does to a profile's counters."""
    return with_metrics(
        profile,
        **{
            "gpu__time_duration.sum": 208e-6,
            "memory_l1_wavefronts_shared": 2048,
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 0.0,
            "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio": 12.0,
            "launch__registers_per_thread": 30,
        },
    )


def record_demo(project: Project) -> None:
    """Record v2, v3 and the baseline's time, as if captured from the files on disk."""
    from workbench.store import Store
    from workbench.study.folder import run_study, source_hash

    study, store = run_study(project, "demo"), Store.of(project)
    for name, seconds in (("v2", 310e-6), ("v3", 206e-6), ("library", 100e-6)):
        version = study.version(name)
        digest = source_hash(project, version)
        store.save_timing(make_timing(seconds, version=name, source_hash=digest, flops=1024))
        if name == "library":
            continue
        source = SourceFile(path=version.path, text=version.text)
        profile = make_profile(version=name, source_hash=digest, sources=(source,))
        store.save(padded(profile) if name == "v3" else profile)


def emulate_demo(root: Path) -> None:
    """Leave of what is recorded of the demo what an emulator could know, and no time."""
    from workbench.store import Store

    store = Store(root / "profiles")
    for entry in store.find(engine="ncu"):
        profile = store.load(entry.path)
        (launch,) = profile.launches
        metrics = {
            name: metric
            for name, metric in launch.metrics.items()
            if name.startswith(("memory_", "launch__"))
        }
        metrics["ptx__inst_executed"] = Metric(value=1000, unit="inst")
        metrics["ptx__machine_inst_estimate"] = Metric(value=1300, unit="inst")
        metrics["ptx__bound_by"] = Metric(value="shared memory")
        launches = (msgspec.structs.replace(launch, metrics=metrics),)
        device = Device(name="emulator", slug="emulator-sm90", compute_capability=(9, 0), sms=132)
        emulated = msgspec.structs.replace(
            profile, engine="emulator", device=device, launches=launches
        )
        entry.path.unlink()
        store.save(emulated)
    for path in (root / "profiles").rglob("*.time.json.zst"):
        path.unlink()


def keep_tuning(root: Path, begun: TuningBegun, kept: Iterable[Trial]) -> Tuning:
    """Record a tuning that tried all of its space."""
    with writing(root, begun) as (log, _):
        for each in kept:
            log.add(each)
        log.add(TuningEnded(ended="space", stopped="2026-11-26T09:05:00Z", gpu_s=2.0))
    return load(path_of(root, begun.gpu, begun.study, begun.version, begun.engine))
