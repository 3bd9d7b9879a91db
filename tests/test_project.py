"""Finding the project: upwards, by its settings, with clear words where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.errors import UsageError
from workbench.project import find_project, require_project


def test_found_from_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.workbench]\ndefault_study = "sgemm"\n')
    below = tmp_path / "kernels" / "sgemm"
    below.mkdir(parents=True)

    project = require_project(below)

    assert project.root == tmp_path.resolve()
    assert project.default_study == "sgemm"
    assert project.profiles == tmp_path.resolve() / "profiles"


def test_workbench_toml_is_a_project_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "workbench.toml").write_text('default_study = "conv2d"\n')
    assert require_project(tmp_path).default_study == "conv2d"


def test_a_pyproject_without_our_table_is_not_a_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert find_project(tmp_path) is None
    with pytest.raises(UsageError) as caught:
        require_project(tmp_path)
    assert str(tmp_path) in caught.value.message
    assert "workbench init" in caught.value.hint


@pytest.mark.parametrize("text", ["[tool.workbench\n", "default_study = 3 =\n"])
def test_broken_settings_name_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "workbench.toml").write_text(text)
    with pytest.raises(UsageError, match=r"workbench\.toml: not valid TOML"):
        find_project(tmp_path)


@pytest.mark.parametrize("key", ["default_study", "default_device"])
def test_a_default_that_is_no_string(tmp_path: Path, key: str) -> None:
    (tmp_path / "workbench.toml").write_text(f"{key} = 3\n")
    with pytest.raises(UsageError, match=f"{key} must be a string"):
        find_project(tmp_path)


def study_folders(root: Path, *names: str) -> None:
    for name in names:
        (root / "kernels" / name).mkdir(parents=True)
        (root / "kernels" / name / "study.py").write_text("")


@pytest.mark.parametrize(
    ("settings", "studies", "default"),
    [
        ('default_study = ""\n', ["blur"], "blur"),
        ("", ["blur"], "blur"),
        ("", ["blur", "sgemm"], ""),
        ("", [], ""),
        ('default_study = "sgemm"\n', ["blur"], "sgemm"),
    ],
)
def test_the_only_study_is_the_default_one(
    tmp_path: Path, settings: str, studies: list[str], default: str
) -> None:
    (tmp_path / "workbench.toml").write_text(settings)
    study_folders(tmp_path, *studies)
    assert require_project(tmp_path).default_study == default
