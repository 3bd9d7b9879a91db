"""Fixtures: a small project with one study, and stand-ins for the GPU and for ncu.

A plugin of tests/conftest.py: engines, measurements and commands are tested with them.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.compile.build import BuildResult
from workbench.engines import Subject, Where
from workbench.engines.host.job import TimeOptions
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import KernelError, UsageError, WorkbenchError
from workbench.measure.experiment import Experiment
from workbench.measure.plan import Combination
from workbench.model import Build, SourceFile, Timing
from workbench.processes.bounds import Deadline
from workbench.project import Project, require_project
from workbench.specs import Version
from workbench.study.folder import Study, load_study, run_study

HERE = Path(__file__).resolve().parent

STUDY = """
title = "y = 2x"
input_names = ("x",)
problems = {
    "n1000": {"n": 1000, "uses": ("verify", "profile")},
    "n7": {"n": 7, "uses": ("verify",)},
}
tolerance = 1e-6
tolerance_why = "one multiplication by two is exact"

def inputs(problem, rng):
    return {"x": rng.standard_normal(problem["n"], dtype="float32")}

def outputs(problem):
    return {"y": ((problem["n"],), "float32")}

def reference(problem, inputs):
    return {"y": 2 * inputs["x"].astype("float64")}

def flops(problem):
    return problem["n"]

def bytes(problem):
    return 8 * problem["n"]
