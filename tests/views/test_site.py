"""The folder of a site: what a hostile one cannot do, and what a killed run leaves."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.views import site_data
from workbench.disk import writing
from workbench.disk.opening import Opened
from workbench.errors import DataError, MissingError
from workbench.project import find_project
from workbench.views.html import site as module
from workbench.views.html.build import BuiltReport, build_report
from workbench.views.html.page import KeptPage, Page, Rendered
from workbench.views.html.site import MANIFEST, Site, Writing


def build(root: Path) -> BuiltReport:
    return build_report(root / "reports", project=find_project(root))


def manifest(out: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((out / MANIFEST).read_bytes())["pages"]
    return found


def on_disk(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in out.rglob("*.html")}


def page(name: str, key: str = "k", owner: str = "o") -> Page:
    return Page(path=name, key=key, owner=owner, render=lambda: Rendered(html=name))


@pytest.mark.parametrize("name", ["../../precious", "{absolute}", "studies/../../../precious"])
@pytest.mark.parametrize("place", ["page", "beside", "asset"])
def test_a_manifest_from_elsewhere_removes_nothing_outside(
    tmp_path: Path, name: str, place: str
) -> None:
    root = site_data.plain(tmp_path / "a" / "project")
    precious = tmp_path / "a" / "precious"
    precious.write_text("kept")
    for other in (tmp_path / "precious", root / "precious"):
        other.write_text("kept")
    build(root)
    path = root / "reports" / MANIFEST
    kept = json.loads(path.read_bytes())
    name = name.replace("{absolute}", str(precious))
    mine = {"key": "x", "owner": "ladder:demo", "size": 4, "beside": {}, "summary": {}}
    if place == "page":
        kept["pages"][name] = mine
    elif place == "beside":
        kept["pages"]["gone.html"] = {**mine, "beside": {name: 4}}
    else:
        kept["assets"][name] = "x"
    path.write_text(json.dumps(kept))
    with pytest.raises(DataError, match=r"manifest\.json cannot be trusted") as caught:
        build(root)
    assert "Nothing was changed" in caught.value.hint
    assert {p.read_text() for p in tmp_path.rglob("precious")} == {"kept"}
    assert len(list(tmp_path.rglob("precious"))) == 3


def test_links_in_a_site_lead_nowhere(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path / "project")
    build(root)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "v0.html").write_text("kept")
    ladder = root / "reports/studies/demo/h200/n1024"
    ladder.rename(tmp_path / "moved")
    ladder.symlink_to(outside)
    with pytest.raises(DataError, match="is a link"):
        build(root)
    assert [(p.name, p.read_text()) for p in outside.iterdir()] == [("v0.html", "kept")]


def test_a_first_run_on_a_full_disk_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it ends: the folder is known as ours before anything else lies in it."""
    write = writing._written
    count, room = 0, 0

    def full(place: Opened, name: str, data: bytes, **how: Any) -> None:
        nonlocal count
        count += 1
        if count > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(place, name, data, **how)

    root = site_data.plain(tmp_path)
    monkeypatch.setattr(writing, "_written", full)
    while True:
        count = 0
        try:
            build(root)
            break
        except MissingError as error:
            assert "no space left" in error.message
        room += 1
        assert room < 100
    assert room > 5
    assert set(manifest(root / "reports")) == on_disk(root / "reports")


def test_a_page_is_in_the_manifest_before_it_is_on_the_disk(tmp_path: Path) -> None:
    """So that a run which is killed at any moment leaves none that nobody knows."""
    out = tmp_path / "site"
    seen: list[set[str]] = []

    def watching(name: str) -> Page:
        def render() -> Rendered:
            seen.append(on_disk(out) - set(manifest(out)))
            assert name in manifest(out)
            return Rendered(html=name)

        return Page(path=name, key="k", owner="o", render=render)

    with Site(out) as site:
        site.write([watching(f"p{n}.html") for n in range(3)], owners=("o",))
    assert seen == [set()] * 3
    assert b"ended" not in (out / MANIFEST).read_bytes()  # as it is where nothing went wrong


