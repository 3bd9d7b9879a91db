"""Find the tools for measuring (GPU, ncu, compute-sanitizer, PyCUDA), and decide where to run.

Each `need_*` function returns its tool or raises a `MissingError` that says how to get it and what
works without it. `doctor` calls the same functions.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from workbench.engines import RunOptions, Where
from workbench.engines.gpu.nvml import Gpu, NvmlAbsentError, NvmlError, gpus
from workbench.errors import MissingError, UsageError
from workbench.language import N_
from workbench.processes.starting import answered, program

WITHOUT_GPU = (
    "Without a GPU, verify and profile run in the emulator (--engine emulator), and show, "
    "diff, list and report work on the recorded profiles and on any .ncu-rep file."
)
#: Our name is not published on PyPI, so the advice names the package to install.
INSTALL_PYCUDA = "pip install '.[gpu]' in workbench's checkout, or pip install pycuda"
#: Folders of NVIDIA's installers, for tools that are not on PATH.
_FOLDERS = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute/*")


def _smi() -> list[Gpu]:
    """The GPUs according to nvidia-smi, if NVML's Python package is not installed."""
    tool = program("nvidia-smi")
    if tool is None:
        return []
    fields = "index,name,uuid,driver_version,compute_cap,memory.total"
    try:
        said = answered(tool, f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = []
    for line in said.stdout.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 6 or not re.fullmatch(r"\d+\.\d+", parts[4]) or not parts[5].isdigit():
            continue
        major, minor = parts[4].split(".")
        found.append(
            Gpu(
                index=int(parts[0]),
                name=parts[1],
                uuid=parts[2],
                driver=parts[3],
                compute_capability=(int(major), int(minor)),
                memory_bytes=int(parts[5]) * 2**20,
            )
        )
    return found


@functools.cache  # the query takes 30 ms, and the GPUs do not change while we run
def find_gpus() -> tuple[list[Gpu], str]:
    """The GPUs that CUDA will see, or the reason why there are none."""
    try:
        found = gpus()
    except NvmlAbsentError:
        # The package is a convenience: a GPU works without it.
        found = _smi()
        there = program("nvidia-smi") is not None
        why = N_("nvidia-smi lists none")
        if not there:
            why = N_("no driver was found (no nvidia-smi on PATH)")
        return found, "" if found else why
    except NvmlError as error:
        found = _smi()
        return found, "" if found else str(error)
    return found, "" if found else N_("the driver lists no GPU that CUDA can use")


def need_gpu() -> Gpu:
    """Return the GPU that a worker would take; MissingError: no GPU, or no driver."""
    found, why = find_gpus()
    if not found:
        raise MissingError(
            f"no NVIDIA GPU can be used here: {why}",
            "Run this on a machine with a GPU and its driver, or reach one with --launcher "
            f'(for example --launcher "srun --gres=gpu:1" --arch sm_90). {WITHOUT_GPU}',
        )
    return found[0]


def arch_of(gpu: Gpu) -> str:
    """``sm_90`` for compute capability 9.0."""
    return f"sm_{gpu.compute_capability[0]}{gpu.compute_capability[1]}"


def find_tool(name: str, variable: str) -> str | None:
    """Path of one of NVIDIA's tools: the variable, then PATH, then the usual folders."""
    chosen = os.environ.get(variable)
    if chosen:
        return program(chosen)
    found = program(name)
    if found is not None:
        return found
    for pattern in _FOLDERS:
        folders = sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)
        for folder in folders:
            if (found := shutil.which(name, path=str(folder))) is not None:
                return found
    return None


def need_ncu() -> str:
    """Return the path of ncu; MissingError: Nsight Compute is not installed."""
    found = find_tool("ncu", "WORKBENCH_NCU")
    if found is None:
        raise MissingError(
            "ncu (Nsight Compute's command line) is not installed here",
            "It comes with the CUDA toolkit (package nsight-compute-*); put it on PATH or "
            "name it in WORKBENCH_NCU. Without it verify and time work, and show, diff, "
            "list and report on recorded profiles.",
        )
    return found


def need_sanitizer() -> str:
    """Return the path of compute-sanitizer; MissingError: it is not installed."""
    found = find_tool("compute-sanitizer", "WORKBENCH_SANITIZER")
    if found is None:
        raise MissingError(
            "compute-sanitizer is not installed here",
            "It comes with the CUDA toolkit (package cuda-sanitizer-*); put it on PATH or "
            "name it in WORKBENCH_SANITIZER. Without it verify still compares results, "
            "counts unwritten elements and watches the bytes around every buffer.",
        )
    return found


