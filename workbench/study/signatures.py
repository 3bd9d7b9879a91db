"""Check a kernel's arguments against the sizes and types of its parameters.

A driver reads as many bytes as a kernel's parameters have, whatever arguments it got: their number
and sizes are checked against the PTX before anything is launched.

NumPy creates float64 by default, and a kernel that takes ``const float*`` reads such an array as
noise: compilers do not see that, and every access is in bounds. Only built-in type names are read;
names of a typedef or a template are skipped.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from struct import calcsize
from typing import NamedTuple

import tomli

from workbench.errors import UsageError
from workbench.specs import Version
from workbench.study.expressions import Key, evaluate
from workbench.study.launches import (
    CTYPES,
    Argument,
    BufferArg,
    ResolvedLaunch,
    ScalarArg,
    StructArg,
    TensorMapArg,
    TextureArg,
    format_of,
    members_of,
)
from workbench.study.mangling import entries, own_name
from workbench.study.sources import without_comments

_TABLES = tomli.loads((Path(__file__).parents[1] / "data/ctypes.toml").read_text(encoding="utf-8"))
#: NumPy's name of the type to which a pointer points; and the same with further types.
ELEMENTS, _FURTHER = (
    {name: dtype for dtype, names in _TABLES[table].items() for name in names}
    for table in ("elements", "further")
)
KNOWN: dict[str, str] = ELEMENTS | _FURTHER
#: NumPy's default types.
_DEFAULTS = ("float64", "int64")
_TENSOR_MAP_BYTES, _TEXTURE_BYTES, _WIDEST = 128, 8, 8
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.[a-z](\d+)[^\[]*(?:\[(\d+)\])?\s*\Z")
_POINTER = re.compile(r"(?:(?:const|volatile)\s+)*([\w ]+?)\s*(?:\bconst\s*)?\*[^*\[]*\Z")


#: Type names of a texture object in CUDA C++, and of the driver.
_TEXTURES = ("cudaTextureObject_t", "CUtexObject")


def check_arguments(version: Version, ptx: str, launches: Iterable[ResolvedLaunch]) -> None:
    """Check arguments against the parameters with which kernels were compiled.

    Kernels that `ptx`, the compiled code, lacks are skipped. Raises UsageError: there are more or
    fewer arguments than parameters, or one has another size; at the line of `args`.
    """
    for launch in launches:
        wanted, kinds = parameter_bytes(ptx, launch.kernel), _kinds(ptx, launch.kernel)
        given = [_bytes(argument) for argument in launch.args]
        key = launch_key(version, launch, "args")
        declared = _declared(version.text, launch)
        for place, (argument, (taken, _)) in enumerate(zip(launch.args, declared, strict=False)):
            _check_pointer(key, launch.kernel, place, argument, taken)
        if wanted is None:
            continue
        if given == list(wanted):
            for place, (argument, kind) in enumerate(zip(launch.args, kinds, strict=True)):
                _check_kind(key, launch.kernel, place, argument, kind)
            continue
        if len(given) != len(wanted):
            raise key.error(
                f"kernel {own_name(launch.kernel)} takes {len(wanted)} arguments, not {len(given)}",
                "A struct that is passed by value is one argument: a list of its members."
                if given
                else "Name them in `args`, in the order of its parameters.",
            )
        place = next(
            n for n, pair in enumerate(zip(given, wanted, strict=True)) if len({*pair}) > 1
        )
        struct = isinstance(launch.args[place], StructArg)
        raise key.error(
            f"argument {place + 1} of kernel {own_name(launch.kernel)} has {given[place]} bytes, "
            f"but the kernel takes {wanted[place]}",
            "Give every member of the struct in order, of its type: long(N), float(0.5), short(1)."
            if struct or wanted[place] > _WIDEST
            else "Give its type: long(N), float(0.5), double(N).",
        )


def launch_key(version: Version, launch: ResolvedLaunch, name: str) -> Key:
    """A key of the launch in the front matter."""
    found = (n for n, spec in enumerate(version.launches) if entries(spec.kernel, [launch.kernel]))
    return Key(version, f"launch[{next(found, 0)}].{name}")


def _check_pointer(key: Key, kernel: str, place: int, argument: Argument, taken: str) -> None:
    """Refuse a number for a pointer, a buffer for a number, and another argument for a texture."""
    is_texture = isinstance(argument, TextureArg)
    if taken and is_texture != (taken in _TEXTURES):
        raise key.error(
            f"argument {place + 1} of kernel {own_name(kernel)} is {'a' if is_texture else 'no'} "
            f"texture, but the kernel takes {taken}",
            "Name a buffer there, or let the kernel take a cudaTextureObject_t."
            if is_texture
            else "Describe one in a [[texture]] (`workbench docs front-matter`) and give its name.",
        )
    null = isinstance(argument, ScalarArg) and argument == ScalarArg(0, "long")
    if isinstance(argument, ScalarArg) and taken.endswith("*") and not null:
        raise key.error(
            f"argument {place + 1} of kernel {own_name(kernel)} is the number {argument.value}, "
            f"but the kernel takes a pointer, {taken}",
            "Name a buffer there (input, output or scratch buffer); long(0) is a null pointer.",
        )
    if isinstance(argument, BufferArg) and taken in CTYPES:
        raise key.error(
            f"argument {place + 1} of kernel {own_name(kernel)} is the buffer `{argument.name}`, "
            f"but the kernel takes a number, {taken}",
            "Write a parameter of the problem there, or an expression; or let the kernel take a "
            "pointer.",
        )


def _check_kind(key: Key, kernel: str, place: int, argument: Argument, kind: str) -> None:
    """Refuse a number with a decimal point for an integer, and vice versa."""
    if not isinstance(argument, ScalarArg) or kind not in ("s", "u", "f"):
        return
    floating = CTYPES[argument.ctype] is None
    if floating == (kind == "f"):
        return
    is_, wants = ("a floating-point number", "an integer") if floating else (
        "an integer", "a floating-point number")  # fmt: skip
    whole = f"{argument.value:.0f}" if floating and argument.value % 1 == 0 else "an integer"
    raise key.error(
        f"argument {place + 1} of kernel {own_name(kernel)} is {is_}, {argument.value}, but the "
        f"kernel takes {wants} of the same size",
        f"Write {whole}." if floating else f"Write float({argument.value}).",
    )


@lru_cache(maxsize=16)
def _kinds(ptx: str, kernel: str) -> tuple[str, ...]:
    """The letter of each parameter's type in PTX: ``f``, ``u``, ``s``, ``b``."""
    return tuple(
        text.partition(".param")[2].lstrip()[1:2] for text in _parameters(ptx, kernel) or ()
    )


