"""``[tune]`` in front matter: parameters, their values, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.study_maker import VERSION, Maker, line_of
from workbench.specs import TuneSpec
from workbench.study.launches import resolve_launches
from workbench.study.scaffold import version_text
from workbench.study.sources import source_hash

KERNEL = "--- */\n"
PLAIN = VERSION.replace('block = ["TILE", 2]', "block = [64, 2]")
SPACE = 'TILE = [32, 64]\nblock = [[64, 2], 128]\nrequires = "TILE > 1"'


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def tuned(table: str, text: str = VERSION) -> str:
    return text.replace(KERNEL, f"[tune]\n{table}\n{KERNEL}", 1)


def test_a_space_and_what_the_version_is_without_it(maker: Maker) -> None:
    maker.write("v0.cu", tuned(SPACE, PLAIN))
    spec = maker.load().version("v0").tune
    assert spec == TuneSpec(
        parameters={"TILE": (32, 64), "block": ("64x2", "128")},
        default={"TILE": 64, "block": "64x2"},
        requires="TILE > 1",
        line=line_of(tuned(SPACE, PLAIN), "[tune]"),
    )


def test_a_space_leaves_what_was_recorded_valid(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    before = source_hash(maker.project, maker.load().version("v0"))
    maker.write("v0.cu", tuned("TILE = [32, 64]"))
    assert source_hash(maker.project, maker.load().version("v0")) == before


def test_a_parameter_that_is_no_define_is_one_with_its_first_value(maker: Maker) -> None:
    text = VERSION.replace("y[0] = x[0]", "y[0] = x[WIDE]")
    maker.write("v0.cu", tuned("WIDE = [2, 4]", text))
    version = maker.load().version("v0")
    assert version.defines == {"TILE": "64", "WIDE": "2"}
    assert version.tune is not None and version.tune.default == {"WIDE": 2}


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ("TILE = 64", "`TILE` must be a list of 1 to 256 values, not 64", "TILE = [16, 32]"),
        ("TILE = []", "must be a list", "TILE = [16, 32]"),
        ("TLE = [64]", "`TLE` is not a define, and the code does not", "Did you mean `TILE`?"),
        ("TILE = [32, 16]", "`TILE` is 64 in this version, which is not among", "Add 64"),
        ("TILE = [64, 64]", "`TILE` is given a value twice", "once"),
        ("TILE = [64, [1]]", "must be a number or a string", "TILE = 32"),
        ('TILE = [64, "$(x)"]', "a shell may interpret", ""),
        ("TILE = [64, inf]", "inf is invalid for `TILE`", "TILE = [16, 32]"),
        ("TILE = [64, 9223372036854775808]", "is invalid for `TILE`", "TILE = [16, 32]"),
        ("block = [[64, 0]]", "is not a value of `block`", "block = [128, [32, 8]]"),
        ("block = [[1, 1, 1, 1]]", "is not a value of `block`", ""),
        ("block = [64]", "`block` is TILEx2 in this version", "Add TILEx2"),
        ("num_warps = [4]", "`num_warps` does not apply to a kernel in CUDA C++", "block"),
        ("requires = 3", "`requires` must be a string", "TILE * UNROLL"),
        ('requires = "1"', "[tune] has 0 parameters", "TILE = [16, 32]"),
        ('TILE = [64]\nrequires = "TIL > 1"', "unknown name `TIL` in requires", "TILE"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(
    maker: Maker, table: str, message: str, hint: str
) -> None:
    text = tuned(table)
    maker.write("v0.cu", text)
    error = maker.fails(message, hint)
    first = line_of(text, "[tune]")
    lines = range(first, first + 1 + len(table.split("\n")))
    assert error.message.startswith(tuple(f"kernels/s/v0.cu:{line}: " for line in lines))


def test_a_launch_may_name_its_block(maker: Maker) -> None:
    text = VERSION.replace('block = ["TILE", 2]', "block = [32, 2]")
    text = text.replace('"cdiv(N, TILE)"', '"cdiv(N, block_x * block_y)"')
    maker.write("v0.cu", tuned("block = [[32, 2], 256]", text))
    study = maker.load()
    version = study.version("v0")
    (launch,) = resolve_launches(study, version, study.problem("n1000"))
    assert (launch.grid, launch.block) == ((16, 1, 1), (32, 2, 1))


def test_a_block_names_itself_nowhere_else(maker: Maker) -> None:
    maker.write("v0.cu", VERSION.replace('block = ["TILE", 2]', 'block = ["block_x", 2]'))
    maker.fails("unknown name `block_x` in block")


def test_of_several_launches_none_is_meant(maker: Maker) -> None:
    launch = VERSION[VERSION.index("[[launch]]") : VERSION.index("[[expect]]")]
    maker.write(
        "v0.cu", tuned("block = [64]", VERSION.replace("[[expect]]", f"{launch}[[expect]]"))
    )
    maker.fails("`block` does not say which of the 2 launches", 'block = ["THREADS"]')


TRITON = '''"""T.

---
title = "T"

[defines]
BM = 64

[tune]
BM = [32, 64]
num_warps = [4, 8]
num_stages = [2, 3]

[[launch]]
kernel = "k"
grid = ["cdiv(N, BM)"]
args = ["x", "y", "N"]
---
"""
import triton


@triton.jit
def k(x, y, N, BM):
    pass
'''


def test_triton_has_constants_warps_and_stages(maker: Maker) -> None:
    maker.write("v0.py", TRITON)
    spec = maker.load().version("v0").tune
    assert spec is not None
    assert spec.default == {"BM": 64, "num_warps": 4, "num_stages": 3}


def test_a_library_has_nothing_to_tune(maker: Maker) -> None:
    maker.write("lib.py", '"""L\n\n---\ntitle = "L"\nbaseline = true\n[tune]\nA = [1]\n---\n"""\n')
    maker.fails("`tune` does not apply to a .py version without [[launch]]")


def test_a_child_inherits_the_space(maker: Maker) -> None:
    text = VERSION.replace('block = ["TILE", 2]', "block = [64, 2]")
    maker.write(
        "v0.cu", tuned('TILE = [32, 64]\nblock = [[64, 2], 128]\nrequires = "TILE > 1"', text)
    )
    study = maker.load()
    maker.write("v1.cu", version_text(study.version("v0"), "child"))
    child = maker.load().version("v1").tune
    parent = study.version("v0").tune
    assert child is not None and parent is not None
    assert (child.parameters, child.requires) == (parent.parameters, parent.requires)
