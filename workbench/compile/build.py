"""Compile a version to a cubin once, and cache the result by content.

An entry of the cache (``$XDG_CACHE_HOME/workbench/build/<key>/``) is written beside
its place and renamed into it, so a reader sees a whole entry or none. Its key covers everything
that decides the outcome: the sources with their project paths, flags, defines, architecture and the
compiler's version. An entry that does not match its own checksums is rebuilt.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import posixpath
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from workbench.compile import compilers
from workbench.compile.compilers import Triton
from workbench.compile.image import architecture, load_image
from workbench.errors import (
    KernelError,
    MissingError,
    UnfitError,
    UsageError,
    WorkbenchError,
    did_you_mean,
)
from workbench.gpus import shared_per_block
from workbench.model import Build, KernelResources, Record, SourceFile
from workbench.processes.bounds import Deadline
from workbench.project import Project, cache_folder
from workbench.specs import Version
from workbench.study.flags import shell_safe
from workbench.study.frontmatter import place
from workbench.study.lifted import FOLDER, read_lifted
from workbench.study.mangling import entries, own_name, written
from workbench.study.signatures import entry_text, shared_arrays
from workbench.study.sources import include_folders, local_sources

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
#: Triton's own copy has another name: ptxas-blackwell.
_PTXAS_INFO = re.compile(
    r"^ptxas(?:-\w+)? (?:info(?!\s*: \(C\d+\))|\s+\.)|^\s+\d+ bytes stack frame"
)
#: ptxas's remarks on a kernel's speed: ``(C7511) Potential Performance Loss: … '_Z3twoPf'``.
_REMARK = re.compile(
    r"^ptxas.*: \((C\d+)\) (.*?)(?: in (?:the )?function '(\S+)')?\s*$", re.MULTILINE
)
#: A shared array of a kernel in PTX.
_DECLARED = re.compile(r"\.shared .*\.b8 \S+\[(\d+)\]")
_SUMMARY = re.compile(r"^\d+ (?:catastrophic )?errors? detected|^Compilation terminated|^Remark:")
#: The number of errors shown in full; one mistake can cause hundreds.
_SHOWN = 5


class Diagnostic(Record, frozen=True):
    """One error or warning of the compiler, at a line of the file it names."""

    path: str
    line: int
    kind: str
    text: str


def resources(log: str) -> tuple[KernelResources, ...]:
    """Return the resources that ``ptxas -v`` reports for each kernel, in its order.

    Sizes are in bytes. `constant` sums the banks; from compute capability 9.0 on, ptxas no longer
    includes the parameters in them and often names no bank.
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
            # A function that was not inlined has its own frame, which is not the kernel's.
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
    """The log without the resource report: the lines to show for a successful build."""
    kept = [
        line.rstrip()
        for line in log.splitlines()
        if line.strip() and not _PTXAS_INFO.match(line) and not _SUMMARY.match(line)
    ]
    return "\n".join(kept)


def remarks(made: Build, kernels: Collection[str]) -> Iterator[str]:
    """Yield ptxas's changes to a build's kernels about which their author should know."""
    for each in (each for each in made.resources if each.name in kernels):
        name, body = own_name(each.name), entry_text(made.ptx, each.name)
        if each.spill_stores or each.spill_loads:
            yield (
                f"{name}: ptxas spills registers to local memory: {each.spill_stores:,} bytes "
                f"stored and {each.spill_loads:,} loaded per thread."
            )
        shared = each.static_shared - sum(map(int, _DECLARED.findall(body)))
        if shared > 0 and "enable_smem_spilling" in body:
            yield f"{name}: ptxas spills registers to shared memory: {shared:,} bytes per block."
    for code, words, symbol in dict.fromkeys(_REMARK.findall(made.log)):
        if not symbol or symbol in kernels:
            yield f"{own_name(symbol or next(iter(kernels)))}: {words} (ptxas, {code})."