@lru_cache(maxsize=16)
def parameter_bytes(ptx: str, kernel: str) -> tuple[int, ...] | None:
    """The sizes of a kernel's parameters in its PTX; None: it has no such kernel."""
    declared = _parameters(ptx, kernel)
    if declared is None:
        return None
    matches = [_PARAMETER.match(text) for text in declared]
    sizes = [int(match[1]) // 8 * int(match[2] or 1) for match in matches if match]
    return tuple(sizes) if len(sizes) == len(declared) else None


def entry_text(ptx: str, kernel: str) -> str:
    """A kernel's own code in its PTX; empty if it has no such kernel."""
    begin = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\(", ptx)
    return ptx[begin.start() :].partition("\n}\n")[0] if begin else ""


def _parameters(ptx: str, kernel: str) -> list[str] | None:
    found = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\(([^)]*)\)", ptx)
    return [text.strip() for text in found[1].split(",") if text.strip()] if found else None


def _bytes(argument: Argument) -> int:
    if isinstance(argument, TensorMapArg):
        return _TENSOR_MAP_BYTES
    if isinstance(argument, TextureArg):
        return _TEXTURE_BYTES
    return calcsize(f"@{format_of([each.ctype for each in members_of(argument)])}")


def _declared(code: str, launch: ResolvedLaunch) -> list[tuple[str, str]]:
    """Each parameter as the source declares it: its type, and NumPy's name of the pointee.

    Empty if the source does not declare it, or declares a different number of parameters.
    """
    name = re.escape(own_name(launch.kernel))
    found = re.search(rf"\b{name}\s*\(([^()]*)\)", without_comments(code))
    parameters = found[1].split(",") if found else []
    if len(parameters) != len(launch.args):
        return []
    each = (" ".join(parameter.split()) for parameter in parameters)
    return [
        (f"{found[1]}*", ELEMENTS.get(found[1], ""))
        if (found := _POINTER.match(text))
        else (re.sub(r"\bconst\b ?|\s*\w+$", "", text), "")
        for text in each
    ]


class Misread(NamedTuple):
    """An argument whose elements a kernel reads as another type."""

    launch: ResolvedLaunch
    name: str
    given: str  # NumPy's name
    taken: str  # likewise
    written: str  # as the source writes it

    @property
    def words(self) -> str:
        """The fault in words."""
        kernel = own_name(self.launch.kernel)
        words = "`{name}` is {given}, but {kernel} takes it as {written}"
        return words.format(name=self.name, given=self.given, kernel=kernel, written=self.written)

    def refuse(self, version: Version) -> None:
        """Refuse NumPy's default type if the kernel takes a narrower one: this is never intended.

        Raises UsageError: at the line of `args`.
        """
        if self.given in _DEFAULTS and _bits(self.taken) < _bits(self.given):
            raise launch_key(version, self.launch, "args").error(
                self.words,
                f"NumPy creates {self.given} by default: give `{self.name}` the type "
                f'of the kernel in study.py (dtype="{self.taken}", .astype("{self.taken}")), or '
                "use the wide type in the kernel.",
            )


def misread(
    code: str, launches: Iterable[ResolvedLaunch], dtypes: Mapping[str, str]
) -> tuple[Misread, ...]:
    """The arguments whose elements the kernels read as another type.

    `dtypes` is NumPy's name of the type of every buffer.
    """
    said: dict[str, Misread] = {}
    for launch in launches:
        for argument, (written, taken) in zip(launch.args, _declared(code, launch), strict=False):
            given = dtypes.get(argument.name, "") if isinstance(argument, BufferArg) else ""
            if isinstance(argument, BufferArg) and taken and _mistaken(given, taken):
                each = Misread(launch, argument.name, given, taken, written)
                said.setdefault(each.words, each)
    return tuple(said.values())


def _mistaken(given: str, taken: str) -> bool:
    """True for a likely mistake of types. Several small integers may be read as one on purpose."""
    if given not in ELEMENTS.values() or given == taken:
        return False
    floats = given.startswith("float") and taken.startswith("float")
    return floats or _bits(given) > _bits(taken)


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))


