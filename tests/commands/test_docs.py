"""``workbench docs``: what hints name is there to read, without a network or a checkout."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from workbench import project
from workbench.compile.compilers import NVRTC_PACKAGES
from workbench.errors import MissingError
from workbench.features import FEATURES
from workbench.session.manual import page, topics


def test_every_page_is_listed_and_printed_as_it_is(cli: Cli, repo: Path) -> None:
    folders = (repo / "docs", *(each.folder / "docs" for each in FEATURES))
    pages = {path.relative_to(each).as_posix() for each in folders for path in each.rglob("*.md")}
    code, out, _ = cli("docs")
    assert code == 0 and out.startswith("index ")
    assert {f"{line.split()[0]}.md" for line in out.splitlines() if "  " in line} == pages
    text = (repo / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    assert cli("docs", "exit-codes") == (0, text.rstrip("\n") + "\n", "")


@pytest.mark.parametrize(
    "said", ["how-to/share", "share", "docs/how-to/share.md", "how-to/share.md#a-page-to-mail"]
)
def test_a_page_is_called_as_a_hint_or_a_link_calls_it(said: str) -> None:
    assert page(said).startswith("# Sharing results")


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("front_matter", "Did you mean `front-matter`?"),
        ("../README", "`workbench docs` lists"),
        ("/etc/hostname", "`workbench docs` lists"),
        ("", "`workbench docs` lists"),
    ],
)
def test_what_is_no_page_is_an_error(cli: Cli, said: str, hint: str) -> None:
    code, out, err = cli("docs", said)
    assert (code, out) == (2, "") and hint in err


def test_every_page_that_a_hint_names_is_there(repo: Path) -> None:
    known = {each.name for each in topics()}
    named = set()
    for package in ("workbench", "ptxemu"):
        for file in (repo / package).rglob("*.py"):
            text = re.sub(r'"\s*\n\s*f?"', "", file.read_text(encoding="utf-8"))
            named |= set(re.findall(r"`?workbench docs ([a-z][\w/-]*)`? ", text))
            assert not re.search(r'"[^"\n]*\bdocs/[\w/-]+\.md (shows|lists)', text), file
    assert len(named) >= 4 and named - {"schema"} <= known


def test_an_installation_without_pages_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(project, "__file__", str(tmp_path / "workbench" / "project.py"))
    with pytest.raises(MissingError, match="no documentation"):
        topics()
    inside = tmp_path / "workbench/data/shipped/docs/how-to"
    inside.mkdir(parents=True)
    for name in ("../index", "share", "../share"):
        (inside / f"{name}.md").write_text(f"# The page {name}\n")
    assert page("how-to/share") == "# The page share\n" and page("share").endswith("../share\n")
    core = [each.name for each in topics() if not each.title.startswith("The page")]
    assert [each.name for each in topics() if each.name not in core] == [
        *("index", "share", "how-to/share")
    ]


def test_who_has_no_checkout_is_told_the_packages_of_the_extra(repo: Path) -> None:
    settings = tomllib.loads((repo / "pyproject.toml").read_text(encoding="utf-8"))
    needed = settings["project"]["optional-dependencies"]["emulator"]
    assert " ".join(f"'{each}'" for each in needed) == NVRTC_PACKAGES
