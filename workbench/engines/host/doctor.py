"""What this machine can do, row by row, for `workbench doctor`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Literal

from workbench.engines.host import presence
from workbench.errors import MissingError, WorkbenchError
from workbench.model import Record
from workbench.project import Project

State = Literal["ok", "missing", "limited"]


class Finding(Record, frozen=True):
    """One thing that is here, or is not.

    Attributes:
        what: ``GPU``, ``ncu``, …
        state: ``limited`` where it is here but cannot do all.
        detail: Name, version, path; or what is wrong.
        remedy: How to get it; empty where it is here.
        without: What works without it.
    """

    what: str
    state: State
    detail: str
    remedy: str = ""
    without: str = ""


def survey(project: Project | None) -> list[Finding]:
    """All rows, in the order in which a measurement needs them."""
    steps: tuple[Callable[[], Iterator[Finding]], ...] = (
        _gpu,
        _pycuda,
        _compiler,
        _ncu,
        _counters,
        _sanitizer,
        _nvml,
        _torch,
        lambda: _store(project),
    )
    return [finding for step in steps for finding in step()]


def _gpu() -> Iterator[Finding]:
    found, why = presence.find_gpus()
    if not found:
        yield Finding(
            what="GPU",
            state="missing",
            detail=why,
            remedy="Use a machine with an NVIDIA GPU and its driver, or --launcher to reach one.",
            without=presence.WITHOUT_GPU,
        )
        return
    for gpu in found:
        major, minor = gpu.compute_capability
        yield Finding(
            what="GPU",
            state="ok",
            detail=f"{gpu.name}, compute capability {major}.{minor}, driver {gpu.driver}",
        )


def _package(name: str, module: str) -> str | None:
    """Version of an installed package; None where its module cannot be found."""
    if importlib.util.find_spec(module) is None:
        return None
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _pycuda() -> Iterator[Finding]:
    version = _package("pycuda", "pycuda")
    if version is None:
        yield Finding(
            what="PyCUDA",
            state="missing",
            detail="not installed",
            remedy=f"{presence.INSTALL_PYCUDA} (compiled against the CUDA toolkit).",
            without=presence.WITHOUT_GPU,
        )
    else:
        yield Finding(what="PyCUDA", state="ok", detail=version)


def _compiler() -> Iterator[Finding]:
    from workbench.compile.compilers import choose

    try:
        tool = choose()
    except WorkbenchError as error:
        lacks = "show, diff, list and report on recorded profiles and on any .ncu-rep file."
        yield Finding(
            what="compiler",
            state="missing",
            detail=error.message,
            remedy=error.hint,
            without=lacks,
        )
        yield Finding(
            what="emulator",
            state="limited",
            detail="without a compiler it runs only the PTX that a recorded profile holds",
            remedy="A compiler, as above.",
            without=lacks,
        )
        return
    yield Finding(what="compiler", state="ok", detail=f"{tool.name} {tool.version}")
    yield Finding(what="emulator", state="ok", detail="verify and profile need no GPU")


def _version_of(program: str, pattern: str) -> str | None:
    """The version that a program prints; None where it cannot be run."""
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(pattern, answer.stdout + answer.stderr)
    return match.group(1) if match else None


def _tool(what: str, need: Callable[[], str], without: str, get: str) -> Iterator[Finding]:
    try:
        path = need()
    except MissingError as error:
        yield Finding(what=what, state="missing", detail=error.message, remedy=get, without=without)
        return
    version = _version_of(path, r"[Vv]ersion\s+([\d.]+)")
    if version is None:
        yield Finding(
            what=what,
            state="limited",
            detail=f"{path} does not print a version",
            remedy="Run it by hand to see why; a wrapper script may lack its installation.",
            without=without,
        )
    else:
        yield Finding(what=what, state="ok", detail=f"{version} ({path})")


def _ncu() -> Iterator[Finding]:
    return _tool(
        "ncu",
        presence.need_ncu,
        "verify and time; and all commands on recorded profiles.",
        "It comes with the CUDA toolkit; put it on PATH or name it in WORKBENCH_NCU.",
    )


def _counters() -> Iterator[Finding]:
    locked = presence.counters_locked()
    if locked is None:
        yield Finding(
            what="counters",
            state="missing",
            detail="no NVIDIA driver here to ask",
            without=presence.WITHOUT_GPU,
        )
    elif locked:
        from workbench.engines.ncu.faults import permission

        error = permission()
        yield Finding(
            what="counters",
            state="limited",
            detail=error.message,
            remedy=error.hint,
            without="verify and time.",
        )
    else:
        yield Finding(what="counters", state="ok", detail="this user may read them")


def _sanitizer() -> Iterator[Finding]:
    return _tool(
        "compute-sanitizer",
        presence.need_sanitizer,
        "verify without --sanitize.",
        "It comes with the CUDA toolkit; put it on PATH or name it in WORKBENCH_SANITIZER.",
    )


def _nvml() -> Iterator[Finding]:
    version = _package("nvidia-ml-py", "pynvml")
    if version is None:
        yield Finding(
            what="NVML",
            state="limited",
            detail="the package nvidia-ml-py is not installed",
            remedy="pip install nvidia-ml-py",
            without="time, but without clocks, power and temperature.",
        )
    else:
        yield Finding(what="NVML", state="ok", detail=f"nvidia-ml-py {version}")


def _torch() -> Iterator[Finding]:
    version = _package("torch", "torch")
    if version is None:
        yield Finding(
            what="PyTorch",
            state="limited",
            detail="not installed",
            remedy="pip install torch",
            without="Everything but the library baselines (cuBLAS, cuDNN).",
        )
    else:
        yield Finding(what="PyTorch", state="ok", detail=version)


def _store(project: Project | None) -> Iterator[Finding]:
    if project is None:
        yield Finding(
            what="project",
            state="limited",
            detail="no project at or above this folder",
            remedy="workbench init",
            without="show, diff and report on .ncu-rep files.",
        )
        return
    from workbench.store import Store

    store = Store(project.profiles)
    entries = store.find()
    bad = []
    for entry in entries:
        try:
            store.load(entry.path)
        except WorkbenchError as error:
            bad.append(error.message)
    if bad:
        yield Finding(
            what="profiles",
            state="limited",
            detail=f"{len(bad)} of {len(entries)} cannot be read; the first: {bad[0]}",
            remedy="Restore them from version control, or record them again.",
            without="Everything on the others.",
        )
    else:
        devices = sorted({entry.device for entry in entries})
        of = f" of {', '.join(devices)}" if devices else ""
        yield Finding(what="profiles", state="ok", detail=f"{len(entries)} recorded{of}")
