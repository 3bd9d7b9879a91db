"""The functions of CUDA's driver and runtime, and code for those that the C++ does not define.

All names come from the toolkit's headers. Functions defined in ``data/standin`` replace the weak
functions made here. Of the weak ones, some pass their parameters on to the driver's function, some
do nothing, some are other names of a function, and the rest report that they are missing.
"""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from workbench.model import Record

#: The folder of the C++ code, and of the lists of functions that need none.
SOURCES = Path(__file__).resolve().parents[1] / "data" / "standin"
_DECLARED = re.compile(r"\bCUDA(?:API|RTAPI|RTAPI_CDECL)\s+((?:__)?cu\w+)\s*\(")
_RENAMED = re.compile(
    r"^\s*#define\s+(cu\w+)\s+(?:__CUDA(?:RT)?_API_PT[DS][SZ]\()?(cu\w+)\)?\s*$", re.MULTILINE
)
_PER_THREAD = re.compile(r"__CUDA(?:RT)?_API_PT([DS][SZ])\((cu\w+)\)")
_TYPED = re.compile(r"\bPFN_(cu\w+?)_v(\d+)\)")

_LISTS = {
    name: words.split()
    for name, words in tomllib.loads((SOURCES / "functions.toml").read_text("utf-8")).items()
}
_SAME = dict(pair.split("=") for pair in _LISTS["same"])
_NOTHING = set(_LISTS["nothing"])


class Headers(Record, frozen=True):
    """The headers of a toolkit: their folder and version (13000 for 13.0)."""

    include: str
    version: int

    @property
    def runtime(self) -> str:
        """The name of the runtime library that programs of this toolkit load."""
        return f"libcudart.so.{self.version // 1000}"

    def text(self, name: str) -> str:
        """A header; empty if the toolkit lacks it."""
        with contextlib.suppress(FileNotFoundError):
            return Path(self.include, name).read_text("utf-8", "replace")
        return ""


class Functions(Record, frozen=True):
    """The functions of one library: code of weak ones, and pairs of a name and its meaning."""

    code: str
    same: dict[str, str]


def of_driver(headers: Headers) -> Functions:
    """The driver's functions."""
    text = headers.text("cuda.h")
    names = _names(text)
    same = _same(text, names)
    lines = ["int standin_missing(const char* name);", "int standin_nothing();"]
    lines += [_weak(name, "(void)", "return standin_nothing();") for name in sorted(_NOTHING)]
    rest = names - _NOTHING - set(same)
    lines += [_weak(each, "(void)", f'return standin_missing("{each}");') for each in sorted(rest)]
    return Functions(code=_extern(lines), same=same)


def of_runtime(headers: Headers) -> Functions:
    """The runtime's functions. Functions that are passed on take only integers and pointers."""
    text = headers.text("cuda_runtime_api.h")
    driver = headers.text("cuda.h")
    renamed, known = dict(_RENAMED.findall(driver)), _names(driver) | _NOTHING
    more = ("crt/host_runtime.h", "cuda_gl_interop.h")
    names = _names(text + "".join(map(headers.text, more)))
    same = _same(text, names)
    lines = [f"int {name};" for name in ("standin_begin()", "standin_ended(int code)")]
    lines.append("int standin_missing_runtime(const char* name);")
    passed = set[str]()
    for word in _LISTS["passed"]:
        name, _, other = word.partition("=")
        target = f"cu{other or name}"
        target = renamed.get(target, target)
        if target not in known:  # an older toolkit
            continue
        passed.add(f"cuda{name}")
        lines.append(f"int {target}(...);")
        call = f"return standin_ended(bad ? bad : {target}(a, b, c, d, e, f, g));"
        taken = "(long a, long b, long c, long d, long e, long f, long g)"
        lines.append(_weak(f"cuda{name}", taken, f"int bad = standin_begin(); {call}"))
    rest = names - passed - set(same)
    missing = 'return standin_missing_runtime("{}");'
    lines += [_weak(each, "(void)", missing.format(each)) for each in sorted(rest)]
    return Functions(code=_extern(lines), same=same)


def tables(headers: Headers) -> str:
    """The header for the C++ code: error names, entry points by CUDA version, properties."""
    driver, runtime = headers.text("cuda.h"), headers.text("driver_types.h")
    errors = re.findall(r"\b(CUDA_SUCCESS|CUDA_ERROR_\w+)\s*=\s*(\d+)", driver)
    codes = re.findall(r"\b(cudaSuccess|cudaError\w+)\s*=\s*(\d+)", runtime)
    properties = [
        f"properties.{name} = fact({number});"
        for name, _, number in (pair.partition("=") for pair in _LISTS["properties"])
        if re.search(rf"\b{name.partition('[')[0]}[;\[]", runtime)
    ]
    entries = [
        f'{{"{name}", {version}, "{symbol}"}},' for name, version, symbol in _entries(headers)
    ]
    return "\n".join(
        [
            '#include "errors.h"\nstruct Entry {\nconst char* name;\nint version;\n'
            "const char* symbol;\n};\nstatic const ErrorText kDriverErrors[] = {",
            *(f'{{{code}, "{name}"}},' for name, code in errors),
            "};\nstatic const ErrorText kRuntimeErrors[] = {",
            *(f'{{{code}, "{name}"}},' for name, code in codes),
            "};\nstatic const Entry kEntries[] = {",
            *entries,
            '{"", 0, ""}};',
            f"#define DEVICE_PROPERTIES {' '.join(properties)}\n",
        ]
    )


def _entries(headers: Headers) -> Iterator[tuple[str, int, str]]:
    """The symbols that a function's name means in versions of CUDA.

    ``cudaTypedefs.h`` names the versions that changed a function; the symbols of a function are
    its name, then ``NAME_v2`` and so on.
    """
    names = _names(headers.text("cuda.h"))
    typed: dict[str, set[int]] = {}
    for name, version in _TYPED.findall(headers.text("cudaTypedefs.h")):
        typed.setdefault(name, set()).add(int(version))
    for old, new in _RENAMED.findall(headers.text("cuda.h")):
        if new in names:
            typed.setdefault(old, {headers.version})
    for name, versions in typed.items():
        known = [name, *(f"{name}_v{number}" for number in range(2, 9))]
        symbols = [each for each in known if each in names]
        newest = min(len(symbols), len(versions))
        for version, symbol in zip(sorted(versions)[-newest:], symbols[-newest:], strict=True):
            yield name, version, symbol


def _names(text: str) -> set[str]:
    """The names declared in a header."""
    renamed = {new for _, new in _RENAMED.findall(text)}
    return set(_DECLARED.findall(text)) | renamed | {name for _, name in _PER_THREAD.findall(text)}


def _same(text: str, names: set[str]) -> dict[str, str]:
    """Functions with other names, such as those for a default stream per thread."""
    per_thread = {f"{name}_pt{kind.lower()}": name for kind, name in _PER_THREAD.findall(text)}
    return per_thread | {name: of for name, of in _SAME.items() if of in names}


def _weak(name: str, parameters: str, body: str) -> str:
    return f'__attribute__((weak, visibility("default"))) int {name}{parameters} {{ {body} }}'


def _extern(lines: list[str]) -> str:
    return "\n".join(['extern "C" {', *lines, "}\n"])
