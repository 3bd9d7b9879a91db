"""Timing, profiling and sampling on a real GPU, by the sgemm ladder as an example."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.engines.stand_ins import time_one
from workbench.engines import ProfileOptions, Subject
from workbench.engines.host.job import TimeOptions
from workbench.engines.ncu.collection import Collection
from workbench.measure.experiment import Experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


def subject(experiment: Experiment, version: str, problem: str) -> Subject:
    study = experiment.study
    return experiment.subject(study.version(version), study.problem(problem))


def test_a_large_problem_is_checked_by_a_sample(sgemm: Experiment) -> None:
    (verdict,) = sgemm.verify([subject(sgemm, "v4", "n8192")])
    assert verdict.error is None, verdict.error
    assert verdict.check is not None and verdict.check.sampled == 4096


def test_time_converges_and_stands_beside_the_baseline(sgemm: Experiment) -> None:
    timing = time_one(sgemm, subject(sgemm, "v4", "n1024"), TimeOptions())
    assert timing.converged, timing.notices
    # A graph where the host, busy with other things, is too slow to keep the GPU at work.
    assert timing.method in ("events", "graph") and timing.cache == "cold"
    assert (timing.time.high - timing.time.low) <= 0.01 * timing.time.value
    assert 20e-6 < timing.time.value < 5e-3
    assert timing.first_launch > timing.time.value
    assert timing.state is not None and timing.state.sm_clock[1] > 5e8
    if importlib.util.find_spec("torch") is not None:
        assert timing.baseline == "cublas" and timing.ratio is not None
        assert 0.05 < timing.ratio.value < 1.5


def test_a_tiny_kernel_is_timed_by_graph_replay(sgemm: Experiment) -> None:
    timing = time_one(sgemm, subject(sgemm, "v0", "one"), TimeOptions())
    assert timing.method == "graph", timing.notices
    assert 0.2e-6 < timing.time.value < 20e-6
    warm = time_one(sgemm, subject(sgemm, "v0", "one"), TimeOptions(cache="warm"))
    assert warm.cache == "warm" and warm.method == "graph"
    assert warm.time.value < 20e-6


def test_a_short_baseline_takes_the_version_along(sgemm: Experiment) -> None:
    # Such dot products take v0 longer than the limit, but cuBLAS is done before the host
    # has enqueued its next call: both are replayed, so that their ratio is one of times.
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    timing = time_one(sgemm, subject(sgemm, "v0", "dots"), TimeOptions())
    assert timing.ratio is not None and timing.baseline_time is not None
    assert timing.method == "graph", timing.notices
    assert timing.baseline_time.value < timing.time.value and timing.time.value > 20e-6


def test_cold_caches_are_not_faster_than_warm_ones(sgemm: Experiment) -> None:
    cold = time_one(sgemm, subject(sgemm, "v2", "n512"), TimeOptions())
    warm = time_one(sgemm, subject(sgemm, "v2", "n512"), TimeOptions(cache="warm"))
    assert cold.time.value > 0.97 * warm.time.value


def test_profile_end_to_end(sgemm: Experiment, ncu: str) -> None:
    from workbench.model import line_counters

    profile, path = sgemm.profile(subject(sgemm, "v3", "n1024"))
    assert path.is_file() and sgemm.store.load(path) == profile
    (launch,) = profile.launches
    assert launch.kernel.startswith("sgemm") and launch.nvtx == ("workbench@v3",)
    assert profile.verification is not None and profile.verification.error < 1e-5
    assert [n for n in profile.notices if n.code in ("missing-metric", "nan-metric")] == []
    lines = line_counters(launch)
    ours = next(i for i, s in enumerate(profile.sources) if s.path.endswith("v3_padded.cu"))
    wavefronts = {
        line: c["memory_l1_wavefronts_shared"]
        for (file, line), c in lines.items()
        if file == ours and "memory_l1_wavefronts_shared" in c
    }
    assert wavefronts and all(line > 0 for line in wavefronts)
    assert profile.sources[ours].path == "kernels/sgemm/v3_padded.cu"
    command = " ".join(profile.capture.command)
    assert str(sgemm.project.root) not in command


def test_repeated_captures_keep_the_spread(sgemm: Experiment, ncu: str) -> None:
    profile, _ = sgemm.profile(
        subject(sgemm, "v3", "n1024"),
        ProfileOptions(
            collection=Collection(sections=("SpeedOfLight", "SourceCounters")), repeats=3
        ),
    )
    (launch,) = profile.launches
    spread = launch.spreads["gpu__time_duration.sum"]
    assert spread.n == 3 and spread.low <= spread.median <= spread.high
    assert launch.metrics["gpu__time_duration.sum"].value == spread.median
    counted = launch.spreads["inst_executed"]
    assert counted.low == counted.high


def test_the_baseline_can_be_profiled(sgemm: Experiment, ncu: str) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    profile, _ = sgemm.profile(subject(sgemm, "cublas", "n1024"))
    assert profile.launches and all(launch.metrics for launch in profile.launches)


def test_the_command_line_prints_what_it_runs(sgemm: Experiment, ncu: str) -> None:
    root = sgemm.project.root

    def workbench(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "workbench.cli", *words],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )

    # What only shows runs no study.py: what it needs of one was recorded when something ran.
    verified = workbench("verify", "v3", "--problem", "n256")
    assert verified.returncode == 0, verified.stderr
    shown = workbench("profile", "v3", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    bare = subprocess.run(shown.stdout, shell=True, cwd=root, capture_output=True, check=False)
    assert bare.returncode == 0, bare.stdout.decode() + bare.stderr.decode()
    done = workbench("profile", "v3", "--time")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("engine: ncu")
    assert list(sgemm.project.profiles.rglob("n1024.ncu.json.zst"))
    assert list(sgemm.project.profiles.rglob("n1024.time.json.zst"))
