"""Processes that work together: told apart, and what waits for them never handed to ncu."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from tests.processes import runs, until
from workbench.errors import UsageError
from workbench.programs.capture.launch_choice import Wish, pick
from workbench.programs.capture.ranks import waits_for
from workbench.programs.capture.records import Survey, TracedLaunch
from workbench.programs.capture.trace import Trace, survey_of
from workbench.programs.tests.test_taking import PROGRAM, kept, place, started

__all__ = ["place"]

NCCL = "_Z41ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"


@pytest.mark.parametrize(
    ("symbol", "whom"),
    [
        (NCCL, "NCCL"),
        ("_Z30ncclKernel_AllReduce_RING_LL_Sum_floatP11ncclDevComm", "NCCL"),
        ("_Z29ncclAllReduceRingLLKernel_sum_f3212ncclWorkElem", "NCCL"),
        ("_Z36ncclSymkDevKernel_AllReduce_AGxLL_sumv", "NCCL"),
        ("_Z29nvshmemi_barrier_all_on_streamv", "NVSHMEM"),
        ("_ZN4c10d15symmetric_memory26one_shot_all_reduce_kernelIfEEv", "other ranks"),
        ("_ZN4vllm26cross_device_reduce_1stageIfLi8EEEvv", "other ranks"),
        ("_ZN7deep_ep9intranode8dispatchILi8EEEvv", "other ranks"),
        ("_Z18wait_for_peer_flagPi", "another kernel"),
        ("spin_wait", "another kernel"),
        ("sgemm_v3", ""),
        ("_Z11await_staticPf", ""),
        ("_Z12spin_lattices", ""),
        ("_Z10all_reduceILi256EEvPfS0_", ""),  # a reduction of one GPU's own
        ("_ZN2at6native13reduce_kernelILi512ELi1EEEvv", ""),
    ],
)
def test_kernels_that_wait_for_others_are_known_by_their_names(symbol: str, whom: str) -> None:
    found = waits_for(symbol)
    assert whom in found and bool(found) is bool(whom)


def test_a_cooperative_launch_on_several_gpus_is_known_by_its_launch() -> None:
    assert "other GPUs" in waits_for("sum", multi_device=True) and not waits_for("sum")


def launch(symbol: str, start: int, end: int, rank: int, stream: int = 7) -> TracedLaunch:
    return TracedLaunch(symbol, 70 + rank, rank, stream, False, start, end, (8, 1, 1), (32, 1, 1))


def straggling(steps: int = 6, numbers: bool = True, gpus: int = 2) -> Trace:
    """Two ranks: the first works 900 ns a step, the other one 500 and waits for it."""
    out = []
    for step in range(steps):
        begin = 10_000 + 2000 * step
        for rank, work in enumerate((900, 500)):
            half = begin + work // 2
            out += [
                launch("forward", begin, half, rank % gpus),
                launch("backward", half, begin + work, rank % gpus),
                launch(NCCL, begin + work, begin + 1000, rank % gpus, stream=9),
            ]
            out[-3:] = [x._replace(process=70 + rank) for x in out[-3:]]
    out.sort(key=lambda x: (x.start, x.end))
    known = {70: 0, 71: 1} if numbers else {}
    return Trace(launches=tuple(out), processes=2, ranks=known)


def survey(trace: Trace) -> Survey:
    return survey_of([trace], [0.1])


@pytest.mark.parametrize("numbers", [True, False])
def test_ranks_are_told_apart_and_who_waits_for_whom(numbers: bool) -> None:
    found = survey(straggling(numbers=numbers))
    slow, fast = found.ranks
    assert [slow.rank, fast.rank] == ([0, 1] if numbers else [-1, -1])
    assert (slow.devices, fast.devices) == ((0,), (1,)) and slow.launches == fast.launches == (18,)
    assert (slow.work_ns, fast.work_ns) == ((5400,), (3000,))
    assert slow.busy_ns == fast.busy_ns == (6000,)
    assert (slow.talk_ns, fast.talk_ns) == ((600,), (3000,))
    assert (slow.wait_ns, fast.wait_ns) == ((0,), (6 * 400,))
    assert found.gpus == 2 and found.runs[0].busy_ns == 12_000
    work = {one.name: one for one in found.works}
    assert work["forward"].ranks_ns == (6 * 450, 6 * 250)
    steady = found.steady
    assert steady is not None and steady.period == 2
    assert {x.work_ns for x in steady.ranks} == {(900,) * steady.kept, (500,) * steady.kept}
    assert steady.ranks[1].wait_ns == (400,) * steady.kept


def test_the_first_gpus_of_two_ranks_are_two() -> None:
    """Each process sees its own one as number 0."""
    found = survey(straggling(gpus=1))
    assert found.gpus == 2 and found.runs[0].busy_ns == 12_000


def test_what_does_not_fit_together_is_no_wait() -> None:
    trace = straggling()
    lone = trace.launches[:-1]  # one collective of one rank alone
    slow, fast = survey(Trace(launches=lone, processes=2, ranks=trace.ranks)).ranks
    assert slow.wait_ns == fast.wait_ns == () and fast.talk_ns


def test_one_process_and_helpers_of_one_rank_are_no_ranks() -> None:
    trace = straggling()
    alone = tuple(x for x in trace.launches if x.process == 70)
    assert survey(Trace(launches=alone, processes=1, ranks={70: 0})).ranks == ()
    quiet = tuple(x for x in trace.launches if x.symbol != NCCL)
    assert survey(Trace(launches=quiet, processes=2, ranks={70: 0, 71: 0})).ranks == ()
    assert survey(Trace(launches=quiet, processes=2)).ranks == ()


def test_of_ranks_one_is_looked_at_and_never_what_waits() -> None:
    trace = straggling()
    found = survey(trace)
    picked = pick(found, trace, Wish())
    assert {found.works[x].name for x in picked.works} == {"forward", "backward"}
    assert picked.device == 0 and max(picked.invocations) <= 6
    assert [notice.code for notice in picked.notices] == ["waits-for-others"]
    assert "NCCL" in picked.notices[0].message
    assert pick(found, trace, Wish(rank=1)).device == 1
    assert pick(found, trace, Wish(kernel="nccl")).works == ()
    with pytest.raises(UsageError, match="no rank 2"):
        pick(found, trace, Wish(rank=2))
    with pytest.raises(UsageError) as refused:
        pick(found, trace, Wish(kernel="nothing"))
    assert "forward" in refused.value.hint and "nccl" not in refused.value.hint
    alike = straggling(gpus=1)
    picked = pick(survey(alike), alike, Wish())
    assert picked.works == () and picked.notices[-1].code == "ranks-alike"


def test_a_capture_of_two_ranks_looks_at_the_slower_one(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "ranks")
    code, _, said = cli("capture", "before", "--", *PROGRAM)
    assert code == 0, said
    found = kept(place).survey
    assert [rank.rank for rank in found.ranks] == [0, 1] and found.runs[0].processes == 2
    assert found.ranks[1].wait_ns[0] > 40_000 and found.ranks[0].wait_ns == (0,)
    argv = json.loads((tmp_path / "argv.json").read_text())
    assert argv[argv.index("--devices") + 1] == "0"
    assert "nccl" not in argv[argv.index("--kernel-id") + 1]
    assert "ends after" in said and "[waits-for-others]" in said


def test_what_ranks_do_is_shown_a_line_each_and_compared(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "ranks")
    assert cli("capture", "before", "--no-detail", "--", *PROGRAM)[0] == 0
    monkeypatch.setenv("FAKE_LAUNCHES", "sgemm_v3*40@900 sgemm_v1*5@5000 [fill]*4@100")
    assert cli("capture", "after", "--no-detail", "--", *PROGRAM)[0] == 0
    code, out, _ = cli("show", "@before", "--format", "json")
    slow, fast = json.loads(out)["ranks"]
    assert code == 0 and (slow["rank"], fast["rank"], fast["gpus"]) == (0, 1, [1])
    assert fast["wait_s"] == pytest.approx(45.1e-6, rel=0.01) and slow["wait_s"] == 0
    assert slow["work_s"] - fast["work_s"] == pytest.approx(45.0e-6, rel=0.01)
    _, out, _ = cli("show", "@before")
    flat = " ".join(out.split())
    assert "rank 1 (GPU 1): works 42.2 µs, communicates" in flat
    assert "rank 0 does more sgemm_v1" in flat
    code, out, _ = cli("diff", "@before", "@after")
    flat = " ".join(out.split())
    assert code == 0 and "2 ranks together: 87" in flat and "rank 1: works " in flat
    assert "all ranks and their waiting" in flat


def test_ranks_that_do_not_end_under_ncu_leave_their_survey_and_no_error(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "ranks")
    monkeypatch.setenv("FAKE_NCU", "hang")
    monkeypatch.setattr("workbench.programs.capture.launch_choice.LEAST_S", 2.0)
    code, _, said = cli("capture", "before", "--", *PROGRAM)
    assert code == 0 and "had reached forward_gemm, launch 1" in said and "--rank N" in said
    assert [x.code for x in kept(place).notices] == ["waits-for-others", "detail-timeout"]
    assert len(kept(place).survey.ranks) == 2


def test_a_wrong_wish_does_not_lose_the_survey(place: Path, cli: Cli) -> None:
    code, _, said = cli("capture", "before", "--kernel", "nothing", "--", *PROGRAM)
    assert code == 2 and "kept as @before" in said
    assert [x.code for x in kept(place).notices] == ["detail-not-taken"]


def test_ctrl_c_under_ncu_does_not_lose_the_survey(place: Path, tmp_path: Path) -> None:
    ours, ncu = started(tmp_path, "ncu-pid", FAKE_NCU="hang")
    ours.send_signal(signal.SIGINT)
    _, said = ours.communicate(timeout=60)
    assert ours.returncode == 130 and b"kept as @before" in said
    assert kept(place).survey.launches == 50
    until(lambda: not runs(ncu))
