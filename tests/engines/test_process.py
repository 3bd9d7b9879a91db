"""Running programs: output, exit codes, time limits, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import runs, until
from workbench.engines.host.process import run_group
from workbench.errors import MissingError
from workbench.processes import ending
from workbench.processes.bounds import Deadline


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_lines_come_as_they_are_printed(tmp_path: Path) -> None:
    seen: list[str] = []
    done = run_group(
        python("import sys; print('one'); print('two', file=sys.stderr); sys.exit(7)"),
        cwd=tmp_path,
        on_line=seen.append,
    )
    assert done.code == 7 and not done.timed_out
    assert sorted(seen) == ["one", "two"] and sorted(done.output.split()) == ["one", "two"]


def test_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    done = run_group(python("import os; os.kill(os.getpid(), 9)"), cwd=tmp_path)
    assert done.code == -signal.SIGKILL


def test_output_that_is_no_text_is_kept_all_the_same(tmp_path: Path) -> None:
    done = run_group(python(r"import os; os.write(1, b'a\xff\nb\r\n')"), cwd=tmp_path)
    assert done.output == "a\ufffd\nb"


def test_only_the_last_lines_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.engines.host.process.KEPT_LINES", 3)
    done = run_group(python("[print(i) for i in range(100)]"), cwd=tmp_path)
    assert done.output == "97\n98\n99"


def test_a_program_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no-such-program cannot be started"):
        run_group([str(tmp_path / "no-such-program")], cwd=tmp_path)


def test_the_end_is_noticed_long_before_the_time_limit(tmp_path: Path) -> None:
    begin = time.monotonic()
    done = run_group(["/bin/sh", "-c", "sleep 0.3"], cwd=tmp_path, limit=Deadline(60))
    assert 0.3 <= done.seconds <= time.monotonic() - begin < 50


def test_waiting_works_without_a_process_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int) -> int:
        raise OSError("no pidfd in this kernel")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert run_group(["/bin/sh", "-c", "exit 3"], cwd=tmp_path, limit=Deadline(60)).code == 3
    monkeypatch.setattr(ending, "GRACE_S", 0.5)
    assert run_group(["/bin/sh", "-c", "sleep 60"], cwd=tmp_path, limit=Deadline(0.3)).timed_out


def test_a_time_limit_ends_the_whole_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "GRACE_S", 0.5)
    code = (
        "import subprocess, sys, time, pathlib\n"
        "stubborn = 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(99)'\n"
        "a = subprocess.Popen([sys.executable, '-c', stubborn])\n"
        "b = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'],"
        " start_new_session=True)\n"
        "pathlib.Path('pids').write_text(f'{a.pid} {b.pid}')\n"
        "time.sleep(99)\n"
    )
    done = run_group(python(code), cwd=tmp_path, limit=Deadline(2.0))
    assert done.timed_out and done.seconds < 15
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2 and not any(runs(pid) for pid in pids)


def test_a_helper_that_outlives_its_leader_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "GRACE_S", 1.0)
    done = run_group(["/bin/sh", "-c", "sleep 99 & echo $! > pid; exit 0"], cwd=tmp_path)
    assert done.code == 0 and done.seconds < 10
    assert not runs(int((tmp_path / "pid").read_text()))


def test_a_second_ctrl_c_does_not_spare_a_stubborn_child(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from workbench.engines.host import process\n"
        "from workbench.processes import ending\n"
        "ending.GRACE_S = 1.0\n"
        "process.run_group(['/bin/sh', '-c', \"trap '' TERM; echo $$ > pid; while :; do sleep 1; "
        "done\"], cwd=Path('.'))\n"
    )
    ours = subprocess.Popen(python(code), cwd=tmp_path, stderr=subprocess.DEVNULL)
    pid = tmp_path / "pid"
    end = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().endswith("\n")) and time.monotonic() < end:
        time.sleep(0.02)
    for _ in range(3):
        ours.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert ours.wait(20) in (1, 130, -signal.SIGINT)
    assert not runs(int(pid.read_text()))


def test_sigterm_to_us_ends_the_child(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from workbench.engines.host.process import run_group\n"
        "run_group(['/bin/sh', '-c', 'echo $$ > pid; sleep 99'], cwd=Path('.'))\n"
    )
    ours = subprocess.Popen(python(code), cwd=tmp_path)
    pid = tmp_path / "pid"
    end = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().endswith("\n")) and time.monotonic() < end:
        time.sleep(0.02)
    ours.terminate()
    assert ours.wait(20) == 128 + signal.SIGTERM
    assert not runs(int(pid.read_text()))


def test_a_kill_of_us_ends_the_child_and_its_children(tmp_path: Path) -> None:
    """Nothing of ours runs any more then: the guard has to do it."""
    code = (
        "from pathlib import Path\n"
        "from workbench.engines.host.process import run_group\n"
        "run_group(['/bin/sh', '-c', 'sleep 99 & echo $! > child; echo $$ > pid; wait'], "
        "cwd=Path('.'))\n"
    )
    ours = subprocess.Popen(python(code), cwd=tmp_path)
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    left = [int((tmp_path / name).read_text()) for name in ("pid", "child")]
    assert all(map(runs, left))
    ours.kill()
    ours.wait()
    until(lambda: not any(map(runs, left)))


def test_a_kill_before_the_guard_was_told_ends_the_program_too(tmp_path: Path) -> None:
    """Between its start and the word to the guard there is a moment; it is found by its mark."""
    code = (
        "import os, signal, subprocess\n"
        "from workbench.processes.ending import guarded\n"
        "with guarded() as guard:\n"
        "    program = subprocess.Popen(['sleep', '99'], env={**os.environ, **guard.mark},\n"
        "                               stdout=subprocess.DEVNULL, start_new_session=True)\n"
        "    print(program.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ours = subprocess.run(python(code), stdout=subprocess.PIPE, text=True, check=False)
    program = int(ours.stdout)
    until(lambda: not runs(program))


def late(folder: Path) -> Path:
    """A Python that begins once there is a file ``begin``, as on a busy machine."""
    path = folder / "late"
    words = f'while ! test -e {folder}/begin; do sleep 0.01; done\nexec {sys.executable} "$@"\n'
    path.write_text(f"#!/bin/sh\n{words}")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("told", [True, False])
def test_a_leader_that_ends_before_the_guard_looks_leaves_nothing(
    tmp_path: Path, told: bool
) -> None:
    code = (
        "import os, signal, subprocess, sys\n"
        "from workbench.processes.ending import guarded\n"
        f"sys.executable = {str(late(tmp_path))!r}\n"
        "with guarded() as guard:\n"
        "    program = subprocess.Popen(['/bin/sh', '-c', 'sleep 99 & echo $!'],\n"
        "                               env={**os.environ, **guard.mark}, start_new_session=True)\n"
        f"    {'guard.tell(program.pid)' if told else 'pass'}\n"
        "    program.wait()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    log = tmp_path / "log"
    with log.open("w") as out:
        subprocess.run(python(code), stdout=out, check=False)
    child = int(log.read_text())
    assert runs(child)
    (tmp_path / "begin").touch()
    until(lambda: not runs(child))


def test_a_guard_does_not_end_another_guard_before_its_work_is_done(tmp_path: Path) -> None:
    """A guarded program may guard one of its own; both are killed, the inner guard begins late."""
    inner = (
        "import os, signal, subprocess, sys\n"
        "from workbench.processes.ending import guarded\n"
        f"sys.executable = {str(late(tmp_path))!r}\n"
        "with guarded() as guard:\n"
        "    mark = {**os.environ, **guard.mark}\n"
        "    program = subprocess.Popen(['sleep', '99'], env=mark, start_new_session=True)\n"
        "    print(program.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    code = (
        "import os, signal, subprocess, sys\n"
        "from workbench.processes.ending import guarded\n"
        "with guarded() as guard:\n"
        f"    subprocess.run([sys.executable, '-c', {inner!r}], start_new_session=True,\n"
        "                   env={**os.environ, **guard.mark})\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    log = tmp_path / "log"
    with log.open("w") as out:
        subprocess.run(python(code), stdout=out, check=False)
    program = int(log.read_text())
    time.sleep(0.5)  # the outer guard looks around
    assert runs(program)
    (tmp_path / "begin").touch()
    until(lambda: not runs(program))


@pytest.mark.parametrize("lacking", ["", "following._LIBC, following._LOOK_EVERY_S = None, 0.02\n"])
def test_a_kill_of_us_ends_what_was_forked(lacking: str) -> None:
    code = (
        "import multiprocessing, os, time\n"
        "from workbench.processes import following\n"
        f"{lacking}"  # a system without that signal has a thread that looks
        "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(99,))\n"
        "child.start()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(99)\n"
    )
    ours = subprocess.Popen(python(code), stdout=subprocess.PIPE, text=True)
    assert ours.stdout is not None
    child = int(ours.stdout.readline())
    assert runs(child)
    ours.kill()
    ours.communicate()
    until(lambda: not runs(child))