def need_pycuda() -> None:
    """Require PyCUDA, with which the worker runs kernels; MissingError: it is not installed."""
    if importlib.util.find_spec("pycuda") is None:
        raise MissingError(
            "PyCUDA, which runs the kernels, is not installed",
            f"Install it: {INSTALL_PYCUDA} (it is compiled against the CUDA toolkit, which "
            f"takes a minute or two). {WITHOUT_GPU}",
        )


def counters_locked() -> bool | None:
    """Test whether the driver denies the counters to users other than root; None: unknown."""
    try:
        text = Path("/proc/driver/nvidia/params").read_text()
    except OSError:
        return None
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d)", text, re.MULTILINE)
    if match is None:
        return None
    return match.group(1) == "1" and os.geteuid() != 0


def choose_gpus(text: str) -> list[Gpu]:
    """Return GPUs of this host: ``all``, numbers (``0,2``), or the beginnings of UUIDs.

    Raises:
        MissingError: there are no GPUs.
        UsageError: one of them does not exist here.
    """
    need_gpu()
    found, _ = find_gpus()
    chosen: dict[str, Gpu] = {}
    for word in [part.strip() for part in text.split(",")]:
        match = [gpu for gpu in found if word == "all" or gpu.is_meant(word)]
        if not match:
            known = ", ".join(f"{gpu.index} ({gpu.name}, {gpu.uuid})" for gpu in found)
            raise UsageError(
                f"--gpus {text}: no GPU {word or 'without a number'} is here",
                f"Write `all`, or numbers with commas between them. Available: {known}.",
            )
        chosen |= {gpu.uuid: gpu for gpu in match}
    return sorted(chosen.values(), key=lambda gpu: gpu.index)


def choose_hosts(options: RunOptions) -> list[Where]:
    """Choose where to run on several GPUs of this host: one entry per model, in their order.

    Each model is measured separately: its times are stored in a separate folder. Raises
    MissingError, UsageError: as `choose_where` and `choose_gpus`.
    """
    if not options.gpus:
        return [choose_where(options)]
    if options.launcher:
        raise UsageError(
            "--gpus and --launcher cannot be used together",
            "--gpus is for the GPUs of this host; use only one of them.",
        )
    models: dict[tuple[str, tuple[int, int]], list[str]] = {}
    chosen = choose_gpus(options.gpus)
    need_pycuda()
    for gpu in chosen:
        models.setdefault((gpu.name, gpu.compute_capability), []).append(gpu.uuid)
    return [
        Where(
            arch=options.arch or arch_of(next(gpu for gpu in chosen if gpu.uuid == uuids[0])),
            limit=options.limit,
            gpus=tuple(uuids),
            device=name,
        )
        for (name, _), uuids in models.items()
    ]


def choose_where(options: RunOptions, *, known: bool = False) -> Where:
    """Decide where to run before anything is compiled.

    The launcher is split as a shell would; the default architecture is that of the GPU here.
    `known`: nothing will be run here (``--dry-run``), so an architecture is enough.

    Raises:
        MissingError: no GPU or no PyCUDA, and something must be run here.
        UsageError: a malformed launcher; or no `arch`, and no GPU here to read it from.
    """
    if options.gpus:
        hosts = choose_hosts(options)
        if len(hosts) > 1:
            raise UsageError(
                f"--gpus {options.gpus}: GPUs of {len(hosts)} models, but versions are compiled "
                "for one",
                f"Name those of one model: {', '.join(host.device for host in hosts)}.",
            )
        return hosts[0]
    try:
        words = tuple(shlex.split(options.launcher))
    except ValueError as error:
        raise UsageError(
            f"--launcher {options.launcher!r} cannot be split into words: {error}",
            "Check its quotes.",
        ) from error
    arch = options.arch
    if not words and not known:
        gpu = need_gpu()
        need_pycuda()
        return Where(arch=arch or arch_of(gpu), limit=options.limit)
    if not arch:
        found, _ = find_gpus()
        if not found:
            raise UsageError(
                "the GPU behind --launcher cannot be queried from here"
                if words
                else "the architecture to compile for is unknown without a GPU",
                "Name the architecture to compile for, for example --arch sm_90 for H100 and H200.",
            )
        arch = arch_of(found[0])
    return Where(arch=arch, launcher=words, limit=options.limit)
