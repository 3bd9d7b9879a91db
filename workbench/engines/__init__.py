"""Engines: what produces a profile. ncu needs a GPU, the emulator none; the choice is made here."""

from __future__ import annotations

from typing import Literal

from workbench.errors import MissingError

EngineChoice = Literal["auto", "ncu", "emulator"]


def choose_engine(wanted: str, *, launcher: bool = False) -> Literal["ncu", "emulator"]:
    """The engine to take: ncu where it can run, else the emulator.

    Args:
        wanted: ``auto``, ``ncu`` or ``emulator``.
        launcher: Whether a launcher leads to the GPU; it is then not asked from here.

    Raises:
        MissingError: ncu was asked for and cannot run here; or neither it nor a compiler
            for the emulator is here. Says what lacks and what works without.
    """
    if wanted == "emulator":
        return "emulator"
    if launcher:
        return "ncu"
    from workbench.engines.host import presence

    try:
        presence.need_gpu()
        presence.need_ncu()
        presence.need_pycuda()
    except MissingError:
        if wanted == "ncu" or not _can_compile():
            raise
        return "emulator"
    return "ncu"


def choose_runner(wanted: str) -> Literal["gpu", "emulator"]:
    """What verifies: the GPU where there is one (``auto``), else the emulator.

    Raises:
        MissingError: neither a GPU nor a compiler is here, or ``gpu`` was asked for.
    """
    if wanted == "emulator":
        return "emulator"
    from workbench.engines.host import presence

    try:
        presence.need_gpu()
        presence.need_pycuda()
    except MissingError:
        if wanted == "gpu" or not _can_compile():
            raise
        return "emulator"
    return "gpu"


def _can_compile() -> bool:
    from workbench.compile import compilers

    try:
        compilers.choose("auto")
    except MissingError:
        return False
    return True