def _quoted(diagnostic: Diagnostic, texts: dict[str, list[str]]) -> str:
    head = f"{diagnostic.path}:{diagnostic.line}: {diagnostic.kind}: {diagnostic.text}"
    lines = texts.get(diagnostic.path, [])
    if not 1 <= diagnostic.line <= len(lines):
        return head
    return f"{head}\n  {diagnostic.line:>5} | {lines[diagnostic.line - 1].rstrip()}"


def compile_error(
    path: str, log: str, sources: tuple[SourceFile, ...], compiler: str, arch: str
) -> KernelError:
    """The compiler's errors with their source lines, as a KernelError."""
    texts = {each.path: (each.text or "").split("\n") for each in sources}
    errors = [each for each in diagnostics(log) if each.kind.endswith("error")]
    shown = [_quoted(each, texts) for each in errors[:_SHOWN]]
    if len(errors) > _SHOWN:
        more = len(errors) - _SHOWN
        shown.append(f"… and {more} more error{'s' if more > 1 else ''}")
    if not shown:
        # The assembler and the compiler driver name no line; their messages are shown alone.
        said = warnings(log).splitlines()
        failures = [line for line in said if "error" in line.lower() or "fatal" in line.lower()]
        shown = (failures or said)[:_SHOWN] or ["the compiler failed without a message"]
        if over := _TOO_MUCH.search("\n".join(failures)):
            return _too_much(path, over, texts.get(path, []), arch)
    hint = "Correct the source and run the command again."
    if gone := _GONE.search(log):
        hint = (
            f"CUDA 9 removed {gone[1]}: write {gone[1]}_sync(0xffffffff, …), which names the "
            "lanes that take part."
        )
    if compiler.startswith("nvrtc") and "<<<" in "\n".join(texts.get(path, ())):
        hint = (
            "The file has host code, which NVRTC does not compile: install nvcc (`workbench "
            "doctor` says how), or keep only the kernels."
        )
    return KernelError(
        f"{path} does not compile for {arch} ({compiler})\n" + "\n".join(shown), hint
    )


#: A compiler's message about warp functions from before CUDA 9.
_GONE = re.compile(r'"(__(?:shfl(?:_up|_down|_xor)?|ballot|any|all))" is undefined')
#: ptxas's message about more shared memory than a block may declare, in hexadecimal.
_TOO_MUCH = re.compile(
    r"Entry function '(\w+)' uses too much shared data \(0x([0-9a-f]+) bytes, 0x([0-9a-f]+) max"
)


def _too_much(path: str, over: re.Match[str], lines: list[str], arch: str) -> UnfitError:
    """Too much shared memory for a block: the size, the array, the line."""
    declared, most = int(over[2], 16), int(over[3], 16)
    arrays = shared_arrays("\n".join(lines), {})
    sizes = [(width * math.prod(shape), name) for name, (width, shape) in arrays.items()]
    size, name = max(sizes, default=(0, ""))
    array = re.compile(rf"__shared__.*\b{name}\b")
    number = next((at for at, text in enumerate(lines, 1) if size and array.search(text)), 0)
    dynamic = shared_per_block(arch)
    hint = "Declare a smaller array."
    if dynamic:
        hint = (
            f"Declare a smaller array; up to {dynamic:,} are allowed as dynamic shared memory: "
            f"`extern __shared__ float {name or 'tile'}[];` in the kernel, and `dynamic_shared` "
            "bytes in [[launch]]."
        )
    return UnfitError(
        f"{path}{f':{number}' * bool(number)}: {declared:,} bytes of shared memory are declared"
        f"{f' ({name}: {size:,})' * bool(size)}, and {most:,} are allowed",
        hint,
    )


Compiler = compilers.Nvcc | compilers.Nvrtc | Triton

