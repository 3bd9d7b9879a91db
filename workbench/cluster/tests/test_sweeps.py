"""``--on slurm`` on a real Slurm: two nodes with two fake GPUs each, stand-ins on them."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.engines.stand_ins import VERSION
from tests.processes import until
from workbench.cluster.tests.desk import Desk
from workbench.cluster.tests.slurm import lacking, slurm
from workbench.store import Store

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
QUICK = ("--limit", "0.1")
EVERY = ("--all-problems", "--resume")
Collected = Callable[[], dict[str, list[dict[str, Any]]]]
SIZES = tuple(range(1000, 2000, 100))

#: Writes one stored time again and again, as a job on another node would.
_WRITER = """
import sys, time
from pathlib import Path
from workbench.store import Store
store = Store(Path(sys.argv[1]))
(timing,) = store.timings(version="v0", problem="n1000")
for _ in range(40):
    store.save_timing(timing)
print("written")
"""


def keys(desk: Desk) -> list[tuple[str, str]]:
    """What is stored; a file that cannot be read is an error."""
    return [
        (each.version, each.problem)
        for each in Store(desk.root / "profiles", may_lack=True).timings()
    ]


def test_sixty_combinations_through_all_that_may_happen(desk: Desk, collected: Collected) -> None:
    desk.study(5, SIZES, pause=0.02)
    desk.settings(cap=4, per_job=3)
    sweep = desk.start("time", "--all", *EVERY, "--on", "slurm", *QUICK)
    most = 0

    def running() -> list[dict[str, str]]:
        nonlocal most
        rows = desk.rows("RUNNING")
        most = max(most, len(rows))
        return rows

    until(lambda: ("v0", "n1000") in keys(desk) and len(running()) >= 2, 90)
    writers = [
        _srun(desk, node, "-c", _WRITER, str(desk.root / "profiles")) for node in ("node1", "node2")
    ]
    until(lambda: any(desk.kill(row) for row in running()), 30)
    for writer in writers:
        told, errors = writer.communicate(timeout=90)
        assert told == "written\n", errors
    until(lambda: bool(_requeue(desk, running())), 30)
    until(lambda: any(row["node"] == "node2" for row in running()), 30)
    desk.cluster.run("scontrol", "update", "nodename=node2", "state=drain", "reason=fan broken")
    drained = time.time()
    out, err = sweep.communicate(timeout=420)
    assert sweep.returncode == 0, err
    # 60 results, none twice, none half.
    assert sorted(keys(desk)) == sorted({*keys(desk)}) and len(keys(desk)) == 60, err
    twice = [key for key, times in Counter(desk.measured()).items() if times > 1]
    assert len(twice) <= 2, f"more than the killed job's piece and the requeued one's: {twice}"
    assert err.count("[60/60]") == 1 and "fewer" not in err
    # Where it had run is known only if it ran for a second or longer.
    assert "was requeued" in err
    assert "node node2 is drain" in err and "(fan broken): waiting work goes to other nodes" in err
    assert "queued" in err and " running, " in err
    assert most == 4
    done = collected()["done"]
    assert len(done) > 50 and not any(each.get("error") for each in done)
    # What was allocated before may begin later; Slurm tells whole seconds.
    after = {job: each for job, each in desk.allocated().items() if each[0] > int(drained)}
    assert after and {node for _, node in after.values()} == {"node1"}
    begun = [each for each in collected()["begun"] if each["job"] in after]
    later = [each for each in begun if each["begun"] > after[each["job"]][0]]
    assert later and {each["node"] for each in later} == {"node1"}
    _isolated(done)
    assert not list(desk.root.glob("profiles/**/.workbench-*")), "half written files are left"
    length = len(desk.book.read_text())
    code, again, err = desk.run("time", "--all", *EVERY, "--on", "slurm", *QUICK)
    assert code == 0 and "60 of 60 are taken from the store" in err and "Slurm's array" not in err
    assert len(desk.book.read_text()) == length, "something ran again"
    assert again == out
    assert not list(desk.root.glob(".workbench/jobs/*/order.json")), "files of it are left"


def _srun(desk: Desk, node: str, *words: str) -> Any:
    import subprocess

    return subprocess.Popen(
        ["srun", "-J", "other", "-w", node, "-n1", sys.executable, *words],
        env=desk.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _requeue(desk: Desk, rows: list[dict[str, str]]) -> str:
    for row in rows:
        if desk.payload(row):
            desk.cluster.run("scontrol", "requeue", row["id"])
            return row["id"]
    return ""


def _isolated(done: list[dict[str, Any]]) -> None:
    """No GPU had two jobs at one time; all four had some."""
    gpus: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in done:
        gpus.setdefault((each["node"], each["gpus"]), []).append(each)
    assert set(gpus) == {(node, gpu) for node in ("node1", "node2") for gpu in ("0", "1")}
    for pieces in gpus.values():
        for one, other in combinations(pieces, 2):
            apart = one["ended"] <= other["begun"] or other["ended"] <= one["begun"]
            assert apart or one["job"] == other["job"], (one, other)


def test_ctrl_c_leaves_the_jobs_and_the_same_command_comes_back(desk: Desk) -> None:
    desk.study(1, (1000, 1100))
    desk.settings(cap=1)
    sweep = desk.start("time", "v0", *EVERY, "--on", "slurm", *QUICK)
    until(lambda: bool(desk.rows("RUNNING")), 60)
    sweep.send_signal(signal.SIGINT)
    _, err = sweep.communicate(timeout=30)
    assert sweep.returncode == 130 and "workbench list jobs time-" in err, err
    assert desk.rows("RUNNING,PENDING")
    code, out, err = desk.run("list", "jobs", "--format", "json")
    (jobs,) = json.loads(out)["jobs"]
    assert code == 0 and jobs["words"].startswith(
        "workbench time v0 --all-problems --resume --on slurm"
    )
    assert jobs["queued"] + jobs["running"] + jobs["done"] == 2 and jobs["failed"] == 0
    code, out, err = desk.run("time", "v0", *EVERY, "--on", "slurm", *QUICK)
    assert code == 0 and f"joining {jobs['name']}" in err and "Slurm's array" not in err, err
    assert len(desk.measured()) == len(keys(desk)) == 2


def test_jobs_that_are_cancelled_are_gone(desk: Desk) -> None:
    desk.study(1, (1000, 1100), pause=30.0)
    sweep = desk.start("time", "v0", *EVERY, "--on", "slurm", *QUICK)
    until(lambda: len(desk.rows("RUNNING")) == 2, 60)
    sweep.send_signal(signal.SIGINT)
    sweep.communicate(timeout=30)
    code, _, err = desk.run("list", "jobs", "--cancel")
    assert code == 0 and "cancelled; 0 had finished" in err
    until(lambda: not desk.rows("RUNNING,PENDING"), 30)
    code, _, err = desk.run("list", "jobs")
    assert code == 0 and "no jobs have been sent" in err


def test_a_node_without_its_gpu_is_named_and_its_work_goes_to_others(desk: Desk) -> None:
    # Three jobs of seconds: one more than the other node has GPUs for.
    desk.study(1, (1000, 1100, 1200), pause=0.3)
    (desk.root.parent / "broken.node1").touch()
    code, _, err = desk.run("time", "v0", *EVERY, "--on", "slurm", *QUICK)
    assert code == 0, err
    assert "node node1 failed: no NVIDIA GPU can be used here" in err
    assert err.count("node node1 failed") == 1 and len(keys(desk)) == 3


def test_times_have_their_node_for_themselves_and_verifying_does_not(
    desk: Desk, collected: Collected
) -> None:
    desk.study(1, (1000, 1100, 1200, 1300))
    desk.settings(exclusive=True)
    code, _, err = desk.run("time", "v0", *EVERY, "--on", "slurm", *QUICK)
    assert code == 0, err
    spans: dict[str, list[tuple[float, float]]] = {}
    for each in collected()["done"]:
        spans.setdefault(each["node"], []).append((each["begun"], each["ended"]))
    assert all(a[1] <= b[0] for rows in spans.values() for a, b in pairwise(sorted(rows)))


def test_without_accounting_a_killed_job_is_noticed_all_the_same() -> None:
    """submitit alone would take it for unfinished for ever."""
    if why := lacking():
        pytest.skip(f"no Slurm can be started here: {why}")
    with (
        tempfile.TemporaryDirectory(prefix="wslurm", dir="/tmp") as folder,
        slurm(Path(folder) / "s", accounting=False) as cluster,
    ):
        (Path(folder) / "project").mkdir()
        desk = Desk(Path(folder) / "project", cluster)
        desk.book.touch()
        desk.study(1, (1000,), pause=0.5)
        sweep = desk.start("time", "v0", *EVERY, "--on", "slurm", *QUICK)
        until(lambda: any(desk.kill(row) for row in desk.rows("RUNNING")), 60)
        _, err = sweep.communicate(timeout=100)
        assert sweep.returncode == 0, err
        assert err.count("sent 1 job for 1 combination:") == 2 and len(keys(desk)) == 1


def test_the_emulator_verifies_and_counts_in_jobs(desk: Desk) -> None:
    desk.study(0, (1000,))
    (desk.root / "kernels" / "double" / "v9_cuda.cu").write_text(VERSION)
    code, out, err = desk.run("verify", "--all", "--engine", "emulator", "--on", "slurm")
    assert code == 0 and "library: skipped" in err, err
    assert "v9_cuda  n1000    ok" in out or ("v9" in out and "ok" in out)
    code, out, err = desk.run("profile", "v9", "--engine", "emulator", "--on", "slurm")
    assert code == 0 and "v9 n1000: scale" in out, err
    assert [entry.version for entry in Store(desk.root / "profiles").find()] == ["v9"]


def test_a_tuning_is_killed_and_put_back_and_keeps_its_rows(desk: Desk) -> None:
    desk.study(0, (1000,))
    desk.stand_in_compiler()
    # More than are handed to the GPU together, so that some are left whenever it is killed.
    work = list(range(1, 25))
    space = f"[defines]\nWORK = 3\n\n[tune]\nWORK = {work}\n\n[[launch]]"
    text = VERSION.replace("[[launch]]", space).replace("int n) {", "int n) {  // WORK")
    (desk.root / "kernels" / "double" / "v9_cuda.cu").write_text(text)
    desk.env |= {"FAKE_CLOCK": "0.0002 0.002", "FAKE_SEED": "1"}
    kept = desk.root / "profiles" / "stand-in-1" / "double" / "tuned" / "v9" / "gpu.jsonl"

    def lines() -> list[str]:
        return kept.read_text().splitlines() if kept.exists() else []

    words = ("tune", "v9", "--on", "slurm", "--restart", "--no-profile", "--format", "json")
    tune = desk.start(*words)
    until(lambda: len(lines()) >= 3 and any(map(desk.kill, desk.rows("RUNNING"))), 90)
    killed = lines()
    until(lambda: bool(_requeue(desk, desk.rows("RUNNING"))), 60)
    out, err = tune.communicate(timeout=200)
    assert tune.returncode == 0, err
    assert err.count("sent 1 job for 1 tuning:") == 2 and "was requeued" in err
    # What it had kept stays, though --restart was asked for, and is not done again.
    assert 3 <= len(killed) <= len(work) and lines()[: len(killed)] == killed
    (found,) = json.loads(out)["tunings"]
    values = [each["values"]["WORK"] for each in found["trials"]]
    assert sorted(values) == work
    assert found["winners"][0]["best"]["values"] == {"WORK": 1}


def test_a_refused_array_says_why(desk: Desk) -> None:
    desk.study(1, (1000,))
    path = desk.root / "workbench.toml"
    path.write_text(path.read_text().replace('"gpus"', '"nowhere"'))
    code, _, err = desk.run("time", "v0", *EVERY, "--on", "slurm", *QUICK)
    assert code == 3 and "Slurm refused the jobs" in err and "nvalid partition" in err, err
    assert not list(desk.root.glob(".workbench/jobs/*/order.json"))
