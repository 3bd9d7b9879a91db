"""The face of ``import workbench as wb``: `Session` with the methods of every feature."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import UsageError
from workbench.gate import session as gate
from workbench.programs import session as programs
from workbench.session.api import CoreSession
from workbench.session.targets import Target
from workbench.session.workspace import Listener


class Session(
    gate.GateMethods,
    programs.ProgramMethods,
    CoreSession,
):
    """A project (or none, for report files and captures), and the queries that it answers.

    A *target* is what a command takes: a version (``v3``, ``sgemm/v3``, ``v3@h100`` on one device),
    a report file (``x.ncu-rep``, ``x.ncu-rep::kernel#2``) or kernels of a captured program
    (``@before::softmax``). `start` is the folder (None: the current one); `listener` receives
    progress of long operations.
    """


def open_session(folder: Path | str = ".", *, listener: Listener | None = None) -> Session:
    """Open the project (``wb.open``) of a folder: the nearest one with settings, going upwards.

    `listener` receives progress of long operations; None: it is not shown. Raises UsageError: there
    is no project at or above the folder.
    """
    session = Session(Path(folder), listener)
    if session.found is None:
        raise UsageError(
            f"no workbench project at or above {Path(folder).resolve()}",
            "Reports and captures need none: wb.Session().show('x.ncu-rep'), "
            "wb.Session().show('@NAME'). `workbench init` makes the folder a project.",
        )
    return session


def read_report(target: Path | str, *, launch: int | None = None) -> Target:
    """Read a report of Nsight Compute (``wb.read_report``), without a project.

    `target` is its path, ``x.ncu-rep`` or compressed ``x.ncu-rep.zst``; ``x.ncu-rep::softmax``
    picks kernels by name, ``x.ncu-rep::softmax#2`` the second launch. `launch`: read only this
    launch, counted from 1.

    Raises:
        UsageError: there is no such file, or no such kernel in it.
        DataError: the file is damaged.
    """
    return Session().show(str(target), launch=launch)
