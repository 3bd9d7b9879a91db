"""How children are started: what they import, what they are given, how much memory they have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.processes.starting import (
    NEUTRAL,
    environment,
    interpreter,
    limited,
    own_file,
    own_module,
    program,
    worker,
    worker_environment,
)

REPO = Path(__file__).resolve().parent.parent
#: Modules that Python or our children import, and what they do when it is the wrong one.
NAMES = ("json", "contextlib", "runpy", "numpy", "workbench", "sitecustomize", "msgspec", "enum")


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with modules of these names; the file that they write is returned."""
    mark = tmp_path / "pwned"
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(folder)
    return mark


@pytest.mark.parametrize("listed", [None, "", ":", f":{REPO}", f"{REPO}:", ".", f".:{REPO}"])
def test_a_child_imports_nothing_of_its_working_folder(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, listed: str | None
) -> None:
    if listed is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", listed)
    for folder in (NEUTRAL, Path.cwd()):
        start = own_module("workbench.compile.nvrtc", cwd=folder)
        done = subprocess.run(start.argv, cwd=start.cwd, env=start.env, input=b"{}", check=False)
        assert done.returncode == 0 and not hostile.exists()


def test_a_child_of_a_child_imports_nothing_of_it_either(hostile: Path) -> None:
    start = own_module("none", cwd=Path.cwd())
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import json'])"
    subprocess.run([*interpreter(), "-c", code], cwd=start.cwd, env=start.env, check=True)
    assert not hostile.exists()


def test_the_guards_file_imports_nothing_of_it(hostile: Path) -> None:
    file = hostile.parent / "own.py"
    file.write_text("import json, contextlib, sys; print(json.dumps(sys.argv[1:]))")
    start = own_file(str(file), "a")
    done = subprocess.run(
        start.argv, cwd=Path.cwd(), env=start.env, check=True, capture_output=True
    )
    assert json.loads(done.stdout) == ["a"] and not hostile.exists()


def test_a_worker_imports_nothing_of_it_and_finds_what_a_study_may_import(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path.cwd() / "mine").mkdir()
    (Path.cwd() / "mine" / "helper.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", ":mine:")
    env = worker_environment()
    code = "import json, helper, workbench as w; print(w.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=env, check=True, capture_output=True, text=True
    )
    assert Path(done.stdout.strip()).parent == REPO / "workbench"
    assert not hostile.exists()
    assert worker("workbench.engines.worker", "x")[1:4] == ("-P", "-m", "workbench.engines.worker")


def test_our_packages_are_found_by_their_place(tmp_path: Path) -> None:
    """Another installed version, or one in the user's path, is not the one that runs."""
    (tmp_path / "workbench").mkdir()
    (tmp_path / "workbench" / "__init__.py").write_text("raise SystemExit(9)")
    start = own_module("workbench.cli", "--version", env={"PYTHONPATH": str(tmp_path)})
    done = subprocess.run(start.argv, cwd=start.cwd, env=start.env, check=True, capture_output=True)
    assert done.stdout.startswith(b"workbench, version")


def test_variables_name_no_folder_that_depends_on_where_we_stand() -> None:
    given = {
        "PATH": "bin::/usr/bin:.:/bin",
        "LD_LIBRARY_PATH": ":/usr/lib;;lib:/opt",
        "PYTHONPATH": "",
        "PYTHONHOME": "home",
        "PYTHONSTARTUP": "/x.py",
        "PYTHONINSPECT": "1",
        "TMPDIR": "tmp",
        "HOME": "/home/me",
    }
    assert environment(given) == {
        "PATH": "/usr/bin:/bin",
        "LD_LIBRARY_PATH": "/usr/lib:/opt",
        "TMPDIR": f"{Path.cwd()}/tmp",
        "HOME": "/home/me",
    }


def test_a_program_is_none_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sh").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "sh").chmod(0o755)
    (tmp_path / "tool").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f":.:{os.defpath}")
    found = program("sh")
    assert found and Path(found).is_absolute() and Path(found).parent != tmp_path
    assert program("tool") is None
    assert program("./tool") == str(tmp_path / "tool"), "written as a path, it is meant"


def test_a_limit_holds_for_the_program_and_what_it_starts() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'bytes(1 << 29)'])"
    sys_argv = [sys.executable, "-c", code]
    done = subprocess.run(limited(sys_argv, 1 << 29), check=True, capture_output=True, text=True)
    assert "MemoryError" in done.stderr
    free = subprocess.run(sys_argv, check=True, capture_output=True, text=True)
    assert "MemoryError" not in free.stderr


def test_a_limit_keeps_the_process_and_what_it_answers() -> None:
    words = limited(
        [sys.executable, "-c", "import os, sys; print(os.getpid()); sys.exit(3)"], 1 << 30
    )
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) == process.pid
    assert process.returncode == 3


def test_a_lower_limit_of_the_user_stays() -> None:
    words = limited(["/bin/sh", "-c", "ulimit -d"], 1 << 40)
    outer = ["/bin/sh", "-c", 'ulimit -d 1000000; exec "$@"', "sh", *words]
    done = subprocess.run(outer, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "1000000"
