"""Finding the project: upwards, by its settings, with clear words where there is none."""

from __future__ import annotations

import os
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


# --- how far up ----------------------------------------------------------------------------------


def settings_at(folder: Path, text: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workbench.toml").write_text(text)
    return folder


def below(folder: Path) -> Path:
    inner = folder / "repo" / "deep"
    inner.mkdir(parents=True, exist_ok=True)
    return inner


def test_the_root_of_a_repository_is_the_last_folder(tmp_path: Path) -> None:
    start = below(settings_at(tmp_path))
    assert require_project(start).root == tmp_path
    (tmp_path / "repo" / ".git").mkdir()
    assert find_project(start) is None
    settings_at(tmp_path / "repo")
    assert require_project(start).root == tmp_path / "repo"


def test_a_file_is_the_root_of_a_worktree(tmp_path: Path) -> None:
    start = below(settings_at(tmp_path))
    (tmp_path / "repo" / ".git").write_text("gitdir: elsewhere\n")
    assert find_project(start) is None


def test_above_the_home_folder_nothing_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = below(settings_at(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "repo"))
    assert find_project(start) is None
    settings_at(tmp_path / "repo")
    assert require_project(start).root == tmp_path / "repo"


def test_another_file_system_is_not_gone_up_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = below(settings_at(tmp_path))
    monkeypatch.setattr("workbench.project._device", lambda folder: int(folder == tmp_path))
    assert find_project(start) is None


def test_a_ceiling_is_not_gone_up_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = below(settings_at(tmp_path))
    monkeypatch.setenv("WORKBENCH_CEILING", f"/nowhere:relative:{tmp_path}")
    assert find_project(start) is None
    assert require_project(tmp_path).root == tmp_path  # who stands in it means it
    monkeypatch.setenv("WORKBENCH_CEILING", str(start))
    assert find_project(start) is None


def test_captures_lie_no_further_up_than_settings(tmp_path: Path) -> None:
    from workbench.programs.capture.capture_store import find_shelf

    start = below(tmp_path)
    (tmp_path / ".workbench").mkdir()
    assert find_shelf(start).root == tmp_path
    (tmp_path / "repo" / ".git").mkdir()
    assert find_shelf(start).root == start  # that .git is no repository


# --- whose ---------------------------------------------------------------------------------------


@pytest.fixture
def owned(monkeypatch: pytest.MonkeyPatch) -> dict[Path, int]:
    """Who owns which file, without the rights to give one away; all others are ours."""
    owners: dict[Path, int] = {}

    def owner(path: Path, *, follow: bool = True) -> int:
        path.stat(follow_symlinks=follow)
        real = path.resolve() if follow else path
        return owners.get(real, os.geteuid())

    monkeypatch.setattr("workbench.project.owner", owner)
    monkeypatch.delenv("WORKBENCH_TRUST", raising=False)
    return owners


OTHER = 54321


@pytest.mark.parametrize("name", ["workbench.toml", "pyproject.toml"])
@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_settings_of_another_user_are_refused(
    tmp_path: Path, owned: dict[Path, int], name: str, what: str
) -> None:
    root = tmp_path / "theirs"
    start = below(root)
    path = root / name
    text = "[tool.workbench]\n" if name == "pyproject.toml" else ""
    if what == "link":
        path.symlink_to(tmp_path / "aim.toml")
        (tmp_path / "aim.toml").write_text(text)
        owned[tmp_path / "aim.toml"] = OTHER
    else:
        path.write_text(text)
        owned[path if what == "file" else root] = OTHER
    with pytest.raises(UsageError, match=f"belongs to another user.*{OTHER}") as caught:
        find_project(start)
    assert f"WORKBENCH_TRUST={root}" in caught.value.hint


@pytest.mark.parametrize("trust", ["{}", "/nowhere:{}", "{}/..", "*"])
def test_who_is_trusted_is_obeyed(
    tmp_path: Path, owned: dict[Path, int], trust: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned[settings_at(tmp_path / "theirs")] = OTHER
    monkeypatch.setenv("WORKBENCH_TRUST", trust.format(tmp_path / "theirs"))
    assert require_project(tmp_path / "theirs").root == tmp_path / "theirs"


@pytest.mark.parametrize("trust", ["", "theirs", "{}/theirs/kernels", "{}/the", "~"])
def test_who_is_not_named_is_not_trusted(
    tmp_path: Path, owned: dict[Path, int], trust: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned[settings_at(tmp_path / "theirs")] = OTHER
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_TRUST", trust.format(tmp_path))
    with pytest.raises(UsageError, match="belongs to another user"):
        find_project(tmp_path / "theirs")


def test_under_sudo_the_callers_files_are_roots_own(
    tmp_path: Path, owned: dict[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    owned[settings_at(tmp_path / "theirs")] = OTHER
    monkeypatch.setattr("os.geteuid", lambda: 0)
    owned |= {tmp_path / "theirs" / "workbench.toml": 0}
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    assert find_project(tmp_path / "theirs") is not None
    monkeypatch.setattr("os.geteuid", lambda: 7)  # who is not root may write the variable as well
    with pytest.raises(UsageError, match="belongs to another user"):
        find_project(tmp_path / "theirs")


@pytest.mark.parametrize("text", ["[tool.other]\n", "tool = 3\n", "not TOML"])
def test_a_foreign_pyproject_without_our_table_stops_nobody(
    tmp_path: Path, owned: dict[Path, int], text: str
) -> None:
    start = below(tmp_path)
    (tmp_path / "repo" / "pyproject.toml").write_text(text)
    owned[tmp_path / "repo" / "pyproject.toml"] = OTHER
    settings_at(tmp_path)
    assert require_project(start).root == tmp_path


def test_captures_of_another_user_are_refused(tmp_path: Path, owned: dict[Path, int]) -> None:
    from workbench.programs.capture.capture_store import find_shelf

    (tmp_path / ".workbench").mkdir()
    owned[tmp_path / ".workbench"] = OTHER
    with pytest.raises(UsageError, match=r"\.workbench belongs to another user"):
        find_shelf(below(tmp_path))


# --- wrong types ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["tool = 3\n", "[[tool]]\n", "[[tool]]\nworkbench = {}\n"])
def test_what_is_no_table_of_tools_is_no_project(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert find_project(below(tmp_path)) is None


@pytest.mark.parametrize("text", ["[tool]\nworkbench = 3\n", "[[tool.workbench]]\n"])
def test_settings_that_are_no_table_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match=r"pyproject\.toml: `tool\.workbench` must be a table"):
        find_project(below(tmp_path))
