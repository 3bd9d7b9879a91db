"""Groups of pages: written in order, and let go when they are written."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from workbench.views.html import pool
from workbench.views.html.page import Page, Rendered
from workbench.views.html.pool import rendered


class Ladder:
    """Knows a rung that knows it, as ladders do."""

    def __init__(self) -> None:
        self.rung = self

    def render(self) -> Rendered:
        return Rendered(html="<p>a page</p>")


def test_ladders_that_are_done_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_REST", 0)
    monkeypatch.setattr(pool._Sweeps, "due", 0.0)
    gc.freeze()  # what other tests hold is not searched through
    alive: list[weakref.ref[Ladder]] = []

    def group(number: int) -> list[Page]:
        ladder = Ladder()
        alive.append(weakref.ref(ladder))
        return [Page(path=f"{number}.html", key="", owner="", render=ladder.render)]

    groups = [group(number) for number in range(12)]
    most = 0
    for done in rendered(tmp_path, groups):
        assert [path for path, _ in done] and (tmp_path / done[0][0]).is_file()
        written = 12 - len(groups)
        most = max(most, written - sum(each() is None for each in alive))
    assert written == 12 and most <= 1, "all of them were held until the end"
