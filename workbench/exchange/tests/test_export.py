"""``workbench export``: what is recorded, for pandas, R, DuckDB and spreadsheets."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from pandas.testing import assert_frame_equal

from tests.factories import make_profile, make_project, make_timing
from workbench import frames
from workbench.cli import app
from workbench.counters import catalog
from workbench.errors import DataError, MissingError, UsageError
from workbench.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    project = make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Store.of(project)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["export", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """As it comes back from a file, which knows no categories."""
    names = {name: "str" for name in frame if frame[name].dtype.name in ("category", "object")}
    return frame.astype(names)


TABLES = ("counters", "lines", "launches", "times")


def whole(store: Store, table: str) -> pd.DataFrame:
    records = store.timings() if table == "times" else store.profiles()
    frame: pd.DataFrame = getattr(frames, table)(records)
    return frame


@pytest.mark.parametrize("table", TABLES)
def test_parquet_holds_the_frame(store: Store, table: str) -> None:
    pytest.importorskip("pyarrow")
    said = run(table, "--out", "x.parquet")
    back = pd.read_parquet("x.parquet")
    assert said == f"{len(back):,} rows written to x.parquet, as parquet\n" and len(back)
    assert_frame_equal(back, plain(whole(store, table)), check_dtype=False)
    kinds = {name: back[name].dtype.kind for name in back}
    assert {kinds[name] for name in ("launch", "n") if name in kinds} == {"i"}
    assert "captured" not in kinds or kinds["captured"] == "M"


@pytest.mark.parametrize("table", TABLES)
def test_csv_holds_the_frame(store: Store, table: str) -> None:
    text = run(table)
    expected = whole(store, table).to_csv(index=False)
    back, same = (
        pd.read_csv(io.StringIO(each), keep_default_na=False, na_values={"value": [""]})
        # A counter's formula begins with @, before which a spreadsheet needs an apostrophe.
        for each in (text.replace(",'@", ",@"), expected)
    )
    assert len(back)
    assert_frame_equal(back, same)
    assert run(table, "--out", "x.csv").endswith(" rows written to x.csv, as csv\n")
    assert run(table, "--out", "x.json") == f"{len(back):,} rows written to x.json, as json\n"
    assert [set(row) for row in json.loads(Path("x.json").read_text())] == [set(back)] * len(back)
    assert run(table, "--out", "x.xlsx").endswith(" rows written to x.xlsx, as csv\n")
    assert Path("x.csv").read_text() == text


def test_only_what_is_asked_for(store: Store) -> None:
    store.save(make_profile(version="v9", problem="n64"))
    text = run("counters", ":n64", "--metric", "duration", "--metric", "registers")
    back = pd.read_csv(io.StringIO(text))
    assert list(back["counter"]) == ["duration", "registers"] and set(back["version"]) == {"v9"}
    assert set(pd.read_csv(io.StringIO(run("times", "demo/v3")))["version"]) == {"v3"}


def test_no_control_characters_in_csv(store: Store) -> None:
    evil = make_profile(version="v9", problem="n64", source_hash="a\x1b[2Jb\u202ec")
    store.save(evil)
    text = run("launches", ":n64")
    assert "\x1b" not in text and "a·[2Jb⟨U+202E⟩c" in text


def test_a_damaged_profile_leaves_the_old_file(store: Store) -> None:
    Path("x.csv").write_text("old")
    store.find()[-1].path.write_bytes(b"damaged")
    with pytest.raises(DataError, match="is damaged"):
        run("launches", "--out", "x.csv")
    assert Path("x.csv").read_text() == "old"
    assert [path.name for path in Path().iterdir() if path.name.startswith(".workbench-")] == []


REFUSED = {
    "times --metric duration": "--metric does not apply to times",
    "times --engine ncu": "times have no engine",
    "counters --format parquet": "Parquet cannot be printed",
    "counters --metric durations": "durations",
    "lines --metric sectorz": "sectorz",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_has_no_meaning_is_refused(store: Store, line: str) -> None:
    with pytest.raises(UsageError, match=REFUSED[line]):
        run(*line.split())


def test_nothing_that_is_meant_is_said_so(store: Store) -> None:
    with pytest.raises(MissingError, match="nothing that is recorded matches"):
        run("counters", "demo/v77", "--out", "x.csv")
    assert not Path("x.csv").exists()


def test_parquet_without_pyarrow_says_what_to_install(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingError) as caught:
        run("counters", "--out", "x.parquet")
    assert "pip install pyarrow" in caught.value.hint and not Path("x.parquet").exists()


def test_a_table_comes_in_portions(store: Store) -> None:
    store.save_timing(make_timing(version="v9"))
    for table in frames.TABLES:
        parts = list(frames.stored(store, table, rows=40))
        sizes = [len(part) for part in parts]
        assert len(sizes) > 1 or table in ("launches", "times")
        assert set(sizes[:-1]) <= {40} and 0 < sizes[-1] <= 40
        together = pd.concat([plain(part) for part in parts], ignore_index=True)
        assert_frame_equal(together, plain(whole(store, table)), check_dtype=False)
    (empty,) = frames.stored(store, "counters", version="v77")
    assert empty.empty and tuple(empty.columns) == frames.KEYS + frames.COUNTER_COLUMNS


def test_a_counter_that_follows_from_instructions_is_the_same(repo: Path, tmp_path: Path) -> None:
    """Which of a profile has to be read for a counter is nobody's business but ours."""
    (path,) = (repo / "profiles").glob("h200/conv2d_half/v13/n32_c128.ncu.json.zst")
    store = Store(tmp_path)
    store.save(Store(repo / "profiles").load(path))
    (every,) = frames.stored(store, "counters")
    derived = [each.id for each in catalog() if each.touching or each.needs or each.rest]
    for name in [*derived, *every["counter"][::9]]:
        (one,) = frames.stored(store, "counters", [name])
        rows = every[every["counter"] == name].reset_index(drop=True)
        assert_frame_equal(plain(one), plain(rows))
