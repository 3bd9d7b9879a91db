"""The emulator engine on whole studies: verify, profile, faults, the command line."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.recordings import opened
from ptxemu.run import sample, strata
from ptxemu.state.lanes import Geometry
from tests import ladders
from tests.ladders import emulated, needs_compiler
from workbench.cli import app
from workbench.counters import Missing, Reading, read
from workbench.engines import ProfileOptions, RunOptions, Subject
from workbench.engines.choice import choose
from workbench.engines.emulated import engine
from workbench.engines.emulated.emulation import verified
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.errors import (
    InconclusiveError,
    KernelError,
    MissingError,
    UsageError,
    WorkbenchError,
)
from workbench.measure.plan import Combination, UnableError
from workbench.model import Problem, Profile
from workbench.processes.bounds import Deadline
from workbench.project import Project, require_project
from workbench.specs import Version
from workbench.study.folder import Study, load_study, study_names

REPO = Path(__file__).resolve().parent.parent.parent


pytestmark = [pytest.mark.nvcc, needs_compiler]


@pytest.fixture(scope="module")
def ours() -> Project:
    return require_project(REPO)


@pytest.fixture(scope="module")
def broken() -> tuple[Project, Study]:
    project = require_project(REPO / "tests" / "data" / "broken")
    return project, load_study(project, "broken")


def shipped() -> list[tuple[str, str, int]]:
    """Versions by study and name, each with its place in the ladder."""
    project = require_project(REPO)
    return [
        (name, version.id, place)
        for name in study_names(project)
        for place, version in enumerate(load_study(project, name).versions.values())
        if version.kind != "python"
    ]


#: Five to 25 seconds a version, to give 132 blocks that stay a second tile: what a GPU does in no
#: time, `tests/kernels/test_conv2d_int8.py` does here with a single block.
TOO_LONG = {("conv2d_int8", "n140_h10")}
#: The same in other words, left to `make test-long` for every version.
LONG = {("conv2d_int8", "n140")}


def portions(study: Study, version: Version) -> tuple[list[Problem], list[Problem]]:
    """One verify problem that a version can do, its neighbour's another one; and all others."""
    able = []
    for problem in study.problems_for("verify"):
        with contextlib.suppress(UnableError):
            Combination.of(study, version, problem)
            able.append(problem)
    long = [each for each in able if (study.name, each.name) in LONG]
    able = [each for each in able if (study.name, each.name) not in TOO_LONG | LONG]
    place = list(study.versions).index(version.id) % len(able)
    return [able[place]], able[:place] + able[place + 1 :] + long


@pytest.mark.parametrize(
    ("study", "version", "portion"),
    [
        # Neighbours share all but one step: of two, the slow tests take one.
        pytest.param(
            *each, portion, marks=pytest.mark.long if portion or place % 2 else pytest.mark.slow
        )
        for portion in (0, 1)
        for *each, place in shipped()
    ],
)
def test_every_shipped_version_is_right_on_the_verify_problems_it_can_do(
    ours: Project, study: str, version: str, portion: int
) -> None:
    loaded = load_study(ours, study)
    chosen = loaded.version(version)
    problems = portions(loaded, chosen)
    assert problems[0]
    for problem in problems[portion]:
        assert verified(*emulated(loaded, chosen, problem, RunOptions(seed=7))).ok, problem.name


#: Version -> what the emulator says, at the line marked "// <- wrong".
SAID = {
    "v1": "shared-memory race",
    "v2": "gives a wrong result",
    "v3": "never written",
    "v4": "shared-memory race",
    "v5": "out of bounds",
    "v6": "endless wait: thread",
    "v7": "barrier not reached by all threads",
    "v8": "uninitialized memory",
    "v9": "out of bounds",
    "v10": "global-memory race",
    "v11": "shared-memory race",
}


@pytest.mark.parametrize("name", SAID)
def test_the_broken_kernels_are_caught_at_their_line(
    broken: tuple[Project, Study], name: str
) -> None:
    project, study = broken
    version, problem = study.version(name), study.problem("n1000")
    with pytest.raises(KernelError, match=SAID[name]) as caught:
        options = RunOptions(seed=3, instruction_limit=100_000)
        verified(*emulated(study, version, problem, options, project))
    lines = version.text.splitlines()
    (wrong,) = [i for i, line in enumerate(lines, 1) if line.endswith("// <- wrong")]
    assert caught.value.message.startswith(f"{version.path}:{wrong}: "), caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", ["v2", "v5"])
