"""A cache: what is kept comes back whole or not at all, and nothing that goes wrong is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.disk.cache import Cache


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "not" / "there" / "yet", 1000)


def test_what_is_kept_comes_back_and_is_replaced_whole(cache: Cache) -> None:
    assert cache.load("a.json", str) is None
    cache.save("a.json", b'"one"')
    assert cache.load("a.json", str) == "one"
    cache.save("a.json", b'"and another"')
    assert cache.load("a.json", str) == "and another"
    assert [entry.name for entry in cache.root.iterdir()] == ["a.json"]


def test_the_entries_that_were_written_first_go_first(cache: Cache) -> None:
    for age, name in enumerate("cab"):
        cache.save(name, b"x" * 400)
        if (cache.root / name).exists():
            os.utime(cache.root / name, (1000.0 + age, 1000.0 + age))
    cache.save("d", b"x" * 400)
    assert {entry.name for entry in cache.root.iterdir()} == {"b", "d"}


def test_one_that_is_too_large_is_neither_kept_nor_read(cache: Cache) -> None:
    data = b'"' + b"x" * 999 + b'"'
    cache.save("large", data)
    assert cache.load("large", str) is None and not list(cache.root.iterdir())
    (cache.root / "large").write_bytes(data)
    assert cache.load("large", str) is None
    (cache.root / "large").write_bytes(data.replace(b"x", b"", 1))
    assert cache.load("large", str) == "x" * 998


def test_an_entry_of_another_type_or_none_is_a_miss(cache: Cache) -> None:
    for damage in (b"", b'"x', b"[1]", b"\xff", b"[" * 100_000):
        cache.save("a", damage[:1000])
        assert cache.load("a", str) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name")
def test_what_is_no_file_is_a_miss(cache: Cache) -> None:
    cache.root.mkdir(parents=True)
    os.mkfifo(cache.root / "pipe")
    (cache.root / "folder").mkdir()
    assert cache.load("pipe", str) is None and cache.load("folder", str) is None


def test_a_link_is_replaced_and_what_it_leads_to_stays(cache: Cache, tmp_path: Path) -> None:
    cache.root.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.write_bytes(b'"mine"')
    (cache.root / "a").symlink_to(outside)
    cache.save("a", b'"kept"')
    assert outside.read_bytes() == b'"mine"' and cache.load("a", str) == "kept"


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = Cache(tmp_path / "file" / "lists", 1000)
    cache.save("a", b"x")
    assert cache.load("a", str) is None
