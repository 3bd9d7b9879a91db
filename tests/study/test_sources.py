"""A version's own sources, and the hash that says whether a profile is stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.study_maker import BASELINE, VERSION, Maker
from workbench.errors import UsageError
from workbench.study.folder import local_sources, source_hash
from workbench.study.sources import include_folders


def hashed(maker: Maker, text: str) -> str:
    maker.write("v0.cu", text)
    return source_hash(maker.project, maker.load().version("v0"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('title = "Scale"', 'title = "Another"'),
        ('change = "c"', 'change = "said better"'),
        ('counter = "duration"', 'counter = "registers"'),
        ('change = "down"', 'change = "-50%"\nwhy = "because"'),
        ("it needs two", "it needs more than one"),
        ("TILE = 64", "TILE = 64  # a comment"),
        ("--- */\n", "--- */\n\n"),
        ("y[0] = x[0]; }\n", "y[0] = x[0]; }   \n\n\n"),
    ],
)
def test_prose_does_not_change_the_hash(maker: Maker, right: str, wrong: str) -> None:
    assert right in VERSION
    assert hashed(maker, VERSION) == hashed(maker, VERSION.replace(right, wrong))
    assert hashed(maker, VERSION) == hashed(maker, VERSION.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("y[0] = x[0]", "y[0] = 2 * x[0]"),
        ("TILE = 64", "TILE = 32"),
        ("flags = []", 'flags = ["-use_fast_math"]'),
        ("4*TILE", "8*TILE"),
        ('"TILE", 2]', '"TILE", 4]'),
        ("float16", "float32"),
        ("cluster = [1]", "cluster = [2]"),
        ("cluster = [1]", "cluster = [1]\ncooperative = true"),
        ("cluster = [1]", 'cluster = [1]\nwhen = "N > 7"'),
        ('"y", "tmp"', '"tmp", "y"'),
    ],
)
def test_what_decides_the_outcome_changes_the_hash(maker: Maker, right: str, wrong: str) -> None:
    assert right in VERSION
    assert hashed(maker, VERSION) != hashed(maker, VERSION.replace(right, wrong))


def test_the_hash_is_the_same_on_every_machine(maker: Maker) -> None:
    """A recorded profile is stale where this differs: a change here outdates all of them."""
    assert hashed(maker, VERSION) == (
        "7884aa05854cf5330a95d726256cd4323097785ab07d3deb88e3b4874f93766f"
    )


def test_includes_are_followed_and_hashed(maker: Maker, tmp_path: Path) -> None:
    text = VERSION.replace(
        "extern", '#include "a.cuh"\n#include <cuda_fp16.h>\n#include <deep.cuh>\nextern', 1
    ).replace("flags = []", 'flags = ["-Ikernels/include", "-I", "kernels/none"]')
    maker.write("a.cuh", '#pragma once\n  #  include "../common/b.cuh"\n#include "cuda.h"\n')
    b = maker.write("../common/b.cuh", '#include "c.cuh"\n#include "../s/a.cuh"\n')
    maker.write("../common/c.cuh", "int c;\r\n")
    maker.write("../include/deep.cuh", "int deep;\n")
    before = hashed(maker, text)
    sources = local_sources(maker.project, maker.load().version("v0"))
    assert [each.path for each in sources] == [
        "kernels/s/v0.cu",
        "kernels/s/a.cuh",
        "kernels/include/deep.cuh",
        "kernels/common/b.cuh",
        "kernels/common/c.cuh",
    ]
    assert sources[-1].text == "int c;\n"
    assert len(sources[0].sha256) == 64
    b.write_text(b.read_text() + "int changed;\n")
    assert hashed(maker, text) != before


def test_only_quoted_includes_are_looked_for_beside_the_file(maker: Maker) -> None:
    text = VERSION.replace("extern", "#include <a.cuh>\nextern", 1)
    maker.write("a.cuh", "int a;\n")
    maker.write("v0.cu", text)
    (own,) = local_sources(maker.project, maker.load().version("v0"))
    assert own.path == "kernels/s/v0.cu"


def test_folders_of_includes_are_named_as_compilers_take_them() -> None:
    flags = ("-Ia", "-I=b", "-I", "c", "--include-path", "d", "--include-path=e", "-O3", "-I")
    assert include_folders(flags) == ["a", "b", "c", "d", "e"]


def test_an_include_outside_of_the_project(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "project")
    (tmp_path / "out.cuh").write_text("int x;\n")
    maker.write("v0.cu", VERSION.replace("extern", '#include "../../../out.cuh"\nextern', 1))
    with pytest.raises(UsageError, match=r"v0\.cu:25: includes `\.\./\.\./\.\./out\.cuh`, outside"):
        maker.load().version("v0")


def test_the_hash_of_a_python_version(maker: Maker) -> None:
    maker.write("lib.py", BASELINE + "x = 1\n")
    first = source_hash(maker.project, maker.load().version("lib"))
    maker.write("lib.py", BASELINE.replace('"Lib"', '"Library"') + "x = 1\n")
    assert source_hash(maker.project, maker.load().version("lib")) == first
    maker.write("lib.py", BASELINE + "x = 2\n")
    assert source_hash(maker.project, maker.load().version("lib")) != first
