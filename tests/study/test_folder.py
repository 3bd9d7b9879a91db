"""Studies and versions by name, and the page that documents them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.study_maker import BASELINE, STUDY, VERSION, Maker
from workbench.errors import UsageError
from workbench.project import Project
from workbench.study import keys
from workbench.study.folder import (
    load_study,
    parse_target,
    parse_targets,
    resolve_launches,
    resolve_scratch,
    study_names,
)
from workbench.study.launches import ScalarArg
from workbench.study.sources import kernel_names


def test_unknown_names_are_answered_with_the_nearest(maker: Maker) -> None:
    maker.write("v0_first.cu", VERSION)
    study = maker.load()
    cases: list[tuple[Callable[[], object], str, str]] = [
        (lambda: study.version("v00_frist"), "study s has no version `v00_frist`", "v0"),
        (lambda: study.problem("n100"), "study s has no problem `n100`", "`n1000`"),
        (lambda: load_study(maker.project, "t"), "there is no study `t`", "studies: s"),
        (lambda: load_study(maker.project, ""), "no study was named", "studies: s. `workbench new"),
        (lambda: load_study(maker.project, "../s"), "there is no study `../s`", "studies: s"),
        (lambda: load_study(maker.project, "x" * 5000), "there is no study `xxx", "studies: s"),
    ]
    for call, message, hint in cases:
        with pytest.raises(UsageError) as caught:
            call()
        assert message in caught.value.message
        assert hint in caught.value.hint
    maker.write("study.py", STUDY.replace('"profile"', '"sweep"'))
    with pytest.raises(UsageError, match="no problem for `profile`"):
        maker.load().problem()


def test_study_names(maker: Maker, tmp_path: Path) -> None:
    (tmp_path / "kernels" / "common").mkdir()
    maker.write("../a/study.py", STUDY)
    assert study_names(maker.project) == ["a", "s"]
    assert study_names(Project(root=tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("v3", "sgemm", ("sgemm", "v3")),
        ("conv/v3", "sgemm", ("conv", "v3")),
        ("kernels/conv/v3_padded.cu", "sgemm", ("conv", "v3_padded")),
        (" cublas ", "s", ("s", "cublas")),
    ],
)
def test_targets(text: str, default: str, expected: tuple[str, str]) -> None:
    project = Project(root=Path("nowhere"), default_study=default)
    assert parse_target(text, project) == expected
    assert parse_target(text, Project(root=Path("nowhere")), default) == expected


def test_a_version_is_of_the_study_that_is_named_before_it() -> None:
    project = Project(root=Path("nowhere"), default_study="sgemm")
    assert parse_targets(["v1", "conv/v2", "v3"], project) == [
        ("sgemm", "v1"),
        ("conv", "v2"),
        ("conv", "v3"),
    ]


@pytest.mark.parametrize("text", ["", "/", "a/", "/v3", "a/b/c", "v3"])
def test_targets_that_name_nothing(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(text, Project(root=Path("nowhere")))
    assert caught.value.hint


# --- the documentation ---------------------------------------------------------------------


def test_the_documented_study_works(maker: Maker, repo: Path) -> None:
    text = (repo / "docs" / "front-matter.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(cuda|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["cuda", "python", "python", "python"]
    cuda, triton, python, study_py = (block for _, block in blocks)
    maker.write("v0.cu", VERSION.replace('"x", "y", "tmp", ', '"x", "tmp", ').replace("N2", "N"))
    maker.write("v1_two.cu", cuda)
    maker.write("v2_twice.py", triton)
    maker.write("cupy.py", python)
    maker.write("study.py", study_py)
    study = maker.load()
    problem = study.problem("n1000")
    assert study.baseline is study.versions["cupy"]
    (launch,) = resolve_launches(study, study.version("v2"), problem)
    assert (study.version("v2").kind, launch.block) == ("triton", (128, 1, 1))
    (launch,) = resolve_launches(study, study.version("v1"), problem)
    assert launch.grid == (4, 1, 1)
    assert launch.dynamic_shared == 512
    assert launch.args[-1] == ScalarArg(value=2.0, ctype="float")
    (partial,) = resolve_scratch(study, study.version("v1"), problem)
    assert partial.shape == (4,)
    assert study.parameters(problem)["bytes_of_x"] == 4000
    rng = np.random.default_rng(1)
    inputs = study.inputs(problem, rng)
    whole = study.reference(problem, inputs)["y"]
    indices = {"y": np.array([0, 999, 17])}
    np.testing.assert_array_equal(
        study.reference_at(problem, inputs, indices)["y"], whole[indices["y"]]
    )


def test_every_key_of_the_front_matter_is_documented(repo: Path) -> None:
    text = (repo / "docs" / "front-matter.md").read_text(encoding="utf-8")
    for table in keys.TABLES.values():
        for key in table.__struct_fields__:
            assert re.search(rf"`\[*{key}\]*`", text), key


def test_kernels_are_found_behind_their_attributes() -> None:
    code = """
// __global__ void commented(int)
/* __global__ void too(int) */
extern "C" __global__ void __launch_bounds__(f(256), 2)
plain(const float* x) {}
__global__ __cluster_dims__(2, 1, 1) void clustered(int n);
template <typename T> static __global__ void typed(T x) {}
__device__ float helper(float x) { return x; }
void host() { plain<<<1, 2>>>(0); }
"""
    assert kernel_names(code) == ["plain", "clustered", "typed"]


LONG = {
    "kernels": "__global__ __launch_bounds__(64, 2) void k(int* y) { *y = 1; /* one */ }\n" * 9000,
    "no kernel has a name": "__global__ " * 60_000,
    "attributes that nobody ends": "__global__ __launch_bounds__(" * 24_000,
    "comments that nobody ends": "/*" * 330_000,
    "words": "__global__ " + "a " * 330_000,
}


@pytest.mark.parametrize("what", LONG)
def test_a_file_of_660_kb_is_searched_in_a_second(what: str) -> None:
    """In time proportional to its length: the square of it would be hours."""
    begin = time.process_time()
    assert len(LONG[what]) > 650_000 and len(kernel_names(LONG[what])) <= 1
    assert time.process_time() - begin < 2.0  # 0.1 s; a busy machine counts more


def test_a_version_may_have_a_tolerance_of_its_own(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    own = 'baseline = true\ntolerance = 0.01\ntolerance_why = "it rounds"'
    maker.write("v1.cu", VERSION)
    maker.write("lib.py", BASELINE.replace("baseline = true", own))
    study = maker.load()
    assert study.tolerance_of("lib") == 0.01
    assert study.tolerance_of("v1") == study.tolerance
    assert study.tolerance_of("no such version") == study.tolerance
