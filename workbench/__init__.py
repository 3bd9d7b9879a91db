"""A profiling-driven optimization workbench for CUDA kernels.

::

    import workbench as wb

    project = wb.open(".")
    step = project.diff("v2", "v3")
    step.sentence, step.counters, step.hunks, step.time
    wb.read_report("x.ncu-rep").counters

`docs/api.md` has every name with examples. A name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.12.0"

#: Name -> (module, its name there); `__init__.pyi` repeats them for type checkers.
_FACE = {
    "open": ("workbench.face", "open_session"),
    "read_report": ("workbench.face", "read_report"),
    "profiled": ("workbench.programs.profiled", "profiled"),
    "Session": ("workbench.face", "Session"),
    "Diff": ("workbench.session.step", "Diff"),
    "Target": ("workbench.session.targets", "Target"),
    "Selection": ("workbench.session.workspace", "Selection"),
    "Profile": ("workbench.model", "Profile"),
    "InconclusiveError": ("workbench.errors", "InconclusiveError"),
    "WorkbenchError": ("workbench.errors", "WorkbenchError"),
}

__all__ = sorted(_FACE)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _FACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own = _FACE[name]
    return getattr(import_module(module), own)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
