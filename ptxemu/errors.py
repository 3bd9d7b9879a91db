"""Errors in a kernel, a launch or PTX, and errors from limits of the emulator.

The message says what happened and where (file, line, block, thread); `hint` says what to do next.
"""

from __future__ import annotations

import struct
from typing import Literal


class EmulatorError(Exception):
    """Base of every error that the emulator raises on purpose.

    Args:
        message: What happened and where, one sentence or a short block of lines.
        hint: What to do next. Empty only if nothing can be done.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(hint)


#: Kinds of faults.
Kind = Literal[
    "out-of-bounds", "misaligned", "race", "uninitialized", "barrier", "async-copy", "assert",
    "trap", "endless", "illegal-instruction", "other",
]  # fmt: skip
_SURVIVED = ("race", "uninitialized", "barrier", "async-copy")


class Fault(EmulatorError):  # noqa: N818  # CUDA's name for it
    """A fault of the kernel: out of bounds, a race, an endless wait, a trap.

    Attributes:
        kind: The kind of fault.
        place: Path and line of the innermost line that is not a toolkit's; None: unknown.
        line: Line of the PTX; 0: it belongs to no instruction.
        others: Earlier faults that the kernel survived.
    """

    def __init__(
        self, message: str, hint: str = "", kind: Kind = "other",
        place: tuple[str, int] | None = None, line: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(message, hint)
        self.kind, self.place, self.line = kind, place, line
        self.others: tuple[Fault, ...] = ()

    @property
    def fatal(self) -> bool:
        """True if a GPU would end the kernel."""
        return self.kind not in _SURVIVED


class Unset(Fault):
    """The kernel reads a register before any write."""


class Unsupported(EmulatorError):  # noqa: N818
    """The kernel needs an instruction or a special register that the emulator lacks."""


class ResourceError(EmulatorError):
    """The emulator gave up: no time or memory was left, or one of its processes was killed."""


class LaunchError(EmulatorError):
    """Grid, block or arguments do not fit the kernel, or no chip could launch them."""


class PtxError(EmulatorError):
    """The PTX is not in the form that a compiler writes, or has no such kernel."""


#: Exceptions that damaged PTX causes in the code that reads it.
DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, StopIteration,
    TypeError, ValueError, struct.error,
)  # fmt: skip


class DescriptorError(LaunchError):
    """A tensor map or texture that the driver would refuse; `key` is the attribute at fault."""

    def __init__(self, key: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.key = key
