from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.engines.stand_ins import Cli
from workbench.commands.new import command
from workbench.compile import compilers
from workbench.compile.build import build
from workbench.errors import UsageError, WorkbenchError
from workbench.project import find_project
from workbench.study.folder import Study, load_study, resolve_launches, source_hash
from workbench.study.scaffold import start_project


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    start_project(tmp_path, "vadd")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def new(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments))
    if isinstance(result.exception, WorkbenchError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def study(root: Path, name: str = "vadd") -> Study:
    project = find_project(root)
    assert project is not None
    return load_study(project, name)


def test_a_version_is_its_parents_code_under_its_own_front_matter(root: Path) -> None:
    output = new("v1", "--from", "v0", "--title", 'Four "elements" a thread')
    loaded = study(root)
    parent, child = loaded.version("v0"), loaded.version("v1")
    assert child.path == "kernels/vadd/v1_four_elements_a_thread.cu"
    assert child.title == 'Four "elements" a thread'
    assert (child.parent, child.change, child.expectations) == ("v0", "", ())
    assert "# [[expect]]" in child.text
    project = find_project(root)
    assert project is not None
    # Same code, same launches: the hash sees no difference.
    assert source_hash(project, child) == source_hash(project, parent)
    assert "wrote kernels/vadd/v1_four_elements_a_thread.cu, a copy of v0" in output
    assert "workbench profile v1" in output
    assert "workbench diff v0 v1" in output


def test_the_comment_with_an_expectation_becomes_one(root: Path) -> None:
    new("v1")
    path = root / "kernels/vadd/v1.cu"
    text = path.read_text()
    block = text[text.index("# [[expect]]") : text.index("--- */")]
    path.write_text(text.replace(block, block.replace("# ", "")))
    (expectation,) = study(root).version("v1").expectations
    assert (expectation.counter, expectation.change) == ("duration", "down")


def test_every_key_that_decides_the_outcome_is_inherited(root: Path) -> None:
    (root / "kernels/vadd/v1_rich.cu").write_text(
        """/* ---
title = "Rich"
change = "all keys"
flags = ["-maxrregcount=32", "-Ikernels"]
arch_specific = true
requires = "N % 4 == 0"
requires_why = 'it loads "float4"'
[defines]
TILE = 64
NAME = 'a "quoted" one'
[[scratch]]
name = "tmp"
dtype = "int32"
shape = ["N", 2]
[[fill]]
name = "tmp"
value = [0, "N"]
[[fill]]
name = "table"
dtype = "float32"
value = 0.5
[[fill]]
name = "copy"
input = "a"
[[tensor_map]]
name = "tiles"
buffer = "a"
dtype = "float32"
dims = ["TILE", "N // TILE"]
box = [32, 8]
swizzle = 128
fill = "nan"
[[texture]]
name = "image"
buffer = "a"
dtype = "float32"
dims = ["TILE", 64]
address = ["wrap", "clamp"]
normalized = true
[[launch]]
kernel = "first"
grid = ["cdiv(N, TILE)", 1]
block = ["TILE"]
args = ["a", "tmp", 1.5, "long(N)", "tiles", "image"]
dynamic_shared = "4*TILE"
[[launch]]
kernel = "second"
grid = 8
block = [32, 2]
args = ["tmp", "c"]
cluster = [2]
cooperative = true
when = "N > 7"
[[expect]]
counter = "duration"
change = "down"
--- */
extern "C" __global__ void first() {}
extern "C" __global__ void second() {}
"""
    )
    new("v2", "--title", "Next")
    loaded = study(root)
    parent, child = loaded.version("v1"), loaded.version("v2")
    assert child.parent == "v1"
    for field in ("flags", "requires", "requires_why", "defines"):
        assert getattr(child, field) == getattr(parent, field)
    problem = loaded.problem()
    launches = [str(resolve_launches(loaded, each, problem)) for each in (child, parent)]
    # Only where a tensor map stands is another place.
    assert len({re.sub(r"where='[^']*'", "", text) for text in launches}) == 1
    project = find_project(root)
    assert project is not None
    assert source_hash(project, child) == source_hash(project, parent)
    assert child.expectations == ()


def test_a_python_version_is_copied_too(root: Path) -> None:
    (root / "kernels/vadd/lib.py").write_text(
        '"""Prose.\n\n---\ntitle = "Lib"\nbaseline = true\n---\n"""\n\nx = 1\n'
    )
    new("v1_triton", "--from", "lib", "--title", 'A "\\d" title')
    child = study(root).version("v1")
    assert child.path == "kernels/vadd/v1_triton.py"
    assert (child.title, child.parent, child.baseline) == ('A "\\d" title', "lib", False)
    assert child.text.endswith("\n\nx = 1\n")


def test_a_version_in_another_study(root: Path) -> None:
    new("other")
    assert "workbench diff other/v0 other/v1" in new("other/v1")
    assert "other/v2" in new("other/v2", "--from", "other/v0")
    assert study(root, "other").version("v2").parent == "v0"


def test_a_study_works_from_the_start(root: Path) -> None:
    output = new("conv2d")
    assert "wrote kernels/conv2d/study.py" in output
    assert "workbench verify conv2d/v0" in output
    loaded = study(root, "conv2d")
    problem = loaded.problem("n1000")
    inputs = loaded.inputs(problem, np.random.default_rng(1))
    np.testing.assert_allclose(
        loaded.reference(problem, inputs)["c"], inputs["a"].astype(float) + inputs["b"]
    )
    (launch,) = resolve_launches(loaded, loaded.version("v0"), problem)
    assert (launch.grid, launch.block) == ((4, 1, 1), (256, 1, 1))
    assert loaded.flops(problem) == 1000
    assert loaded.bytes(problem) == 12000
    assert {use for each in loaded.problems.values() for use in each.uses} == {
        "verify",
        "profile",
        "sweep",
    }


@pytest.mark.skipif(not compilers.available(), reason="neither nvcc nor NVRTC is here")
def test_the_example_compiles(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "cache"))
    project = find_project(root)
    assert project is not None
    made = build(project, study(root).version("v0"), "sm_90").build
    assert [each.name for each in made.resources] == ["add"]
    assert made.log == ""