def test_what_verify_refuses_is_not_profiled_either(
    broken: tuple[Project, Study], name: str
) -> None:
    project, study = broken
    engine = EmulatorEngine(project, RunOptions(seed=3, instruction_limit=100_000))
    version = study.version(name)
    subject = Subject.of(study, version, study.problem("n1000"), engine.build)
    with pytest.raises(KernelError, match=SAID[name]) as caught:
        engine.profile(subject, ProfileOptions())
    (wrong,) = [i for i, line in enumerate(version.text.splitlines(), 1) if "// <- wrong" in line]
    assert caught.value.message.startswith(f"{version.path}:{wrong}: "), caught.value.message


@pytest.mark.parametrize(
    ("problem", "blocks", "words"),
    [
        ("n1000", 0, ""),
        ("n4096", 0, "were looked for on n1000, not on n4096"),
        ("n1", 0, "were not looked for"),
        ("n4096", 8, "were looked for on n1000, not on n4096"),
    ],
)
def test_where_races_were_not_looked_for_is_said(
    broken: tuple[Project, Study],
    monkeypatch: pytest.MonkeyPatch,
    problem: str,
    blocks: int,
    words: str,
) -> None:
    project, study = broken
    bound = 0 if problem != "n1000" else 10**9
    monkeypatch.setattr("workbench.engines.emulated.engine._WATCHED_BELOW", bound)
    engine = EmulatorEngine(project, RunOptions(seed=3))
    version = study.version("v0")
    subject = Subject.of(study, version, study.problem(problem), engine.build)
    made, _ = engine.profile(subject, ProfileOptions(blocks=blocks))
    said = [each.message for each in made.notices if each.code == "not-watched"]
    assert len(said) == bool(words) and words in "".join(said)
    assert made.verification is not None
    assert made.verification.problem == ("n1000" if blocks else problem)


