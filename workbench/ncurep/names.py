"""Kernel names as their author wrote them.

ncu demangles the names of C++ compilers. Kernels of Numba, CuTe DSL and older Tritons reach a
report under the name of the machine code, as do all that ncu's demangler cannot read. Only the
function's name is read here: its parameters stay in `Launch.signature`. The scheme is that of the
Itanium C++ ABI (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling).
"""

from __future__ import annotations

import re

#: ``matmul[abi:v1][abi:cw51cXT…]``: Numba's flags, as ncu demangles them.
_TAGS = re.compile(r"\[abi:[^\]]*\]")
#: ``matmul$241``: the number that older Numbas give a function.
_NUMBER = re.compile(r"\$\d+$")
#: ``add_kernel_0d1d2de3c``: the arguments that Triton versions before 3.0 specialized, in order.
_SPECIALISED = re.compile(r"_(0[cde]{0,2}(?:\d+[cde]{0,2})+)$")
#: ``kernel_cutlass_NAME_TYPES``: CuTe DSL joins a function and the types of its arguments; for a
#: method the first is ``<module.Class object at …>``, less what identifiers may not hold.
_CUTE = re.compile(
    r"kernel_cutlass_(?P<name>\w+?)_(?:"
    r"(?:__main__|[a-z\d_]*)(?P<type>[A-Z]\w*?)_object_at_"
    r"|tensorptr|tensor0000|Tiled(?:MMA|Copy)_|CopyAtom_|MmaAtom_|Layout_|i32_|f32_)"
)
#: Parts of template arguments that are not names: substitutions, template
#: parameters, array bounds, values of literals, letters of builtin types and operators.
_SKIPPED = re.compile(r"S[0-9A-Z]*_|S[tabsiod]|T[0-9A-Z]*_|A\d*_|L[a-z]n?\d+E|D[a-z]|[a-zKPRO]")
_OPENING = "NIJXLF"


def kernel_name(raw: str) -> str:
    """The name in the source, without namespaces, parameters and specialization.

    ``_ZN6cudapy8__main__10matmul$241E5ArrayIfLi2E…`` -> ``matmul``; a name that is not mangled is
    returned without the marks of Numba, Triton and CuTe DSL (a method as ``Class.method``).
    """
    if cute := _CUTE.match(raw):
        return f"{cute['type']}.{cute['name']}" if cute["type"] else cute["name"]
    names = _identifiers(raw)
    name = names[-1] if names else raw
    return _unspecialized(_NUMBER.sub("", _TAGS.sub("", name))) or raw


def _unspecialized(name: str) -> str:
    """The name without Triton's suffix: arguments from 0, at least one of them marked."""
    found = _SPECIALISED.search(name)
    if found is None or not any(letter in found[1] for letter in "cde"):
        return name
    rest, number = found[1], 0
    while rest:
        step = re.match(rf"{number}[cde]{{0,2}}", rest)
        if step is None:
            return name
        rest, number = rest[step.end() :], number + 1
    return name[: found.start()]


def _identifiers(raw: str) -> list[str]:
    """A mangled function's namespaces, outermost first, and its own name; [] for other text."""
    if not raw.startswith("_Z"):
        return []
    at = 2 + raw[2:].startswith("L")
    nested = raw.startswith("N", at)
    at += nested
    out: list[str] = []
    while at < len(raw):
        if raw[at] == "B":  # an ABI tag is not part of the name
            at, _ = _identifier(raw, at + 1)
        elif raw[at].isdigit():
            at, name = _identifier(raw, at)
            if not name.startswith("_GLOBAL__N_"):
                out.append(name)
        elif raw[at] == "I":
            at = _behind_arguments(raw, at)
        elif nested and raw[at] in "LKVr":
            at += 1
        elif nested and (skipped := re.compile(r"S[0-9A-Z]*_|S[tabsiod]").match(raw, at)):
            at = skipped.end()
        else:
            break  # the end of the name, or something that kernels do not have
        if not nested and out and not raw.startswith("B", at):
            break
    return out


def _identifier(raw: str, at: int) -> tuple[int, str]:
    """The end of a name with its length before it, and the name."""
    digits = re.compile(r"\d+").match(raw, at)
    if digits is None:
        return len(raw), ""
    end = digits.end() + int(digits[0])
    return end, raw[digits.end() : end]


def _behind_arguments(raw: str, at: int) -> int:
    """The end of template arguments that begin at `at`; the end of the text if they do not end."""
    open_: list[str] = []
    while at < len(raw):
        value = re.compile(r"n?\d+(?=E)").match(raw, at) if open_ and open_[-1] == "L" else None
        if value is not None:
            at = value.end()
        elif raw[at].isdigit():
            at, _ = _identifier(raw, at)
        elif skipped := _SKIPPED.match(raw, at):
            at = skipped.end()
        elif raw[at] == "E":
            open_.pop()
            at += 1
            if not open_:
                return at
        else:
            open_ += [raw[at]] * (raw[at] in _OPENING)
            at += 1
    return at
