"""What is recorded of a study, read from a store: times of one kind, shares, bounds, damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.factories import make_profile, make_project, make_timing
from workbench.errors import DataError
from workbench.ladder import Ladder, find_ladders
from workbench.model import Estimate
from workbench.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(make_project(tmp_path).profiles)


def only(store: Store, *, damaged: list[DataError] | None = None) -> Ladder:
    (ladder,) = find_ladders(store, None, damaged=damaged)
    return ladder


def test_a_ladder_of_times_shows_no_durations(store: Store) -> None:
    store.save(make_profile(version="v4"))
    ladder = only(store)
    v3, v4 = ladder.rungs["v3"], ladder.rungs["v4"]
    assert v3.time is not None and v3.time.time.value == 206e-6 and not v3.time.profiled
    assert v4.time is None and v4.seconds == v4.duration
    assert v4.speedup_over(v3) is None


def test_a_ladder_that_nobody_timed_shows_the_profilers_durations(store: Store) -> None:
    for path in store.root.rglob("*.time.json.zst"):
        path.unlink()
    v3 = only(store).rungs["v3"]
    assert v3.time is not None and v3.time.profiled and v3.time.time.value == 208e-6


def test_a_speedup_is_bounded_by_the_extremes_of_both_intervals(store: Store) -> None:
    ladder = only(store)
    found = ladder.rungs["v3"].speedup_over(ladder.rungs["v2"])
    assert found is not None
    assert found.value == pytest.approx(310 / 206)
    assert found.low == pytest.approx(310 * 0.995 / (206 * 1.005))
    assert found.high == pytest.approx(310 * 1.005 / (206 * 0.995))


def test_a_share_of_the_baseline_is_the_one_measured_beside_it(store: Store) -> None:
    beside = Estimate(value=0.45, low=0.44, high=0.46)
    store.save_timing(make_timing(206e-6, version="v3", baseline="library", ratio=beside))
    ladder = only(store)
    assert ladder.baseline is not None and ladder.baseline.id == "library"
    assert ladder.rungs["v3"].of_baseline == 0.45
    assert ladder.rungs["v2"].of_baseline == pytest.approx(100 / 310)
    assert ladder.top == 1.0


@pytest.mark.parametrize("name", ["n1024.ncu.json.zst", "n1024.time.json.zst"])
def test_a_damaged_file_is_raised_or_kept_for_later(store: Store, name: str) -> None:
    (path,) = store.root.rglob(f"v2/{name}")
    path.write_bytes(path.read_bytes()[:60])
    damaged: list[DataError] = []
    rung = only(store, damaged=damaged).rungs["v2"]
    assert (bool(rung.records), bool(rung.timing)) == ("time" in name, "ncu" in name)
    assert str(path) in damaged[0].message and len(damaged) == 1
    rung = only(store).rungs["v2"]
    with pytest.raises(DataError):
        assert rung.records and rung.timing


def test_the_path_goes_to_the_fastest_and_dead_ends_stand_beside_it(tmp_path: Path) -> None:
    """Parents as declared, else the version before; libraries come last."""
    project = make_project(tmp_path)
    folder, store = tmp_path / "kernels" / "demo", Store(tmp_path / "new")
    (old,) = folder.glob("v2*.cu")
    text = old.read_text(encoding="utf-8")
    parents = {"v5": "v3", "v6": "v3", "v7": "v6", "v8": "v5"}
    for version, parent in parents.items():
        head = text.replace('"v0"', f'"{parent}"', 1)
        (folder / f"{version}_more.cu").write_text(head, encoding="utf-8")
    times = {"v2": 9, "v3": 5, "v5": 6, "v6": 4, "v7": 2, "v8": 3, "library": 1}
    for version, seconds in times.items():
        store.save_timing(make_timing(seconds * 1e-3, version=version, baseline="library"))
    (ladder,) = find_ladders(store, project)
    named = [(on.id, [each.id for each in tried]) for on, tried in ladder.path]
    assert named == [*(("v2", []), ("v3", ["v5", "v8"]), ("v6", []), ("v7", [])), ("library", [])]
    assert [rung.id for rung in ladder.along(ladder.rungs["v8"])][:4] == ["v2", "v3", "v8", "v6"]
