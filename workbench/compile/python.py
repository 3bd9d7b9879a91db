"""Kernels in Python: Triton's compiler, asked for a chip that need not be here.

A version with ``[[launch]]`` in a ``.py`` file is compiled like one in CUDA C++, to PTX and a
cubin that the worker launches and the emulator runs; PyTorch is not needed, and no GPU.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
from pathlib import Path
from typing import Any

from workbench.compile.compilers import Output, ask, clean
from workbench.errors import MissingError, UsageError
from workbench.specs import Version
from workbench.study.frontmatter import place


def constant(text: str) -> Any:
    """A define as Python means it: a number, None, or else the text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


class Triton:
    """Triton's compiler in a child process (`workbench.compile.triton`), for one version.

    Raises:
        MissingError: it is not installed.
        UsageError: the version launches several kernels: each would be a module of its own.
    """

    name = "triton"

    def __init__(self, version: Version) -> None:
        try:
            self.version = importlib.metadata.version("triton")
        except importlib.metadata.PackageNotFoundError:
            raise MissingError(
                f"{version.path} is a Triton kernel, and Triton is not installed",
                "In workbench's checkout: pip install '.[triton]' (Linux; no GPU needed).",
            ) from None
        kernels = [launch.kernel for launch in version.launches]
        if len(kernels) > 1:
            raise UsageError(
                f"{place(version, 'launch[1].kernel')}: a Triton version launches one kernel, "
                f"this one launches {len(kernels)}",
                "Write each kernel as a version of its own, or several in CUDA C++.",
            )
        self._version = version

    @property
    def identity(self) -> list[str]:
        """All that decides what it makes beside the source, for the cache's key."""
        (launch,) = self._version.launches
        return [
            self.name,
            self.version,
            launch.kernel,
            *launch.block,
            str(launch.num_stages),
            *launch.divisible_by_16,
        ]

    def architectures(self) -> list[str]:
        """Those that it is known to compile for."""
        return ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]

    def compile(self, folder: Path, source: str, arch: str, flags: tuple[str, ...]) -> Output:
        """Compile `source` (relative to `folder`) to PTX and cubin with neutral paths."""
        del flags  # nvcc's
        (launch,) = self._version.launches
        request: dict[str, object] = {
            "source": source,
            "kernel": launch.kernel,
            "constants": {name: constant(text) for name, text in self._version.defines.items()},
            "num_warps": int(launch.block[0]) // 32,
            "num_stages": launch.num_stages,
            "divisible": [launch.args.index(each) for each in launch.divisible_by_16],
            "capability": int(re.sub(r"\D", "", arch)),
        }
        # Its own variables could change what is made without a trace in the cache's key.
        env = {name: text for name, text in os.environ.items() if not name.startswith("TRITON_")}
        env |= {
            "TRITON_DUMP_PTXAS_LOG": "1",
            "TRITON_CACHE_DIR": str(folder / ".triton"),
            "TMPDIR": str(folder),
        }
        answer = ask("workbench.compile.triton", folder, request, env)
        if "missing" in answer:
            raise MissingError(
                f"Triton {self.version} does not run here: {answer['missing']}",
                "In workbench's checkout: pip install --force-reinstall '.[triton]'.",
            )
        log = clean(str(answer["log"]), folder)
        if not answer["ok"]:
            return Output(log=log, failed=True)
        return Output(
            log=log,
            cubin=(folder / "out.cubin").read_bytes(),
            ptx=(folder / "out.ptx").read_text(encoding="utf-8"),
            shared=int(str(answer["shared"])),
            args=int(str(answer["args"])),
        )
