"""Child process around NVRTC: a request on stdin, an answer on stdout, both JSON.

``{"source": path, "options": [...], "reach": [...]}`` compiles the file, which is in the current
folder under the path that diagnostics should show, and writes ``out.ptx`` and ``out.cubin`` there.
If `reach` is given, it reads no other files. ``{}`` requests only the architectures. The answer is
``{"ok", "log"}``, ``{"architectures"}`` or ``{"missing": reason}``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.compile.closed import restrict

#: NVRTC refuses the toolkit's `cuda.h`, which declares host functions; a kernel needs only its type
#: for a TMA descriptor (128 bytes, aligned to 64). CCCL has fixed-width integers.
_HEADERS = {
    b"cuda.h": b"""#pragma once
typedef struct alignas(64) CUtensorMap_st {
    unsigned long long opaque[16];
} CUtensorMap;
""",
    b"cstdint": b"#include <cuda/std/cstdint>\n"
    + b"".join(
        b"using cuda::std::%sint%d_t;\n" % (sign, bits)
        for sign in (b"", b"u")
        for bits in (8, 16, 32, 64)
    ),
}


def _bytes(program: Any, size: Callable[..., Any], get: Callable[..., Any]) -> bytes:
    """Get one of NVRTC's results: first its size, then its bytes."""
    _, length = size(program)
    buffer: bytes = b" " * length
    get(program, buffer)
    return buffer


def compile_file(nvrtc: Any, source: str, options: list[str]) -> dict[str, object]:
    """Compile one file in the current folder; return the answer."""
    text = Path(source).read_bytes()
    status, program = nvrtc.nvrtcCreateProgram(
        text, source.encode(), len(_HEADERS), list(_HEADERS.values()), list(_HEADERS)
    )
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return {"ok": False, "log": f"nvrtcCreateProgram: {status.name}"}
    try:
        encoded = [option.encode() for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        raw = _bytes(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
        log = raw.rstrip(b"\0 \n").decode("utf-8", "replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return {"ok": False, "log": log or status.name}
        ptx = _bytes(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        cubin = _bytes(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    Path("out.ptx").write_bytes(ptx.rstrip(b"\0"))
    Path("out.cubin").write_bytes(cubin)
    return {"ok": True, "log": log}


def answer(request: dict[str, Any]) -> dict[str, object]:
    """Answer one request."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        return {"missing": str(error)}
    try:
        if "reach" in request:
            nvrtc.nvrtcGetSupportedArchs()  # this loads the library
            library = Path(nvrtc.__file__).parents[2] / "nvidia"
            restrict([*request["reach"], str(library)], str(Path.cwd()))
        if "source" in request:
            return compile_file(nvrtc, request["source"], request["options"])
        _, numbers = nvrtc.nvrtcGetSupportedArchs()
    except RuntimeError as error:
        # cuda-bindings loads the library on the first call, and reports it if it cannot.
        return {"missing": str(error)}
    return {"architectures": [f"sm_{number}" for number in numbers]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(json.load(sys.stdin))))
