"""The libraries that stand in for CUDA's driver and runtime, built on first use.

They are made from the C++ code in ``data/standin`` and the headers of the found toolkit, and are
kept in the user's cache under the hash of these inputs.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from workbench.compile.compilers import find_nvcc, wheel_headers
from workbench.compile.host import built
from workbench.disk.writing import private_folder, replace_file
from workbench.errors import MissingError
from workbench.processes.starting import program
from workbench.programs.standin import functions
from workbench.programs.standin.functions import SOURCES, Functions, Headers
from workbench.project import cache_folder

_DRIVER = ("driver.cpp", "core.cpp", "graphs.cpp", "kernels.cpp", "memory.cpp")
_RUNTIME = ("runtime.cpp",)
#: A program may load an older C++ library, so these link theirs statically.
_FLAGS = (
    *("-O1", "-std=c++17", "-s", "-pthread", "-static-libstdc++", "-static-libgcc"),
    *("-fno-gnu-unique", "-Wl,-Bsymbolic-functions", "-Wl,-z,noexecstack", "-ldl"),
)


def libraries() -> Path:
    """The folder that holds both libraries; builds them if they are missing.

    Raises MissingError: no CUDA headers, no C++ compiler, or they cannot be built or kept.
    """
    headers = _find_headers()
    compiler = program(os.environ.get("CXX") or "g++") or program("c++")
    if compiler is None:
        raise MissingError(
            "no C++ compiler was found to build the stand-in for the CUDA driver with",
            "Install g++ (six C++ files are compiled, once), or name a compiler in CXX.",
        )
    listed = SOURCES / "functions.toml"
    own = (*sorted(SOURCES.glob("*.[ch]*")), listed, Path(__file__), Path(functions.__file__))
    made_of = f"{headers.version} {compiler} {platform.machine()}".encode()
    key = sha256(b"".join(path.read_bytes() for path in own) + made_of).hexdigest()[:32]
    folder = cache_folder("standin") / key
    if not (folder / headers.runtime).is_file():
        _build(headers, compiler, folder)
    return folder


def _find_headers() -> Headers:
    nvcc = find_nvcc()
    folders = [nvcc.resolve().parents[1] / "include"] if nvcc is not None else []
    folders += [Path("/usr/local/cuda/include"), *filter(None, [wheel_headers()])]
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            match = re.search(r"#define CUDA_VERSION (\d+)", (folder / "cuda.h").read_text("utf-8"))
            if match is not None and (folder / "cuda_runtime_api.h").is_file():
                return Headers(include=str(folder), version=int(match[1]))
    raise MissingError(
        "the CUDA headers (cuda.h, cuda_runtime_api.h) are not installed here",
        "Install the CUDA toolkit, or `pip install '.[emulator]'`; CUDA_HOME names a toolkit.",
    )


def _build(headers: Headers, compiler: str, folder: Path) -> None:
    """Build both at once; the runtime is kept last."""
    failed = (MissingError, f"Repair the compiler or the CUDA headers ({headers.include}).")
    with private_folder() as holder, ThreadPoolExecutor(2) as pool:
        place = Path(holder)
        (place / "generated.h").write_text(functions.tables(headers))
        (place / "empty.cpp").write_text("")  # an empty driver, for linking the runtime
        named = ("-Wl,-soname,libcuda.so.1",)
        (place / "libcuda.so").write_bytes(built(compiler, place / "empty.cpp", named, failed))
        parts = {
            "libcuda.so.1": (_DRIVER, functions.of_driver(headers), ()),
            headers.runtime: (
                _RUNTIME,
                functions.of_runtime(headers),
                ("-Wl,--no-as-needed", str(place / "libcuda.so")),
            ),
        }
        jobs = {}
        for name, (sources, own, more) in parts.items():
            options = (*_options(place, headers, name, sources, own), *more)
            jobs[name] = pool.submit(built, compiler, SOURCES / sources[0], options, failed)
        for name, job in jobs.items():
            replace_file(folder, name, job.result())
            with contextlib.suppress(FileExistsError):
                (folder / f"{name.partition('.so')[0]}.so").symlink_to(name)


def _options(
    place: Path, headers: Headers, name: str, sources: tuple[str, ...], own: Functions
) -> tuple[str, ...]:
    """Options that compile a library from the sources, the weak functions and the other names."""
    weak, script = place / f"{name}.cpp", place / f"{name}.map"
    weak.write_text(own.code)
    version = name if name == headers.runtime else ""
    script.write_text(f"{version} {{ global: cu*; __cuda*; standin_missing; local: *; }};\n")
    return (
        *(str(SOURCES / source) for source in sources[1:]),
        str(weak),
        *(f"-I{folder}" for folder in (headers.include, place, SOURCES)),
        f"-Wl,-soname,{name}",
        f"-Wl,--version-script={script}",
        *(f"-Wl,--defsym={each}={of}" for each, of in own.same.items()),
        *_FLAGS,
    )
