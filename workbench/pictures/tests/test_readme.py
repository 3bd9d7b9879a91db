"""``workbench export readme``: a block of a README, and nothing besides."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from tests.factories import make_project
from workbench.cli import app
from workbench.errors import MissingError, UsageError
from workbench.pictures.readme import markers

BEGIN, END = markers("demo")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text(f"# Mine\n\n{BEGIN}\nold\n{END}\nafter\n")
    return tmp_path


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["export", "readme", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_block_is_rewritten_in_place_and_only_where_it_changed(project: Path) -> None:
    assert run("demo") == "README.md: written\n"
    text = (project / "README.md").read_text()
    assert text.startswith(f"# Mine\n\n{BEGIN}\n| version |") and text.endswith(f"{END}\nafter\n")
    assert "old" not in text and "n1024 on NVIDIA H200" in text
    html = MarkdownIt("commonmark").enable("table").render(text)
    rows = [row.split("</tr>")[0] for row in html.split("<tr>")[2:]]
    assert len(rows) == 3  # those that have a time
    link = 'href="kernels/demo/v3'
    assert any(link in row and "206 µs" in row and "0.485×" in row for row in rows)
    for target in html.split('href="')[1:]:
        assert (project / target.partition('"')[0]).is_file()
    assert run("demo") == "README.md: unchanged\n"
    assert (project / "README.md").read_text() == text


def test_the_chart_stands_beside_and_is_named_from_where_the_file_is(project: Path) -> None:
    (project / "docs").mkdir()
    old = "<!-- workbench publish demo -->"  # of the last release
    (project / "docs" / "page.md").write_text(f"{old}\n{END}\n")
    assert run("demo", "--in", "docs/page.md", "--chart", "pictures/demo.svg")
    text = (project / "docs" / "page.md").read_text()
    assert text.startswith(BEGIN) and old not in text
    assert "](../pictures/demo.svg)" in text and "(../kernels/demo/v3" in text
    assert (project / "pictures" / "demo.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("text", ["", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"])
def test_without_its_two_lines_nothing_is_written(project: Path, text: str) -> None:
    (project / "README.md").write_text(text)
    with pytest.raises(UsageError, match="does not say where") as error:
        run("demo", "--chart", "x.svg")
    assert BEGIN in error.value.hint and END in error.value.hint
    assert (project / "README.md").read_text() == text and not (project / "x.svg").exists()


def test_the_file_keeps_its_link_its_permissions_and_its_line_ends(project: Path) -> None:
    real, link = project / "README.md", project / "link.md"
    real.write_bytes(f"a\r\n{BEGIN}\r\n{END}\r\n".encode())
    real.chmod(0o640)
    link.symlink_to("README.md")
    run("demo", "--in", "link.md")
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    lines = real.read_bytes().split(b"\n")
    assert len(lines) > 6 and all(line.endswith(b"\r") for line in lines[:-1])


def test_the_projects_readme_leads_nowhere_else(project: Path, tmp_path: Path) -> None:
    outside = tmp_path.parent / "other.md"
    outside.write_text(f"{BEGIN}\n{END}\n")
    (project / "README.md").unlink()
    (project / "README.md").symlink_to(outside)
    with pytest.raises(UsageError, match="points outside the project"):
        run("demo")


def test_a_file_in_another_character_set_stays_as_it_is(project: Path) -> None:
    text = f"caf\xe9\n{BEGIN}\n{END}\n".encode("latin-1")
    (project / "README.md").write_bytes(text)
    with pytest.raises(UsageError, match="not UTF-8"):
        run("demo")
    assert (project / "README.md").read_bytes() == text


def test_what_it_refuses(project: Path) -> None:
    with pytest.raises(MissingError):
        run("demo", "--in", "other.md")
    with pytest.raises(UsageError):
        run("demo", "--chart", "x.gif")
    with pytest.raises(UsageError):
        run("nothing")
