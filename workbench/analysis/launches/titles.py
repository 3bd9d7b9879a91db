"""What to call a kernel so that a reader knows which one is meant.

A name is enough while no two kernels share it. CUTLASS has hundreds of `Kernel`: there the
template arguments are added, without their namespaces and what is nested in them, and where
those are equal too, the grid. A name that says nothing (`Kernel`) always has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workbench.model import Launch

#: Longest title: about what a terminal has room for beside numbers.
_LONGEST = 60
_EMPTY = frozenset({"kernel", "kernel2"})
_CAST = re.compile(r"\((?:unsigned )?(?:bool|char|short|int|long|long long)\)(?=-?\d)")
_SPACE = re.compile(r"(?:\b\w+|\(anonymous namespace\))::")


def titles(launches: Sequence[Launch]) -> list[str]:
    """A name for each launch, with as much of its template arguments as tells them apart."""
    names = [launch.kernel for launch in launches]
    for known in (lambda x: (x.kernel, x.signature), lambda x: (x.kernel, x.signature, x.grid)):
        told: dict[str, set[object]] = {}
        for name, launch in zip(names, launches, strict=True):
            told.setdefault(name, set()).add(known(launch))
        names = [
            _more(name, launch) if len(told[name]) > 1 else _named(name, launch)
            for name, launch in zip(names, launches, strict=True)
        ]
    return names


def _named(name: str, launch: Launch) -> str:
    arguments = template_arguments(launch) if name.lower() in _EMPTY else ""
    return f"{name}<{arguments}>" if arguments else name


def _more(name: str, launch: Launch) -> str:
    arguments = template_arguments(launch)
    if arguments and name == launch.kernel:
        return f"{name}<{arguments}>"
    return f"{name} grid {'×'.join(map(str, launch.grid))}"


def shortened(name: str, longest: int = _LONGEST) -> str:
    """A name that fits into `longest` letters, its end left out."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def template_arguments(launch: Launch, longest: int = _LONGEST) -> str:
    """Short template arguments of a launch's kernel; "" where it is no template.

    ``void cutlass::Kernel<cutlass::gemm::kernel::B2bGemm<…>>(T1::Params)`` -> ``B2bGemm<…>``
    """
    text = launch.signature
    start = text.find(f"{launch.kernel}<")
    if start < 0:
        return ""
    depth = 0
    out: list[str] = []
    for letter in text[start + len(launch.kernel) :]:
        if letter == ">":
            depth -= 1
            if depth == 0:
                break
        elif letter == "<":
            out += ["<…>"] * (depth == 1)
            depth += 1
        elif depth == 1:
            out.append(letter)
    short = _SPACE.sub("", _CAST.sub("", "".join(out)))
    return short if len(short) <= longest else short[: longest - 1] + "…"
