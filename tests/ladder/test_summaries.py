"""What lists said of profiles is kept by content: never of another file, and never needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.factories import make_profile, make_project
from workbench.errors import DataError
from workbench.ladder import summaries
from workbench.ladder.summaries import Summaries, Summary
from workbench.model import Timing
from workbench.project import cache_folder
from workbench.store import Store
from workbench.store.codec import decode


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Store(make_project(tmp_path / "project").profiles)


def profiles(store: Store) -> list[Path]:
    return [entry.path for entry in store.find()]


def told(store: Store, *shelf: str) -> list[Summary]:
    known = Summaries(*shelf)
    found = [known.of(path) for path in profiles(store)]
    known.keep()
    return found


def undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, data: bytes) -> None:
        raise AssertionError(f"{path} was decoded")

    monkeypatch.setattr(summaries, "decode_totals", refuse)


def kept() -> list[Path]:
    folder = cache_folder("lists")
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_what_was_told_once_is_told_again_without_decoding(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = told(store, "here", "demo")
    assert [each.duration for each in first] == [312e-6, 208e-6]
    assert first[0].source_hash == store.load(profiles(store)[0]).source_hash != ""
    undecoded(monkeypatch)
    assert told(store, "here", "demo") == first
    with pytest.raises(AssertionError, match="was decoded"):
        told(store, "elsewhere", "demo")


def test_another_file_of_the_same_name_size_and_age_is_another_file(store: Store) -> None:
    """A checkout, a copy and a clock can make all three of them equal."""
    path = profiles(store)[0]
    old = path.stat()
    (before, *_) = told(store, "here")
    profile = store.load(path)
    for second in range(60):  # until one is packed into as many bytes
        other = make_profile(version="v2", captured=f"2001-01-01T00:00:{second:02}Z")
        store.save(other)
        if path.stat().st_size == old.st_size:
            break
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert path.stat().st_mtime_ns == old.st_mtime_ns and profile != store.load(path)
    (after, *_) = told(store, "here")
    assert after.captured == other.captured != before.captured


def test_a_file_that_is_damaged_since_is_damaged(store: Store) -> None:
    first = told(store, "here")
    path = profiles(store)[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    for _ in range(2):
        with pytest.raises(DataError, match="cut short"):
            told(store, "here")
    path.write_bytes(whole)
    assert told(store, "here") == first


@pytest.mark.parametrize("damage", [b"", b"{", b'{"0":{"engine":1}}', b"\xff", bytes(1 << 10)])
def test_a_damaged_entry_is_a_miss_and_is_replaced(
    store: Store, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = told(store, "here")
    (entry,) = kept()
    entry.write_bytes(damage)
    assert told(store, "here") == first
    undecoded(monkeypatch)
    assert told(store, "here") == first and kept() == [entry]


def test_another_edition_is_a_miss(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    told(store, "here")
    monkeypatch.setattr(summaries, "EDITION", summaries.EDITION + 1)
    undecoded(monkeypatch)
    with pytest.raises(AssertionError, match="was decoded"):
        told(store, "here")


def test_two_at_once_leave_what_one_of_them_knew(store: Store) -> None:
    path, other = profiles(store)
    one, two = Summaries("here"), Summaries("here")
    for each, read in ((one, path), (two, other)):
        each.of(read)
    one.keep()
    two.keep()
    whole = told(store, "here")
    assert whole == told(store) and len(kept()) == 1


def test_a_cache_that_cannot_be_written_is_no_error(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert told(store, "here") == told(store, "here") == told(store)


def test_of_a_time_the_device_is_kept_and_damage_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = min(store.root.rglob("*.time.json.zst"))
    known = Summaries("here", "demo")
    device = known.timed_on(path)
    known.keep()
    assert device == decode(path, Timing).device.name != ""
    with monkeypatch.context() as patched:
        patched.setattr(summaries, "decode", None)
        assert Summaries("here", "demo").timed_on(path) == device
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError):
        Summaries("here", "demo").timed_on(path)
