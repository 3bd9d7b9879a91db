"""The compilers for device code: nvcc, NVRTC from PyPI wheels, and Triton's for kernels in Python.

The first two compile in a neutral folder that mirrors the project, and every path that they write
into PTX, cubin and line tables is made relative to it:

* Both write absolute names, even if the source is given by a relative one. nvcc's PTX is therefore
  rewritten and then assembled, so its cubin says ``kernels/sgemm/v3_padded.cu``. NVRTC gives the
  cubin directly; its folder names are replaced in place by neutral ones of the same length, padded
  with ``/`` (``kernels/sgemm///``), which every reader that normalizes paths takes for the same.
* Their PTX has the same ``.file`` and ``.loc`` entries for a kernel's own lines. NVRTC has fp16 and
  bf16 types built in, so lines of ``cuda_fp16.hpp`` appear in nvcc's tables only; and it knows no
  host headers such as ``<cstdio>``.

Triton compiles a version with ``[[launch]]`` in a ``.py`` file, for a chip that need not be here,
to PTX and a cubin like one in CUDA C++; neither PyTorch nor a GPU is needed.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.metadata
import importlib.util
import json
import os
import posixpath
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.compile import closed
from workbench.disk.limits import memory, too_much_memory
from workbench.errors import MissingError, UsageError
from workbench.model import Record
from workbench.processes.bounds import Deadline
from workbench.processes.ending import end_group, guarded
from workbench.processes.starting import (
    NEUTRAL,
    answered,
    environment,
    limited,
    own_module,
    program,
)
from workbench.specs import Version
from workbench.study.frontmatter import place

HOMES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
#: Variables from which nvcc takes further flags, which change its output.
FLAG_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
#: A restricted compiler's results are cached separately: its messages are for that caller only.
_CLOSED = ("closed",)
#: The packages of the extra `emulator`; our own name is another project's on PyPI.
NVRTC_PACKAGES = (
    "'cuda-bindings>=13.0,<14' 'nvidia-cuda-cccl>=13.0,<13.1' 'nvidia-cuda-crt>=13.0,<13.1' "
    "'nvidia-cuda-nvcc>=13.0,<13.1' 'nvidia-cuda-nvrtc>=13.0,<13.1' "
    "'nvidia-cuda-runtime>=13.0,<13.1' 'nvidia-nvvm>=13.0,<13.1'"
)
_FILE = re.compile(r'^(\s*\.file\s+\d+\s+)"([^"]*)"', re.MULTILINE)


class Output(Record, frozen=True):
    """A compiler's output, or `failed`; `log` is its own text with neutral paths.

    `shared` and `args`: bytes of shared memory and null pointers that a launch must add.
    """

    log: str
    failed: bool = False
    cubin: bytes = b""
    ptx: str = ""
    shared: int = 0
    args: int = 0


def find_nvcc() -> Path | None:
    """Find nvcc: on PATH, in CUDA_HOME, CUDA_PATH or CUDA_ROOT, or in /usr/local/cuda."""
    on_path = program("nvcc")
    if on_path:
        return Path(on_path)
    homes = [os.environ[name] for name in HOMES if os.environ.get(name)]
    for home in (*homes, "/usr/local/cuda"):
        candidate = Path(home, "bin", "nvcc")
        if os.access(candidate, os.X_OK):
            return candidate
    return None


def wheels() -> list[Path]:
    """The folders in which NVIDIA's wheels are installed: ``nvidia`` of site-packages."""
    spec = importlib.util.find_spec("nvidia")
    return [Path(root) for root in (spec.submodule_search_locations if spec else None) or ()]


def wheel_nvcc() -> Path | None:
    """The nvcc of the extra `emulator` (``nvidia/cu13/bin`` in site-packages)."""
    found = (root / "cu13" / "bin" / "nvcc" for root in wheels())
    return next((each for each in found if os.access(each, os.X_OK)), None)


@functools.lru_cache(maxsize=4)
def _nvcc_version(nvcc: Path) -> str:
    hint = "Repair or remove that CUDA toolkit."
    try:
        done = answered(str(nvcc), "--version", timeout_s=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"{nvcc} does not run: {error}", hint) from error
    match = re.search(r"\bV(\d+\.\d+\.\d+)", done.stdout)
    if match is None:
        raise MissingError(f"{nvcc} does not print its version", hint)
    return match[1]


