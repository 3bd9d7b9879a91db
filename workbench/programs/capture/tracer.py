"""The libraries that observe a program, built on first use with the toolkit's own headers.

One traces it, one keeps a launch of it. They are kept in the user's cache, under the hash of their
text, of the toolkit's version and of the machine they are for. The driver loads one into every
process that initializes CUDA.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from workbench.compile.compilers import HOMES, find_nvcc, wheels
from workbench.compile.host import built
from workbench.disk.writing import replace_file
from workbench.errors import MissingError
from workbench.model import Record
from workbench.processes.starting import program
from workbench.project import cache_folder

SOURCE = Path(__file__).resolve().parents[1] / "data" / "tracer.c"
LIFTER_SOURCE = SOURCE.with_name("lifter.c")
#: Environment variable: the library that the driver loads into every process that initializes CUDA.
INJECTION = "CUDA_INJECTION64_PATH"
#: Environment variable: the library that NVTX loads, which is the same one.
NVTX_INJECTION = "NVTX_INJECTION64_PATH"
#: Environment variable with the folder that the library writes to.
OUTPUT = "WORKBENCH_TRACE"
_VERSION = re.compile(rb"#define\s+CUPTI_API_VERSION\s+(\d+)")


class Cupti(Record, frozen=True):
    """A CUPTI to build with: the folder of ``cupti.h``, the library, the version of its API."""

    include: str
    library: str
    version: int


def find_cupti() -> Cupti | None:
    """CUPTI of the toolkit (by nvcc, CUDA_HOME and the like), or of NVIDIA's Python wheels."""
    for root in _roots():
        for include in ("include", "extras/CUPTI/include"):
            header = root / include / "cupti_version.h"
            if not (root / include / "cupti.h").is_file() or not header.is_file():
                continue
            match = _VERSION.search(header.read_bytes())
            library = _library(root)
            if match is not None and library is not None:
                return Cupti(
                    include=str(header.parent), library=str(library), version=int(match[1])
                )
    return None


def _roots() -> Iterator[Path]:
    nvcc = find_nvcc()
    if nvcc is not None:
        yield nvcc.resolve().parents[1]
    for name in HOMES:
        if os.environ.get(name):
            yield Path(os.environ[name])
    yield Path("/usr/local/cuda")
    for folder in wheels():  # PyTorch's dependencies
        yield from sorted(folder.glob("cu[0-9]*"))
        yield folder / "cuda_cupti"


def _library(root: Path) -> Path | None:
    for folder in ("lib64", "lib", "extras/CUPTI/lib64", "targets/x86_64-linux/lib"):
        found = sorted((root / folder).glob("libcupti.so*"), key=lambda path: len(path.name))
        if found:
            return found[0].resolve()
    return None


def tracer() -> Path:
    """The library that traces, from `_library_of`."""
    return _library_of(SOURCE, SOURCE.with_name("tracer_ranges.h"))


def lifter() -> Path:
    """The library that keeps one launch, from `_library_of`."""
    return _library_of(LIFTER_SOURCE)


def _library_of(*sources: Path) -> Path:
    """A library made from the first of `sources`, which includes the others; built if missing.

    Raises MissingError: no CUPTI, no C compiler, or it cannot be built or kept.
    """
    cupti = find_cupti()
    if cupti is None:
        raise MissingError(
            "CUPTI is not installed here (cupti.h and libcupti.so)",
            "It comes with the CUDA toolkit (package cuda-cupti-dev-*), or as "
            "`pip install nvidia-cuda-cupti`; name the toolkit in CUDA_HOME.",
        )
    text = b"".join(source.read_bytes() for source in sources)
    made_of = f"{cupti.version} {cupti.library} {platform.machine()}".encode()
    name = f"{cupti.version}-{sha256(text + made_of).hexdigest()[:16]}.so"
    folder = cache_folder(sources[0].stem)
    path = folder / name
    if not path.is_file() or not path.stat().st_size:
        replace_file(folder, name, _built(cupti, sources[0]))
    return path


def _built(cupti: Cupti, source: Path) -> bytes:
    compiler = program(os.environ.get("CC") or "cc") or program("gcc")
    if compiler is None:
        raise MissingError(
            f"no C compiler was found to build the {source.stem} with",
            "Install gcc or clang (one C file is compiled, once), or name one in CC.",
        )
    options = (f"-I{cupti.include}", cupti.library, f"-Wl,-rpath,{Path(cupti.library).parent}")
    hint = f"Repair the compiler or the toolkit ({cupti.include}); CUDA_HOME chooses another one."
    return built(compiler, source, (*options, "-lpthread"), (MissingError, hint))
