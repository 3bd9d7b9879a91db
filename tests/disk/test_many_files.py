"""Files that are too much together: the one that is, is named, and what is small still fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.disk.limits import TotalLimit
from workbench.errors import DataError, UsageError
from workbench.project import Project
from workbench.specs import Version
from workbench.study.sources import local_sources


def test_a_file_counts_once_and_what_is_refused_counts_nothing() -> None:
    limit = TotalLimit("bytes", 100)
    limit.take("a", 60)
    limit.take("a", 70)
    with pytest.raises(DataError, match=r"b is left out.*the largest is a"):
        limit.take("b", 40)
    limit.take("c", 30)
    with pytest.raises(DataError):
        limit.take("d", 1)


def test_what_is_in_proportion_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = TotalLimit("bytes", 100, ratio=40)
    for number in range(100):
        limit.take(f"{number}", 40_000, 1_000)
    limit.take("a", 160, 2)
    with pytest.raises(DataError):
        limit.take("b", 160, 2)
    monkeypatch.setenv("WORKBENCH_LIMIT_MIB", "1")
    limit.take("b", 160, 2)


def _version(text: str) -> Version:
    return Version(
        study="s", id="v0", name="v0", path="kernels/s/v0.cu", kind="cuda", text=text, title=""
    )


def test_one_file_of_many_names_is_too_much_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "kernels" / "s"
    folder.mkdir(parents=True)
    (folder / "big.cuh").write_text(("x" * 79 + "\n") * (100_000))
    names = [f"h{number}.cuh" for number in range(20)]
    for name in names:
        (folder / name).symlink_to("big.cuh")
    version = _version("".join(f'#include "{name}"\n' for name in names))
    with pytest.raises(UsageError, match=r"kernels/s/h\d+.cuh is left out.*128 MiB"):
        local_sources(Project(root=tmp_path), version)


def test_includes_without_end_are_refused(tmp_path: Path) -> None:
    version = _version("".join(f'#include "{number}"\n' for number in range(60_000)))
    with pytest.raises(UsageError, match=r"kernels/s/v0.cu has 60,000"):
        local_sources(Project(root=tmp_path), version)


def test_a_file_written_anew_is_read_anew(tmp_path: Path) -> None:
    folder = tmp_path / "kernels" / "s"
    folder.mkdir(parents=True)
    for text in ("1", "2", "3"):
        (folder / "a.cuh").write_text(text)
        assert local_sources(Project(root=tmp_path), _version('#include "a.cuh"\n'))[1].text == text


def test_a_program_has_no_file_read_but_those_of_kernels_and_stated_folders(tmp_path: Path) -> None:
    root = tmp_path / "project"
    for folder in ("kernels/s", "common", ".git"):
        (root / folder).mkdir(parents=True)
    (tmp_path / "outside").write_text("")
    (root / "common" / "a.cuh").write_text("")
    (root / ".git" / "config").write_text("")
    (root / "kernels" / "s" / "way.cuh").symlink_to("../../.git/config")
    (root / "link").symlink_to(tmp_path)
    project = Project(root=root, closed=True)
    for name in ("../../common/a.cuh", "../../.git/config", "way.cuh"):
        with pytest.raises(UsageError, match="may not read"):
            local_sources(project, _version(f'#include "{name}"\n'))
    for name in ("../../../outside", "../../../nothing", str(tmp_path / "outside")):
        with pytest.raises(UsageError, match="outside the project"):
            local_sources(project, _version(f'#include "{name}"\n'))
    assert len(local_sources(project, _version('#include "../../link/outside"\n'))) == 1