#: ``-lineinfo`` links counters to lines. Nothing here changes results: fast math is
#: a version's own decision, in its `flags`.
DEFAULT_FLAGS = ("-O3", "-std=c++17", "-lineinfo")
_FORMAT = 3
_MTIME = 946_684_800  # 2000-01-01
_CUBIN = "kernel.cubin"
_RECORD = "build.json"
_ARCH = re.compile(r"sm_\d{2,3}[af]?\Z")
_BAD_ARCH = re.compile(
    r"unsupported gpu architecture|not defined for option 'gpu-arch|"
    r"invalid value for --gpu-architecture",
    re.IGNORECASE,
)
_BAD_FLAG = re.compile(
    r"nvcc fatal\s*:\s*(?:unknown option|.*argument|redefinition|.*option).*|"
    r"nvrtc: error: (?:invalid|unrecognized|.*option).*",
    re.IGNORECASE,
)
_NO_HOST = re.compile(
    r"(?:nvcc fatal|sh: ).*(?:host compiler|cl\.exe|gcc|g\+\+|'c\+\+').*", re.IGNORECASE
)


class BuildResult(Record, frozen=True):
    """A built version.

    `cubin` is the file to load; it stays in the cache. `sources` are its inputs, with project
    paths. `cached`: it was in the cache already.
    """

    cubin: Path
    build: Build
    sources: tuple[SourceFile, ...]
    cached: bool


class _Kept(Record, frozen=True):
    cubin_sha256: str
    build: Build


#: Made here and not by the first thread that compiles: msgspec crashes if two threads use a type
#: for the first time at once.
_ENTRIES = msgspec.json.Decoder(_Kept)


def effective_flags(version: Version) -> tuple[str, ...]:
    """The flags with which a version is compiled: defaults, its own, its defines."""
    if version.kind == "triton":
        return tuple(f"{name}={value}" for name, value in version.defines.items())
    own_standard = any(flag.startswith(("-std", "--std")) for flag in version.flags)
    defaults = [flag for flag in DEFAULT_FLAGS if not (own_standard and flag.startswith("-std"))]
    defines = [f"-D{name}={value}" for name, value in version.defines.items()]
    return (*defaults, *version.flags, *defines)


def target(version: Version, arch: str) -> str:
    """Return the target of a version on a chip: ``sm_90a`` for an ``arch_specific`` one."""
    return f"{arch}a" if version.arch_specific and arch[-1] not in "af" else arch


def build(
    project: Project,
    version: Version,
    arch: str,
    *,
    compiler: Literal["auto", "nvcc", "nvrtc"] = "auto",
    limit: Deadline = Deadline(),  # noqa: B008 - frozen
) -> BuildResult:
    """Compile a version for one architecture, or find it in the cache.

    `project` is the root of the paths in line tables. `arch` is ``sm_90``; the suffixes
    ``a`` and ``f`` are passed on. For CUDA C++ the `compiler` ``auto`` is nvcc if installed, else
    NVRTC. `limit`: when to stop it.

    Raises:
        KernelError: it does not compile (the compiler's message at the file's line), or takes more
            time or memory than allowed.
        MissingError: no compiler, or no place to keep the result.
        UsageError: an architecture or a flag that the compiler does not know, or a version that
            brings no kernel of its own.
    """
    if version.kind == "python":
        raise UsageError(
            f"{version.path}: a Python version is not compiled", "It builds its own kernels."
        )
    if version.image:
        return _of_image(project, version)
    if not _ARCH.match(arch):
        raise UsageError(f"`{arch}` is not an architecture", "Write it like sm_90 or sm_90a.")
    if not shell_safe(version.path) or '"' in version.path:
        raise UsageError(
            f"{version.path!r}: the name contains a character that a shell may interpret",
            "nvcc passes it to a shell: name folder and file without $, quotes and backslashes.",
        )
    arch = target(version, arch)
    closed_to = project.root if project.closed else None
    # A kernel in Python is a program: its author may read any file anyway.
    python = version.kind == "triton"
    tool = Triton(version) if python else compilers.choose(compiler, closed_to)
    sources = local_sources(project, version)
    flags = effective_flags(version)
    folder = cache_folder("build") / _key(tool.identity, arch, flags, sources)
    entry = _read(folder)
    cached = entry is not None
    if entry is None:
        entry = _keep(folder, *_compile(tool, version, arch, flags, sources, limit.begun()))
    _check_defines(version, entry.build)
    _check_kernels(version, entry.build)
    return BuildResult(cubin=folder / _CUBIN, build=entry.build, sources=sources, cached=cached)


