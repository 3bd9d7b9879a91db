"""Run compute-sanitizer on a version: four tools, each finding at its source line.

The sanitizer prints one block of lines for each thread that made a mistake. Blocks with the same
tool, kind and source line are shown once, with their count and the first thread and block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from workbench.errors import KernelError, MissingError
from workbench.model import Record

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "initcheck", "synccheck")

#: The exit code that we request for findings; it has no other meaning.
FOUND = 86

_PREFIX = "========="
# "at kernel+0x80 in file.cu:13", "Write access at race+0xc0 in fail.cu:9", with templates
# and parameter lists in the kernel's name.
_PLACE = re.compile(
    r"(?:(?P<access>\w+) access )?at (?P<kernel>.+?)\+0x[0-9a-f]+"
    r"(?: in (?P<file>.+?):(?P<line>\d+))?"
    r"(?: \[(?P<hazards>[\d,]+) hazards?\])?$"
)
_THREAD = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")


class Place(Record, frozen=True):
    """A source line that a finding names. `line` is 0 if the build has no line info."""

    kernel: str
    file: str = ""
    line: int = 0
    access: str = ""  # "Write" or "Read", if two accesses race


class Finding(Record, frozen=True):
    """One mistake on one source line, however many threads made it."""

    tool: Tool
    message: str
    places: tuple[Place, ...]
    count: int = 1
    thread: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    details: tuple[str, ...] = ()


def blocks(text: str) -> Iterable[list[str]]:
    """The sanitizer's blocks of lines, without prefix; the program's own output is skipped."""
    block: list[str] = []
    for line in text.splitlines():
        if not line.startswith(_PREFIX):
            continue
        body = line.removeprefix(_PREFIX)
        if body.strip():
            # A line that is not indented starts a finding, even without a blank line before it.
            if block and not body.startswith("  "):
                yield block
                block = []
            block.append(body.strip())
        elif block:
            yield block
            block = []
    if block:
        yield block


def parse(tool: Tool, text: str) -> list[Finding]:
    """The findings in the sanitizer's text output, in order, with equal ones merged.

    Blocks that name no kernel (a failed driver call that only follows from a crash, a
    copy by the host) are left out: they are not the kernel's own mistake.
    """
    merged: dict[tuple[object, ...], Finding] = {}
    for block in blocks(text):
        finding = _finding(tool, block)
        if finding is None:
            continue
        key = (finding.message, finding.places)
        if key in merged:
            old = merged[key]
            merged[key] = msgspec.structs.replace(old, count=old.count + finding.count)
        else:
            merged[key] = finding
    return list(merged.values())


def _finding(tool: Tool, block: list[str]) -> Finding | None:
    head = block[0]
    places: list[Place] = []
    details: list[str] = []
    count = 0
    thread: tuple[int, int, int] | None = None
    where: tuple[int, int, int] | None = None
    message = head
    if tool == "racecheck":
        # The first access is on the heading line: "Error: Race reported between Write
        # access at kernel+0xc0 in file.cu:9".
        message, _, _ = head.partition(" between ")
    for line in block:
        if line.startswith(("Saved host backtrace", "Host Frame")):
            break
        for part in (line.partition(" between ")[2], line.removeprefix("and ")):
            match = _PLACE.search(part) if " access at " in part else _PLACE.match(part)
            if match:
                places.append(_place(match))
                count += int((match["hazards"] or "0").replace(",", ""))
                break
        else:
            if match := _THREAD.search(line):
                x, y, z, bx, by, bz = (int(number) for number in match.groups())
                thread, where = (x, y, z), (bx, by, bz)
            elif line is not head and not line.startswith("Device Frame"):
                details.append(line)
    if not places:
        return None
    return Finding(
        tool=tool,
        message=re.sub(r"^(Error|Warning|Info): ", "", message),
        places=tuple(places),
        count=max(1, count),
        thread=thread,
        block=where,
        details=tuple(details),
    )


def _place(match: re.Match[str]) -> Place:
    return Place(
        kernel=match["kernel"].strip(),
        file=match["file"] or "",
        line=int(match["line"] or 0),
        access=match["access"] or "",
    )


def reported(text: str) -> int | None:
    """The number of errors or hazards that the sanitizer's last line gives; None: no such line."""
    numbers = _SUMMARY.findall(text)
    return int(numbers[-1]) if numbers else None


