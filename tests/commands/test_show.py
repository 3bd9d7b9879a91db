"""``workbench show``: versions and report files, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.factories import emulate_demo, make_project
from workbench.cli import app
from workbench.errors import UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["show", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_version_is_shown_with_its_time_device_and_date(project: Path) -> None:
    text = run("v2")
    for fact in ("demo/v2", "Through a tile", "NVIDIA H200", "2026-11-20", "310 µs", "32.3%"):
        assert fact in text
    assert run("demo/v2") == text == run("v2_tile")


def test_showing_a_version_imports_nothing_that_it_does_not_need(project: Path) -> None:
    code = (
        "import sys\n"
        "from workbench.cli import main\n"
        "try:\n    main(['show', 'v2'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pandas', 'numpy', 'plotly', 'jinja2', 'ncu_report', 'ctypes',"
        " 'rich._emoji_codes', 'workbench.commands.list_'}\n"
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_memory_in_every_format(project: Path) -> None:
    text = run("v2", "--memory")
    assert text.startswith("Memory of demo/v2\n")
    assert "Shared stores" in text and "32.8 k wavefronts" in text and "L1/TEX hit rate" in text
    assert "L2 reads: not collected" in " ".join(text.split())  # and no zero for it
    row = next(line for line in text.splitlines() if line.startswith("L2 reads"))
    assert row.count("—") == 2 and " 0" not in row
    flows = json.loads(run("v2", "--memory", "--format", "json"))["memory"]["flows"]
    stores = next(flow for flow in flows if flow["id"] == "shared_stores")
    assert (stores["amount"], stores["from"], stores["to"]) == (32768, "sm", "shared")
    assert stores["lines"] == [
        {"file": "kernels/demo/v2_tile.cu", "line": 3, "amount": 32768, "share": 1.0}
    ]
    rows = csv.DictReader(io.StringIO(run("v2", "--memory", "--format", "csv")))
    assert {row["flow"]: row["amount"] for row in rows}["l2_reads"] == ""
    assert "| Shared stores | SM → Shared memory |" in run("v2", "--memory", "--format", "markdown")


def test_memory_of_a_launch_without_counters_is_an_error(report: Callable[[str], Path]) -> None:
    target = str(report("launch_failed"))
    result = CliRunner().invoke(app, ["show", target, "--memory"])
    assert isinstance(result.exception, UsageError)
    assert "it has no memory counter" in str(result.exception)
    assert "MemoryWorkloadAnalysis" in result.exception.hint


def test_a_stale_profile_says_so(project: Path) -> None:
    path = project / "kernels" / "demo" / "v2_tile.cu"
    path.write_text(path.read_text().replace("2.0f", "3.0f"))
    assert "stale" in run("v2")
    document = json.loads(run("v2", "--format", "json"))
    assert document["stale"] is True and "stale" in document["notices"][0]


def test_a_time_of_another_state_of_the_source_is_pointed_out(project: Path) -> None:
    from tests.factories import make_timing
    from workbench.store import Store

    Store(project / "profiles").save_timing(make_timing(source_hash="b" * 64))
    assert "different states of the source" in " ".join(run("v2").split())


@pytest.mark.parametrize("name", ["sgemm/v3", "conv2d/v11", "conv2d_direct/v1"])
def test_a_recorded_version_fits_on_60_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    rows = run(name).splitlines()
    assert len(rows) <= 60 and max(map(len, rows)) <= 80 and "--all" in " ".join(rows[-2:])
    for head in ("Now limited by", "Speed of light", "Memory", "Occupancy", "Scheduler and pipes"):
        assert any(row.startswith(head) for row in rows), head
    assert any(
        re.match(r"  Global (?:loads|stores) +\d[\d.]* +sectors per request", row) for row in rows
    )
    assert len(run(name, "--all").splitlines()) > 100


def test_all_shows_every_counter(project: Path) -> None:
    assert "All counters" in run("v2", "--all") and "All counters" not in run("v2")
    assert "Counted in PTX" not in run("v2", "--all")
    emulate_demo(project)
    text = run("v2", "--all")
    tail = text[text.index("Counted in PTX") :]
    assert "ptx__inst_executed" in tail and "1,000 inst" in tail and "shared memory" in tail
    assert "ptx__machine_inst_estimate" not in tail  # it stands among the counters
    assert "never emulated" in run("v2")


def test_a_report_needs_no_project(
    report: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = report("ladder_full")
    text = run(str(path))
    assert "5 launches" in text and "sgemm_v0" in text and "NVIDIA H200" in text
    one = run(f"{path}::sgemm_v3")
    assert "ladder_full::sgemm_v3" in one and "MIO throttle" in one and "As[tx][ty]" in one


def test_a_reports_json(report: Callable[[str], Path]) -> None:
    document = json.loads(run(f"{report('ladder_full')}::sgemm_v2", "--format", "json"))
    (launch,) = document["launches"]
    assert launch["kernel"] == "sgemm_v2"
    line = next(each for each in launch["lines"] if each["line"] == 28)
    assert line["counters"]["memory_l1_wavefronts_shared"] == 33_554_432
    assert document["study"] == document["version"] == "" and document["time"] == {}


@pytest.mark.parametrize(
    "name",
    [
        "rtx4090-ncu2023.1-transpose-source-no-rules",
        "v100-ncu2022.2-source-rules",
        "gtx1660s-ncu2021.1-unprofiled-action",
        "gh200-ncu2025.2-no-instruction-metrics",
        "a10g-ncu2023.1-nan-action",
    ],
)
@pytest.mark.parametrize("format_", ["table", "json", "csv", "markdown"])
def test_reports_of_others_in_every_format(
    report: Callable[[str], Path], name: str, format_: str
) -> None:
    text = run(str(report(name)), "--format", format_)
    assert text
    if format_ == "json":
        assert json.loads(text)["launches"]