def test_what_a_killed_run_has_written_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "site"
    monkeypatch.setattr(module, "_SAVE_EVERY_S", 0.0)

    class KilledError(BaseException):
        pass

    def die() -> Rendered:
        raise KilledError

    last = Page(path="p2.html", key="k", owner="o", render=die)
    # As a kill leaves it: nothing is written on the way out.
    monkeypatch.setattr(Site, "__exit__", lambda self, *_: self._held.close())
    with pytest.raises(KilledError), Site(out) as site:
        site.write([page("p0.html"), page("p1.html"), last], owners=("o",))
    monkeypatch.undo()
    (out / ".workbench-00.tmp").write_text("half")
    with Site(out) as site:
        assert site.pages("o")["p0.html"].key == "k"
        done = site.write([page(f"p{n}.html") for n in range(3)], owners=("o",))
    assert (done.written, done.unchanged) == (1, 2)
    assert not (out / ".workbench-00.tmp").exists()


def test_a_page_that_a_killed_run_may_have_replaced_is_written_again(tmp_path: Path) -> None:
    """Even where it is of the right size, and what it is made of is again as it was before."""
    out = tmp_path / "site"
    with Site(out) as site:
        site.write([page("p.html")], owners=("o",))
        site._intend([page("p.html", key="other")])
        assert site._pages["p.html"] == KeptPage(key="", owner="o", size=6)
    with Site(out) as site:
        assert site.write([page("p.html")], owners=("o",)).written == 1


def test_two_writers_lose_no_entry_of_each_other(tmp_path: Path) -> None:
    """The manifest is read under the lock: a plan made before it would be of another site."""
    out = tmp_path / "site"
    first, second = Site(out), Site(out)
    with first as site:
        site.write([page("a.html", owner="a")], owners=("a",))
    with second as site:
        site.write([page("b.html", owner="b")], owners=("b",))
    assert set(manifest(out)) == {"a.html", "b.html"} == on_disk(out)


def test_a_process_that_the_system_ends_is_an_error_and_not_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel does it where memory runs out."""
    monkeypatch.setattr("workbench.views.html.pool._processes", lambda _: 2)
    here = os.getpid()

    def die() -> Rendered:
        assert os.getpid() != here
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
        return Rendered(html="")

    pages = [page("a/p.html"), Page(path="b/p.html", key="k", owner="o", render=die)]
    with pytest.raises(MissingError, match="was killed from outside"), Site(tmp_path / "s") as site:
        site.write(pages, owners=("o",))
    with Site(tmp_path / "s") as site:
        site.write([page("a/p.html"), page("b/p.html")], owners=("o",))
    assert set(manifest(tmp_path / "s")) == on_disk(tmp_path / "s") == {"a/p.html", "b/p.html"}


def test_pages_that_come_first_are_written_before_the_others(tmp_path: Path) -> None:
    written: list[str] = []

    def noted(path: str) -> Page:
        def render() -> Rendered:
            written.append(path)
            return Rendered(html=path)

        return Page(path=path, key="1", owner="x", group="x", render=render)

    names = ["a.html", "b.html", "c.html", "d.html"]
    with Site(tmp_path / "site", Writing(first=("c.html",))) as site:
        assert site.write(map(noted, names), owners=("x",)).written == 4
    assert written == ["c.html", "a.html", "b.html", "d.html"]


def test_it_tells_how_many_pages_are_written_and_of_how_many(tmp_path: Path) -> None:
    root = site_data.plain(tmp_path)
    heard: list[tuple[int, int]] = []
    how = Writing(tell=lambda *far: heard.append(far))
    told = build_report(root / "reports", project=find_project(root), how=how)
    assert sum(done for done, planned in heard if done == planned) == told.pages.written > 1
    assert all(0 < done <= planned for done, planned in heard)
