"""``workbench sweep``: what it measures, keeps, takes from the store, and says.

The workers are real processes on a stand-in for the GPU.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.engines.stand_ins import THERE, Cli
from workbench.engines import RunOptions
from workbench.engines.host.job import TimeOptions
from workbench.processes.bounds import Deadline
from workbench.project import Project
from workbench.store import Store
from workbench.study.folder import run_study
from workbench.sweeps.scope import SweepScope

pytestmark = pytest.mark.usefixtures("stand_in")
QUICK = (*THERE, "--limit", "0.1")
Edit = Callable[[str, str, str], None]
Add = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def sizes(project: Project, project_file: Edit) -> None:
    """Three sizes to sweep over; n7 stays for verifying alone."""
    sweep = ", ".join(f'"n{n}": {{"n": {n}, "uses": ("sweep",)}}' for n in (4000, 200))
    project_file(
        "study.py", '("verify", "profile")},', f'("verify", "profile", "sweep")}}, {sweep},'
    )
    run_study(project, "double")


def kept(project: Project) -> dict[tuple[str, str], str]:
    return {(t.version, t.problem): t.captured for t in Store.of(project).timings()}


def age(project: Project, captured: str = "2020-01-01T00:00:00Z") -> None:
    """Make every stored time an old one."""
    store = Store.of(project)
    for timing in store.timings():
        store.save_timing(msgspec.structs.replace(timing, captured=captured))


COMBINATIONS = [(v, p) for p in ("n200", "n1000", "n4000") for v in ("v0", "library")]


def test_every_version_at_every_size_smallest_first(cli: Cli, project: Project) -> None:
    code, out, err = cli("sweep", *QUICK)
    assert code == 0 and sorted(kept(project)) == sorted(COMBINATIONS)
    told = [line.split(":")[0] for line in err.splitlines() if line.startswith("[")]
    assert told == [f"[{i}/6] {v} {p}" for i, (v, p) in enumerate(COMBINATIONS, 1)]
    assert "time 6 combinations (cold caches)" in err
    assert out.startswith("study double on NVIDIA Stand-In 1, ")
    head = next(line for line in out.splitlines() if line.startswith("time"))
    assert head.split() == ["time", "n200", "n1000", "n4000"]
    assert "speed to library" in out and "* fastest version: v0 on 3 of 3 problems" in out


def test_what_is_stored_is_not_measured_again_unless_asked(cli: Cli, project: Project) -> None:
    cli("sweep", "double:n200", *QUICK)
    age(project)
    code, out, err = cli("sweep", *QUICK)
    assert code == 0 and "2 of 6 are taken from the store (stand-in-1, same sources)" in err
    old = {key for key, captured in kept(project).items() if captured.startswith("2020")}
    assert old == {("v0", "n200"), ("library", "n200")}
    assert out.count("\nv0 ") == 3  # all sizes stand in the table all the same
    code, _, err = cli("sweep", *QUICK)
    assert code == 0 and "6 of 6 are taken from the store" in err and "[1/" not in err
    _, _, err = cli("sweep", *QUICK, "--since", "2021-01-01")
    assert "4 of 6 are taken from the store" in err
    assert "2 stored times are out of date" in err and "[2/2]" in err
    age(project)
    code, _, err = cli("sweep", "double:n200", *QUICK, "--again")
    assert code == 0 and "taken" not in err
    assert not kept(project)["v0", "n200"].startswith("2020")
    _, out, err = cli("sweep", "double:n200", *QUICK, "--warm")
    assert "taken" not in err and "warm caches" in out  # no cold time stands for a warm one


def test_a_changed_version_is_measured_again_and_a_changed_baseline_all(
    cli: Cli, project_file: Edit, add_version: Add
) -> None:
    add_version("v1", "one")
    cli("sweep", "double:n200", *QUICK)
    project_file("v1_added.cu", "// one", "// two")
    _, _, err = cli("sweep", "double:n200", *QUICK)
    assert "2 of 3 are taken" in err and "1 stored time is out of date" in err
    assert "time v1 on n200 (cold caches)" in err
    project_file("v1_added.cu", 'title = "One', 'title = "Still one')
    _, _, err = cli("sweep", "double:n200", *QUICK)
    assert "3 of 3 are taken" in err  # prose is not part of the source
    project_file("library.py", "import ctypes", "import ctypes  # changed")
    _, _, err = cli("sweep", "double:n200", *QUICK)
    assert "taken" not in err and "[3/3]" in err


def test_a_crash_costs_one_combination_and_decides_the_exit_code(
    cli: Cli, project: Project, add_version: Add, stand_in: Callable[[str], None]
) -> None:
    add_version("v1", "crashes")
    add_version("v2", "does not compile")
    stand_in("crash v1")
    code, out, err = cli("sweep", "double:n200,n1000", *QUICK)
    assert code == 4
    assert sorted(kept(project)) == sorted(COMBINATIONS[:4])
    assert "v1 n200: error: v1 crashed on n200" in err and "workbench verify" in err
    assert "failed: v2 n200, v1 n200, v1 n1000" in err
    row = next(line for line in out.splitlines() if line.startswith("v1"))
    assert row.split() == ["v1", "failed", "failed"]
    assert "failed v2 on every problem: kernels/double/v2_added.cu:9: error" in out


def test_a_refused_combination_is_a_dash_with_its_sentence(
    cli: Cli, project: Project, project_file: Edit
) -> None:
    project_file(
        "v0_plain.cu",
        "[[launch]]",
        'requires = "n % 1000 == 0"\nrequires_why = "blocks of a thousand"\n[[launch]]',
    )
    code, out, _ = cli("sweep", *QUICK)
    assert code == 0 and ("v0", "n200") not in kept(project)
    row = next(line for line in out.splitlines() if line.startswith("v0"))
    assert row.split()[1] == "—"
    assert "— v0 on n200: blocks of a thousand" in out


def test_a_baseline_that_is_not_here_is_passed_over(
    cli: Cli, project: Project, project_file: Edit
) -> None:
    project_file("library.py", 'return ""', 'return "no library here"')
    code, out, err = cli("sweep", *QUICK)
    assert code == 0 and {version for version, _ in kept(project)} == {"v0"}
    assert err.count("library: skipped: ") == 1
    assert "— library on every problem: library cannot run here: no library here" in out
    assert "speed to" not in out
    # Nothing but the library is tried again: the others said then that it could not be timed.
    _, _, err = cli("sweep", *QUICK)
    assert "3 of 6 are taken" in err


def test_targets_study_versions_and_patterns(cli: Cli, project: Project, add_version: Add) -> None:
    add_version("v1", "the same")
    code, out, _ = cli("sweep", "double:n?000", "v1", *QUICK)
    assert code == 0 and sorted(kept(project)) == [("v1", "n1000"), ("v1", "n4000")]
    assert "library" not in out.split("fastest")[0].replace("speed to library", "")
    words = ("--study", "double", "v0", "--problem", "n7", "--format", "json")
    code, out, _ = cli("sweep", *QUICK, *words)
    document = json.loads(out)
    assert code == 0 and [p["name"] for p in document["problems"]] == ["n7"]
    assert ("v0", "n7") in kept(project)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("duoble",), "study double has no version `duoble`"),
        (("duoble",), "Did you mean the study `double`?"),
        (("zzz",), "Studies: double."),
        (("--problem", "n10"), "no problem of study double is called `n10`"),
        (("--problem", "x*"), "no sweep problem of study double matches `x*`"),
        (("--again", "--since", "2026-01-01"), "cannot be used together"),
        (("--since", "yesterday"), "2026-11-21T10:30:00Z"),
        (("--recorded", "--again"), "--recorded measures nothing"),
        (("--device", "h200"), "Add --recorded"),
    ],
)
def test_wrong_usage(cli: Cli, words: tuple[str, ...], message: str) -> None:
    code, out, err = cli("sweep", *words, *(() if "--recorded" in words else THERE))
    assert code == 2 and out == "" and message in err


def test_a_study_without_sizes_says_where_to_add_them(cli: Cli, project_file: Edit) -> None:
    project_file("study.py", '"sweep"', '"verify"')
    code, _, err = cli("sweep", *THERE)
    assert code == 2 and "no problem for `sweep`" in err and "study.py" in err


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_it_says_so_and_shows_what_is_recorded(cli: Cli, add_version: Add) -> None:
    cli("sweep", "double:n?000", *QUICK)
    add_version("v1", "never timed")
    code, out, err = cli("sweep")
    assert code == 3 and out == ""
    assert "no NVIDIA GPU can be used here" in err and "`workbench sweep --recorded`" in err
    code, out, err = cli("sweep", "--recorded")
    assert code == 0 and err == ""
    times = out[out.index("\ntime ") :].split("\n\n")[0]  # what stands above names a time or two
    rows = {line.split()[0]: line.split()[1:] for line in times.split("\n")[1:]}
    assert rows["v1"] == ["·", "·", "·"] and rows["v0"][0] == "·" and len(rows["v0"]) == 5
    assert "· 5 of 9 are not recorded" in out


def test_recorded_times_of_older_sources_are_marked(cli: Cli, project_file: Edit) -> None:
    cli("sweep", "double:n200", *QUICK)
    project_file("v0_plain.cu", "2 * x[i]", "x[i] * 2")
    _, out, _ = cli("sweep", "--recorded", "double:n200")
    assert "†" in next(line for line in out.splitlines() if line.startswith("v0"))
    assert "† measured on an older source" in out and "fastest" not in out


def test_nothing_recorded_and_unknown_devices(cli: Cli) -> None:
    code, _, err = cli("sweep", "--recorded")
    assert code == 3 and "no time of double is recorded" in err
    cli("sweep", "double:n200", *QUICK)
    code, _, err = cli("sweep", "--recorded", "double:n4000")
    assert code == 3 and "none of these times" in err
    code, _, err = cli("sweep", "--recorded", "double@h100")
    assert code == 2 and "NVIDIA Stand-In 1" in err
    code, out, _ = cli("sweep", "--recorded", "double@stand-in-1", "--format", "csv")
    assert code == 0 and out.startswith("status,reason,study,version,problem,device,")


def test_ctrl_c_keeps_what_is_measured_and_says_how_to_go_on(
    cli: Cli,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    from workbench.engines.host.job import read_results as real

    # In the background of a shell Ctrl-C is ignored from the start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupted(target: Any) -> Any:
        results = real(target)[:3]  # however far the worker is when a busy machine looks
        if len(results) == 3:  # the first says that the worker is ready
            os.kill(os.getpid(), signal.SIGINT)
        return results

    monkeypatch.setattr("workbench.engines.host.client.read_results", interrupted)
    code, _, err = cli("sweep", *THERE, "--limit", "0.4", "--again", "--warm")
    assert code == 130 and "interrupted" in err
    done = len(kept(project))
    assert 2 <= done < 6 and f"{done} of 6 combinations are measured and kept" in err
    line = next(line for line in err.splitlines() if "go on with" in line)
    assert "workbench sweep --limit 0.4 --launcher env --arch sm_90 --warm --since 20" in line
    monkeypatch.setattr("workbench.engines.host.client.read_results", real)
    words = line.partition("workbench ")[2].split()
    code, _, err = cli(*words)
    assert code == 0 and f"{done} of 6 are taken from the store" in err and len(kept(project)) == 6


def test_on_a_terminal_a_bar_stands_below_the_lines(repo: Path) -> None:
    code = (
        "import sys, time\n"
        "from workbench.views.terminal.progress import Progress\n"
        "assert sys.stderr.isatty()\n"
        "bar = Progress()\n"
        "with bar.counting(3):\n"
        "    bar.doing('v0 n[200]'); bar.done(1); bar.say('[1/3] v0 n[200]: 2 µs')\n"
        "    time.sleep(0.3)\n"
    )
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
    child = subprocess.Popen([sys.executable, "-c", code], cwd=repo, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal ends whose other side is gone
        while data := os.read(ours, 4096):
            shown += data
    os.close(ours)
    assert child.wait() == 0
    text = shown.decode()
    # Brackets are text and no markup; the bar names what is at work and how many are done.
    assert "[1/3] v0 n[200]: 2 µs" in text and "1/3" in text and "v0 n[200] " in text


def test_the_command_to_go_on_with_repeats_what_was_asked_for_and_no_default() -> None:
    from workbench.sweeps.command import _command_line

    scope = SweepScope(("sgemm", "v3"), None, ("n*", "s1 2"))
    run = RunOptions(launcher="srun --gres=gpu:1")
    assert _command_line(scope, TimeOptions(), run, "table", "") == (
        "workbench sweep 'sgemm:n*,s1 2' v3 --launcher 'srun --gres=gpu:1'"
    )
    every, other = SweepScope((), None, ()), RunOptions(limit=Deadline(60.0), seed=0)
    sampling = TimeOptions(limit_s=3.0, cache="warm")
    assert _command_line(every, sampling, other, "csv", "") == (
        "workbench sweep --limit 3 --timeout 60 --seed 0 --format csv --warm"
    )
