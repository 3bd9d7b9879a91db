"""A compiler is ended in time, and takes no more memory than it may."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench.compile import compilers
from workbench.compile.build import build
from workbench.disk import limits
from workbench.errors import KernelError, UsageError
from workbench.processes.bounds import Deadline
from workbench.project import Project, find_project
from workbench.specs import Version
from workbench.study.sources import load_versions

HERE = [each.name for each in compilers.available()]
#: Takes some gigabytes and a minute of every compiler.
SOURCE = """/* ---
title = "Without end"
[[launch]]
kernel = "k"
grid = [1]
block = [1]
args = ["y"]
--- */
template <int N, int M> struct F {
    static constexpr unsigned long long v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v;
};
template <int M> struct F<0, M> { static constexpr unsigned long long v = 1; };
extern "C" __global__ void k(float *y) { y[0] = F<28, 1>::v; }
"""


@pytest.fixture
def endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Project, Version]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    folder = tmp_path / "project" / "kernels" / "s"
    folder.mkdir(parents=True)
    (tmp_path / "project" / "workbench.toml").write_text("")
    (folder / "v0.cu").write_text(SOURCE)
    project = find_project(folder)
    assert project is not None
    return project, load_versions(project, "s").sound["v0"]


@pytest.mark.nvcc
@pytest.mark.parametrize("compiler", HERE)
def test_a_compiler_that_does_not_end_is_ended(
    endless: tuple[Project, Version], compiler: str, tmp_path: Path
) -> None:
    project, version = endless
    with pytest.raises(KernelError, match=r"v0\.cu does not compile .*: it takes longer than 1 s"):
        build(project, version, "sm_90", compiler=compiler, limit=Deadline.after(1.0))  # type: ignore[arg-type]
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.nvcc
@pytest.mark.parametrize("compiler", HERE)
def test_a_compiler_that_takes_too_much_memory_is_told(
    endless: tuple[Project, Version], compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, version = endless
    monkeypatch.setenv("WORKBENCH_MEMORY_MIB", "300")
    with pytest.raises(KernelError, match="needs more memory than the 300 MiB that a comp") as told:
        build(project, version, "sm_90", compiler=compiler)  # type: ignore[arg-type]
    assert "WORKBENCH_MEMORY_MIB=N" in told.value.hint
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    "said",
    [
        "k.cu(1): catastrophic error: out of memory",
        "LLVM ERROR: out of memory\nAllocation failed",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "cc1plus: out of memory allocating 6000 bytes after a total of 431034368 bytes",
        "ptxas fatal   : Memory allocation failure",
        "Traceback (most recent call last):\nMemoryError",
    ],
)
def test_what_compilers_say_without_memory_is_known(said: str) -> None:
    with pytest.raises(compilers.StoppedError, match="needs more memory"):
        compilers._check_memory(said)
    compilers._check_memory("k.cu(1): error: identifier 'MemoryError' is undefined")


def test_memory_is_half_of_the_machine_or_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKBENCH_MEMORY_MIB", raising=False)
    whole = int(re.findall(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())[0]) << 10
    assert limits.memory() == max(4 << 30, limits.memory())
    assert abs(limits.memory() - max(4 << 30, whole // 2)) < 1 << 24
    monkeypatch.setenv("WORKBENCH_MEMORY_MIB", "100")
    assert limits.memory() == 100 << 20
    monkeypatch.setenv("WORKBENCH_MEMORY_MIB", "much")
    with pytest.raises(UsageError, match="WORKBENCH_MEMORY_MIB='much' is not a limit"):
        limits.memory()
