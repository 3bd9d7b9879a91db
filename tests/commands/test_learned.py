"""What was learned of a prediction stands apart from why it was made, in every output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.factories import make_project
from workbench.cli import app

WHY = "an odd row length"
LEARNED = "half | of it was the store"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo project, whose v3 predicted two counters and learned something of one."""
    make_project(tmp_path)
    version = tmp_path / "kernels" / "demo" / "v3_padded.cu"
    expected = f"""[[expect]]
counter = "shared_wavefronts"
change = "to 0"
why = "{WHY}"
learned = "{LEARNED}"
[[expect]]
counter = "registers"
change = "same"
why = "nothing else changed"
--- */"""
    text = version.read_text(encoding="utf-8")
    version.write_text(text.replace("--- */", expected, 1), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_terminal_has_a_section_of_its_own(project: Path) -> None:
    rows = run("diff", "v2", "v3", "--all").splitlines()
    learned = rows.index("Learned")
    assert rows.index("Predicted and measured") < learned
    assert rows[learned + 1] == f"  Shared wavefronts: {LEARNED}"
    assert rows[learned + 2] == ""


def test_markdown_lists_it_below_the_table(project: Path) -> None:
    text = run("diff", "v2", "v3", "--format", "markdown")
    escaped = LEARNED.replace("|", r"\|")
    assert f"\n\nLearned:\n\n- Shared wavefronts: {escaped}\n\n" in text


def test_json_has_a_key_behind_the_others(project: Path) -> None:
    first, second = json.loads(run("diff", "v2", "v3", "--format", "json"))["expectations"]
    assert list(first)[-2:] == ["line", "learned"]
    assert (first["why"], first["learned"]) == (WHY, LEARNED)
    assert second["learned"] == ""


@pytest.mark.parametrize(("page", "label"), [("v3", "Learned since:"), ("v2..v3", "Learned:")])
def test_pages_give_it_a_row_of_its_own(project: Path, page: str, label: str) -> None:
    run("report")
    (path,) = (project / "reports").rglob(f"{page}.html")
    rows = path.read_text(encoding="utf-8").split("<tr>")
    (reason,) = (row for row in rows if WHY in row)
    (learned,) = (row for row in rows if LEARNED in row)
    assert rows.index(learned) == rows.index(reason) + 1
    assert learned.count("<td") == 1 and f"<b>{label}</b> {LEARNED}" in learned
