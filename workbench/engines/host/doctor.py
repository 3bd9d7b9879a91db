"""List this machine's abilities, row by row, for `workbench doctor`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from workbench.compile import compilers
from workbench.disk.limits import MIB, ByteLimit, read_regular
from workbench.engines.host import presence
from workbench.engines.ncu.faults import Explained, explain, fitting, permission
from workbench.errors import DataError, MissingError, WorkbenchError
from workbench.model import Record
from workbench.processes.starting import answered
from workbench.project import Project
from workbench.store import Store

State = Literal["ok", "missing", "limited"]


class Equipment(Record, frozen=True, kw_only=False):
    """One tool or device, present or not.

    `what`: ``GPU``, ``ncu``, …. `state`: ``limited`` if it is here but cannot do everything.
    `detail`: name, version, path; or the problem. `remedy`: how to get it; empty if it is here.
    `without`: the abilities left without it.
    """

    what: str
    state: State
    detail: str
    remedy: str = ""
    without: str = ""


#: Python packages that are not installed.
_PYCUDA = Equipment(
    "PyCUDA",
    "missing",
    "not installed",
    remedy=f"{presence.INSTALL_PYCUDA} (compiled against the CUDA toolkit).",
    without=presence.WITHOUT_GPU,
)
_NVML = Equipment(
    "NVML",
    "limited",
    "the package nvidia-ml-py is not installed",
    remedy="pip install nvidia-ml-py",
    without="time, but without clocks, power and temperature.",
)
_TORCH = Equipment(
    "PyTorch",
    "limited",
    "not installed",
    remedy="pip install torch",
    without="Everything but the library baselines (cuBLAS, cuDNN).",
)


def survey(project: Project | None) -> list[Equipment]:
    """All rows, in the order in which a measurement needs their tools."""
    looks: tuple[Callable[[], Iterator[Equipment]], ...] = (
        _gpu,
        lambda: _package(_PYCUDA, "pycuda", "pycuda"),
        _compiler,
        _ncu,
        _counters,
        _sanitizer,
        lambda: _package(_NVML, "nvidia-ml-py", "pynvml", "nvidia-ml-py "),
        lambda: _package(_TORCH, "torch", "torch"),
        lambda: _store(project),
    )
    return [each for look in looks for each in look()]


_LOGS = ByteLimit("logs of ncu", 64 * MIB)


def read_log(path: Path) -> list[Explained]:
    """Explain the errors in a log from ncu; DataError: it cannot be read, or is not a log."""
    try:
        data = read_regular(path, _LOGS)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", "Check the path.") from error
    return explain(data.decode("utf-8", "replace"))


def fits() -> list[str]:
    """State whether this machine's ncu, chip and driver fit together; empty if one is missing."""
    found, _ = presence.find_gpus()
    try:
        version = _version_of(presence.need_ncu())
    except MissingError:
        return []
    if not found or version is None:
        return []
    capability = ".".join(map(str, found[0].compute_capability))
    return [f"here: {line}" for line in fitting(version, capability, found[0].driver)]


def _gpu() -> Iterator[Equipment]:
    found, why = presence.find_gpus()
    if not found:
        yield Equipment(
            "GPU",
            "missing",
            why,
            remedy="Use a machine with an NVIDIA GPU and its driver, or --launcher to reach one.",
            without=presence.WITHOUT_GPU,
        )
        return
    for gpu in found:
        major, minor = gpu.compute_capability
        yield Equipment(
            "GPU", "ok", f"{gpu.name}, compute capability {major}.{minor}, driver {gpu.driver}"
        )


def _package(absent: Equipment, name: str, module: str, prefix: str = "") -> Iterator[Equipment]:
    """A Python package by its distribution's name; `absent` if it is not installed."""
    if importlib.util.find_spec(module) is None:
        yield absent
        return
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = "of unknown version"
    yield Equipment(absent.what, "ok", f"{prefix}{version}")


def _compiler() -> Iterator[Equipment]:
    try:
        tool = compilers.choose()
    except WorkbenchError as error:
        lacks = "show, diff, list and report on recorded profiles and on any .ncu-rep file."
        yield Equipment("compiler", "missing", error.message, remedy=error.hint, without=lacks)
        yield Equipment(
            "emulator",
            "limited",
            "without a compiler it runs only the PTX that a recorded profile holds",
            remedy="A compiler, as above.",
            without=lacks,
        )
        return
    yield Equipment("compiler", "ok", f"{tool.name} {tool.version}")
    yield Equipment("emulator", "ok", "verify and profile need no GPU")


def _version_of(tool: str) -> str | None:
    """The version that a tool prints; None if it cannot be run."""
    try:
        said = answered(tool, "--version")
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"[Vv]ersion\s+([\d.]+)", said.stdout + said.stderr)
    return match.group(1) if match else None


def _tool(what: str, need: Callable[[], str], without: str, get: str) -> Iterator[Equipment]:
    try:
        path = need()
    except MissingError as error:
        yield Equipment(what, "missing", error.message, remedy=get, without=without)
        return
    version = _version_of(path)
    if version is None:
        yield Equipment(
            what,
            "limited",
            f"{path} does not print a version",
            remedy="Run it by hand to see why; it may wrap a tool that is not installed.",
            without=without,
        )
    else:
        yield Equipment(what, "ok", f"{version} ({path})")


def _ncu() -> Iterator[Equipment]:
    return _tool(
        "ncu",
        presence.need_ncu,
        "verify and time; and all commands on recorded profiles.",
        "It comes with the CUDA toolkit; put it on PATH or name it in WORKBENCH_NCU.",
    )


def _counters() -> Iterator[Equipment]:
    locked = presence.counters_locked()
    if locked is None:
        yield Equipment(
            "counters", "missing", "no NVIDIA driver is here", without=presence.WITHOUT_GPU
        )
    elif locked:
        error = permission()
        yield Equipment(
            "counters", "limited", error.message, remedy=error.hint, without="verify and time."
        )
    else:
        yield Equipment("counters", "ok", "this user may read them")


def _sanitizer() -> Iterator[Equipment]:
    return _tool(
        "compute-sanitizer",
        presence.need_sanitizer,
        "verify without --sanitize.",
        "It comes with the CUDA toolkit; put it on PATH or name it in WORKBENCH_SANITIZER.",
    )


def _store(project: Project | None) -> Iterator[Equipment]:
    if project is None:
        yield Equipment(
            "project",
            "limited",
            "no project at or above this folder",
            remedy="workbench init",
            without="show, diff and report on .ncu-rep files.",
        )
        return
    store = Store.of(project)
    entries = store.find()
    bad = []
    for entry in entries:
        try:
            store.load(entry.path)
        except WorkbenchError as error:
            bad.append(error.message)
    if bad:
        yield Equipment(
            "profiles",
            "limited",
            f"{len(bad)} of {len(entries)} cannot be read; the first: {bad[0]}",
            remedy="Restore them from version control, or record them again.",
            without="Everything on the others.",
        )
    else:
        devices = sorted({entry.device for entry in entries})
        detail = f"{len(entries)} recorded"
        if devices:
            detail = f"{len(entries)} recorded on {', '.join(devices)}"
        yield Equipment("profiles", "ok", detail)
