from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from workbench.commands.init import command
from workbench.errors import MissingError, UsageError, WorkbenchError
from workbench.project import find_project
from workbench.study.folder import load_study, study_names


def init(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments))
    if isinstance(result.exception, WorkbenchError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_a_folder_becomes_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = init()
    assert "workbench new NAME" in output
    project = find_project()
    assert project is not None
    assert project.root == tmp_path.resolve()
    assert project.default_study == ""
    assert project.kernels.is_dir()
    assert project.profiles.is_dir()
    assert (project.reports / ".gitignore").read_text() == "*\n!.gitignore\n"
    assert study_names(project) == []


def test_with_a_first_study(tmp_path: Path) -> None:
    output = init(str(tmp_path), "--study", "vadd")
    assert f"wrote {tmp_path / 'kernels/vadd/v0_one_element.cu'}" in output
    assert "workbench verify v0" in output
    project = find_project(tmp_path)
    assert project is not None
    assert project.default_study == "vadd"
    assert list(load_study(project, "vadd").versions) == ["v0"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("workbench.toml", 'default_study = "mine"\n'),
        ("pyproject.toml", '[tool.workbench]\ndefault_study = "mine"\n'),
    ],
)
@pytest.mark.parametrize("option", [[], ["--study", "x"]])
def test_a_project_is_not_overwritten(
    tmp_path: Path, file: str, text: str, option: list[str]
) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(UsageError, match="is already a workbench project") as caught:
        init(str(tmp_path), *option)
    assert "Nothing was changed" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert (tmp_path / file).read_text() == text


def test_what_lies_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "mine.cu").write_text("mine")
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / ".gitignore").write_text("mine")
    output = init(str(tmp_path))
    assert (tmp_path / "kernels" / "mine.cu").read_text() == "mine"
    assert (tmp_path / "reports" / ".gitignore").read_text() == "mine"
    assert "kernels" not in output


def test_a_project_may_lie_in_another(tmp_path: Path) -> None:
    init(str(tmp_path))
    inner = tmp_path / "inner"
    inner.mkdir()
    init(str(inner))
    project = find_project(inner)
    assert project is not None
    assert project.root == inner.resolve()


def test_a_bad_study_name_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be a study's name"):
        init(str(tmp_path), "--study", "1st")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_pyproject_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool\n")
    with pytest.raises(UsageError, match="not valid TOML"):
        init(str(tmp_path))


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "kernels").write_text("a file")
    with pytest.raises(MissingError, match="cannot write"):
        init(str(other))
    # The settings are written last, so the attempt can be repeated.
    assert not (other / "workbench.toml").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(tmp_path / "nowhere")])
    assert result.exit_code == 2
    assert "does not exist" in result.output
