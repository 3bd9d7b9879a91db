"""``reference = "v0"``: a version whose results the others of its study must equal."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.engines.stand_ins import THERE, Cli
from workbench.project import Project

Manner = Callable[[str], None]
ProjectFile = Callable[[str, str, str], None]
FUNCTION = """def reference(problem, inputs):
    return {"y": 2 * inputs["x"].astype("float64")}
"""
HERE = ("--engine", "emulator", "--seed", "5")


@pytest.fixture
def names_v0(project: Project, project_file: ProjectFile) -> Project:
    """The study takes what v0 gives for right; v1 is its copy."""
    project_file("study.py", FUNCTION, 'reference = "v0"\n')
    folder = project.kernels / "double"
    (folder / "v1_copy.cu").write_text((folder / "v0_plain.cu").read_text())
    return project


@pytest.mark.nvcc
def test_versions_are_held_against_it_and_it_is_not_called_proved(
    cli: Cli, names_v0: Project
) -> None:
    code, out, _ = cli("verify", "v0", "v1", *HERE)
    assert code == 0, out
    rows = [line.split() for line in out.splitlines()[2:6]]
    assert [(row[0], row[2]) for row in rows] == [("v0", "ok")] * 2 + [("v1", "ok")] * 2
    assert "Nothing proves that" in out and "reference is the result of v0" in out
    code, out, _ = cli("verify", "v1", *HERE, "--format", "json")
    results = json.loads(out)["results"]
    assert {(each["against"], each["ok"], each["error"]) for each in results} == {("v0", True, 0.0)}


@pytest.mark.nvcc
def test_who_differs_from_it_is_called_no_more_than_that(
    cli: Cli, names_v0: Project, project_file: ProjectFile
) -> None:
    project_file("v1_copy.cu", "y[i] = 2 * x[i]", "y[i] = 2 * x[i] + (i == 3)")
    code, out, _ = cli("verify", "v0", "v1", *HERE)
    assert code == 4
    rows = [line.split() for line in out.splitlines()[2:6]]
    assert [row[2] for row in rows] == ["ok", "ok", "DIFFERS", "DIFFERS"]
    assert "v1 gives a different result from v0 on n1000" in out and "worst element: y[3]" in out
    assert "does a different job from v0" in out and "WRONG" not in out
    code, out, err = cli("verify", "v1", *HERE)
    assert code == 4 and "give v1 a study of its own" in out + err


@pytest.mark.nvcc
def test_what_it_leaves_alone_is_said_and_one_that_writes_nothing_is_wrong(
    cli: Cli, names_v0: Project, project_file: ProjectFile
) -> None:
    project_file("v0_plain.cu", "if (i < n)", "if (i < n - 3)")
    code, out, _ = cli("verify", "v0", *HERE)
    assert code == 0
    assert "v0 leaves 3 of 7 elements unwritten on n7." in out
    project_file("v0_plain.cu", "if (i < n - 3)", "if (i < 0)")
    code, out, _ = cli("verify", "v0", *HERE)
    assert code == 4 and "7 elements were never written" in out


@pytest.mark.nvcc
def test_where_it_fails_nobody_else_is_judged(
    cli: Cli, names_v0: Project, project_file: ProjectFile
) -> None:
    project_file("v0_plain.cu", "if (i < n) y[i]", "y[i + 100000]")
    code, out, err = cli("verify", "v1", *HERE)
    assert code == 6 and "not judged" in out, err
    assert "v0, the study's reference, gives no result on n1000" in out
    code, _, err = cli("verify", "v1", "--problem", "n7", *HERE)
    assert code == 6 and "Correct v0 first." in err


def test_a_version_that_is_not_there_is_named(
    cli: Cli, names_v0: Project, project_file: ProjectFile
) -> None:
    project_file("study.py", 'reference = "v0"', 'reference = "v7"')
    code, out, _ = cli("verify", "v1", *HERE)
    assert code == 2 and "no version `v7`" in out


def test_another_value_is_refused_at_its_line(cli: Cli, project_file: ProjectFile) -> None:
    project_file("study.py", FUNCTION, "reference = 7\n")
    code, _, err = cli("verify", "v0", *HERE)
    assert code == 2 and "`reference` must be a function" in err


def test_the_worker_runs_it_first(
    cli: Cli, names_v0: Project, stand_in: Manner, project_file: ProjectFile
) -> None:
    code, out, err = cli("verify", "v0", "v1", "library", *THERE, "--seed", "5")
    assert code == 0, err
    assert out.count(" ok ") == 6 and "Nothing proves that" in out
    stand_in("wrong v1")
    code, out, _ = cli("verify", "v0", "v1", "library", *THERE, "--seed", "5")
    assert code == 4
    rows = [line.split() for line in out.splitlines()[2:8]]
    assert [(row[0], row[2]) for row in rows if row[1] == "n1000"] == [
        ("v0", "ok"),
        ("v1", "DIFFERS"),
        ("library", "ok"),
    ]


@pytest.mark.nvcc
@pytest.mark.filterwarnings("error")
def test_a_wrong_result_that_no_half_holds_is_explained_without_a_warning(
    cli: Cli, project: Project, project_file: ProjectFile
) -> None:
    project_file(
        "study.py", '2 * inputs["x"].astype("float64")', '1e6 * inputs["x"].astype("float64") ** 2'
    )
    code, out, err = cli("verify", "v0", *HERE)
    assert code == 4 and "WRONG" in out and "Warning" not in err


@pytest.mark.nvcc
def test_one_wrong_element_among_zeros_is_not_called_rounded(
    cli: Cli, project: Project, project_file: ProjectFile
) -> None:
    project_file("study.py", "2 * inputs", "0 * inputs")
    project_file("v0_plain.cu", "2 * x[i]", "i == 3 ? 802 : 0")
    code, out, err = cli("verify", "v0", *HERE)
    assert code == 4 and "WRONG" in out and "rounded" not in out + err
