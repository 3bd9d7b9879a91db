"""Frames: one row per fact, typed, with reasons where there is no number."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.factories import make_launch, make_metrics, make_profile, make_timing
from workbench import frames
from workbench.counters import catalog
from workbench.errors import UsageError
from workbench.model import Estimate
from workbench.store import Store


def test_counters_have_a_row_per_profile_launch_and_counter() -> None:
    second = make_launch(kernel="reduce", index=1)
    frame = frames.counters([make_profile(launches=(make_launch(), second)), make_profile()])
    assert len(frame) == 3 * len(catalog())
    assert tuple(frame.columns) == frames.KEYS + frames.COUNTER_COLUMNS
    assert frame["value"].dtype == np.float64 and frame["launch"].dtype == np.int64
    for column in ("device", "version", "kernel", "counter", "unit", "group"):
        assert isinstance(frame[column].dtype, pd.CategoricalDtype)
    row = frame[(frame["kernel"] == "reduce") & (frame["counter"] == "duration")].iloc[0]
    assert row["value"] == pytest.approx(312e-6)
    assert (row["unit"], row["better"], row["version"], row["launch"]) == ("s", "lower", "v2", 1)
    assert row["missing"] == ""


def test_one_profile_or_time_needs_no_list() -> None:
    from pandas.testing import assert_frame_equal

    profile, timing = make_profile(), make_timing()
    for make in (frames.counters, frames.lines, frames.launches):
        assert_frame_equal(make(profile), make([profile]))
    assert_frame_equal(frames.times(timing), frames.times([timing]))


def test_a_missing_counter_is_a_row_with_nan_and_the_reason() -> None:
    metrics = make_metrics(**{"lts__t_sector_hit_rate.pct": None})
    frame = frames.counters([make_profile(launches=(make_launch(metrics=metrics),))])
    row = frame[frame["counter"] == "l2_hit_rate"].iloc[0]
    assert np.isnan(row["value"]) and "lts__t_sector_hit_rate.pct" in row["missing"]
    assert (frame["value"].isna() == (frame["missing"] != "")).all()


def test_counters_can_be_selected_by_id_and_by_ncu_name() -> None:
    wanted = ["duration", "gpu__time_duration.sum", "launch__grid_size", "nothing__like.this"]
    frame = frames.counters([make_profile()], metrics=wanted)
    assert list(frame["ncu"]) == ["gpu__time_duration.sum", *wanted[1:]]
    assert list(frame["counter"]) == ["duration", "", "", ""]
    assert list(frame["value"])[:3] == [312e-6, 312e-6, 32.0]
    assert frame["missing"].iloc[3] != ""


def test_an_unknown_selection_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UsageError) as error:
        frames.counters([make_profile()], metrics=["durations"])
    assert "duration" in error.value.hint


def test_lines_carry_file_text_and_the_catalogs_name() -> None:
    frame = frames.lines([make_profile()])
    assert tuple(frame.columns) == frames.KEYS + frames.LINE_COLUMNS
    chosen = frame[frame["counter"] == "shared_wavefronts"].set_index("line")
    assert chosen.loc[3, "value"] == 32768 and chosen.loc[5, "value"] == 1024
    assert chosen.loc[3, "file"] == "kernels/demo/v2_tile.cu"
    assert str(chosen.loc[3, "text"]).strip().startswith("tile[threadIdx.x][threadIdx.y] =")
    assert frame["line"].dtype == np.int64


def test_lines_can_be_selected() -> None:
    frame = frames.lines([make_profile()], metrics=["warp_samples", "inst_executed"])
    assert set(frame["ncu"]) == {"smsp__pcsamp_sample_count", "inst_executed"}


def test_launches_have_shapes_and_a_capture_time() -> None:
    frame = frames.launches([make_profile(), make_profile(captured="")])
    assert tuple(frame.columns) == frames.KEYS + frames.LAUNCH_COLUMNS
    assert frame["captured"].iloc[0] == pd.Timestamp("2026-11-20T10:00:00Z")
    assert pd.isna(frame["captured"].iloc[1])
    assert list(frame.loc[0, ["grid_x", "block_x", "block_y"]]) == [32, 32, 32]
    assert frame["ncu_version"].iloc[0] == "2025.3.1.0"


def test_times_have_intervals_and_rates() -> None:
    timing = make_timing(
        flops=2 * 1024**3,
        bytes=12 << 20,
        baseline="cublas",
        baseline_time=Estimate(value=65e-6, low=64e-6, high=66e-6),
        ratio=Estimate(value=0.21, low=0.2, high=0.22),
    )
    frame = frames.times([timing, make_timing(version="v3")])
    assert tuple(frame.columns) == frames.TIME_COLUMNS
    row = frame.iloc[0]
    assert row["low"] < row["seconds"] < row["high"]
    assert row["flop_rate"] == pytest.approx(2 * 1024**3 / 310e-6)
    assert np.isnan(frame.iloc[1]["flop_rate"]) and np.isnan(frame.iloc[1]["ratio"])


def test_no_profiles_give_an_empty_frame_with_all_columns() -> None:
    for make, names in (
        (frames.counters, frames.KEYS + frames.COUNTER_COLUMNS),
        (frames.lines, frames.KEYS + frames.LINE_COLUMNS),
        (frames.launches, frames.KEYS + frames.LAUNCH_COLUMNS),
        (frames.times, frames.TIME_COLUMNS),
    ):
        frame = make([])
        assert len(frame) == 0 and tuple(frame.columns) == names


def test_importing_frames_does_not_import_pandas() -> None:
    code = "import sys, workbench.frames; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_frames_of_a_stored_profile_are_those_of_its_report(
    report: Callable[[str], Path], tmp_path: Path
) -> None:
    import msgspec
    from pandas.testing import assert_frame_equal

    from workbench.ncurep.read import read_report, select_kernels

    profile = select_kernels(read_report(report("ladder_full")), "sgemm_v4")
    profile = msgspec.structs.replace(profile, study="demo", version="v4", problem="n1024")
    store = Store(tmp_path)
    path = store.save(profile)
    loaded = [store.load(path)]
    for make in (frames.counters, frames.lines, frames.launches):
        made = make(loaded)
        assert len(made) > 0
        assert_frame_equal(made, make([profile]))


def test_counters_of_a_profile_are_the_same_wherever_its_lines_stand() -> None:
    from pandas.testing import assert_frame_equal

    store = Store(Path(__file__).parent.parent / "profiles")
    paths = [
        x.path
        for x in store.find(study="sgemm", engine="ncu", device="h200")
        if x.version in ("v3", "v11")
    ]
    pairs = [(store.load(path), store.unfolded(path)) for path in paths[:6]]
    assert any(loaded != unfolded for loaded, unfolded in pairs)  # v11 calls into a header
    for loaded, unfolded in pairs:
        assert_frame_equal(frames.counters([loaded]), frames.counters([unfolded]))


def test_the_page_of_columns_names_every_column_in_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)
    page = Path("docs/frames.md").read_text(encoding="utf-8")
    head, *sections = page.split("\n## ")
    told = {}
    for section in (each for part in sections for each in part.split("\n### ")):
        title, _, text = section.partition("\n")
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
        told[title] = tuple(row[0].removeprefix("| ") for row in rows[2:])
    step = wb.open().diff("sgemm/v2", "sgemm/v3")
    of = (frames.COUNTER_COLUMNS, frames.LINE_COLUMNS, frames.LAUNCH_COLUMNS, frames.TIME_COLUMNS)
    assert told == {
        "Where a row comes from": frames.KEYS,
        **{str(table): columns for table, columns in zip(frames.TABLES, of, strict=True)},
        "A step's frames": (),
        "step.counters": tuple(step.counters.columns),
        "step.links": tuple(step.links.columns),
        "step.lines": tuple(step.lines.columns),
    }
    for block in re.findall(r"```python\n(.*?)```", head, re.DOTALL):
        exec(compile(block, "docs/frames.md", "exec"), {})