def test_the_only_study_needs_no_name_and_the_next_one_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "v0 alone means mine/v0" in new("mine")
    # The three commands that the README begins a project with.
    assert "a copy of v0" in new("v1", "--from", "v0")
    assert 'set default_study = "other"' in new("other")
    with pytest.raises(UsageError, match="`v2` names no study") as caught:
        new("v2")
    assert "STUDY/v2" in caught.value.hint and "workbench list" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        new("v1")
    assert caught.value.hint.startswith("Name its study: mine/v1; or set")
    with pytest.raises(UsageError) as caught:
        new("v0")
    assert caught.value.hint.startswith("Name its study: mine/v0, other/v0; or set")
    with pytest.raises(UsageError) as caught:  # a program, taken for a version
        new("my gemm.cu")
    assert caught.value.hint.startswith("`workbench new --from-cu 'my gemm.cu'`")
    with pytest.raises(UsageError) as caught:  # a study that is there
        new("other")
    assert caught.value.hint.endswith("workbench new other/v1.")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ([], "name a version, a study or --example to start", "workbench new v5 --from v4"),
        (
            ["--study", "x", "--from", "v0"],
            "name a version, a study or --example to start",
            "workbench new NAME",
        ),
        (["v0"], "version v0 already exists: kernels/vadd/v0_one_element.cu", "is v1"),
        (["v1", "--title", "\udcff"], "kernels/vadd/v1.cu: not UTF-8: '\\udcff'", "Unicode"),
        (["v00_x"], "version v0 already exists", "is v1"),
        (["w1"], "`w1` cannot be a new version's name", "v5_register_tile"),
        (["v1-x"], "`v1-x` cannot be a new version's name", "v5_register_tile"),
        (["v1", "--from", "v9"], "study vadd has no version `v9`", "versions: v0"),
        (["v1", "--study", "vad"], "there is no study `vad`", "Did you mean `vadd`?"),
        (["a/b/c"], "`a/b/c` is not a version", "sgemm/v3"),
        (["v9@h100"], "`v9@h100` names a device", "Leave out @h100"),
        (["vadd"], "study `vadd` already exists", "workbench new vadd/v1"),
        (["--study", "a b"], "`a b` cannot be a study's name", "a letter first"),
        (["--study", "../a"], "`../a` cannot be a study's name", "a letter first"),
        (["v1", "--title", "ends */ early"], "`*/` inside the front matter", "Remove it"),
    ],
)
def test_refused_with_a_reason_and_nothing_written(
    root: Path, arguments: list[str], message: str, hint: str
) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(UsageError) as caught:
        new(*arguments)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert sorted(root.rglob("*")) == before


def test_a_study_without_versions_has_nothing_to_copy(root: Path) -> None:
    (root / "kernels/vadd/v0_one_element.cu").unlink()
    with pytest.raises(UsageError, match="no version to start from"):
        new("v1")


def test_outside_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no workbench project") as caught:
        new("v1")
    assert "workbench init" in caught.value.hint


def test_the_example_is_a_ladder_with_all_that_was_recorded(root: Path, cli: Cli) -> None:
    code, out, _ = cli("new", "--example")
    assert code == 0 and "wrote kernels/scale_add" in out and "need no GPU" in out
    loaded = study(root, "scale_add")
    assert not loaded.broken and [*loaded.versions] == ["v0", "v1", "v2", "v3", "v4", "pytorch"]
    code, out, err = cli("diff", "scale_add/v0", "scale_add/v1")
    assert code == 0 and "faster" in out and "stale" not in out + err
    assert cli("list", "scale_add")[2] == ""
    assert not list(root.rglob("*.ncu-rep.zst"))
    code, _, err = cli("new", "--example")
    assert code == 2 and "study `scale_add` already exists" in err
    with pytest.raises(UsageError, match="a study of its own"):
        new("v1", "--example")
