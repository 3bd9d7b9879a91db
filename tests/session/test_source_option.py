"""``--source``: which text belongs to a file that a report names, and what is said if none does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.factories import make_profile
from workbench.cli import app
from workbench.errors import UsageError
from workbench.model import SourceFile
from workbench.session.targets import Target, with_sources
from workbench.session.workspace import Places


def target(*sources: SourceFile) -> Target:
    return Target(label="x", profile=make_profile(sources=sources))


def texts(found: Target) -> list[str | None]:
    return [source.text for source in found.profile.sources]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, text in {
        "a/kernel/gemm.h": "kernel",
        "a/device/gemm.h": "device",
        "b/scale.cu": "scale",
        ".git/scale.cu": "no source",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_a_file_is_the_one_with_the_longest_common_end_of_its_path(tree: Path) -> None:
    wanted = target(
        SourceFile(path="C:\\lib\\device\\gemm.h"),
        SourceFile(path="/x/scale.cu"),
        SourceFile(path="/x/held.cu", text="held"),
        SourceFile(path="/usr/include/crt.h"),
    )
    (found,) = with_sources([wanted], Places(source=str(tree)))
    assert texts(found) == ["device", "scale", "held", None]


def test_both_sides_have_places_of_their_own(tree: Path) -> None:
    other = tree / "other"
    other.mkdir()
    (other / "scale.cu").write_text("new scale")
    wanted = target(SourceFile(path="/x/scale.cu"))
    places = Places(source=str(tree / "b"), source_new=str(other))
    assert [texts(found) for found in with_sources([wanted, wanted], places)] == [
        ["scale"],
        ["new scale"],
    ]
    assert with_sources([wanted], Places()) == [wanted]


def test_a_revision_gives_the_text_of_its_time(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tree / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)

    def git(*words: str) -> None:
        name = ["-c", "user.name=A", "-c", "user.email=a@b"]
        subprocess.run(["git", *name, *words], check=True, capture_output=True)

    git("init", "-q")
    for text in ("before", "after"):
        (repository / "scale.cu").write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", text)
    wanted = target(SourceFile(path="/x/scale.cu"))
    found = with_sources([wanted, wanted], Places(source_old="HEAD~1", source_new="HEAD"))
    assert [texts(side) for side in found] == [["before"], ["after"]]


def test_a_recorded_hash_decides(tree: Path) -> None:
    digest = sha256(b"kernel").hexdigest()
    (found,) = with_sources(
        [target(SourceFile(path="gemm.h", sha256=digest))], Places(source=str(tree))
    )
    assert texts(found) == ["kernel"]


@pytest.mark.parametrize(
    ("source", "place", "said"),
    [
        (SourceFile(path="/x/other.cu"), "{}", "no file in .* is one that x names: /x/other.cu"),
        (SourceFile(path="gemm.h"), "{}", "a/device/gemm.h and a/kernel/gemm.h .* could each be"),
        (SourceFile(path="scale.cu", sha256="0"), "{}", "differs from the compiled text"),
        (SourceFile(path="scale.cu"), "{}/nowhere", "is neither a folder nor a revision"),
        (SourceFile(path="scale.cu"), "--output=x", "is neither a folder nor a revision"),
    ],
)
def test_what_does_not_fit_is_said(source: SourceFile, place: str, said: str, tree: Path) -> None:
    with pytest.raises(UsageError, match=said) as error:
        with_sources([target(source)], Places(source=place.format(tree)))
    assert error.value.hint


def test_a_report_that_names_no_file_cannot_be_supplied(tree: Path) -> None:
    bare = target()
    bare = replace(bare, profile=replace(bare.profile, sources=()))
    with pytest.raises(UsageError, match="names no source file"):
        with_sources([bare], Places(source=str(tree)))


@pytest.mark.parametrize("command", [("show",), ("diff",)])
def test_a_wrong_place_ends_the_command(
    command: tuple[str, ...], report: Callable[[str], Path], tmp_path: Path
) -> None:
    path = str(report("ladder_full"))
    words = [*command, path, *([path] if command == ("diff",) else [])]
    words += ["--source", str(tmp_path / "nowhere")]
    with pytest.raises(UsageError, match="is neither a folder nor a revision"):
        CliRunner().invoke(app, words, catch_exceptions=False)
