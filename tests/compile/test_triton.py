"""Triton's compiler without a GPU: what it makes, its mistakes at their lines, its absence."""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path

import pytest

from tests.study.test_triton_versions import TRITON
from tests.study_maker import Maker
from workbench.compile.build import BuildResult, build
from workbench.compile.compilers import constant
from workbench.errors import KernelError, MissingError, UsageError

pytest.importorskip("triton", reason="the extra `triton` is not installed")
KERNEL = TRITON.replace('divisible_by_16 = ["N"]\n', "")


def made(maker: Maker, text: str = KERNEL) -> BuildResult:
    maker.write("v0.py", text)
    return build(maker.project, maker.load().version("v0"), "sm_90")


def test_a_kernel_becomes_ptx_and_a_cubin_of_its_own_lines(maker: Maker) -> None:
    result = made(maker)
    assert result.build.compiler.startswith("triton ")
    assert result.cubin.read_bytes().startswith(b"\x7fELF")
    assert '"kernels/s/v0.py"' in result.build.ptx
    body = TRITON.replace('divisible_by_16 = ["N"]\n', "").split("\n")
    lines = {int(line) for line in re.findall(r"\.loc\s+1 (\d+)", result.build.ptx)}
    assert {body[line - 1].strip()[:8] for line in lines} >= {"at = tl.", "tl.store"}
    (kernel,) = result.build.resources
    assert (kernel.name, kernel.implied_args) == ("scale", 2)
    assert kernel.registers > 0
    assert made(maker).cached


def test_nothing_that_it_makes_names_this_machine(maker: Maker) -> None:
    reduced = KERNEL.replace("2 * tl.load", "tl.sum(tl.load").replace(
        "mask=at < N), mask", "mask=at < N, other=0.0)) + at, mask"
    )
    result = made(maker, reduced)
    packed = result.cubin.read_bytes() + json.dumps(result.build.ptx).encode()
    for folder in (Path.home(), Path(maker.project.root), Path(importlib.metadata.__file__).parent):
        assert str(folder).encode() not in packed
    # Triton's own lines are told as Triton's, wherever that is installed.
    assert set(re.findall(r'\.file\s+\d+ "([^"]*)"', result.build.ptx)) == {
        "kernels/s/v0.py",
        "triton/language/standard.py",
    }


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ('x: "*fp32"', "x", r'v0.py:23: error: parameter `x` has no type: write x: "\*fp32"'),
        (", TILE: tl", ", SIZE: tl", r"v0.py:23: error: tl.constexpr `SIZE` has no value"),
        (
            "@triton.jit\n",
            "",
            r"v0.py:1: error: `scale` is not a function decorated with @triton.jit",
        ),
        ("import triton\n", "import tritone\n", r"v0.py:18: error: ModuleNotFoundError"),
        ("tl.program_id(0)", "tl.program_ib(0)", r"v0.py:24: error: .*program_ib"),
        ("tl.store(y", "tl.store(z", r"v0.py:25: error: .*z is not defined"),
    ],
)
def test_a_mistake_is_told_at_its_line(maker: Maker, right: str, wrong: str, says: str) -> None:
    with pytest.raises(KernelError, match=says):
        made(maker, KERNEL.replace(right, wrong, 1))


def test_one_kernel_a_version(maker: Maker) -> None:
    again = '[[launch]]\nkernel = "scale"\ngrid = [1]\nargs = ["x", "y", "N"]\n---\n"""\n'
    with pytest.raises(UsageError, match=r"v0.py:16: a Triton version launches one kernel"):
        made(maker, KERNEL.replace('---\n"""\n', again, 1))


def test_without_triton_it_says_how_to_get_it(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    with pytest.raises(MissingError) as caught:
        made(maker)
    assert "Triton is not installed" in caught.value.message
    assert "pip install triton" in caught.value.hint


def test_defines_are_pythons_constants() -> None:
    assert [constant(text) for text in ("64", "1.5", "None", "ieee")] == [64, 1.5, None, "ieee"]