@pytest.mark.parametrize("stops", [False, True])
def test_a_study_that_does_not_end_is_broken_off(
    broken: tuple[Project, Study], monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    project, study = broken

    def inputs(*_: object) -> dict[str, object]:
        while True:
            if stops:
                os.kill(os.getpid(), signal.SIGSTOP)

    monkeypatch.setattr(Study, "inputs", inputs)
    engine = EmulatorEngine(project, RunOptions(limit=Deadline(1.0), seed=1))
    version, problem = study.version("v0"), study.problem("n1000")
    built = EmulatorEngine(project, RunOptions()).build(version)  # which needs longer
    subject = Subject.of(study, version, problem, lambda _version: built)
    verdicts = []
    engine.verify([subject], lambda _, verdict: verdicts.append(verdict), lambda _: None)
    (verdict,) = verdicts
    assert verdict.error is not None and verdict.error.exit_code == 4
    assert verdict.error.message == "v0 on n1000 did not end within 1 s in the emulator"


def test_a_study_that_takes_too_much_memory_is_told(
    broken: tuple[Project, Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, study = broken
    monkeypatch.setenv("WORKBENCH_MEMORY_MIB", "200")
    # Far more than a process can give back meanwhile, whose garbage counts as room.
    monkeypatch.setattr(Study, "inputs", lambda *_: {"x": np.ones(1 << 30, "f4")})
    engine = EmulatorEngine(project, RunOptions(seed=1))
    version, problem = study.version("v0"), study.problem("n1000")
    subject = Subject.of(study, version, problem, engine.build)
    with pytest.raises(KernelError, match="v0 on n1000 needs more memory than the 200 MiB"):
        engine.profile(subject, ProfileOptions())


def test_the_time_limit_is_kept(broken: tuple[Project, Study]) -> None:
    project, study = broken
    version = study.version("v0")
    slow = ladders.mutated(
        version,
        "__shared__ float tile[258];",
        "__shared__ float tile[258]; for (unsigned k = 0; k < 4000000000u; ++k) y[0] = x[k % 7];",
    )
    EmulatorEngine(project, RunOptions()).build(slow)  # which needs longer
    options = RunOptions(limit=Deadline(1.0), seed=1, instruction_limit=1 << 40)
    begin = time.perf_counter()
    with pytest.raises(KernelError, match=r"v0_right\.cu:\d+: .* did not end within 1 s") as raised:
        emulated(study, slow, study.problem("n4096"), options, project)
    assert time.perf_counter() - begin < 100 and raised.value.exit_code == 4
    assert "allow more with --timeout SECONDS" in raised.value.hint


def test_what_has_no_turn_before_all_time_is_over_is_not_judged(
    broken: tuple[Project, Study],
) -> None:
    project, study = broken
    version = study.version("v0")
    subject = Subject.of(
        study, version, study.problem("n1"), EmulatorEngine(project, RunOptions()).build
    )
    late = EmulatorEngine(project, RunOptions(seed=1).within(1e-3))
    time.sleep(0.01)
    with pytest.raises(InconclusiveError, match=r"v0 was not tried on n1: .* had passed") as raised:
        late.profile(subject, ProfileOptions())
    assert raised.value.exit_code == 6


def test_a_wrong_element_is_traced_to_its_writer(broken: tuple[Project, Study]) -> None:
    project, study = broken
    version, problem = study.version("v2"), study.problem("n1000")
    done = emulated(study, version, problem, RunOptions(seed=3), project)
    with pytest.raises(KernelError) as caught:
        verified(*done)
    words = caught.value.message.splitlines()[-1]
    # Elements 256, 512 and 768 are off: each block but the first has a wrong left halo.
    assert words.startswith(
        "3 of 1,000 elements of y are off by more than the tolerance; the first is y[256]: "
    )
    assert "by thread (0, 0, 0) of block (1, 0, 0)" in words
    assert "contributed to 3 of 3 such elements and to 1 of 997 correct ones" in words


def test_the_store_that_ends_at_the_gap_is_named_first(broken: tuple[Project, Study]) -> None:
    project, study = broken
    line = "    if (i < n) y[i] = (tile[t] + tile[t + 1] + tile[t + 2]) / 3.0f;\n"
    halves = line.replace("i < n", "i < n / 4") + line.replace("i < n", "i >= n / 4 && i < n - 9")
    version = ladders.mutated(study.version("v0"), line, halves)
    done = emulated(study, version, study.problem("n1000"), RunOptions(seed=3), project)
    with pytest.raises(KernelError) as caught:
        verified(*done)
    assert caught.value.message.startswith("kernels/broken/v0_right.cu:17: ")
    assert "stored to by this line, kernels/broken/v0_right.cu:16" in caught.value.message
    assert "grid" not in caught.value.message.splitlines()[-1]


def test_the_right_kernel_is_not_accused(broken: tuple[Project, Study]) -> None:
    project, study = broken
    for problem in study.problems.values():
        done = emulated(study, study.version("v0"), problem, RunOptions(seed=3), project)
        assert verified(*done).ok


@pytest.mark.parametrize(
    ("taken", "size", "said"),
    [
        ("const double*", "float32", "`x` is float32, but average takes it as double*"),
        ("const float*", "float64", "`x` is float64, but average takes it as float*"),
    ],
)
def test_an_array_of_another_type_is_named_first(
    taken: str, size: str, said: str, tmp_path: Path
) -> None:
    """The one is read beyond its end, the other as noise."""
    shutil.copytree(REPO / "tests" / "data" / "broken", tmp_path, dirs_exist_ok=True)
    for name, old, new in (
        ("v0_right.cu", "const float *", taken),
        ("study.py", 'dtype="float32")}', f'dtype="float64").astype("{size}")}}'),
    ):
        path = tmp_path / "kernels" / "broken" / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
    project = require_project(tmp_path)
    study = load_study(project, "broken")
    problem, options = study.problem("n1000"), RunOptions(seed=3)
    with pytest.raises(WorkbenchError) as caught:
        verified(*emulated(study, study.version("v0"), problem, options, project))
    if size == "float32":
        assert caught.value.hint.startswith(f"{said}: give both the same type. ")
    else:  # NumPy's own type, before anything runs
        assert isinstance(caught.value, UsageError)
        assert caught.value.message == f"kernels/broken/v0_right.cu:7: {said}"
        assert 'dtype="float32"' in caught.value.hint


@pytest.fixture(scope="module")
def profiles(ours: Project) -> dict[str, Profile]:
    study = load_study(ours, "sgemm")
    return {
        name: ladders.profile(study, study.version(name), study.problem("n256"), seed=5)
        for name in ("v2", "v3", "v4")
    }


def value(profile: Profile, counter: str) -> float:
    reading = read(profile.launches[0], counter)
    assert isinstance(reading, Reading), (counter, reading)
    return reading.value


def test_a_profile_counts_what_addresses_say(profiles: dict[str, Profile]) -> None:
    v2, v3, v4 = profiles["v2"], profiles["v3"], profiles["v4"]
    tiles = (256 // 32) ** 3
    # v2 stores one tile by columns: 32 rows of 32 conflicts; every other access is clean.
    assert value(v2, "shared_wavefronts_excess") == tiles * 32 * 31
    assert value(v3, "shared_wavefronts_excess") == 0
    assert value(v3, "ffma_threads") == 256**3 == value(v4, "ffma_threads")
    assert value(v3, "global_load_sectors") == tiles * 2 * 32 * 4
    assert value(v3, "global_load_bytes_per_sector") == 32
    assert value(v3, "theoretical_occupancy") == 100


def test_the_mix_and_the_arithmetic_add_up(profiles: dict[str, Profile]) -> None:
    for name in ("v3", "v4"):
        metrics = profiles[name].launches[0].metrics
        numbers = {
            key: metric.value
            for key, metric in metrics.items()
            if not isinstance(metric.value, str)
        }
        mix = {
            key: each for key, each in numbers.items() if key.startswith("ptx__inst_executed_class")
        }
        assert sum(mix.values()) == numbers["ptx__inst_executed"]
        assert mix["ptx__inst_executed_class_float32"] >= 256**3 / 32
        assert numbers["ptx__operations"] == 2 * 256**3
        sectors = numbers["memory_l2_theoretical_sectors_global"]
        assert numbers["ptx__operations_per_l2_byte"] == 2 * 256**3 / (32 * sectors)
        loads = numbers["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
        assert numbers["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == sectors - loads
    v2 = profiles["v2"].launches[0].metrics
    assert v2["ptx__shared_conflict_ways_max"].value == 32


@pytest.mark.parametrize("cubin", [None, b"not a cubin"])
def test_without_machine_code_ptx_is_counted_and_that_is_said(
    ours: Project, tmp_path: Path, cubin: bytes | None
) -> None:
    """As where the PTX of a recorded profile is run, or a later ptxas writes other tables."""
    study = load_study(ours, "scale_add")
    engine = EmulatorEngine(ours, RunOptions(seed=5))
    version, problem = study.version("v0"), study.problems_for("verify")[0]
    built = engine.build(version)
    subject = Subject.of(study, version, problem, engine.build)
    path = tmp_path / "kernel.cubin"
    if cubin is not None:
        path.write_bytes(cubin)
    codes, metrics = [], []
    for one in (built, msgspec.structs.replace(built, cubin=path)):
        made, _ = engine.profile(msgspec.structs.replace(subject, built=one), ProfileOptions())
        codes.append([notice.code for notice in made.notices])
        metrics.append(made.launches[0].metrics)
    assert codes == [["emulated"], ["emulated", "no-machine-code"]]
    only = metrics[0].keys() - metrics[1].keys()
    assert {"ptx__machine_inst_estimate", "ptx__bound_cycles_issue_slots", "ptxas__code"} <= only
    assert all(
        "machine" in name for name in only - {"ptx__bound_cycles_issue_slots", "ptxas__code"}
    )


def test_what_it_cannot_know_is_missing(profiles: dict[str, Profile]) -> None:
    launch = profiles["v3"].launches[0]
    for counter in ("duration", "cycles", "mio_throttle", "l2_hit_rate", "achieved_occupancy"):
        assert isinstance(read(launch, counter), Missing)


def test_names_of_ncu_stand_only_where_the_definition_is_the_same(
    profiles: dict[str, Profile],
) -> None:
    same = re.compile(
        r"memory_l[12]_|smsp__branch_targets_threads_divergent|launch__|l1tex__t_(sectors|requests)"
        r"|smsp__sass_average_data_bytes|sm__maximum_warps"
    )
    for name in (
        *profiles["v3"].launches[0].metrics,
        *profiles["v3"].launches[0].instructions.columns,
    ):
        assert name.startswith(("ptx__", "ptxas__")) or same.match(name), name


def test_lines_add_up_to_the_kernel(profiles: dict[str, Profile]) -> None:
    launch = profiles["v4"].launches[0]
    for name, column in launch.instructions.columns.items():
        if name in launch.metrics and name != "ptx__machine_inst_estimate":
            assert sum(column.values) == launch.metrics[name].value, name
    table = launch.instructions
    assert len(table.text) == len(table.line) == len(table.file) == len(table.address)
    assert {profiles["v4"].sources[i].path for i in table.file if i >= 0} == {
        "kernels/sgemm/v4_thread_tile.cu"
    }


def test_the_bound_names_what_binds(profiles: dict[str, Profile]) -> None:
    for profile in profiles.values():
        metrics = profile.launches[0].metrics
        bounds = {
            name: metric.value
            for name, metric in metrics.items()
            if name.startswith("ptx__bound_cycles_") and not isinstance(metric.value, str)
        }
        assert metrics["ptx__bound_cycles"].value == max(bounds.values()) > 0
        # 2·n³ operations cannot run faster than the FMA lanes of all SMs allow.
        assert bounds["ptx__bound_cycles_fma_pipe"] == pytest.approx(256**3 / 128 / 132)


def test_counts_that_depend_on_timing_are_named_with_their_lines() -> None:
    project = opened(REPO / "tests" / "data" / "unseen")
    study = load_study(project, "scan")
    version, problem = study.version("v3"), study.problem("n512k")
    made = ladders.profile(study, version, problem, seed=5, blocks=4)
    (notice,) = [each for each in made.notices if each.code == "depends-on-timing"]
    # The loops that wait for another block's state, not the sums before them.
    named = "lines 63, 66, 67 and 2 more of kernels/scan/v3_look_back.cu"
    assert notice.message.startswith(f"scan: how often {named} run may depend on which warps meet")
    init, scan = made.launches
    assert init.by_timing is None and scan.by_timing is not None
    table = scan.instructions
    assert {table.line[row] for row in scan.by_timing.rows} >= {63, 66, 67}
    # What lines hold is the same by the table and by the metrics.
    for name, column in table.columns.items():
        held = dict(zip(column.rows, column.values, strict=True))
        marked = sum(held.get(row, 0) for row in scan.by_timing.rows)
        whole = scan.metrics[name].value
        rest = scan.by_timing.without.get(name, whole)
        assert not isinstance(whole, str) and not isinstance(rest, str) and rest is not None
        assert whole - rest == pytest.approx(marked, abs=1), name
    assert "memory_l1_wavefronts_shared" not in scan.by_timing.without
    assert "launch__registers_per_thread" not in scan.by_timing.without


def test_without_such_lines_nothing_is_marked(profiles: dict[str, Profile]) -> None:
    assert all(launch.by_timing is None for made in profiles.values() for launch in made.launches)


def test_sampled_counters_are_marked_and_near(ours: Project, profiles: dict[str, Profile]) -> None:
    study = load_study(ours, "sgemm")
    made = ladders.profile(study, study.version("v3"), study.problem("n256"), seed=5, blocks=12)
    assert [notice.code for notice in made.notices] == ["emulated", "sampled", "not-watched"]
    assert made.verification is not None and made.verification.problem != "n1024"
    whole = profiles["v3"].launches[0].metrics
    for name in ("memory_l2_theoretical_sectors_global", "memory_l1_wavefronts_shared"):
        got, want = made.launches[0].metrics[name].value, whole[name].value
        assert not isinstance(got, str) and not isinstance(want, str)
        assert got == pytest.approx(want, rel=0.02)


#: A sum of many numbers, of which each block gives one: its study cannot tell its operations.
_PARTS = """/* ---
title = "parts"
[[launch]]
kernel = "parts"
grid   = [256]
block  = [256]
args   = ["x", "sum", "N"]
--- */
__global__ void parts(const float* x, float* sum, int n) {
    __shared__ float part[256];
    float mine = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) mine += x[i];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sum[blockIdx.x] = part[0];
}
"""
_PARTS_STUDY = """title = "parts"
input_names = ("x",)
problems = {
    "whole": {"N": 1048576, "uses": ("profile", "sweep")},
    "small": {"N": 32768, "uses": ("verify", "sweep")},
}
tolerance = 1e-05
tolerance_why = "another order of sums"
inputs = lambda problem, rng: {"x": rng.random(problem["N"], dtype="float32")}
outputs = lambda problem: {"sum": ((256,), "float32")}
reference = "v0"
flops = lambda problem: 256
bytes = lambda problem: 4 * problem["N"] + 4 * 256
"""


def test_what_a_problem_asks_for_is_measured_and_not_what_its_study_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kernels" / "parts"
    folder.mkdir(parents=True)
    (folder / "v0.cu").write_text(_PARTS)
    (folder / "study.py").write_text(_PARTS_STUDY)
    study = load_study(Project(root=tmp_path), "parts")
    version, problem = study.version("v0"), study.problem("whole")
    assert study.flops(problem) == study.flops(study.problem("small"))  # as far as it knows
    monkeypatch.setattr(engine, "SAMPLE_ABOVE", 10_000_000)
    made = ladders.profile(study, version, problem)
    assert "sampled" in [each.code for each in made.notices]
    assert made.verification is not None and made.verification.problem == "small"
    small = ladders.profile(study, version, study.problem("small"))
    assert "sampled" not in [each.code for each in small.notices]
    # What nothing smaller can verify is run whole, however long that takes.
    cut = re.sub(r'    "small": .*\n', "", _PARTS_STUDY).replace('("prof', '("verify", "prof')
    (folder / "study.py").write_text(cut)
    study = load_study(Project(root=tmp_path), "parts")
    alone = ladders.profile(study, study.version("v0"), study.problem("whole"))
    assert "sampled" not in [each.code for each in alone.notices]


def test_samples_hold_every_edge_of_the_grid() -> None:
    geometry = Geometry((40, 30, 2), (32, 1, 1))
    chosen = sample(geometry, 100)
    assert len(chosen) < 400
    assert set(strata(geometry)) == set(strata(geometry)[chosen])
    assert sample(geometry, 10**6).tolist() == list(range(geometry.blocks))


def test_python_versions_are_refused(ours: Project) -> None:
    study = load_study(ours, "sgemm")
    with pytest.raises(MissingError, match="it runs a library's kernels"):
        ladders.profile(study, study.version("cublas"), study.problem("n256"))


def test_the_emulator_is_chosen_where_there_is_no_gpu(
    ours: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.engines.host import presence

    def nothing() -> None:
        raise MissingError("no GPU", "get one")

    monkeypatch.setattr(presence, "need_gpu", nothing)
    for profiling in (False, True):
        for wanted in ("auto", "emulator"):
            engine = choose(wanted, ours, RunOptions(), profiling=profiling)
            assert engine.name == "emulator" and not engine.times
        with pytest.raises(MissingError, match="no GPU"):
            choose("ncu", ours, RunOptions(), profiling=profiling)


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(REPO / "kernels", tmp_path / "kernels")
    (tmp_path / "workbench.toml").write_text('default_study = "sgemm"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    for version in ("v2", "v3"):
        words = ["profile", f"{version}:n256", "--engine", "emulator"]
        done = runner.invoke(app, words, catch_exceptions=False)
        first = done.output.splitlines()[0]
        assert first.startswith("engine: emulator") and "cannot know time, stalls" in first
    shown = runner.invoke(app, ["show", "v3", "--engine", "emulator"], catch_exceptions=False)
    assert "emulator" in shown.output and "Counted on a CPU" in shown.output
    diff = runner.invoke(app, ["diff", "v2", "v3", "--engine", "emulator"], catch_exceptions=False)
    assert "linked by As" in diff.output
    right = runner.invoke(
        app, ["verify", "v3", "--engine", "emulator", "--problem", "m33_n65_k17"],
        catch_exceptions=False,
    )  # fmt: skip
    assert right.exit_code == 0 and "ok" in right.output
