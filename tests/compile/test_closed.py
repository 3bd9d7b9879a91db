"""A compiler that a program asked for opens what its user put in reach, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.compile import closed, compilers
from workbench.compile.build import build
from workbench.errors import KernelError, MissingError
from workbench.project import Project
from workbench.specs import Version

KERNEL = 'extern "C" __global__ void k(float* x) { x[0] = 1; }\n'
HERE = [each.name for each in compilers.available()]


def compiled(root: Path, compiler: str, text: str) -> None:
    (root / ".git").mkdir(parents=True, exist_ok=True)
    tool = compilers.choose(compiler, root)
    folder = root / "copies"
    (folder / "kernels" / "s").mkdir(parents=True, exist_ok=True)
    (folder / "kernels" / "s" / "v0.cu").write_text(text + KERNEL)
    output = tool.compile(folder, "kernels/s/v0.cu", "sm_90", ("-std=c++17",))
    if output.failed:
        raise KernelError(output.log, "")


@pytest.mark.parametrize("compiler", HERE)
@pytest.mark.parametrize("how", ["#define P {}\n#include P\n", "#define H #\nH include {}\n"])
def test_no_spelling_reads_a_file_that_is_out_of_reach(
    tmp_path: Path, compiler: str, how: str
) -> None:
    (tmp_path / "secret").write_text("int Canary = Other;\n")
    with pytest.raises(KernelError) as caught:
        compiled(tmp_path / "project", compiler, how.format(f'"{tmp_path / "secret"}"'))
    assert "Canary" not in caught.value.message


@pytest.mark.parametrize("compiler", HERE)
def test_the_toolkit_s_headers_are_in_reach(tmp_path: Path, compiler: str) -> None:
    compiled(tmp_path, compiler, "#include <cuda_fp16.h>\n__device__ half h;\n")


def test_without_the_system_s_help_nothing_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed, "_call", lambda *_: -1)
    version = Version(
        study="s", id="v0", name="v0", path="kernels/s/v0.cu", kind="cuda", text=KERNEL, title=""
    )
    with pytest.raises(MissingError, match="cannot limit the files"):
        build(Project(root=tmp_path, closed=True), version, "sm_90")


def test_what_is_hidden_is_not_in_reach_of_a_folder_above_it(tmp_path: Path) -> None:
    for name in ("project", "other"):
        (tmp_path / name).mkdir()
    found = list(closed._around(tmp_path, [tmp_path / "project"]))
    assert found == [tmp_path / "other"]
    assert str(tmp_path) not in closed.reach(tmp_path / "project", tmp_path)
