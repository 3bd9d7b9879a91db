"""``show @v0`` and ``diff @v0 @v1`` of programs that ran in the emulator: counts, and no times."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from tests.ptxemu.conftest import Compile, compiler, cuda
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.counted import keep_counted
from workbench.programs.tests.counted import NAIVE, TILED, run_of

__all__ = ["compiler", "cuda"]  # fixtures

pytestmark = pytest.mark.nvcc
#: What must not be said where nothing was timed.
_TIMES = re.compile(r"\b0 n?s\b|1\.00×|faster|slower|of the time\b|an estimated|\d [mµn]s\b")


@pytest.fixture
def shelf(cuda: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    shelf = Shelf(tmp_path)
    for name, text, kernel in (("v0", NAIVE, "transpose_naive"), ("v1", TILED, "by_tiles")):
        keep_counted(run_of(cuda, text, ("scale", kernel, "scale"), tmp_path), shelf, name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return shelf


def test_one_program_is_a_table_of_counts(shelf: Shelf, cli: Cli) -> None:
    code, out, _ = cli("show", "@v0")
    rows = [re.split(r" {2,}", line.strip()) for line in out.splitlines() if "  " in line]
    assert code == 0 and rows == [
        [
            *("kernel", "launches", "grid", "block", "global sectors", "shared wavefronts"),
            *("instructions", "hottest line"),
        ],
        ["transpose_naive", "1", "2×2", "32×32", "4,608 (4.50×)", "0", "2,304", "program.cu:9"],
        ["scale", "2", "16", "256", "2,048", "0", "4,352", "program.cu:4"],
    ]
    assert out.count("measures no times") == 1 and not _TIMES.search(out)
    kept = json.loads(cli("show", "@v0", "--format", "json")[1])
    assert kept["survey"] == "emulator" and kept["time"] is None and kept["runs"] == []
    first = kept["kernels"][0]
    assert [first[key] for key in ("seconds", "share", "mean_s", "longest_s")] == [None] * 4
    assert first["counted"]["sectors"] == 4608 and first["hottest"]["line"] == 9
    table = cli("show", "@v0", "--format", "csv")[1].splitlines()
    assert "counted_sectors_ideal" in table[0] and "hottest_line" in table[0]


def test_a_kernel_of_it_is_shown_as_a_version_is(shelf: Shelf, cli: Cli) -> None:
    code, out, _ = cli("show", "@v0::transpose_naive")
    assert code == 0 and "y[i * n + j] = x[j * n + i];" in out


def test_two_programs_are_told_by_edits_lines_and_counters(shelf: Shelf, cli: Cli) -> None:
    code, out, _ = cli("diff", "@v0", "@v1")
    assert code == 0 and not _TIMES.search(out) and out.count("measures no times") == 1
    for words in (
        *("transpose_naive → by_tiles", "4,608 → 1,024 (-77.8%)", "Global store efficiency"),
        *("Sectors per global store fell 32.0 → 4.00", "lines 9 → 10–13", "all of it"),
        *("2,304 → 3,840 instructions in the program, 1 launch",),
    ):
        assert words in out, words
    told = json.loads(cli("diff", "@v0", "@v1", "--format", "json")[1])
    assert told["change"] is None and told["of_kernels"] is None
    (first, second) = told["kernels"]
    assert first["old_s"] is first["change_s"] is first["share"] is None
    assert (first["old_counted"]["sectors"], first["new_counted"]["sectors"]) == (4608, 1024)
    assert second["fate"] == "same" and len(told["steps"]) == 1 and told["steps"][0]["step"]
    text = cli("diff", "@v0", "@v1", "--format", "markdown")[1]
    assert "| Global store sectors | 4,096 | 512 |" in text and not _TIMES.search(text)


def test_pages_have_counts_and_no_times(shelf: Shelf, cli: Cli, tmp_path: Path) -> None:
    code, _, said = cli("report", "@v0", "@v1", "--out", str(tmp_path / "site"))
    assert code == 0, said
    pages = sorted((tmp_path / "site" / "programs").glob("*/index.html"))
    assert len(pages) == 3
    for page in pages:
        text = page.read_text("utf-8")
        text = re.sub(r"<(script|style|svg).*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL)
        assert "counted by the emulator" in text and not _TIMES.search(text)
        assert not re.search("GPU busy|Time on the GPU|Profiled in detail", text)
        assert "program.cu:9" in text or "v1" in page.parent.name
    assert list((tmp_path / "site").glob("programs/v0..v1*/kernel-*.html"))
