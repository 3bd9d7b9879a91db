"""Counters of stored profiles: those of whole profiles, and the same when they were kept."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.factories import make_launch, make_metrics, make_profile, make_project
from workbench import frames
from workbench.counters import catalog
from workbench.errors import DataError
from workbench.project import cache_folder
from workbench.store import Store
from workbench.store.codec import decode

#: By names of the catalog and by one of ncu.
WANTED = ["duration", "registers", "dram_throughput", "launch__grid_size"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = Store(make_project(tmp_path / "project").profiles)
    idle = make_launch(kernel="idle", index=1, profiled=False, metrics={})
    bare = make_launch(metrics=make_metrics(**{"gpu__time_duration.sum": None}))
    store.save(make_profile(version="v7", launches=(make_launch(), idle)))
    store.save(make_profile(version="v8", launches=(bare,)))
    return store


def table(store: Store, metrics: list[str]) -> pd.DataFrame:
    return pd.concat(frames.stored(store, "counters", metrics), ignore_index=True)


def whole(store: Store, metrics: list[str]) -> pd.DataFrame:
    return frames.counters(store.profiles(), metrics)


def undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise AssertionError(f"{path} was decoded")

    monkeypatch.setattr(frames, "decode", refuse)
    monkeypatch.setattr(frames, "decode_totals", refuse)


@pytest.mark.parametrize(
    "metrics", [WANTED, WANTED[:1], [], [x.id for x in catalog()][: frames._MOST]]
)
def test_what_is_stored_is_what_whole_profiles_give_and_again_without_decoding(
    metrics: list[str], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole(store, metrics)
    pd.testing.assert_frame_equal(table(store, metrics), expected)
    undecoded(monkeypatch)
    pd.testing.assert_frame_equal(table(store, metrics), expected)
    if metrics:
        with pytest.raises(AssertionError, match="was decoded"):
            table(store, [*metrics, "sm__cycles_elapsed.max"])


def test_each_counter_of_the_catalog_is_that_of_the_whole_profile(store: Store) -> None:
    for counter in catalog():
        rows = list(frames.stored_rows(store, [counter.id], {}))
        assert rows == list(frames.counter_rows(store.profiles(), [counter.id])), counter.id


def test_only_what_is_not_told_by_its_name_is_decoded_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def note(path: Path, *rest: object) -> object:
        read.append(path.parent.name)
        return decode(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(frames, "decode", note)
    table(store, ["duration"])
    assert read == ["v8"]


def test_a_profile_that_is_replaced_or_damaged_is_another_one(store: Store) -> None:
    before = table(store, ["duration"])
    slower = make_metrics(**{"gpu__time_duration.sum": 5.0})
    path = store.save(make_profile(version="v7", launches=(make_launch(metrics=slower),)))
    after = table(store, ["duration"])
    assert 5.0 not in set(before["value"]) and 5.0 in set(after["value"])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="damaged"):
        table(store, ["duration"])


def test_what_was_kept_and_is_damaged_or_of_another_catalog_is_read_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = table(store, WANTED)
    entries = list(cache_folder("frames").iterdir())
    assert entries
    for entry in entries:
        entry.write_bytes(entry.read_bytes().replace(b"duration", b"notduration", 1)[:-1])
    pd.testing.assert_frame_equal(table(store, WANTED), expected)
    monkeypatch.setattr(frames, "_how_read", lambda: "another catalog")
    undecoded(monkeypatch)
    with pytest.raises(AssertionError, match="was decoded"):
        table(store, WANTED)


def test_of_many_counters_and_without_an_edition_nothing_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [counter.id for counter in catalog()][: frames._MOST + 1]
    pd.testing.assert_frame_equal(table(store, many), whole(store, many))
    monkeypatch.setattr(frames, "_how_read", lambda: "")
    table(store, WANTED)
    assert not cache_folder("frames").exists()


def test_names_that_no_field_can_have(store: Store) -> None:
    odd = ['a"b__c', "back\\slash__d", "gpu__time_duration.sum"]
    pd.testing.assert_frame_equal(table(store, odd), whole(store, odd))