class StoppedError(Exception):
    """A compiler was ended, or failed, because it took more time or memory than allowed.

    `took` is like ``took longer than 30 s``; `hint` gives advice.
    """

    def __init__(self, took: str, hint: str) -> None:
        super().__init__(took)
        self.took, self.hint = took, hint


#: Compilers' messages about a lack of memory.
_NO_MEMORY = re.compile(
    r"catastrophic error: out of memory|^LLVM ERROR: out of memory|^MemoryError\b"
    r"|^terminate called after throwing an instance of 'std::bad_alloc'"
    r"|^ptxas(?:-\w+)? fatal *: .*[Mm]emory|^virtual memory exhausted|^cc1plus: out of memory",
    re.MULTILINE,
)


def _check_memory(said: str) -> None:
    """Raise StoppedError if a compiler that failed reports a lack of memory."""
    if _NO_MEMORY.search(said):
        took, hint = too_much_memory("a compiler")
        raise StoppedError(took, f"An infinite template or a huge array can cause this. {hint}")


def run_compiler(
    argv: list[str],
    folder: Path,
    limit: Deadline,
    env: dict[str, str] | None = None,
    text: str = "",
    reach: tuple[str, ...] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a compiler, and end it with its children; StoppedError: it exceeds its limits."""
    if env is None:  # temporary files are removed with the folder
        env = {**environment(), "TMPDIR": str(folder), "LC_ALL": "C"}
    with guarded() as guard:

        def start() -> subprocess.Popen[str]:
            return subprocess.Popen(
                limited(argv, memory()),
                cwd=folder,
                env={**env, **guard.mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # nvcc starts other programs, which must end with it
            )

        try:
            process = start() if reach is None else closed.within(start, reach, str(folder))
        except OSError as error:
            raise MissingError(f"{argv[0]} does not run: {error}", "Repair it.") from error
        guard.tell(process.pid)
        try:
            output, errors = process.communicate(text, timeout=limit.left())
        except subprocess.TimeoutExpired:
            raise StoppedError(
                f"takes longer than {limit}",
                "A template or a macro that grows without end looks like this; if it is only "
                "slow, allow more with --timeout SECONDS.",
            ) from None
        finally:
            if process.poll() is None:
                end_group(process.pid, process.poll)
                process.wait()
    if process.returncode != 0:
        _check_memory(f"{errors}\n{output}")
    return subprocess.CompletedProcess(argv, process.returncode, output, errors)


def neutral_path(path: str, folder: Path, toolkit: Path | None) -> str:
    """A path as line tables may hold it: no part of it identifies the machine.

    `path` is as the compiler wrote it; a path in `folder`, where it ran, becomes relative, and
    headers of the `toolkit` become ``cuda/…``.
    """
    plain = posixpath.normpath(path)
    for root in dict.fromkeys((str(folder), os.path.realpath(folder))):
        if plain.startswith(f"{root}/"):
            return posixpath.normpath(plain[len(root) + 1 :])
    if not posixpath.isabs(plain):
        return plain
    if toolkit is not None:
        for root in dict.fromkeys((str(toolkit), os.path.realpath(toolkit))):
            if plain.startswith(f"{root}/"):
                rest = plain[len(root) :]
                return "cuda/" + (rest.partition("/include/")[2] or posixpath.basename(rest))
    inside = plain.partition("/include/")[2]
    return f"system/{inside or posixpath.basename(plain)}"


def neutral_ptx(ptx: str, folder: Path, toolkit: Path | None) -> str:
    """PTX with neutral paths in its ``.file`` directives."""

    def replace(match: re.Match[str]) -> str:
        return f'{match[1]}"{neutral_path(match[2], folder, toolkit)}"'

    return _FILE.sub(replace, ptx)


def neutral_cubin(cubin: bytes, folder: Path) -> bytes:
    """The cubin, of unchanged length, with line tables that name no folder of this machine."""
    for root in dict.fromkeys((os.path.realpath(folder), str(folder))):
        name = re.compile(re.escape(os.fsencode(root)) + rb"/?([^\0]*)\0")

        def replace(match: re.Match[bytes]) -> bytes:
            inner = posixpath.normpath(match[1].decode("utf-8", "replace")).encode()
            return inner.ljust(len(match[0]) - 1, b"/") + b"\0"

        cubin = name.sub(replace, cubin)
    return cubin


class Nvcc:
    """nvcc of an installed CUDA toolkit.

    `closed_to`: it can read only the copies of this project (`workbench.compile.closed`).
    """

    name = "nvcc"

    def __init__(self, path: Path, closed_to: Path | None = None) -> None:
        self.path = path
        self.version = _nvcc_version(path)
        self._toolkit = Path(os.path.realpath(path)).parent.parent
        self._reach = closed.reach(closed_to, self._toolkit) if closed_to is not None else None

    @property
    def identity(self) -> list[str]:
        """All properties of the compiler that affect its output, for the cache's key."""
        variables = [os.environ.get(each, "") for each in FLAG_VARIABLES]
        return [self.name, self.version, *variables, *_CLOSED[: self._reach is not None]]

    def architectures(self) -> list[str]:
        """The real architectures for which it compiles, like ``sm_90``."""
        done = run_compiler([str(self.path), "--list-gpu-code"], NEUTRAL, Deadline(), environment())
        return re.findall(r"^sm_\w+$", done.stdout, re.MULTILINE)

    def compile(
        self,
        folder: Path,
        source: str,
        arch: str,
        flags: tuple[str, ...],
        limit: Deadline = Deadline(),  # noqa: B008 - frozen
    ) -> Output:
        """Compile `source` (relative to `folder`) to PTX, make its paths neutral, assemble it."""
        base = [str(self.path), f"-arch={arch}", *flags]
        words = [*base, "-ptx", "-o", "out.ptx", source]
        first = run_compiler(words, folder, limit, reach=self._reach)
        log = first.stderr + first.stdout
        if first.returncode != 0:
            return Output(log=clean(log, folder), failed=True)
        target = folder / "out.ptx"
        ptx = neutral_ptx(target.read_text(encoding="utf-8"), folder, self._toolkit)
        target.write_text(ptx, encoding="utf-8")
        return self._assemble(folder, ptx, [*base, "-Xptxas", "-v"], limit, log)

    def assemble(self, folder: Path, ptx: str, arch: str, flags: tuple[str, ...]) -> Output:
        """Assemble existing PTX, unchanged."""
        (folder / "out.ptx").write_text(ptx, encoding="utf-8")
        arch += "a" * (f".target {arch}a" in ptx)  # such PTX fits no other target
        return self._assemble(folder, ptx, [str(self.path), f"-arch={arch}", *flags], Deadline())

    @staticmethod
    def _assemble(
        folder: Path, ptx: str, base: list[str], limit: Deadline, log: str = ""
    ) -> Output:
        done = run_compiler([*base, "-cubin", "-o", "out.cubin", "out.ptx"], folder, limit)
        log = clean(log + done.stderr + done.stdout, folder)
        if done.returncode != 0:
            return Output(log=log, failed=True)
        return Output(log=log, cubin=(folder / "out.cubin").read_bytes(), ptx=ptx)


def _distribution(*names: str) -> str:
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def nvrtc_version() -> str:
    """Version of the NVRTC wheel; empty if it or its bindings are not installed."""
    try:
        if importlib.util.find_spec("cuda.bindings") is None:
            return ""
    except (ModuleNotFoundError, ValueError):
        return ""
    return _distribution("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")


def wheel_headers() -> Path | None:
    """The CUDA headers that were installed as wheels: ``nvidia/cu13/include`` in site-packages."""
    for root in wheels():
        for folder in ("cu13", "cu12", "cuda_runtime"):
            candidate = root / folder / "include"
            if (candidate / "cuda.h").is_file() or (candidate / "cuda_runtime.h").is_file():
                return candidate
    return None


class Nvrtc:
    """NVRTC of the ``emulator`` extra, in a child process (`workbench.compile.nvrtc`).

    The child has its own working folder, and a crash of the native library ends only the child.
    `version` is that of the wheel; `closed_to` is as for `Nvcc`.
    """

    name = "nvrtc"

    def __init__(self, version: str, closed_to: Path | None = None) -> None:
        self.version = version
        self._closed_to = closed_to

    @property
    def identity(self) -> list[str]:
        """All properties of the compiler that affect its output, for the cache's key."""
        headers = _distribution("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")
        return [self.name, self.version, headers, *_CLOSED[: self._closed_to is not None]]

    def architectures(self) -> list[str]:
        """The real architectures for which it compiles, like ``sm_90``."""
        names = self._ask(NEUTRAL, {}, Deadline()).get("architectures")
        return [str(name) for name in names] if isinstance(names, list) else []

    def compile(
        self,
        folder: Path,
        source: str,
        arch: str,
        flags: tuple[str, ...],
        limit: Deadline = Deadline(),  # noqa: B008 - frozen
    ) -> Output:
        """Compile `source` (relative to `folder`) to PTX and cubin with neutral paths."""
        options = [f"-arch={arch}", *nvrtc_flags(flags), "--ptxas-options=-v"]
        headers = wheel_headers()
        if headers is not None:
            # Through a link in the neutral folder, so that headers are "cuda/…" as well.
            link = folder / "cuda"
            if not link.exists():
                link.symlink_to(headers, target_is_directory=True)
            options += ["-Icuda", "-Icuda/cccl"]
        request: dict[str, object] = {"source": source, "options": options}
        if self._closed_to is not None:
            request["reach"] = closed.reach(self._closed_to, *([headers.parent] if headers else []))
        answer = self._ask(folder, request, limit)
        log = clean(str(answer.get("log", "")), folder)
        if not answer.get("ok"):
            return Output(log=log, failed=True)
        ptx = neutral_ptx((folder / "out.ptx").read_text(encoding="utf-8"), folder, None)
        cubin = neutral_cubin((folder / "out.cubin").read_bytes(), folder)
        return Output(log=log, cubin=cubin, ptx=ptx)

    def _ask(self, folder: Path, request: dict[str, object], limit: Deadline) -> dict[str, object]:
        answer = ask("workbench.compile.nvrtc", folder, request, dict(os.environ), limit)
        if "missing" in answer:
            raise MissingError(
                f"NVRTC {self.version} does not run here: {answer['missing']}",
                f"pip install --force-reinstall {NVRTC_PACKAGES}",
            )
        return answer


def nvrtc_flags(flags: tuple[str, ...]) -> list[str]:
    """Convert nvcc's flags to NVRTC's.

    ``-O3`` is NVRTC's only level and is dropped; ``-Xptxas X`` has one spelling; a flag with its
    value as a separate word is joined with it.
    """
    joined = {"-Xptxas": "--ptxas-options=", "--ptxas-options": "--ptxas-options="}
    joined |= {"-I": "-I", "-D": "-D", "-maxrregcount": "-maxrregcount="}
    found: list[str] = []
    words = iter(flags)
    for flag in words:
        if flag in joined:
            found.append(joined[flag] + next(words, ""))
        elif flag.startswith("-Xptxas="):
            found.append("--ptxas-options=" + flag.partition("=")[2])
        elif not re.fullmatch(r"-O[0-3]|--optimize=[0-3]", flag):
            found.append(flag)
    return found


def ask(
    module: str, folder: Path, request: dict[str, object], env: dict[str, str], limit: Deadline
) -> dict[str, object]:
    """Ask a compiler's child process; ``missing`` in its answer says why it is not available.

    `request` is sent to it as JSON; `limit`: when to stop it. Raises StoppedError: it took more
    time or memory than allowed.
    """
    start = own_module(module, cwd=folder, env=env)
    done = run_compiler(start.argv, start.cwd, limit, start.env, json.dumps(request))
    with contextlib.suppress(json.JSONDecodeError):
        answer = json.loads(done.stdout)
        if isinstance(answer, dict):
            _check_memory("" if answer.get("ok") else str(answer.get("log", "")))
            return answer
    return {"missing": (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]}


def clean(log: str, folder: Path) -> str:
    """A compiler's text without the folder in which it ran."""
    for root in dict.fromkeys((os.path.realpath(folder), str(folder))):
        log = log.replace(f"{root}/", "")
    return log.strip()


def available() -> list[Nvcc | Nvrtc]:
    """The installed compilers, the preferred one first."""
    return list(_found())


def _found(closed_to: Path | None = None) -> Iterator[Nvcc | Nvrtc]:
    """As `available`, but each is looked up only when it is requested."""
    nvcc = find_nvcc()
    if nvcc is not None:
        yield Nvcc(nvcc, closed_to)
    version = nvrtc_version()
    if version:
        yield Nvrtc(version, closed_to)
    own = wheel_nvcc() if nvcc is None else None
    if own is not None:
        yield Nvcc(own, closed_to)


def choose(name: str = "auto", closed_to: Path | None = None) -> Nvcc | Nvrtc:
    """The compiler to use: nvcc if installed, else NVRTC; or the named one.

    `name` is ``nvcc``, ``nvrtc`` or ``auto``; `closed_to` is as for `Nvcc`. Raises MissingError:
    not installed (the hint says how to get one), or its files cannot be restricted here.
    """
    if closed_to is not None:
        closed.required()
    for each in _found(closed_to):
        if name in ("auto", each.name):
            return each
    what = "no CUDA compiler (neither nvcc nor NVRTC)" if name == "auto" else f"no {name}"
    raise MissingError(
        f"there is {what} on this machine",
        "Install a CUDA toolkit (nvcc on PATH or CUDA_HOME set), or NVRTC alone: "
        f"pip install {NVRTC_PACKAGES} (in workbench's checkout: pip install '.[emulator]'). "
        "Without one, recorded profiles still work: workbench list, show, diff, report.",
    )


def constant(text: str) -> Any:
    """A define as a Python value: a number, None, or else the text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


class Triton:
    """Triton's compiler in a child process (`workbench.compile.triton`), for one version.

    Raises:
        MissingError: it is not installed.
        UsageError: the version launches several kernels: each would be a separate module.
    """

    name = "triton"

    def __init__(self, version: Version) -> None:
        self.version = _distribution("triton")
        if not self.version:
            raise MissingError(
                f"{version.path} is a Triton kernel, and Triton is not installed",
                "pip install triton (Linux; no GPU needed).",
            )
        kernels = [launch.kernel for launch in version.launches]
        if len(kernels) > 1:
            raise UsageError(
                f"{place(version, 'launch[1].kernel')}: a Triton version launches one kernel, "
                f"but this one launches {len(kernels)}",
                "Write each kernel as a version of its own, or several in CUDA C++.",
            )
        self._version = version

    @property
    def identity(self) -> list[str]:
        """Everything except the source that affects its output, for the cache's key."""
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
        """The architectures for which it is known to compile."""
        return ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]

    def compile(
        self,
        folder: Path,
        source: str,
        arch: str,
        flags: tuple[str, ...],
        limit: Deadline = Deadline(),  # noqa: B008 - frozen
    ) -> Output:
        """Compile `source` (relative to `folder`) to PTX and cubin with neutral paths."""
        del flags  # nvcc's
        (launch,) = self._version.launches
        request: dict[str, object] = {
            "source": source,
            "kernel": launch.kernel,
            "constants": {name: constant(text) for name, text in self._version.defines.items()},
            "num_warps": int(launch.block[0]) // 32,
            "num_stages": launch.num_stages,
            "divisible": [
                n for n, each in enumerate(launch.args) if each in launch.divisible_by_16
            ],
            "capability": int(re.sub(r"\D", "", arch)),
        }
        # Its own variables could change the output without changing the cache's key.
        env = {name: text for name, text in os.environ.items() if not name.startswith("TRITON_")}
        env |= {
            "TRITON_DUMP_PTXAS_LOG": "1",
            "TRITON_CACHE_DIR": str(folder / ".triton"),
            "TMPDIR": str(folder),
        }
        answer = ask("workbench.compile.triton", folder, request, env, limit)
        if "missing" in answer:
            raise MissingError(
                f"Triton {self.version} does not run here: {answer['missing']}",
                "pip install --force-reinstall triton",
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
