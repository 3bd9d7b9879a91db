"""What a session of a device frees, and what it looks through to find it."""

from __future__ import annotations

import gc
import weakref

from workbench.engines.gpu.device import DeviceContext


class Held:
    """Something in a circle, as a loaded version is with its calls."""

    def __init__(self) -> None:
        self.own = self


def test_what_stays_is_looked_through_once_and_what_comes_later_is_freed() -> None:
    """A library has objects by the hundred thousand: each search among them takes 60 ms."""
    session = DeviceContext()
    before = gc.get_freeze_count()
    library = [Held() for _ in range(2000)]
    session.release()
    assert gc.get_freeze_count() >= before + len(library)
    held = Held()
    gone = weakref.ref(held)
    del held
    session.release()
    assert gone() is None
    session.__exit__()
    assert gc.get_freeze_count() == 0  # all must be gone before the context is
    gc.freeze()
