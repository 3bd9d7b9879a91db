"""What compilers say: resources of kernels, warnings, errors at the file's own line."""

from __future__ import annotations

import posixpath
import re

from workbench.errors import KernelError
from workbench.model import KernelResources, Record, SourceFile

_ENTRY = re.compile(r"Compiling entry function '(\S+)' for")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")
_DIAGNOSTIC = re.compile(
    # The device front end writes file(line), the host preprocessor file:line:column.
    r"^(?P<path>[^\s(:][^(:\n]*)(?:\((?P<line>\d+)\)|:(?P<host_line>\d+):\d+): "
    r"(?P<kind>(?:catastrophic |fatal )?error|warning)[^:\n]*: (?P<text>.*)$",
    re.MULTILINE,
)
#: Triton calls its own by another name: ptxas-blackwell.
_PTXAS_INFO = re.compile(r"^ptxas(?:-\w+)? (?:info|\s+\.)|^\s+\d+ bytes stack frame")
_SUMMARY = re.compile(r"^\d+ (?:catastrophic )?errors? detected|^Compilation terminated|^Remark:")
#: Errors shown in full; one mistake can cause hundreds.
_SHOWN = 5


class Diagnostic(Record, frozen=True):
    """One error or warning of the compiler, at a line of the file it names."""

    path: str
    line: int
    kind: str
    text: str


def resources(log: str) -> tuple[KernelResources, ...]:
    """What ``ptxas -v`` reports of each kernel, in its order.

    Sizes in bytes. `constant` sums the banks; from compute capability 9.0 on, this
    ptxas no longer counts the parameters among them and often names none.
    """
    found: dict[str, KernelResources] = {}
    kernel = function = ""
    frame = (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            kernel = match[1]
            frame = (0, 0, 0)
        elif match := _FUNCTION.search(line):
            function = match[1]
        elif match := _STACK.search(line):
            # A function that was not inlined has a frame of its own; not the kernel's.
            if function == kernel:
                frame = (int(match[1]), int(match[2]), int(match[3]))
        elif (match := _USED.search(line)) and kernel:
            shared = _SHARED.search(line)
            found[kernel] = KernelResources(
                name=kernel,
                registers=int(match[1]),
                static_shared=int(shared[1]) if shared else 0,
                constant=sum(int(size) for size in _CONSTANT.findall(line)),
                stack=frame[0],
                spill_stores=frame[1],
                spill_loads=frame[2],
            )
    return tuple(found.values())


def diagnostics(log: str) -> list[Diagnostic]:
    """Every error and warning that names a file and a line."""
    return [
        Diagnostic(
            path=posixpath.normpath(match["path"]),
            line=int(match["line"] or match["host_line"]),
            kind=match["kind"],
            text=match["text"],
        )
        for match in _DIAGNOSTIC.finditer(log)
    ]


def warnings(log: str) -> str:
    """The log without the resource report: what a reader should see of a good build."""
    kept = [
        line.rstrip()
        for line in log.splitlines()
        if line.strip() and not _PTXAS_INFO.match(line) and not _SUMMARY.match(line)
    ]
    return "\n".join(kept)


def _quoted(diagnostic: Diagnostic, texts: dict[str, list[str]]) -> str:
    head = f"{diagnostic.path}:{diagnostic.line}: {diagnostic.kind}: {diagnostic.text}"
    lines = texts.get(diagnostic.path, [])
    if not 1 <= diagnostic.line <= len(lines):
        return head
    return f"{head}\n  {diagnostic.line:>5} | {lines[diagnostic.line - 1].rstrip()}"


def compile_error(
    path: str, log: str, sources: tuple[SourceFile, ...], compiler: str, arch: str
) -> KernelError:
    """The compiler's errors with the lines they stand on, as a KernelError."""
    texts = {each.path: (each.text or "").split("\n") for each in sources}
    errors = [each for each in diagnostics(log) if each.kind.endswith("error")]
    shown = [_quoted(each, texts) for each in errors[:_SHOWN]]
    if len(errors) > _SHOWN:
        more = len(errors) - _SHOWN
        shown.append(f"… and {more} more error{'s' if more > 1 else ''}")
    if not shown:
        # The assembler and the driver of the compiler name no line; their words stand alone.
        said = warnings(log).splitlines()
        failures = [line for line in said if "error" in line.lower() or "fatal" in line.lower()]
        shown = (failures or said)[:_SHOWN] or ["the compiler failed without a message"]
    return KernelError(
        f"{path} does not compile for {arch} ({compiler})\n" + "\n".join(shown),
        "Correct the source and run the command again.",
    )
