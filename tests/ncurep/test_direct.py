"""Metrics from a report's bytes: those that NVIDIA's reader gives, or a doubt."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ncurep import report_builder as b
from tests.ncurep.enlarged import enlarge, stirred
from tests.ncurep.fake_reader import FakeAction, FakeMetric
from workbench.ncurep import direct, extract
from workbench.ncurep.container import RESULT_FUNCTION, RESULT_MANGLED
from workbench.ncurep.direct import DirectReport, direct_report
from workbench.ncurep.excerpt import METRIC, METRIC_NAMES
from workbench.ncurep.series import UnsureError

Report = Callable[[str], Path]


def scalar(value: float | str | None) -> bytes:
    if value is None:
        return b""
    if isinstance(value, str):
        return b.data(1, value)
    return b.number(5, value) if isinstance(value, int) else b"\x19" + struct.pack("<d", value)


def metric(number: int, value: float | str | None, *instances: tuple[Any, Any]) -> bytes:
    """A metric as ncu writes it."""
    parts = [b.data(3, b.data(1, scalar(i)) + b.data(2, scalar(v))) for i, v in instances]
    return b.number(1, number) + b.data(2, scalar(value)) + b"".join(parts) + b.number(4, 0)


def launched(*metrics: bytes) -> bytes:
    named = b.data(RESULT_MANGLED, "k") + b.data(RESULT_FUNCTION, "k")
    return named + b"".join(b.data(METRIC, x) for x in metrics)


def opened(tmp_path: Path, names: list[str], *results: bytes) -> DirectReport:
    """A report of launches of one kernel, whose first one the reader has read."""
    table = b.data(METRIC_NAMES, b"".join(b.data(1, name) for name in names))
    payload = b"".join(b.sized(x) for x in results)
    header = b.number(1, 0) + b.number(2, len(results)) + b.number(5, len(payload)) + table
    data = b.report(b.sized(header) + payload)
    report = DirectReport(data, tmp_path / "x.ncu-rep", tmp_path / "bare.ncu-rep")
    report.learn(FakeAction({name: FakeMetric(0, "inst") for name in names}))
    return report


@pytest.mark.parametrize("name", ["ladder_focus", "launch_failed", "sgemm_samples_v10"])
def test_what_the_bytes_give_is_what_the_reader_gives(
    name: str, report: Report, tmp_path: Path
) -> None:
    large = tmp_path / "large.ncu-rep"
    small = report(name).read_bytes()
    enlarge(small, 2, large, change=stirred)
    with direct_report(large) as found:
        directly = extract._extract(str(found.bare), found)
    whole = extract._extract(str(large))
    assert directly == whole and len(whole.launches) == 2 * len(found.first)
    if name != "launch_failed":  # it has nothing to stir
        assert whole.launches[0].metrics != whole.launches[len(found.first)].metrics


def test_where_both_differ_the_reader_is_asked(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large.ncu-rep"
    enlarge(report("launch_failed").read_bytes(), 2, large)
    whole = extract._extract(str(large))
    through = DirectReport.action

    def lossy(self: DirectReport, native: Any, place: int) -> direct.DirectAction:
        found = through(self, native, place)
        found._metrics.pop("sm__cycles_elapsed.max", None)
        found._metrics.pop("gpu__time_duration.sum", None)
        return found

    monkeypatch.setattr(DirectReport, "action", lossy)
    assert extract.extract(str(large)) == whole


def test_a_report_without_repeated_kernels_is_left_to_the_reader(report: Report) -> None:
    with pytest.raises(UnsureError, match="launched twice"), direct_report(report("sgemm_v3")):
        pass
    with pytest.raises(UnsureError), direct_report(Path("absent.ncu-rep")):
        pass


numbers = st.integers(0, 2**64 - 1)
scalars = st.none() | numbers | st.floats(allow_nan=False) | st.text()
series = st.lists(st.tuples(numbers, numbers), min_size=1) | st.lists(
    st.tuples(numbers | st.text(min_size=1), numbers | st.floats(allow_nan=False)), min_size=1
)


@settings(max_examples=40)
@given(scalars, series | st.just([]))
def test_any_metric_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, value: Any, instances: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("r")
    result = launched(metric(0, 1), metric(1, value, *instances))
    found = opened(folder, ["a", "b"], launched(), result).action(None, 1)
    read = found.metric_by_name("b")
    assert read is not None and found.metric_names() == ("a", "b") and read.unit() == "inst"
    assert read.value() == (0.0 if value is None and instances else value)
    ids = read.correlation_ids()
    assert [(ids.value(i), read.value(i)) for i in range(read.num_instances())] == instances
    assert read.has_correlation_ids() == bool(instances)


@pytest.mark.parametrize(
    "bad",
    [
        metric(0, 1) + b.number(6, 1),
        metric(0, 1, (1, 2)) + b.number(6, 1),
        metric(0, 1) + metric(0, 1)[:3],
        b.number(1, 0) + b.data(2, b"\x25abcd"),
        b.number(1, 0) + b.data(3, b.data(2, scalar(1))),
        b.number(1, 0) + b.data(3, b.data(1, scalar(1)) + b.data(2, scalar(1)) + b"\x08\x01"),
        b.number(1, 7) + b.data(2, scalar(1)),
        metric(2, 1),
    ],
)
def test_what_is_unknown_is_no_number(bad: bytes, tmp_path: Path) -> None:
    report = opened(tmp_path, ["a", "b"], launched(), launched(metric(1, 5), bad))
    report._names.append("not of the first launch")
    with pytest.raises(UnsureError):
        report.action(None, 1)


def test_the_same_metric_twice_is_one_and_two_values_are_none(tmp_path: Path) -> None:
    same = launched(metric(0, 5), metric(0, 5))
    report = opened(tmp_path, ["a"], launched(), same, launched(metric(0, 5), metric(0, 6)))
    assert report.action(None, 1).metric_names() == ("a",)
    with pytest.raises(UnsureError, match="two values of a"):
        report.action(None, 2)
