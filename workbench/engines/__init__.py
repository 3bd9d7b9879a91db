"""Engines: what produces a profile. ncu needs a GPU; the choice is made here."""

from __future__ import annotations

from typing import Literal

from workbench.errors import MissingError

EngineChoice = Literal["auto", "ncu", "emulator"]


def choose_engine(wanted: str, *, launcher: bool = False) -> Literal["ncu"]:
    """The engine to take: ncu where it can run.

    Args:
        wanted: ``auto``, ``ncu`` or ``emulator``.
        launcher: Whether a launcher leads to the GPU; it is then not asked from here.

    Raises:
        MissingError: the engine cannot run here; says what lacks and what works without.
    """
    from workbench.engines import presence

    if wanted == "emulator":
        raise MissingError(
            "the emulator engine is not part of this version of workbench",
            "Profile with --engine ncu on a machine with a GPU, or look at the recorded "
            "profiles: `workbench list`, `workbench show`, `workbench diff`.",
        )
    if not launcher:
        presence.need_gpu()
        presence.need_ncu()
        presence.need_pycuda()
    return "ncu"
