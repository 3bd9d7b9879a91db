"""Child process around Triton's compiler: a request on stdin, an answer on stdout, both JSON.

``{"source", "kernel", "constants", "num_warps", "num_stages", "divisible", "capability"}``
runs a version's file, which is in the current folder, compiles one of its kernels for a chip that
need not be here, and writes ``out.ptx`` and ``out.cubin``. The answer is ``{"ok", "log", "shared",
"args"}`` (bytes of dynamic shared memory and pointers that every launch must add) or
``{"missing": reason}``. The file is given to Python under its project path, so the line tables name
no folder of this machine.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import re
import sys
import types
from pathlib import Path
from typing import Any

from workbench.compile.compilers import neutral_cubin

_ENTRY = re.compile(r"\.entry\s+\w+\s*\((.*?)\)", re.DOTALL)


class _SourceError(Exception):
    """An error in the version's file, and its line."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def _module(path: str) -> types.ModuleType:
    """Run a file under its own relative path: Triton asks for sources by that name."""
    text = Path(path).read_text(encoding="utf-8")
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    module = types.ModuleType(Path(path).stem)
    module.__file__ = path
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        raise _SourceError(error.lineno or 1, error.msg) from None
    except Exception as error:
        trace, line = error.__traceback__, 1
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == path:
                line = trace.tb_lineno
            trace = trace.tb_next
        raise _SourceError(line, f"{type(error).__name__}: {error}") from None
    return module


def _signature(function: Any, constants: dict[str, Any], line: int) -> dict[str, str]:
    """Parameter -> type, in Triton's words; `constexpr` for names in `constants`."""
    found: dict[str, str] = {}
    for parameter in function.params:
        name = parameter.name
        if parameter.is_constexpr:
            if name not in constants:
                raise _SourceError(
                    line, f"tl.constexpr `{name}` has no value: write it in [defines]"
                )
            found[name] = "constexpr"
        elif parameter.annotation_type:
            found[name] = parameter.annotation_type
        else:
            raise _SourceError(
                line, f'parameter `{name}` has no type: write {name}: "*fp32" or "i32"'
            )
    return found


def _compile(request: dict[str, Any]) -> dict[str, object]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.errors import CompilationError

    path, kernel = request["source"], request["kernel"]
    function = getattr(_module(path), kernel, None)
    if not isinstance(function, triton.JITFunction):
        raise _SourceError(1, f"`{kernel}` is not a function decorated with @triton.jit")
    # Triton counts from the `def`, after the decorators.
    rows = function.raw_src
    first = function.starting_line_number + next(
        index for index, row in enumerate(rows) if row.lstrip().startswith("def ")
    )
    signature = _signature(function, request["constants"], first)
    constants = {
        name: request["constants"][name] for name, t in signature.items() if t == "constexpr"
    }
    # Buffers are aligned far better than this. Triton's own launches check their integer arguments
    # and recompile; here the version states what is true for all of its problems.
    given = [place for place, kind in enumerate(signature.values()) if kind != "constexpr"]
    kinds = list(signature.values())
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for index, place in enumerate(given)
        if kinds[place].startswith("*") or index in request["divisible"]
    }
    target = GPUTarget("cuda", request["capability"], 32)
    options = {name: request[name] for name in ("num_warps", "num_stages")}
    try:
        made = triton.compile(
            ASTSource(function, signature, constants, aligned), target=target, options=options
        )
    except CompilationError as error:
        line = first + getattr(error.node, "lineno", 1) - 1
        said = error.error_message or str(error.__cause__ or "Triton gave no reason")
        raise _SourceError(line, said) from None
    # Triton's own library may be installed anywhere: its paths become "triton/…".
    root = Path(triton.__file__).parent.parent
    ptx = made.asm["ptx"].replace(f"{root}/", "")
    Path("out.ptx").write_text(ptx, encoding="utf-8")
    Path("out.cubin").write_bytes(neutral_cubin(made.asm["cubin"], root))
    entry = _ENTRY.search(ptx)
    assert entry is not None, "Triton's PTX has an entry"
    return {
        "ok": True,
        "shared": made.metadata.shared,
        "args": entry[1].count(".param") - len(given),
    }


def answer(request: dict[str, Any]) -> dict[str, object]:
    """Answer one request."""
    try:
        # Printed text, with ptxas's registers, goes into the log: stdout has only the answer.
        with contextlib.redirect_stdout(io.StringIO()) as said:
            made = _compile(request)
        return {**made, "log": said.getvalue()}
    except _SourceError as error:
        return {"ok": False, "log": f"{request['source']}({error.line}): error: {error}"}
    except ImportError as error:
        return {"missing": str(error)}
    except Exception as error:  # any error of a compiler's passes; the version is to blame
        return {"ok": False, "log": f"error: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(json.load(sys.stdin))))
