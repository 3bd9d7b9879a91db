"""Errors that a user can meet, their exit codes, and the nearest name to a misspelled one.

Every error says what happened, where, and what to do next (`hint`). The command
line prints both and exits with `exit_code`; a traceback appears only with
``--debug``. Exit codes are part of the documented interface (docs/exit-codes.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Self


class WorkbenchError(Exception):
    """Base of every error that is shown to the user without a traceback.

    `message` says what happened and where; `hint` says what to do next, and is empty only if
    nothing can be done.
    """

    exit_code: int = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # a notebook prints it below the message

    def kept(self) -> Self:
        """The error for a list of errors, without its frames, which hold all they read."""
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self


class UsageError(WorkbenchError):
    """Wrong usage: an unknown version, a malformed study, an impossible option."""

    exit_code = 2


class MissingError(WorkbenchError):
    """Something is not here: GPU, ncu, permission, compiler, disk space."""

    exit_code = 3


class CountersDeniedError(MissingError):
    """The driver denies this user the GPU's counters; timing and the emulator need none."""


class KernelError(WorkbenchError):
    """The kernel failed: does not compile, wrong result, crash, hang."""

    exit_code = 4


class UnfitError(KernelError):
    """The kernel declares more than a block may have."""


class HangError(KernelError):
    """The kernel did not end within its limits of time or memory."""


class DataError(WorkbenchError):
    """Bad data: a damaged or foreign report, a damaged store file."""

    exit_code = 5


class InconclusiveError(WorkbenchError):
    """No verdict is possible: too noisy, or not comparable."""

    exit_code = 6


class ProgramError(WorkbenchError):
    """A user's own program failed: its exit code (`code`) is passed on."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(message, hint)
        self.exit_code = code


#: The most messages that one error repeats.
_TOLD = 10


def together(errors: Sequence[WorkbenchError]) -> WorkbenchError:
    """Return the only error, or one with the code of the first and the messages of all."""
    first = errors[0]
    if len(errors) == 1:
        return first
    words = "; ".join(error.message for error in errors[:_TOLD])
    if len(errors) > _TOLD:
        words += f"; and {len(errors) - _TOLD} more"
    return type(first)(f"{len(errors)} files cannot be read: {words}", first.hint)


def nearest(name: str, names: Iterable[str]) -> str:
    """The name in `names` that is most similar to `name`; empty if none is similar."""
    candidates = list(dict.fromkeys(names))
    close = get_close_matches(name, candidates, n=1, cutoff=0.55)
    if close:
        return close[0]
    # A name in the wrong case ("m" for "M") shares no character, so difflib scores it zero.
    return next((other for other in candidates if other.lower() == name.lower()), "")


def did_you_mean(name: str, names: Iterable[str], kind: str = "known") -> str:
    """Return a hint: the nearest name, or else all of them.

    `kind` says what the names are, for the list: ``parameters``, ``versions``.
    """
    candidates = list(dict.fromkeys(names))
    close = nearest(name, candidates)
    if close:
        return f"Did you mean `{close}`?"
    if not candidates:
        return f"There are no {kind}."
    shown = ", ".join(candidates[:24]) + (", …" if len(candidates) > 24 else "")
    return f"Known {kind}: {shown}."
