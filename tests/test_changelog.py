"""The changelog keeps its form, and what comes next can be made of its fragments."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from workbench import __version__

KINDS = ("Added", "Changed", "Removed", "Fixed", "Security")
MOST_BULLETS = 40


def releases(text: str) -> list[tuple[tuple[int, ...], date, str]]:
    """Version, date and text of every release, as they stand."""
    parts = re.split(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})\n", text, flags=re.M)[1:]
    return [
        (tuple(map(int, version.split("."))), date.fromisoformat(day), body)
        for version, day, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


@pytest.fixture(scope="module")
def changelog(repo: Path) -> str:
    return (repo / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def fragments(repo: Path) -> list[Path]:
    return [each for each in (repo / "changes").iterdir() if each.name[0] == "+"]


def test_every_heading_is_a_release_or_a_kind_of_change(changelog: str) -> None:
    found = releases(changelog)
    assert len(found) == len(re.findall(r"^## ", changelog, re.M)) > 5
    for version, _, body in found:
        kinds = re.findall(r"^### (.*)$", body, re.M)
        assert kinds and kinds == [kind for kind in KINDS if kind in kinds], version


def test_releases_go_back_in_time(changelog: str) -> None:
    found = releases(changelog)
    assert [each[0] for each in found] == sorted({each[0] for each in found}, reverse=True)
    assert [each[1] for each in found] == sorted((each[1] for each in found), reverse=True)
    assert found[-1][0] == (0, 1, 0)


def test_no_release_is_longer_than_somebody_reads(changelog: str) -> None:
    for version, _, body in releases(changelog):
        assert 0 < len(re.findall(r"^- ", body, re.M)) <= MOST_BULLETS, version


def test_the_version_is_the_newest_release_or_the_next(
    changelog: str, fragments: list[Path]
) -> None:
    newest = releases(changelog)[0][0]
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", __version__)
    version = tuple(map(int, found.groups())) if found else ()
    assert version > newest if fragments else version == newest


def test_fragments_are_named_for_what_they_are(repo: Path, fragments: list[Path]) -> None:
    names = {path.name for path in (repo / "changes").iterdir()}
    assert names - {path.name for path in fragments} == {"README.md", "template.md"}
    for path in fragments:
        assert re.fullmatch(r"\+[a-z0-9-]+\.(added|changed|removed|fixed|security)\.md", path.name)
        assert path.read_text(encoding="utf-8").strip()


def test_a_release_is_made_of_its_fragments(repo: Path, tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md", "changes/template.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((repo / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "changes" / "+tail.fixed.md").write_text("The tail is\nwhole.\n")
    (tmp_path / "changes" / "+head.added.md").write_text("A head.\n")
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", "99.0.0"]
    command += ["--dir", str(tmp_path), "--date", "2099-01-02"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    text = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    version, day, body = releases(text)[0]
    assert (version, day) == ((99, 0, 0), date(2099, 1, 2))
    assert body == "\n### Added\n\n- A head.\n\n### Fixed\n\n- The tail is\n  whole.\n\n"
    assert releases(text)[1:] == releases((repo / "CHANGELOG.md").read_text(encoding="utf-8"))
