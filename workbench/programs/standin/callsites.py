"""Source lines of a program's allocations and launches: call chains, by addr2line."""

from __future__ import annotations

import contextlib
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ptxemu import shipped
from workbench.disk.limits import SOURCE, read_regular
from workbench.processes.starting import answered, program

#: The pointer's name in ``cudaMalloc((void**)&d_x, …)`` or ``cudaMallocManaged(&s->next, …)``.
_POINTER = re.compile(
    r"[Aa]lloc\w*\s*(?:<[^>]*>)?\s*\(\s*(?:\([^()]*\)\s*)*&?\s*([A-Za-z_][\w.>\[\]-]*)"
)

_SYSTEM = ("/lib", "/usr/lib", "/lib64")


class Frame(NamedTuple):
    """One return address: the file mapped there, and the offset in that file."""

    image: str
    offset: int


class HostLine(NamedTuple):
    """A line of a source file."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.path).name}:{self.line}"


Chain = tuple[Frame, ...]


def chain_of(text: str) -> Chain:
    """The frames of a call chain from the stand-in, the innermost first."""
    found = []
    for line in text.splitlines():
        image, _, offset = line.rpartition(" ")
        with contextlib.suppress(ValueError):
            found.append(Frame(image, int(offset, 16)))
    return tuple(found)


@cache
def place_of(chain: Chain) -> HostLine | None:
    """The innermost line in the user's own code; None if the program has no line tables."""
    for frame in chain:
        if frame.image.startswith(_SYSTEM):
            continue  # a thread's start, in the system's own library
        for place in _lines(frame):
            if not shipped(place.path):
                return place
    return None


@cache
def _lines(frame: Frame) -> tuple[HostLine, ...]:
    """The lines of one address, inlined callers after their callees."""
    tool = program("addr2line")
    if tool is None:
        return ()
    # A return address comes after its call.
    words = (tool, "-i", "-e", frame.image, hex(max(frame.offset - 1, 0)))
    try:
        said = answered(*words, timeout_s=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    places = []
    for line in said.splitlines():
        path, _, number = line.partition(" ")[0].rpartition(":")
        if path and path != "??" and number.isdecimal() and int(number):
            places.append(HostLine(path, int(number)))
    return tuple(places)


def pointer_name(place: HostLine) -> str:
    """The pointer variable in the line of an allocation; empty without one."""
    try:
        lines = read_regular(Path(place.path), SOURCE).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    near = " ".join(lines[place.line - 1 : place.line + 1])
    found = _POINTER.search(near)
    return found[1] if found else ""
