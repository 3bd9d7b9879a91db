"""Where profiles and times are kept, and what happens when that goes wrong."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import H200, make_profile, make_timing
from workbench.disk import writing
from workbench.disk.lock import locked
from workbench.errors import DataError, MissingError, UsageError
from workbench.project import Project
from workbench.store import Store, device_slug, natural_key
from workbench.store.codec import unpack


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "profiles")


def files(store: Store) -> list[str]:
    return sorted(
        path.relative_to(store.root).as_posix() for path in store.root.rglob("*") if path.is_file()
    )


def test_the_layout(store: Store) -> None:
    assert store.save(make_profile(), raw=b"NVR") == store.profile_path(make_profile())
    store.save_timing(make_timing())
    assert files(store) == [
        "h200/demo/v2/n1024.ncu.json.zst",
        "h200/demo/v2/n1024.ncu.ncu-rep.zst",
        "h200/demo/v2/n1024.time.json.zst",
    ]


def test_profiles_come_back_in_natural_order(store: Store) -> None:
    for version in ("v10", "v2", "cublas", "v0"):
        store.save(make_profile(version=version))
    store.save(make_profile(version="v2", engine="emulator"))
    entries = store.find(study="demo")
    assert [(e.version, e.engine) for e in entries] == [
        ("cublas", "ncu"),
        ("v0", "ncu"),
        ("v2", "emulator"),
        ("v2", "ncu"),
        ("v10", "ncu"),
    ]
    assert store.load(entries[3].path) == make_profile()


def test_profiles_are_read_one_by_one(store: Store) -> None:
    for version in ("v10", "v2"):
        store.save(make_profile(version=version))
    store.save(make_profile(version="v2", problem="n64"))
    assert [each.version for each in store.profiles(problem="n1024")] == ["v2", "v10"]
    assert next(store.profiles(version="v10")) == make_profile(version="v10")
    (entry,) = store.find(version="v10")
    entry.path.write_bytes(b"damaged")
    reading = store.profiles(whole=False)
    found = [next(reading), next(reading)]
    assert [each.problem for each in found] == ["n64", "n1024"]
    assert not found[0].sources and found[0].launches[0].metrics
    with pytest.raises(DataError):
        next(reading)


def test_a_store_that_remembers_reads_what_has_changed(store: Store) -> None:
    path = store.save(make_profile(version="v0", problem="n1"))
    lasting = Store(store.root, remembers=1)
    first = lasting.load(path)
    assert lasting.load(path) is first and store.load(path) is not store.load(path)
    store.save(make_profile(version="v0", problem="n1", captured="2026-01-02T03:04:05Z"))
    assert lasting.load(path) == store.load(path) != first
    path.write_bytes(b"no profile")
    with pytest.raises(DataError):
        lasting.load(path)
    path.unlink()
    with pytest.raises(MissingError):
        lasting.load(path)


def test_a_store_that_remembers_holds_no_more_than_it_may(store: Store) -> None:
    first, second = (store.save(make_profile(version=v, problem="n1")) for v in ("v0", "v1"))
    lasting = Store(store.root, remembers=1)
    held = lasting.load(first)
    lasting.load(second)
    assert lasting.load(first) is not held


def test_find_by_every_key(store: Store) -> None:
    rtx = msgspec.structs.replace(H200, name="NVIDIA RTX", slug="rtx")
    store.save(make_profile())
    store.save(make_profile(device=rtx, problem="n4096"))
    assert store.find() == store.find(device="h200") + store.find(device="rtx")
    assert [e.problem for e in store.find(problem="n4096")] == ["n4096"]
    assert store.find(engine="emulator") == []
    assert store.find(study="none") == []


def test_a_folder_that_is_not_there_is_an_error_but_in_a_new_project(store: Store) -> None:
    assert not store.root.exists()
    for read in (store.find, store.files, store.timings, lambda: list(store.profiles())):
        with pytest.raises(MissingError, match=r"no folder .*profiles"):
            read()
    project = Project(root=store.root.parent)
    assert Store.of(project).find() == [] and Store.of(project).root == store.root
    store.save(make_profile())  # which makes the folder
    assert store.find() == Store(str(store.root)).find() and str(store.root) in repr(store)


def test_find_decodes_nothing_and_ignores_what_is_not_ours(store: Store) -> None:
    path = store.save(make_profile())
    path.write_bytes(b"garbage")
    (path.parent / "notes.txt").write_text("mine")
    (path.parent / "n1024.magic.json.zst").write_bytes(b"")
    (path.parent / ".n1.ncu.json.zst").write_bytes(b"")
    (store.root / "README.md").write_text("mine")
    (path.parent.parent / ".old").mkdir()
    (path.parent.parent / ".old" / path.name).write_bytes(path.read_bytes())
    assert [e.path for e in store.find()] == [path]
    with pytest.raises(DataError):
        store.load(path)


def test_get_prefers_ncu_and_refuses_to_guess(store: Store) -> None:
    store.save(make_profile(engine="emulator"))
    assert store.get(study="demo", version="v2").engine == "emulator"
    store.save(make_profile())
    assert store.get(study="demo", version="v2").engine == "ncu"
    store.save(make_profile(problem="n4096"))
    with pytest.raises(UsageError, match=r"several profiles.*n1024.*n4096"):
        store.get(study="demo", version="v2")
    assert store.get(study="demo", version="v2", problem="n4096").problem == "n4096"
    with pytest.raises(MissingError, match="no profile of demo/v9") as caught:
        store.get(study="demo", version="v9")
    assert "workbench profile demo/v9" in caught.value.hint


def test_timings(store: Store) -> None:
    store.save_timing(make_timing())
    store.save_timing(make_timing(version="v10"))
    store.save_timing(make_timing(1e-3))
    assert [(t.version, t.time.value) for t in store.timings(study="demo")] == [
        ("v2", 1e-3),
        ("v10", 310e-6),
    ]
    assert store.timings(version="v2", problem="n4096") == []
    assert store.find() == []


def test_a_damaged_time_is_an_error_or_is_listed(store: Store) -> None:
    broken = store.save_timing(make_timing())
    store.save_timing(make_timing(version="v3"))
    broken.write_bytes(b"garbage")
    with pytest.raises(DataError):
        store.timings()
    damaged: list[DataError] = []
    assert [timing.version for timing in store.timings(damaged=damaged)] == ["v3"]
    assert [str(broken) in error.message for error in damaged] == [True]


def test_the_raw_report_stays_beside_its_profile_and_goes_with_it(
    store: Store, tmp_path: Path
) -> None:
    raw = tmp_path / "x.ncu-rep"
    raw.write_bytes(b"NVR\0 raw")
    store.save(make_profile(), raw=raw)
    (entry,) = store.find()
    kept = store.raw_report(entry)
    assert kept is not None
    assert unpack(kept.read_bytes()) == b"NVR\0 raw"
    store.save(make_profile(problem="again"), raw=kept)
    again = store.raw_report(store.find(problem="again")[0])
    assert again is not None
    assert again.read_bytes() == kept.read_bytes()
    store.save(make_profile())
    assert store.raw_report(entry) is None
    with pytest.raises(MissingError, match="cannot read"):
        store.save(make_profile(), raw=tmp_path / "none.ncu-rep")


@pytest.mark.parametrize(
    "name", ["../../etc", "a/b", "..", ".hidden", "a\\b", "C:", "%2e", "é", "~"]
)
def test_odd_names_stay_inside_and_come_back(store: Store, name: str) -> None:
    store.save(make_profile(study=name, version=name, problem=name))
    (entry,) = store.find(study=name, version=name, problem=name)
    assert (entry.study, entry.version, entry.problem) == (name, name, name)
    (path,) = files(store)
    assert path.count("/") == 3
    assert not any(part.startswith(".") for part in path.split("/"))


@given(st.text(min_size=1, max_size=30))
def test_any_name_is_one_safe_component(name: str) -> None:
    store = Store(Path("/root-of-store"))
    try:
        path = store.profile_path(make_profile(problem=name))
    except UsageError:
        return  # too long once it is escaped
    assert path.parent == Path("/root-of-store/h200/demo/v2")
    assert path.name.isascii()


@pytest.mark.parametrize("field", ["study", "version", "problem"])
@pytest.mark.parametrize("name", ["", "x" * 300])
def test_a_name_that_is_no_file_name(store: Store, field: str, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a file name"):
        store.save(make_profile(**{field: name}))
    assert not store.root.exists()


def test_a_name_that_is_no_text(store: Store) -> None:
    with pytest.raises(UsageError, match="cannot be a file name"):
        store.profile_path(make_profile(study="\udc80"))


def test_a_full_disk_keeps_the_earlier_profile_and_its_report(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.save(make_profile(), raw=b"old report")
    before = {name: (store.root / name).read_bytes() for name in files(store)}

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing, "_written", full)
    with pytest.raises(MissingError, match="no space left"):
        store.save(make_profile(captured="2027-01-01T00:00:00Z"), raw=b"new report")
    assert {name: (store.root / name).read_bytes() for name in files(store)} == before
    assert store.load(path) == make_profile()


def save_often(root: Path, version: str, times: int) -> None:
    store = Store(root, lock_timeout_s=60)
    for i in range(times):
        store.save(make_profile(captured=f"{version} {i}"), raw=f"{version} {i}".encode())


def test_two_writers_of_the_same_profile(tmp_path: Path) -> None:
    """Every reader, at any time, sees a whole profile of one of them."""
    store = Store(tmp_path)
    store.save(make_profile(), raw=b"first")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=save_often, args=(tmp_path, v, 15)) for v in "ab"]
    for writer in writers:
        writer.start()
    path = store.find()[0].path
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(store.load(path).captured)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    raw = store.raw_report(store.find()[0])
    assert raw is not None
    assert unpack(raw.read_bytes()).decode() == store.load(path).captured
    assert seen
    assert [p.name for p in tmp_path.iterdir()] == ["h200"]


def test_a_writer_that_is_killed_at_any_time_loses_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.save(make_profile(captured="before"), raw=b"before")
    context = multiprocessing.get_context("spawn")
    for wait_s in (0.0, 0.003, 0.011):
        writer = context.Process(target=save_often, args=(tmp_path, "k", 10_000))
        writer.start()
        stamp = path.stat().st_mtime_ns
        while path.stat().st_mtime_ns == stamp:
            time.sleep(0.001)  # until it is at work
        time.sleep(wait_s)
        writer.kill()
        writer.join()
        assert store.load(path).captured.startswith("k ")
    store.save(make_profile(captured="after"))
    assert store.load(path).captured == "after"
    assert files(store) == ["h200/demo/v2/n1024.ncu.json.zst"]


def test_a_writer_that_keeps_the_lock_ends_in_an_error(tmp_path: Path) -> None:
    store = Store(tmp_path, lock_timeout_s=0.1)
    with locked(tmp_path, 1), pytest.raises(MissingError, match="another process"):
        store.save(make_profile())
    assert store.find() == []


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("GeForce GTX 1660 SUPER", "gtx-1660-super"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("NVIDIA", "nvidia"),
        ("../..", "unknown"),
        ("", "unknown"),
    ],
)
def test_device_slugs(name: str, slug: str) -> None:
    assert device_slug(name) == slug


def test_natural_order() -> None:
    names = ["v10", "v2", "cublas", "v2b", "n1024", "n64", "10", "9"]
    assert sorted(names, key=natural_key) == [
        "9", "10", "cublas", "n64", "n1024", "v2", "v2b", "v10",
    ]  # fmt: skip


@given(st.lists(st.text(max_size=8), max_size=6))
def test_natural_keys_of_any_names_compare(names: list[str]) -> None:
    keys = [natural_key(name) for name in sorted(names, key=natural_key)]
    assert all(a <= b for a, b in pairwise(keys))
