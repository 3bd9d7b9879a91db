"""The tutorial of tuning prints what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.test_documentation import REPO, commands, fences, words
from workbench import cli
from workbench.compile import compilers


@pytest.mark.slow
@pytest.mark.skipif(not compilers.available(), reason="neither nvcc nor NVRTC is on this machine")
def test_the_tutorial_of_tuning_is_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps 1 to 5, as they are written."""
    page = REPO / "workbench/tune/docs/tutorial-tune.md"
    root = tmp_path / "tuned"
    shutil.copytree(REPO / "benchmarks/tune", root, ignore=shutil.ignore_patterns("profiles"))
    tables, change = fences(page, "toml")
    version = root / "kernels/transpose/v0_tile.cu"
    text = version.read_text(encoding="utf-8")
    begin, end = text.index("[defines]"), text.index("[[launch]]")
    version.write_text(f"{text[:begin]}{tables}\n{text[end:]}", encoding="utf-8")
    monkeypatch.chdir(root)
    monkeypatch.setenv("COLUMNS", "120")
    printed = ""
    for line in commands(page):
        arguments = (words(line.text) or [])[1:]
        if "emulator" in arguments or arguments[:2] == ["new", "transpose/v1"]:
            done = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
            assert done.exit_code == 0, done.output
            printed += done.output
    said = {" ".join(line.split()) for line in printed.splitlines()}
    for row in (row for block in fences(page, "text") for row in block.splitlines()):
        wanted = " ".join(row.split())
        assert any(each.startswith(wanted) for each in said), wanted
    assert change.strip() in (root / "kernels/transpose/v1_tuned_for_n1024.cu").read_text()