def _of_image(project: Project, version: Version) -> BuildResult:
    """The machine code of a lifted launch, in a place where drivers and profilers find it."""
    image = load_image(project, version)
    made = hashlib.sha256(image.cubin + msgspec.json.encode(image.build)).hexdigest()
    folder = cache_folder("build") / _key(["image"], image.build.arch, (made,), ())
    entry = _read(folder)
    cached = entry is not None
    if not cached:
        _keep(folder, image.cubin, image.build)
    return BuildResult(
        cubin=folder / _CUBIN,
        build=image.build,
        sources=local_sources(project, version),
        cached=cached,
    )


def _key(
    identity: list[str], arch: str, flags: tuple[str, ...], sources: tuple[SourceFile, ...]
) -> str:
    content = [_FORMAT, identity, arch, flags, [[each.path, each.sha256] for each in sources]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _compile(
    tool: Compiler,
    version: Version,
    arch: str,
    flags: tuple[str, ...],
    sources: tuple[SourceFile, ...],
    limit: Deadline,
) -> tuple[bytes, Build]:
    name = f"{tool.name} {tool.version}"
    try:
        with tempfile.TemporaryDirectory(prefix="wb") as temporary:
            folder = Path(temporary)
            for each in include_folders(flags):  # `-Ia` and `"../b.h"`: a must exist
                (folder / each).mkdir(parents=True, exist_ok=True)
            for source in sources:
                target = folder / source.path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((source.text or "").encode("utf-8"))
                # Line tables hold the file's time: with a fixed one, equal sources
                # give equal cubins, on any day and machine.
                os.utime(target, (_MTIME, _MTIME))
            output = tool.compile(folder, version.path, arch, flags, limit)
    except compilers.StoppedError as error:
        raise KernelError(
            f"{version.path} does not compile for {arch} ({name}): it {error.took}", error.hint
        ) from None
    except OSError as error:
        raise MissingError(
            f"cannot compile in {tempfile.gettempdir()}: {error.strerror or error}",
            "Free some space there, or set TMPDIR to another folder.",
        ) from error
    if output.failed:
        _refuse_options(tool, version, arch, output.log)
        raise compile_error(version.path, output.log, sources, name, arch)
    return output.cubin, Build(
        compiler=name,
        arch=arch,
        flags=flags,
        resources=tuple(
            msgspec.structs.replace(each, implied_shared=output.shared, implied_args=output.args)
            for each in resources(output.log)
        ),
        ptx=output.ptx,
        log=warnings(output.log),
    )


def _refuse_options(tool: Compiler, version: Version, arch: str, log: str) -> None:
    """Distinguish a wrong option from wrong code: it is not the kernel's fault."""
    if _BAD_ARCH.search(log):
        known = tool.architectures()
        raise UsageError(
            f"{tool.name} {tool.version} does not compile for {arch}",
            f"It knows {', '.join(known)}." if known else "Choose another architecture.",
        )
    if match := _NO_HOST.search(log):
        raise MissingError(
            f"nvcc needs a host C++ compiler: {match[0].strip()}", "Install one (apt install g++)."
        )
    if match := _BAD_FLAG.search(log):
        raise UsageError(
            f"{place(version, 'flags')}: {match[0].strip()}",
            f"Correct `flags`; {tool.name} {tool.version} was called with "
            f"{' '.join(effective_flags(version))}.",
        )


def _check_defines(version: Version, made: Build) -> None:
    """Refuse a define that the source redefines to another value: it has no effect."""
    for name in version.defines:
        if re.search(rf'redefinition of macro "{name}"|"{name}" redefined', made.log):
            raise UsageError(
                f"{place(version, f'defines.{name}')}: the source defines {name} itself, and that "
                "value applies",
                f"Write `#ifndef {name}` before that line and `#endif` after it.",
            )


def _check_kernels(version: Version, made: Build) -> None:
    names = [each.name for each in made.resources]
    for index, launch in enumerate(version.launches):
        found = entries(launch.kernel, names)
        if len(found) == 1:
            continue
        where = f"{place(version, f'launch[{index}].kernel')}: the compiled code has"
        base, bracket, _ = launch.kernel.partition("<")
        kinds = sorted(f'"{written(name)}"' for name in found or entries(base, names))
        if found:
            raise KernelError(
                f"{where} {len(found)} kernels `{launch.kernel}`",
                f"Say which one: kernel = {' or '.join(kinds)}.",
            )
        if bracket or re.search(rf"\btemplate\b[^;{{}}]*\b{re.escape(base)}\s*\(", version.text):
            example = launch.kernel if bracket else f"{base}<float>"
            hint = (
                f"A template is compiled for the types that the file asks for: after it, add "
                f"`template __global__ void {example}(...);` with the types of its parameters, "
                f'and write kernel = "{example}".'
            )
            if len(kinds) == 1:  # arguments may be defines, whose values differ within a tuning
                hint += f' Only {kinds[0]} is compiled: select it with kernel = "{base}".'
            elif kinds:
                hint += f" Compiled: {', '.join(kinds)}."
        elif names:
            hint = did_you_mean(launch.kernel, names, "kernels")
        else:
            hint = (
                "Nothing in the file is compiled to a kernel. If one is only declared, as in a "
                "study of a report without source, write its body."
            )
        raise KernelError(f"{where} no kernel `{launch.kernel}`", hint)


def _read(folder: Path) -> _Kept | None:
    """The entry in a folder, or None if it is missing or damaged."""
    try:
        checksum, _, record = (folder / _RECORD).read_bytes().partition(b"\n")
        if hashlib.sha256(record).hexdigest().encode() != checksum:
            return None
        entry = _ENTRIES.decode(record)
        cubin = (folder / _CUBIN).read_bytes()
    except (OSError, msgspec.DecodeError):
        return None
    return entry if hashlib.sha256(cubin).hexdigest() == entry.cubin_sha256 else None


def _keep(folder: Path, cubin: bytes, made: Build) -> _Kept:
    """Put an entry into the cache; another process may do the same at the same time."""
    entry = _Kept(cubin_sha256=hashlib.sha256(cubin).hexdigest(), build=made)
    record = msgspec.json.encode(entry)
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        (temporary / _CUBIN).write_bytes(cubin)
        checksum = hashlib.sha256(record).hexdigest().encode()
        (temporary / _RECORD).write_bytes(checksum + b"\n" + record)
        _rename(temporary, folder)
    except OSError as error:
        raise MissingError(
            f"cannot keep the build in {folder.parent}: {error.strerror or error}",
            "Free some space there, or set XDG_CACHE_HOME to a folder that can be written.",
        ) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return entry


def _rename(temporary: Path, folder: Path) -> None:
    for _ in range(8):
        with contextlib.suppress(OSError):
            temporary.rename(folder)
            return
        if _read(folder) is not None:
            return  # the other process was first, with the same result
        # A damaged entry is moved away in one step, so that no reader finds half of it.
        trash = Path(tempfile.mkdtemp(prefix=".old-", dir=folder.parent))
        with contextlib.suppress(OSError):
            folder.rename(trash / "entry")
        shutil.rmtree(trash, ignore_errors=True)
    temporary.rename(folder)


def compiles(project: Project, version: Version) -> str:
    """The reason why a recorded launch's version does not compile here; empty: it compiles."""
    try:
        lifted = read_lifted(project.kernels / version.study / FOLDER)
        build(project, version, architecture(lifted))
    except WorkbenchError as error:
        return f"{error.message}. {error.hint}"
    return ""
