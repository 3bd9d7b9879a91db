"""Git is asked, and nothing that a repository names is run for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from workbench.errors import MissingError
from workbench.model import SourceFile
from workbench.revisions import (
    commit_of,
    contents,
    git,
    published,
    repository,
    state_of,
    web_pages,
    worktree,
)
from workbench.session.source_lookup import texts_at

#: Other gits to try besides the one on PATH, separated as PATH is.
OTHERS = os.environ.get("WORKBENCH_GITS", "").split(os.pathsep)
GITS = pytest.mark.parametrize("at", ["", *filter(None, OTHERS)])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit; its files have filters that `hostile` gives programs."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    root = tmp_path / "repository"
    root.mkdir()
    run(root, "init", "-q")
    (root / ".gitattributes").write_text(
        "*.cu filter=evil diff=evil\n*.txt filter=a=b\n*.bin filter=x.y\n*.md merge=evil\n"
    )
    for name in ("a.cu", "b.txt", "c.py", "d.bin"):
        (root / name).write_text("one\n")
    run(root, "add", "-A")
    run(root, "commit", "-qm", "one")
    return root


def run(root: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@y.invalid")
    done = subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def mark(root: Path) -> Path:
    """A file that any program of the repository's settings would make."""
    mark = root.parent / "pwned"
    evil = root / "evil.sh"
    evil.write_text(f'#!/bin/sh\necho "$0 $@" >> "{mark}"\nexit 1\n')
    evil.chmod(0o755)
    hooks = root / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        for folder in (hooks, root / ".git" / "hooks"):
            folder.mkdir(exist_ok=True)
            (folder / name).symlink_to(evil)
    drivers = "".join(
        f'[filter "{name}"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n'
        "\trequired = true\n"
        for name in ("evil", "a=b", "x.y")
    )
    (root / "more").write_text(drivers)
    with (root / ".git" / "config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {evil}\n\thooksPath = hooks\n\tpager = {evil}\n"
            f"\teditor = {evil}\n\tsshCommand = {evil}\n\tgitProxy = {evil}\n"
            f"[include]\n\tpath = ../more\n[diff]\n\texternal = {evil}\n"
            f'[diff "evil"]\n\tcommand = {evil}\n\ttextconv = {evil}\n'
            f'[merge "evil"]\n\tdriver = {evil}\n[credential]\n\thelper = {evil}\n'
            f"[gpg]\n\tprogram = {evil}\n[log]\n\tshowSignature = true\n"
            "[submodule]\n\trecurse = true\n"
            f'[hook "mine"]\n\tcommand = {evil}\n\tevent = post-checkout\n'
            "\tevent = post-index-change\n\tevent = reference-transaction\n"
        )
    return mark


def use(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    if at:
        monkeypatch.setenv("PATH", f"{at}{os.pathsep}{os.environ['PATH']}")


@GITS
def test_no_program_of_a_repository_runs(
    root: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    use(monkeypatch, at)
    for name in ("a.cu", "b.txt", "c.py"):
        (root / name).write_text("two\n")
    monkeypatch.chdir(root)
    assert repository(root) == root
    state = state_of(root)
    assert "-one\n+two" in state.patch and state.commit == commit_of(root, "HEAD")
    assert texts_at("HEAD").find(SourceFile(path="c.py")) == "one\n"
    told: list[str] = []
    with worktree(root, "HEAD", told.append) as place:
        assert (place / "a.cu").read_text() == (place / "b.txt").read_text() == "one\n"
    assert not mark.exists(), mark.read_text()
    assert told == [
        "HEAD: filters (Git LFS, …) are not run on a checkout, so these files are as Git keeps "
        "them: a.cu, b.txt, d.bin"
    ]


@GITS
def test_the_users_own_settings_stay(root: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    use(monkeypatch, at)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.abbrev")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "13")
    said = git(root, "rev-parse", "--short", "HEAD")
    assert said is not None and len(said.strip()) == 13


@GITS
@pytest.mark.parametrize("url", ["ssh://nobody.invalid/x", "ext::sh ./evil.sh", "{root}"])
@pytest.mark.parametrize("where", ["", ".git"])
def test_what_is_missing_is_not_fetched(
    root: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, at: str, url: str, where: str
) -> None:
    """A repository of ordinary files, whose commit is nowhere but at a promised address."""
    use(monkeypatch, at)
    place = root.parent / "place"
    inner = place / where
    (inner / "objects").mkdir(parents=True)
    (inner / "refs" / "heads").mkdir(parents=True)
    (inner / "HEAD").write_text("0123456789" * 4 + "\n")
    evil = root / "evil.sh"
    (place / "evil.sh").write_text(evil.read_text())
    (inner / "config").write_text(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
        + ("\tworktree = .\n" if not where else "")
        + f'\tsshCommand = "sh {evil}"\n[extensions]\n\tpartialClone = origin\n'
        f'[remote "origin"]\n\turl = "{url.format(root=root)}"\n\tpromisor = true\n'
        f'\tuploadpack = "sh {evil}"\n'
        + "".join(f'[protocol "{name}"]\n\tallow = always\n' for name in ("ext", "ssh", "file"))
    )
    plain = subprocess.run(
        ["git", "rev-parse", "--verify", "HEAD^{commit}"],
        cwd=place,
        capture_output=True,
        check=False,
    )
    assert plain.returncode and mark.exists(), "the attack is one: git itself falls for it"
    mark.unlink()
    monkeypatch.chdir(place)
    assert not commit_of(place, "HEAD")
    assert not state_of(place).commit
    assert git(place, "diff", "HEAD") is None
    assert git(place, "cat-file", "blob", "HEAD:x") is None
    assert not mark.exists()
    if not where:
        assert repository(place) is None, "a folder is no repository because of a file named HEAD"


def test_a_text_that_is_not_here_is_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    texts = texts_at("HEAD")
    blob = run(root, "rev-parse", "HEAD:c.py")
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(MissingError, match=r"no text of HEAD:c\.py here"):
        texts.find(SourceFile(path="c.py"))


def test_whose_repository_it_is_git_checks_as_ever(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert repository(root) is None
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(root))
    assert repository(root) == root


@pytest.mark.parametrize(
    ("remote", "pages"),
    [
        ("git@github.com:me/it.git", "https://github.com/me/it/"),
        ("ssh://git@git.gitee.com:2222/me/it", "https://git.gitee.com/me/it/"),
        ("https://me:secret@gitlab.com/a/b/it.git", "https://gitlab.com/a/b/it/-/"),
        ("https://gitlab.my.org:8443/me/it", ""),
        ("/srv/github.com/me/it", ""),
    ],
)
def test_a_remote_has_web_pages(root: Path, remote: str, pages: str) -> None:
    assert web_pages(root) == ""
    run(root, "remote", "add", "origin", remote)
    assert web_pages(root) == pages


def test_files_are_at_commits_that_a_remote_has(root: Path) -> None:
    first = run(root, "rev-parse", "HEAD")
    run(root, "update-ref", "refs/remotes/origin/main", first)
    (root / "a.cu").write_text("two\n")
    run(root, "commit", "-qam", "two")
    assert set(published(root)) == {first}
    assert "a.cu" not in published(root)[first].values()
    second = run(root, "rev-parse", "HEAD")
    run(root, "update-ref", "refs/remotes/origin/main", second)
    assert published(root)[second] == {contents("two\n"): "a.cu"}