# --- declared arrays of shared memory -----------------------------------------------

_ARRAY = re.compile(
    r"__shared__\s+(?:__align__\s*\([^()]*\)\s*)?([\w ]+?)\s+(\w+)((?:\[[^\[\];]*\])+)"
)
_DEFINE = re.compile(
    r"^\s*#\s*define\s+(\w+)[ \t]+(.+?)\s*$|\bconst(?:expr)?\s+(?:static\s+)?(?:unsigned\s+)?"
    r"(?:int|size_t|unsigned)\s+(\w+)\s*=\s*([^;,]+);",
    re.MULTILINE,
)


def shared_arrays(code: str, defined: Mapping[str, int]) -> dict[str, tuple[int, tuple[int, ...]]]:
    """The arrays of shared memory that a source declares: bytes of an element, and extents.

    Only arrays of plain types whose extents become numbers when constants are inserted; a name that
    is declared in two ways is left out. An omitted extent is 0. `defined` are macros from the
    compiler's command line.
    """
    plain, values = without_comments(code), dict(defined)
    for match in _DEFINE.finditer(plain):
        with contextlib.suppress(UsageError):
            values.setdefault(match[1] or match[3], evaluate(match[2] or match[4], values))
    found: dict[str, set[tuple[int, tuple[int, ...]]]] = {}
    for kind, name, extents in _ARRAY.findall(plain):
        said = found.setdefault(name, set())
        try:
            shape = tuple(
                evaluate(text, values) if text.strip() else 0
                for text in re.findall(r"\[([^\]]*)\]", extents)
            )
        except UsageError:
            shape = ()
        said.add((_bits(ELEMENTS[kind]) // 8 if kind in ELEMENTS and shape else 0, shape))
    return {name: max(said) for name, said in found.items() if len(said) == 1 and max(said)[0]}
