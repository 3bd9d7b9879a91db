"""News for pages that are open in a browser: what waits for it, and what is put into a page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files


class News:
    """What listeners wait for: that the site was written, and what is wrong with it now."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._edition = 0
        self._problem = ""
        self._over = False

    def tell(self, problem: str | None = "") -> None:
        """The site was written again, or could not be: `problem` says why (None: as before)."""
        with self._changed:
            self._edition += 1
            self._problem = self._problem if problem is None else problem
            self._changed.notify_all()

    def end(self) -> None:
        """No more news: every listener goes."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def listen(self, timeout_s: float) -> Iterator[str | None]:
        """What is wrong (empty: nothing), at once and on all news; None: nothing new so far."""
        seen = -1
        while True:
            with self._changed:
                if not self._over and self._edition == seen:
                    self._changed.wait(timeout_s)
                if self._over:
                    return
                news = self._problem if self._edition != seen else None
                seen = self._edition
            yield news


@lru_cache(maxsize=1)
def _script() -> str:
    return files("workbench").joinpath("data", "live.js").read_text(encoding="utf-8")


def with_script(page: bytes, events: str, state: str) -> bytes:
    """A page with the script that listens at its end.

    Args:
        page: The page as it lies on the disk.
        events: Address that gives the page's news.
        state: Key of what is shown; other news make the page reload.
    """
    # As JSON, with `<` as an escape: whatever an address holds, it stays a string.
    code = _script()
    for mark, value in (('"@PAGE@"', events), ('"@STATE@"', state)):
        code = code.replace(mark, json.dumps(value).replace("<", "\\u003c"))
    script = f"<script>\n{code}</script>\n".encode()
    head, end, tail = page.rpartition(b"</body>")
    return head + script + end + tail if end else page + script
