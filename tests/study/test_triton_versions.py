"""A kernel in Triton: its front matter, what a launch of it is, and what is refused."""

from __future__ import annotations

import pytest

from tests.study_maker import Maker
from workbench.errors import UsageError
from workbench.model import KernelResources
from workbench.study import frontmatter
from workbench.study.folder import resolve_launches
from workbench.study.launches import ScalarArg, complete
from workbench.study.scaffold import version_text
from workbench.study.sources import source_hash

TRITON = '''r"""Twice.

---
title = "Twice, in Triton"
requires = "N % 8 == 0"
requires_why = "it says so"
[defines]
TILE = 256
[[launch]]
kernel = "scale"
grid = ["cdiv(N, TILE)"]
args = ["x", "y", "N"]
num_warps = 8
num_stages = 2
divisible_by_16 = ["N"]
---
"""

import triton
import triton.language as tl


@triton.jit
def scale(x: "*fp32", y: "*fp32", N: "i32", TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < N), mask=at < N)
'''


def test_a_py_file_with_a_launch_is_a_triton_kernel(maker: Maker) -> None:
    maker.write("v0_twice.py", TRITON.replace('divisible_by_16 = ["N"]\n', ""))
    study = maker.load()
    version = study.version("v0")
    assert version.kind == "triton"
    assert (version.launches[0].num_stages, version.launches[0].block) == (2, ("256",))
    (launch,) = resolve_launches(study, version, study.problem())
    assert (launch.grid, launch.block) == ((4, 1, 1), (256, 1, 1))
    (done,) = complete((launch,), (KernelResources(name="scale", registers=1),))
    assert done == launch
    wants = KernelResources(name="scale", registers=1, implied_shared=4096, implied_args=2)
    (done,) = complete((launch,), (wants,))
    null = ScalarArg(value=0, ctype="ulong")
    assert (done.dynamic_shared, done.args) == (4096, (*launch.args, null, null))


def test_tritons_defaults_hold_where_nothing_is_said(maker: Maker) -> None:
    text = "\n".join(line for line in TRITON.split("\n") if not line.startswith(("num_", "divis")))
    maker.write("v0.py", text)
    (launch,) = maker.load().version("v0").launches
    assert (launch.block, launch.num_stages) == (("128",), 3)


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        ("num_warps = 8", "block = [256]", 13, "`block` does not apply to a kernel in Triton"),
        ("num_warps = 8", "dynamic_shared = 9", 13, "`dynamic_shared` does not apply"),
        ("num_warps = 8", "num_warps = 33", 13, "`num_warps` must be 1, 2, 4, 8, 16 or 32"),
        ("num_warps = 8", "num_warps = 3", 13, "`num_warps` must be 1, 2, 4, 8, 16 or 32"),
        ("num_stages = 2", "num_stages = 0", 14, "`num_stages` must be an integer from 1 to 16"),
        ('["N"]', '["K"]', 15, "`K` is not one of the launch's args"),
        ('["N"]', "16", 15, "`divisible_by_16` must be a list of strings"),
        ("[defines]", 'flags = ["-O1"]\n[defines]', 7, "`flags` does not apply to a .py version"),
        ('"scale"', '"no name"', 10, "`no name` is not a function name"),
        ('kernel = "scale"', 'kernel = "skale"', 10, "there is no kernel `skale`"),
    ],
)
def test_what_triton_decides_is_refused_at_its_line(
    maker: Maker, right: str, wrong: str, line: int, message: str
) -> None:
    maker.write("v0.py", TRITON.replace(right, wrong, 1))
    with pytest.raises(UsageError) as caught:
        maker.load().version("v0")
    assert caught.value.message.startswith(f"kernels/s/v0.py:{line}: {message}")


@pytest.mark.parametrize("key", ["num_warps = 4", "num_stages = 3", 'divisible_by_16 = ["N"]'])
def test_cuda_takes_none_of_tritons_keys(maker: Maker, key: str) -> None:
    text = (
        f'/* ---\ntitle = "a"\n[[launch]]\nkernel = "k"\ngrid = [1]\nblock = [1]\n{key}\n--- */\n'
    )
    maker.write("v0.cu", text + "__global__ void k() {}\n")
    with pytest.raises(UsageError, match=r"v0.cu:7: .* does not apply to a kernel in CUDA C\+\+"):
        maker.load().version("v0")


def test_a_py_file_without_a_launch_still_refuses_what_is_compiled(maker: Maker) -> None:
    maker.write("v0.py", '"""\n---\ntitle = "a"\n[defines]\nA = 1\n---\n"""\n')
    with pytest.raises(UsageError, match=r"`defines` does not apply .* without \[\[launch\]\]"):
        maker.load().version("v0")


@pytest.mark.parametrize(("arg", "what"), [("N", "`N` is 1000"), ("x", "`x` is a pointer")])
def test_what_is_said_to_be_divisible_is_looked_at(maker: Maker, arg: str, what: str) -> None:
    maker.write("v0.py", TRITON.replace('divisible_by_16 = ["N"]', f'divisible_by_16 = ["{arg}"]'))
    study = maker.load()
    with pytest.raises(UsageError) as caught:
        resolve_launches(study, study.version("v0"), study.problem())
    assert caught.value.message.startswith(f"kernels/s/v0.py:15: {what} for problem n1000")
    assert f"{arg} % 16 == 0" in caught.value.hint


def test_what_decides_the_code_decides_the_hash(maker: Maker) -> None:
    hashes = set()
    for text in (
        TRITON,
        TRITON.replace("num_stages = 2", "num_stages = 3"),
        TRITON.replace("num_warps = 8", "num_warps = 4"),
        TRITON.replace('divisible_by_16 = ["N"]\n', ""),
        TRITON.replace("TILE = 256", "TILE = 128"),
    ):
        maker.write("v0.py", text)
        hashes.add(source_hash(maker.project, maker.load().version("v0")))
    assert len(hashes) == 5


def test_a_child_has_its_parents_launch(maker: Maker) -> None:
    maker.write("v0.py", TRITON)
    parent = maker.load().version("v0")
    text = version_text(parent, "Child")
    child = frontmatter.parse(text, path="v1.py", kind="triton")
    assert [msg.line for msg in child.launches] != [0]
    for name in ("kernel", "grid", "block", "args", "num_stages", "divisible_by_16"):
        assert getattr(child.launches[0], name) == getattr(parent.launches[0], name)
    assert child.defines == parent.defines