def own(findings: Sequence[Finding], kernels: Iterable[str]) -> list[Finding]:
    """Findings in the version's own kernels; those in libraries are not judged."""
    names = set(kernels)
    return [
        finding
        for finding in findings
        if any(_base(place.kernel) in names for place in finding.places)
    ]


def _base(kernel: str) -> str:
    """``void ns::sgemm<float>(float *)`` -> ``sgemm``."""
    name = kernel.partition("(")[0].partition("<")[0]
    return name.split()[-1].rpartition("::")[2] if name.strip() else name


def describe(finding: Finding, texts: Mapping[str, str]) -> list[str]:
    """Describe a finding in lines: kind, count, place and source text (`texts`: path -> text)."""
    times = f" ({finding.count:,} times)" if finding.count > 1 else ""
    lines = [f"{finding.tool}: {finding.message}{times}"]
    for place in finding.places:
        path = _path(place.file, texts)
        at = f"{path or place.file}:{place.line}" if place.line else "an unknown line"
        access = f"{place.access} " if place.access else ""
        lines.append(f"  {access}at {at} in {_base(place.kernel)}")
        source = texts.get(path, "").splitlines() if path else []
        if 0 < place.line <= len(source):
            lines.append(f"    {source[place.line - 1].strip()}")
    if finding.thread is not None:
        lines.append(f"  first by thread {finding.thread} of block {finding.block}")
    lines += [f"  {line}" for line in finding.details[:2]]
    return lines


def _path(file: str, texts: Mapping[str, str]) -> str:
    """The version's file that the sanitizer names; the sanitizer strips folders from paths."""
    if not file:
        return ""
    return next(
        (path for path in texts if PurePosixPath(path).name == PurePosixPath(file).name), ""
    )


def arguments(path: str, tool: Tool) -> tuple[str, ...]:
    """The sanitizer's command line, up to the program that it checks.

    Host backtraces are left out: they show PyCUDA and Python, not the kernel. All
    findings are printed (its default stops at 100), so that counts are true.
    """
    words = [path, "--tool", tool, "--error-exitcode", str(FOUND)]
    words += ["--show-backtrace", "no", "--print-limit", "0", "--check-exit-code", "no"]
    if tool == "memcheck":
        # A driver call that fails after a crash is a consequence, not a finding.
        words += ["--report-api-errors", "no"]
    if tool == "initcheck":
        # A host copy of memory that a kernel left unwritten is judged by `verify`.
        words += ["--check-api-memory-access", "no"]
    return tuple(words)


def judge(tool: Tool, text: str, code: int, kernels: Iterable[str]) -> list[Finding]:
    """The findings of one run.

    Raises:
        MissingError: the sanitizer did not reach its summary; its own words are quoted.
        KernelError: it counted errors, none of which names a kernel of the version.
    """
    total = reported(text)
    if total is None:
        tail = "".join(f"\n  {line}" for line in text.splitlines()[-6:])
        raise MissingError(
            f"compute-sanitizer --tool {tool} ended with exit code {code} and without a "
            f"summary{tail}",
            "`compute-sanitizer --version` should work here, and the driver must be of the "
            "same CUDA release or newer. `workbench verify` without --sanitize does not need it.",
        )
    findings = parse(tool, text)
    if total and not findings:
        raise KernelError(
            f"compute-sanitizer --tool {tool} counted {total} errors without naming a kernel",
            "Run the version under compute-sanitizer by hand to see them.",
        )
    return own(findings, kernels)
