"""A ``.cu`` without ``main``: its functions that launch, and a program that calls one.

``solve(float[1<<20], out float[1<<20], 1<<20)`` is a call whose arrays are made and filled: element
types and sizes replace pointers; everything else is C++.
"""

from __future__ import annotations

import re

from workbench.errors import UsageError
from workbench.study.mangling import in_parentheses
from workbench.study.sources import without_comments

_CALL = re.compile(r"\s*([A-Za-z_][\w:]*(?:<[^()]*>)?)\s*\(.*\)\s*;?\s*\Z", re.DOTALL)
_ARRAY = re.compile(r"(out\s+)?((?:const\s+)?[A-Za-z_][\w:]*(?:\s+\w+)*)\s*\[(.+)\]\Z", re.DOTALL)
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*\)[^;{}()]*\{")
_MAIN = re.compile(r"\bmain\s*\(")
#: Values in [-1, 1), and integers from 0 to 9; they are the same on every machine.
_DRIVER = """

#include <cstdio>
#include <type_traits>

template <typename T> void workbench_fill(T* data, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = std::is_integral<T>::value ? T((seed >> 16) % 10)
                                             : T(float(seed >> 8) / 8388608.0f - 1.0f);
    }
}

int main() {
"""


def launching_functions(text: str) -> list[str]:
    """The functions of a source that appear to launch a kernel."""
    plain, found = without_comments(text), dict[str, str]()
    for function in _FUNCTION.finditer(plain):
        depth, end = 1, function.end()
        while depth and end < len(plain):
            depth += (plain[end] == "{") - (plain[end] == "}")
            end += 1
        if "<<<" in plain[function.end() : end] and function[1] not in ("if", "for", "while"):
            head = " ".join(plain[function.start() : function.end() - 1].split())
            found.setdefault(function[1], head)
    return list(found.values())


def calling(text: str, call: str) -> str:
    """A program made of a source and a ``main`` that calls one of its functions.

    Raises UsageError: it is not a valid call, or the source has no such function.
    """
    found = _CALL.match(call)
    name = found[1] if found else ""
    own = name.partition("<")[0].rpartition("::")[2]
    declared = re.search(rf"\b{re.escape(own)}\s*\(", without_comments(text)) if own else None
    if found is None or declared is None:
        raise UsageError(
            f"--call {call!r} names no function in the file",
            _hint(text),
        )
    names = [
        each.rpartition("=")[0] or each
        for each in in_parentheses(without_comments(text)[declared.start() :])
    ]
    body, given = "", []
    for place, argument in enumerate(_arguments(call)):
        array = _ARRAY.match(argument)
        if array is None:
            given.append(argument)
            continue
        word = re.search(r"(\w+)\s*(?:\[\w*\]\s*)?\Z", names[place] if place < len(names) else "")
        pointer = f"{word[1]}_" if word else f"array_{place}"
        kind, count = array[2].replace("const ", ""), array[3]
        body += f"    {kind}* {pointer} = nullptr;\n"
        body += f"    cudaMallocManaged(&{pointer}, sizeof({kind}) * ({count}));\n"
        if not array[1]:
            body += f"    workbench_fill({pointer}, {count}, {place + 1}u);\n"
        given.append(pointer)
    body += f"    {name}({', '.join(given)});\n"
    body += "    const cudaError_t error = cudaDeviceSynchronize();\n"
    body += '    if (error != cudaSuccess) fprintf(stderr, "%s\\n", cudaGetErrorString(error));\n'
    return f"{text}{_DRIVER}{body}    return error != cudaSuccess;\n}}\n"


def _arguments(call: str) -> list[str]:
    """The texts between the commas of a call; ``<`` in them is an operator."""
    depth, parts = 0, [""]
    for letter in call[call.index("(") + 1 : call.rindex(")")]:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def runnable(text: str, shown: str, call: str) -> str:
    """A program: a source with its own ``main``, or with one that makes the call.

    Raises UsageError: it has neither ``main`` nor a call, or both; the hint lists possible calls.
    """
    has_main = _MAIN.search(without_comments(text)) is not None
    if has_main and call:
        raise UsageError(f"{shown} has a main, which is run", "Leave out --call.")
    if not has_main and not call:
        raise UsageError(f"{shown} has no main", _hint(text))
    return calling(text, call) if call else text


def _hint(text: str) -> str:
    functions = launching_functions(text)
    if not functions:
        return "None of its functions launches a kernel: write a main that does."
    return (
        "Say how a function that launches kernels is called: --call 'solve(float[1<<20], "
        f"out float[1<<20], 1<<20)'. It has: {'; '.join(functions[:8])}."
    )
