"""Errors that a user can meet, and the exit codes they end the program with.

Every error says what happened, where, and what to do next (`hint`). The command
line prints both and exits with `exit_code`; a traceback appears only with
``--debug``. Exit codes are part of the documented interface (docs/exit-codes.md).
"""

from __future__ import annotations

from typing import ClassVar


class WorkbenchError(Exception):
    """Base of every error that is shown to the user without a traceback.

    Args:
        message: What happened and where, one sentence or a short block of lines.
        hint: What to do next. Empty only where nothing can be done.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(WorkbenchError):
    """Wrong usage: an unknown version, a malformed study, an impossible option."""

    exit_code = 2


class MissingError(WorkbenchError):
    """Something is not here: GPU, ncu, permission, compiler, disk space."""

    exit_code = 3


class KernelError(WorkbenchError):
    """The kernel failed: does not compile, wrong result, crash, hang."""

    exit_code = 4


class DataError(WorkbenchError):
    """Bad data: a damaged or foreign report, a damaged store file."""

    exit_code = 5


class InconclusiveError(WorkbenchError):
    """No verdict is possible: too noisy, or not comparable."""

    exit_code = 6
