"""A project on the cluster's shared file system, whose GPUs are stand-ins on the nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from workbench.cluster.tests.slurm import Slurm

REPO = Path(__file__).resolve().parents[3]
FAKE_GPU = REPO / "tests" / "engines" / "fake_pycuda"

_STUDY = """
title = "y = 2x"
input_names = ("x",)
problems = {{
    f"n{{n}}": {{"n": n, "uses": ("verify", "profile", "sweep")}} for n in {sizes}
}}
tolerance = 1e-6
tolerance_why = "one multiplication by two is exact"

def inputs(problem, rng):
    return {{"x": rng.standard_normal(problem["n"], dtype="float32")}}

def outputs(problem):
    return {{"y": ((problem["n"],), "float32")}}

def reference(problem, inputs):
    return {{"y": 2 * inputs["x"].astype("float64")}}

def flops(problem):
    return problem["n"]

def bytes(problem):
    return 8 * problem["n"]
"""
_VERSION = '''"""NumPy on the stand-in's host memory.

---
title = "{name}"
{more}
---
"""

import ctypes
import json
import os
import time

import numpy as np


def available():
    return ""


def prepare(problem, parameters, buffers):
    def view(name):
        interface = buffers[name].__cuda_array_interface__
        memory = (ctypes.c_float * parameters["n"]).from_address(interface["data"][0])
        return np.ctypeslib.as_array(memory).reshape(interface["shape"])

    x, y = view("x"), view("y")
    row = {{"version": "{name}", "problem": f"n{{parameters['n']}}", "worker": os.getpid()}}
    with open(os.environ["BOOK"], "a") as book:
        book.write(json.dumps(row) + "\\n")
    time.sleep({pause})

    def run():
        np.multiply(x, np.float32(2), out=y)

    return run
'''
_SMI = """#!/bin/sh
[ -n "$CUDA_VISIBLE_DEVICES" ] || exit 0
[ -e "{folder}/broken.$SLURMD_NODENAME" ] && exit 0
echo "0, NVIDIA Stand-In 1, GPU-$SLURMD_NODENAME-$CUDA_VISIBLE_DEVICES, 1.0, 9.0, 1000"
"""
_SETTINGS = """default_study = "double"

[cluster.slurm]
partition = "gpus"
gres = "gpu:1"
time = 30
exclusive = {exclusive}
array_parallelism = {cap}
per_job = {per_job}
patience = 2
setup = [
  "export PATH={bin}:$PATH BOOK={book}",
  "export PYTHONPATH={fake}:{repo}",
]
"""
#: Read by each Python as it starts: in a job, and there alone, versions are compiled otherwise.
_COMPILER = """
import sys

if "submitit.core._submit" in sys.orig_argv:
    from pathlib import Path

    from tests.engines.stand_ins import builds_into
    from workbench.engines.ncu import engine

    engine.build = builds_into(Path({folder!r}))
"""


class Desk:
    """A project on the cluster's shared file system, and commands run in it."""

    def __init__(self, root: Path, cluster: Slurm) -> None:
        self.root = root
        self.cluster = cluster
        self.book = root.parent / "book.jsonl"
        self.env = {**cluster.env, "PYTHONPATH": str(REPO)}

    def study(self, versions: int, sizes: tuple[int, ...], pause: float = 0.0) -> None:
        """A baseline and `versions` others, for `sizes` to sweep over."""
        kernels = self.root / "kernels" / "double"
        kernels.mkdir(parents=True)
        (kernels / "study.py").write_text(_STUDY.format(sizes=sizes))
        names = {f"v{at}": "" for at in range(versions)} | {"library": "baseline = true"}
        for name, more in names.items():
            text = _VERSION.format(name=name, more=more, pause=0.0 if more else pause)
            (kernels / f"{name}.py").write_text(text)
        self.settings()

    def settings(self, *, cap: int = 64, exclusive: bool = False, per_job: int = 1) -> None:
        """How jobs are asked for."""
        tools = self.root.parent / "bin"
        tools.mkdir(exist_ok=True)
        smi = tools / "nvidia-smi"
        smi.write_text(_SMI.format(folder=self.root.parent))
        smi.chmod(0o755)
        text = _SETTINGS.format(
            cap=cap,
            per_job=per_job,
            exclusive=str(exclusive).lower(),
            bin=tools,
            book=self.book,
            fake=FAKE_GPU,
            repo=REPO,
        )
        (self.root / "workbench.toml").write_text(text)

    def stand_in_compiler(self) -> None:
        """What jobs build is what the stand-in for a GPU loads."""
        path = self.root.parent / "bin" / "sitecustomize.py"
        path.write_text(_COMPILER.format(folder=str(path.parent)))
        settings = self.root / "workbench.toml"
        text = settings.read_text()
        settings.write_text(text.replace("PYTHONPATH=", f"PYTHONPATH={path.parent}:"))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command, running."""
        return subprocess.Popen(
            [sys.executable, "-m", "workbench.cli", *words],
            cwd=self.root,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, timeout: float = 100) -> tuple[int, str, str]:
        """A command's exit code, output and errors."""
        process = self.start(*words)
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err

    def pieces(self, kind: str) -> list[dict[str, Any]]:
        """Files of ``begun`` or ``done`` of all dispatches there are."""
        found = []
        for path in self.root.glob(f".workbench/jobs/*/{kind}/*.json"):
            try:
                found.append(
                    {"number": int(path.name.split(".")[0]), **json.loads(path.read_text())}
                )
            except FileNotFoundError:
                continue
        return found

    def measured(self) -> list[tuple[str, str]]:
        """Version and problem, once a worker that prepared it; without the baseline."""
        rows = [json.loads(line) for line in self.book.read_text().splitlines()]
        each = {(r["version"], r["problem"], r["worker"]) for r in rows}
        return sorted((v, p) for v, p, _ in each if v != "library")

    def rows(self, states: str = "all") -> list[dict[str, str]]:
        """The elements of all arrays of ours, as squeue tells them."""
        text = self.cluster.run("squeue", "-h", "-r", "-t", states, "-o", "%A|%F|%K|%T|%N|%j")
        keys = ("id", "array", "number", "state", "node", "name")
        found = [dict(zip(keys, line.split("|"), strict=True)) for line in text.splitlines()]
        return [row for row in found if row["name"].startswith("workbench-")]

    def allocated(self) -> dict[str, tuple[int, str]]:
        """When each job was last given its node, in whole seconds since 1970, and which."""
        text = self.cluster.run(
            *("env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-r", "-t", "all", "-o", "%A|%S|%N")
        )
        rows = (line.split("|") for line in text.splitlines())
        return {job: (int(at), node) for job, at, node in rows if at.isdigit() and node}

    def payload(self, row: dict[str, str]) -> int:
        """The process of a running element."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
                environ = (path.parent / "environ").read_bytes().decode().split("\0")
            except OSError:
                continue
            ours = b"submitit.core._submit" in words and b"srun" not in words[0]
            if ours and f"SLURM_JOB_ID={row['id']}" in environ:
                return int(path.parent.name)
        return 0

    def kill(self, row: dict[str, str]) -> bool:
        """Kill an element's process as the kernel would that runs out of memory."""
        pid = self.payload(row)
        if pid:
            os.kill(pid, signal.SIGKILL)
        return bool(pid)
