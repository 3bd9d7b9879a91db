"""NVTX ranges: from the program's calls, through the tracer's C, to the survey's table."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from workbench.errors import UsageError
from workbench.programs.capture.records import Range
from workbench.programs.capture.trace import read_ranges, read_traces, shares, wanted_range
from workbench.programs.capture.tracer import SOURCE, find_cupti
from workbench.programs.tests.test_taking import PROGRAM, kept, place

__all__ = ["place"]
HERE = Path(__file__).resolve().parent

#: A program that launches on a CUPTI without a GPU, inside of ranges of every kind.
SCRIPT = """
import ctypes, sys, threading, nvtx
tracer, cupti = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
launch = lambda name: cupti.fake_launch(name.encode())
with nvtx.annotate("before"):
    tracer.InitializeInjection()  # CUDA is initialized inside of a range
    launch("early")
launch("bare")
with nvtx.annotate("step", domain="train"):
    with nvtx.annotate("hülle"):
        launch("nested")
    launch("stepped")
nvtx.push_range("left", domain="a")
nvtx.push_range("right", domain="b")
nvtx.pop_range(domain="a")  # domains nest by themselves
launch("crossed")
nvtx.pop_range(domain="b")
def elsewhere(name):
    go, done = threading.Semaphore(0), threading.Semaphore(0)
    def work():
        with nvtx.annotate("own"):
            launch(name + " before")
            done.release(), go.acquire()
            launch(name)
            done.release(), go.acquire()
            launch(name + " after")
            done.release()
    thread = threading.Thread(target=work)
    def step():
        go.release(), done.acquire()
    thread.start(), done.acquire()
    return step, thread
step, thread = elsewhere("other")
running = nvtx.start_range("whole", domain="all")
launch("started")
step()
nvtx.end_range(running)
step(), thread.join()
launch("ended")
for _ in range(100):
    nvtx.push_range("deep")
launch("deep")
for _ in range(100):
    nvtx.pop_range()
launch("after")
nvtx.pop_range()  # one too many
launch("end")
"""


@pytest.mark.nvcc
def test_the_tracer_knows_the_ranges_of_every_launch(tmp_path: Path) -> None:
    pytest.importorskip("nvtx")
    cupti, compiler = find_cupti(), shutil.which("cc")
    if cupti is None or compiler is None or not Path(cupti.include, "nvtx3").is_dir():
        pytest.skip("no CUPTI, no NVTX or no C compiler here")
    stub, library = tmp_path / "libstub.so", tmp_path / "tracer.so"
    shared = [compiler, "-Wall", "-Werror", "-shared", "-fPIC", f"-I{cupti.include}"]
    subprocess.run([*shared, str(HERE / "fake_cupti.c"), "-o", str(stub)], check=True)
    argv = [*shared, "-Wextra", str(SOURCE), "-o", str(library), str(stub), "-lpthread"]
    subprocess.run(argv, check=True)
    env = {"NVTX_INJECTION64_PATH": str(library), "WORKBENCH_TRACE": str(tmp_path)}
    words = [sys.executable, "-c", SCRIPT, str(library), str(stub)]
    subprocess.run(words, check=True, env={**os.environ, **env}, timeout=60)
    found = {launch.symbol: launch.ranges for launch in read_traces(tmp_path).launches}
    assert found == {
        "early": (Range("before"),),
        "bare": (),
        "nested": (Range("step", "train"), Range("hülle")),
        "stepped": (Range("step", "train"),),
        "crossed": (Range("right", "b"),),
        "started": (Range("whole", "all", pushed=False),),
        "other before": (Range("own"),),
        "other": (Range("whole", "all", pushed=False), Range("own")),
        "other after": (Range("own"),),
        "ended": (),
        "deep": (Range("deep"),) * 64,
        "after": (),
        "end": (),
    }


def test_ranges_as_the_tracer_writes_them() -> None:
    assert read_ranges("") == ()
    assert read_ranges("train@step\x1finner\x1f\x1ewhole") == (
        Range("step", "train"),
        Range("inner"),
        Range("whole", pushed=False),
    )
    launches = [(read_ranges(f"step {n % 9}"), 10 + n) for n in range(90)]
    kept_, count = shares([*launches, ((), 10**6)])
    assert count == 9 and len(kept_) == 4
    assert (kept_[0].path, kept_[0].launches) == ("step 8", 10)


@pytest.mark.parametrize(
    ("text", "inside", "holds"),
    [
        ("step", "step", True),
        ("step", "outer\x1fstep\x1finner", True),
        ("step", "\x1estep", True),
        ("step/", "\x1estep", False),
        ("step", "train@step", False),
        ("train@step", "train@step", True),
        ("train@step", "other@x\x1ftrain@step", True),
        ("outer/inner/", "outer\x1finner", True),
        ("outer/inner", "outer\x1fd@x\x1finner", True),  # another domain does not come between
        ("outer/inner/", "outer\x1fmiddle\x1finner", False),
        ("outer/inner/", "inner\x1fouter", False),
    ],
)
def test_which_launches_a_filter_holds(text: str, inside: str, holds: bool) -> None:
    assert wanted_range(text).holds(read_ranges(inside)) is holds


def test_filters_for_ncu_are_of_both_kinds_unless_said() -> None:
    assert wanted_range("d@a").ncu_words == (
        "--nvtx", "--nvtx-include", "d@a", "--nvtx-include", "d@a/",
    )  # fmt: skip
    assert wanted_range("a/b").ncu_words == ("--nvtx", "--nvtx-include", "a/b/")
    for wrong in ("", "/", "@x", "a//b", "regex:x", "a,b", "[a"):
        with pytest.raises(UsageError, match="is not a range"):
            wanted_range(wrong)


def test_a_survey_says_in_which_range_a_kernel_is_and_can_be_of_one(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launches = "sgemm_v3*40@900!train@step>forward sgemm_v3*10@900!warm-up sgemm_v1*10@5000!warm-up"
    monkeypatch.setenv("FAKE_LAUNCHES", launches)
    assert cli("capture", "all", "--no-detail", "--", *PROGRAM)[0] == 0
    code, out, _ = cli("show", "@all", "--format", "json")
    rows = {row["kernel"]: row for row in json.loads(out)["kernels"]}
    assert code == 0 and rows["sgemm_v3"]["ranges"][0]["range"] == "train@step/forward"
    assert rows["sgemm_v3"]["range_count"] == 2 and rows["sgemm_v1"]["range_count"] == 1
    code, out, said = cli("capture", "step", "--nvtx", "train@step", "--", *PROGRAM)
    assert code == 0, said
    survey = kept(place, "step").survey
    assert [(w.name, w.launches) for w in survey.works] == [("sgemm_v3", (40,))]
    assert survey.nvtx == "train@step"
    argv = json.loads((tmp_path / "argv.json").read_text())
    assert argv[argv.index("--nvtx-include") + 1] == "train@step" and "--kernel-id" not in argv
    code, _, said = cli("diff", "@all", "@step")
    assert code == 6 and "train@step" in said
    code, _, said = cli("capture", "no", "--nvtx", "nothing", "--", *PROGRAM)
    assert code == 2 and "train@step, forward and warm-up" in said
    assert not (place / ".workbench" / "captures" / "no").exists()
