"""Repositories that attack git, under every command that asks it, and over `mcp`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from workbench.cli import COMMANDS, app

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1800)]

PARTS = 4
REPORT = "sgemm_v3.ncu-rep"
#: Options that take a revision, and what else their command is given.
OPTIONS = {"--source": [REPORT], "--at": [], "--against": []}


def lines() -> Iterator[list[str]]:
    """Every command with revisions wherever it takes words, and after every such option."""
    for name in COMMANDS:
        command = app.get_command(click.Context(app), name)
        assert command is not None
        # What a command runs is no revision's.
        behind = ["--", "/bin/true"] if name == "capture" else []
        words = name.split()
        if words[0] in ("serve", "init"):
            yield words
            continue
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                yield [*words, "@HEAD", *behind]
                yield [*words, "@HEAD", "@HEAD~1", *behind]
            for option in set(parameter.opts) & set(OPTIONS):
                given = [] if behind else OPTIONS[option] * (2 if name == "diff" else 1)
                yield [*words, *given, option, "HEAD", *behind]
    yield ["capture", "--timeout", "20", "--", "/bin/true"]


LINES = [line.split("\0") for line in dict.fromkeys("\0".join(each) for each in lines())]


def bare(place: Path, evil: Path, url: str) -> None:
    """A repository of ordinary files whose commit is nowhere but where `url` says."""
    (place / "objects").mkdir(parents=True, exist_ok=True)
    (place / "refs" / "heads").mkdir(parents=True, exist_ok=True)
    (place / "HEAD").write_text("0123456789" * 4 + "\n")
    worktree = "" if place.name == ".git" else "\tworktree = .\n"
    allowed = "".join(f'[protocol "{each}"]\n\tallow = always\n' for each in ("ext", "ssh", "file"))
    (place / "config").write_text(
        f"[core]\n\trepositoryformatversion = 1\n\tbare = false\n{worktree}"
        f'\tsshCommand = "sh {evil}"\n[extensions]\n\tpartialClone = origin\n'
        f'[remote "origin"]\n\turl = "{url}"\n\tpromisor = true\n\tuploadpack = "sh {evil}"\n'
        f"{allowed}[protocol]\n\tallow = always\n"
    )


def whole(root: Path, settings: str) -> None:
    """A real repository with two commits, whose settings are hostile from then on."""

    def git(*words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@y.invalid")
        subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)

    git("init", "-q")
    (root / ".gitattributes").write_text("*.cu filter=evil diff=evil\n*.py filter=a=b merge=evil\n")
    git("add", "-A")
    git("commit", "-qm", "one")
    (root / "kernels" / "double" / "v0_plain.cu").open("a").write("// two\n")
    git("commit", "-qam", "two")
    (root / "kernels" / "double" / "v0_plain.cu").open("a").write("// three\n")
    with (root / ".git" / "config").open("a") as config:
        config.write(settings)


def filters(root: Path, evil: Path) -> None:
    drivers = "".join(
        f'[filter "{name}"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {process}\n'
        "\trequired = true\n"
        for name, process in (("evil", evil), ("a=b", ""))
    )
    (root / "more").write_text(drivers)
    whole(root, "[include]\n\tpath = ../more\n")


def hooks(root: Path, evil: Path) -> None:
    whole(root, "[core]\n\thooksPath = hooks\n")
    for folder in (root / "hooks", root / ".git" / "hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
            (folder / name).symlink_to(evil)


def named_hooks(root: Path, evil: Path) -> None:
    events = ("post-checkout", "post-index-change", "reference-transaction")
    lines = "".join(f"\tevent = {each}\n" for each in events)
    whole(root, f'[hook "mine"]\n\tcommand = {evil}\n{lines}')


def watchers(root: Path, evil: Path) -> None:
    whole(root, f"[core]\n\tfsmonitor = {evil}\n\tpager = {evil}\n\teditor = {evil}\n")


def drivers(root: Path, evil: Path) -> None:
    words = f"[diff]\n\texternal = {evil}\n"
    words += f'[diff "evil"]\n\tcommand = {evil}\n\ttextconv = {evil}\n'
    words += f'[merge "evil"]\n\tdriver = {evil}\n[gpg]\n\tprogram = {evil}\n'
    whole(root, words + f"[log]\n\tshowSignature = true\n[credential]\n\thelper = {evil}\n")


def submodule(root: Path, evil: Path) -> None:
    """The settings are those of a repository inside."""
    inner = root / "inner"
    inner.mkdir()
    (inner / "x.cu").write_text("1\n")
    who = ["git", "-c", "user.name=x", "-c", "user.email=x@y.invalid"]
    (inner / ".gitattributes").write_text("*.cu filter=evil\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*who, *words], cwd=inner, check=True, capture_output=True)
    whole(root, "[submodule]\n\trecurse = true\n")
    with (inner / ".git" / "config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {evil}\n"
            f'[filter "evil"]\n\tclean = {evil}\n\tprocess = {evil}\n\trequired = true\n'
        )
    (inner / "x.cu").write_text("2\n")


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "bare, ssh": lambda root, evil: bare(root, evil, "ssh://nobody.invalid/x"),
    "bare, ext": lambda root, evil: bare(root, evil, f"ext::sh {evil}"),
    "bare, file": lambda root, evil: bare(root, evil, str(root)),
    "own, ssh": lambda root, evil: bare(root / ".git", evil, "ssh://nobody.invalid/x"),
    "own, ext": lambda root, evil: bare(root / ".git", evil, f"ext::sh {evil}"),
    "own, file": lambda root, evil: bare(root / ".git", evil, str(root)),
    "filters": filters,
    "hooks": hooks,
    "named hooks": named_hooks,
    "watchers": watchers,
    "drivers": drivers,
    "submodule": submodule,
}
CASES = [(kind, line) for kind in KINDS for line in LINES]


@pytest.mark.parametrize("portion", dealt("hostile repositories", len(CASES), PARTS))
def test_repositories(root: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = root.parent / "outside"
    fresh = root.parent / "whole"
    shutil.copytree(root, fresh)
    evil = root.parent / "evil.sh"
    evil.write_text(f'#!/bin/sh\necho "$0 $@" >> "{outside}/pwned"\nexit 1\n')
    evil.chmod(0o755)
    for turn in book.turns(portion):
        kind, line = CASES[turn.number]
        shutil.rmtree(root)
        shutil.copytree(fresh, root)
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        monkeypatch.chdir(root)
        KINDS[kind](root, evil)
        # What made the repository may have come across its own settings.
        (outside / "pwned").unlink(missing_ok=True)
        calls = (("show", {"version": "@HEAD"}), ("diff", {"old": "@HEAD", "new": "@HEAD~1"}))
        with harness.untouched(outside, turn.kind):
            if line[0] == "serve":
                ended = harness.run(harness.real(line, calls), root, turn.kind)
            else:
                ended = harness.run(line, root, turn.kind)
        expected = (*range(8), 124, 130) if line[0] == "serve" else range(8)
        book.must(ended.code in expected, turn.kind, (kind, line, ended))


def test_there_are_lines_of_every_kind() -> None:
    """A new option by which a revision is named has to be entered."""
    options = {word for line in LINES for word in line if word.startswith("--")}
    assert set(OPTIONS) <= options and len(LINES) > len(COMMANDS)
