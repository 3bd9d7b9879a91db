"""What ncu prints of its details, as CSV and as text, is read as far as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.stand_ins import Cli
from workbench.errors import DataError
from workbench.ncurep.read import read_report, select_kernels

TABLE = """==PROF== Disconnected from process 7
[7] a.out@127.0.0.1
  void up::scale<float>(T1 *, int) (4096, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.6
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- ------------
    Metric Name               Metric Unit Metric Value
    ----------------------- ------------- ------------
    SM Frequency            cycle/nsecond         1.41
    Elapsed Cycles                  cycle      166,261
    Memory Throughput                   %        49.23
    Memory Throughput        Gbyte/second       100.50
    Duration                           us       117.98
    L2 Hit Rate                         %          n/a
    Waves Per SM                                 10.50
    Registers Per Thread               16           16
    OPT   This kernel takes 60.0
  scale(int) (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.6
    Duration                      msecond        96.32
"""
HEAD = '"ID","Kernel Name","Context","Block Size","Grid Size","CC"'
ROW = '"0","add(int)","1","(64, 1, 1)","(8, 1, 1)","9.0"'
PRINTED = f"""hello
{HEAD},"Section Name","Metric Name","Metric Unit","Metric Value"
{ROW},"GPU Speed Of Light Throughput","Duration","us","1,012.4"
{ROW},"Occupancy","Achieved Occupancy","%","50"
{ROW},"Occupancy","Achieved Occupancy","warp","3"
{ROW}
"""


def test_text_is_read_in_base_units_and_what_it_lacks_is_absent(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(TABLE)
    profile = read_report(tmp_path / "x.txt")
    first, second = profile.launches
    assert (first.kernel, first.grid, first.block) == ("scale", (4096, 1, 1), (256, 1, 1))
    assert first.signature == "void up::scale<float>(T1 *, int)"
    assert {name: (each.value, each.unit) for name, each in first.metrics.items()} == {
        "smsp__cycles_elapsed.avg.per_second": (1.41e9, "hz"),
        "sm__cycles_elapsed.max": (166261.0, "cycle"),
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": (49.23, "%"),
        "dram__bytes.sum.per_second": (100.5e9, "byte/s"),
        "gpu__time_duration.sum": (pytest.approx(117.98e-6), "s"),
        "launch__waves_per_multiprocessor": (10.5, ""),
    }
    assert [each.value for each in second.metrics.values()] == [pytest.approx(0.09632)]
    assert profile.device.compute_capability == (8, 6) and profile.device.name.endswith(" 8.6")
    assert select_kernels(profile, "scale#2").launches == (second,)


def test_csv_is_read_behind_what_the_program_prints(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(PRINTED)
    (launch,) = read_report(tmp_path / "x.csv").launches
    assert (launch.kernel, launch.grid, launch.block) == ("add", (8, 1, 1), (64, 1, 1))
    assert [each.value for each in launch.metrics.values()] == [pytest.approx(0.0010124), 50]


@pytest.mark.parametrize(
    "text", ["", "no details\n", "a,b\n1,2\n", TABLE.replace(" us", " ")[:400]]
)
@pytest.mark.parametrize("name", ["x.csv", "x.txt"])
def test_what_is_no_such_file_is_told(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=f"{name} holds no details that ncu printed") as told:
        read_report(tmp_path / name)
    assert "ncu --page details" in told.value.hint


def test_the_two_are_shown_and_compared(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text(TABLE)
    Path("x.csv").write_text(PRINTED.replace("9.0", "8.6"))
    code, out, _ = cli("show", "x.csv::add")
    assert code == 0 and "1.01 ms under the profiler" in out and "rounded numbers" in out
    code, out, _ = cli("diff", "x.txt::scale#2", "x.csv::add")
    assert code == 0 and "96.3 ms" in out
    code, _, err = cli("import", "x.csv", "--study", "s")
    assert code == 5 and "x.csv: details that ncu printed" in err and not Path("kernels/s").exists()
