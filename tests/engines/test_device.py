"""What a session of a device frees, and what it looks through to find it."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest

from tests.engines.fake_pycuda import pycuda
from tests.engines.fake_pycuda.pycuda import driver
from workbench.engines.gpu import device
from workbench.engines.gpu.device import DeviceContext
from workbench.engines.host.job import BufferSpec


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


def test_a_replaced_buffer_keeps_its_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_stack", [driver.Context()])
    session, spec = DeviceContext(), BufferSpec("y", "output", (4,), "float32")
    session.cuda = driver
    old, _new = (session.allocate(spec) for _ in range(2))
    assert session.strayed() == ()
    driver.memset_d8(old.address + old.nbytes, 0, 1)
    assert session.strayed() == ("y",)


def test_as_much_l2_is_set_aside_for_each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one has 11,796,480 bytes on an H200: with none, the next one's policy is void."""
    limits = {6: 11_796_480}

    def call(_driver: object, name: str, *args: Any) -> None:
        if name == "cuCtxGetLimit":
            args[0]._obj.value = limits[args[1]]
        elif name == "cuCtxSetLimit":
            limits[args[0]] = args[1].value

    monkeypatch.setattr(device, "Driver", type("Driver", (), {"call": call}))
    monkeypatch.setattr(driver, "init", lambda: None)  # which shortens all later warm-ups
    monkeypatch.setitem(sys.modules, "pycuda", pycuda)
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    with DeviceContext() as session:
        limits[6] = 1 << 20  # as a version sets it
        session.release()
        assert limits == {6: 11_796_480}