"""

VERSION = """/* ---
title = "One element per thread"
[[launch]]
kernel = "scale"
grid = ["cdiv(n, 256)"]
block = [256]
args = ["x", "y", "n"]
--- */
extern "C" __global__ void scale(const float *x, float *y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""

BASELINE = '''"""NumPy on the stand-in's host memory.

---
title = "A library"
baseline = true
---
"""

import ctypes

import numpy as np


def available():
    return ""


def prepare(problem, parameters, buffers):
    def view(name):
        interface = buffers[name].__cuda_array_interface__
        assert interface["version"] == 3 and interface["typestr"] == "<f4"
        memory = (ctypes.c_float * parameters["n"]).from_address(interface["data"][0])
        return np.ctypeslib.as_array(memory).reshape(interface["shape"])

    x, y = view("x"), view("y")

    def run():
        np.multiply(x, np.float32(2), out=y)

    return run
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the study ``double``: version v0 and the baseline ``library``."""
    folder = tmp_path / "project"
    kernels = folder / "kernels" / "double"
    kernels.mkdir(parents=True)
    (folder / "workbench.toml").write_text('default_study = "double"\n')
    (kernels / "study.py").write_text(STUDY)
    (kernels / "v0_plain.cu").write_text(VERSION)
    (kernels / "library.py").write_text(BASELINE)
    monkeypatch.chdir(folder)
    run_study(require_project(folder), "double")  # so that views know it
    return require_project(folder)


@pytest.fixture
def study(project: Project) -> Study:
    return load_study(project, "double")


@pytest.fixture
def stand_in(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], None]:
    """The worker finds a PyCUDA on host memory; ``stand_in("wrong")`` sets its kernel's manner.

    ``stand_in("crash v1")`` sets it for one version alone.
    """
    return put_in(monkeypatch, tmp_path)


def builds_into(folder: Path) -> Callable[..., BuildResult]:
    """A compiler whose cubins the stand-in for the GPU loads; they lie in `folder`."""

    def build(project: Project, version: Version, arch: str, *, limit: Deadline) -> BuildResult:
        if not arch.startswith("sm_"):
            raise UsageError(f"`{arch}` is not an architecture", "Write it like sm_90 or sm_90a.")
        if "does not compile" in version.text:
            raise KernelError(f"{version.path}:9: error: expected a ;", "Correct the file.")
        takes = re.search(r"// takes ([\d.]+)", version.text)
        work = version.defines.get("WORK", takes[1] if takes else 1)
        if "unbuilt" in version.defines.values():
            raise KernelError(f"{version.path}:9: error: this choice does not compile", "Correct.")
        content = f"stand-in cubin, taking {work} of {version.id}"
        cubin = folder / f"{version.id}-{zlib.crc32(content.encode())}.cubin"
        if not cubin.exists():  # whole or not at all: several commands may do this at once
            made = cubin.with_suffix(f".{os.getpid()}")
            made.write_bytes(content.encode())
            made.replace(cubin)
        return BuildResult(
            cubin=cubin,
            build=Build(compiler="none", arch=arch),
            sources=(SourceFile(path=version.path, text=version.text),),
            cached=True,
        )

    return build


def put_in(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[str], None]:
    """Put the stand-in for the GPU in its place; what is returned sets its kernel's manner."""
    path = [str(HERE / "fake_pycuda"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(part for part in path if part))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr("workbench.engines.ncu.engine.build", builds_into(folder))

    def manner(kernel: str) -> None:
        monkeypatch.setenv("FAKE_KERNEL", kernel)

    manner("ok")
    return manner


@pytest.fixture
def experiment(
    project: Project, study: Study, stand_in: Callable[[str], None], fake_ncu: Path
) -> Experiment:
    return experiment_on(project, study, ncu=str(fake_ncu))


def experiment_on(
    project: Project, study: Study, *, timeout_s: float = 60.0, ncu: str = ""
) -> Experiment:
    """The study on the stand-ins, with seed 1."""
    where = Where(arch="sm_90", limit=Deadline(timeout_s))
    return Experiment(project, study, GpuEngine(project, where, seed=1, ncu=ncu))


def time_one(runner: Experiment, subject: Subject, options: TimeOptions) -> Timing:
    """Time a version; its error is raised."""
    found: list[Timing | WorkbenchError] = []
    piece = Combination(subject.version, subject.problem)
    runner.time([piece], options, lambda _, outcome: found.append(outcome))
    (outcome,) = found
    if isinstance(outcome, WorkbenchError):
        raise outcome
    return outcome


@pytest.fixture
def fake_ncu(tmp_path: Path) -> Path:
    """An executable that behaves as ncu was seen to; `FAKE_NCU` chooses how."""
    path = tmp_path / "bin" / "ncu"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "fake_ncu.py"}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def project_file(project: Project) -> Callable[[str, str, str], None]:
    """``project_file("study.py", old, new)`` edits a file of the study."""

    def edit(name: str, old: str, new: str) -> None:
        path = project.kernels / "double" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return edit


@pytest.fixture
def add_version(project: Project) -> Callable[[str, str], None]:
    """``add_version("v1", "does not compile")`` adds a version with that remark."""

    def add(name: str, remark: str) -> None:
        text = VERSION.replace("--- */", f"--- */\n// {remark}")
        (project.kernels / "double" / f"{name}_added.cu").write_text(text)

    return add


class Cli:
    """Runs the command line in this process: exit code, standard output and error."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        from workbench.cli import main

        self._capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        shown = self._capsys.readouterr()
        return code, shown.out, shown.err


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


#: A ``sitecustomize.py`` for processes of commands, with the `folder` of stand-in cubins: nothing
#: is compiled, and a cubin says how long its kernel takes.
NO_COMPILER = """
import sys
from pathlib import Path

def build(project, version, arch):
    from workbench.compile.build import BuildResult
    from workbench.model import Build, SourceFile, Timing
    work = int(version.defines.get("WORK", 1000))
    cubin = Path({folder!r}) / f"{{version.id}}-{{work}}.cubin"
    cubin.write_text(f"stand-in cubin, taking {{work / 1000}} of {{version.id}}")
    sources = (SourceFile(path=version.path, text=version.text),)
    made = Build(compiler="none", arch=arch)
    return BuildResult(cubin=cubin, build=made, sources=sources, cached=True)

if "workbench.cli" in sys.orig_argv:
    import workbench.engines.ncu.engine as engine
    engine.build = lambda *given, **_how: build(*given)
"""

#: Behind a launcher nothing is asked of this machine, so the stand-ins are found.
THERE = ("--launcher", "env", "--arch", "sm_90")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without GPU and tools, whatever this one has."""
    monkeypatch.setattr("workbench.engines.host.presence.find_gpus", lambda: ([], "no driver"))
    monkeypatch.setattr("workbench.engines.host.presence.find_tool", lambda *_: None)


@pytest.fixture
def ncu_on_path(fake_ncu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{fake_ncu.parent}{os.pathsep}{os.environ['PATH']}")
