"""Names of kernels that show a reader which one is meant.

A name is enough if only one kernel has it. CUTLASS has hundreds of `Kernel`: there the template
arguments are added, without namespaces and nested arguments. If these short forms are equal too,
the words that differ are added, and then the grid. A generic name (`Kernel`) always has arguments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile

from workbench.model import Launch
from workbench.units import extent

#: The longest title: about as much as fits beside numbers in a terminal.
_LONGEST = 60
_EMPTY = frozenset({"kernel", "kernel2"})
_CAST = re.compile(r"\((?:unsigned )?(?:bool|char|short|int|long|long long)\)(?=-?\d)")
_WORDS = re.compile(r"\w+")
#: An argument without others, or with arguments that have none of their own.
_LEAF = re.compile(r"[^<>(),]+<[^<>]*>|[^<>(),]+")
_SPACE = re.compile(r"(?:\b\w+|\(anonymous namespace\))::")
#: Names of kernels of NVIDIA's libraries, and of their templates.
_LIBRARY = re.compile(
    r"\b(?:cutlass|cub|thrust|cudnn|cublas\w*)::"
    r"|^(?:void )?(?:cutlass|cudnn|cublas|maxwell|volta|turing|ampere|hopper|sm\d+|gemv|splitK)\w*_"
)


def of_library(launch: Launch) -> bool:
    """True if a kernel is a library's, by its name."""
    return bool(_LIBRARY.search(launch.kernel) or _LIBRARY.search(launch.signature))


def titles(launches: Sequence[Launch]) -> list[str]:
    """A name for each launch, with enough of its template arguments to distinguish them."""
    names = [launch.kernel for launch in launches]
    names = _told(names, launches, lambda x: (x.kernel, x.signature), _with_arguments)
    # If arguments alone are as long as a name may be, they do not show the difference.
    shown: dict[tuple[str, str], set[str]] = {}
    for name, launch in zip(names, launches, strict=True):
        shown.setdefault((launch.kernel, shortened(name)), set()).add(launch.signature)
    for kernel in {kernel for (kernel, _), own in shown.items() if len(own) > 1}:
        own = [n for n, launch in enumerate(launches) if launch.kernel == kernel]
        apart = distinctions([launches[n].signature for n in own])
        for n, words in zip(own, apart, strict=True):
            names[n] = f"{launches[n].kernel}<…{words}…>" if words else names[n]
    return _told(
        names,
        launches,
        lambda x: (x.kernel, x.signature, x.grid),
        lambda name, launch: f"{name} grid {extent(launch.grid, whole=True)}",
    )


def _told(
    names: Sequence[str],
    launches: Sequence[Launch],
    known: Callable[[Launch], object],
    more: Callable[[str, Launch], str],
) -> list[str]:
    """Names, made longer if several kernels share them."""
    told: dict[str, set[object]] = {}
    for name, launch in zip(names, launches, strict=True):
        told.setdefault(name, set()).add(known(launch))
    return [
        (more if len(told[name]) > 1 else _with_arguments)(name, launch)
        if len(told[name]) > 1 or name.lower() in _EMPTY
        else name
        for name, launch in zip(names, launches, strict=True)
    ]


def distinctions(signatures: Sequence[str]) -> list[str]:
    """The words that distinguish each signature: ``float``; "" if there are none."""
    words = [_WORDS.findall(_SPACE.sub("", _CAST.sub("", text))) for text in signatures]
    counts = [Counter(own) for own in words]
    if len(pair := list(dict.fromkeys(signatures))) == 2 and all(apart := _arguments(*pair)):
        return [apart[pair.index(text)].strip() for text in signatures]
    out = []
    for n, own in enumerate(counts):
        left = [m for m, text in enumerate(signatures) if text != signatures[n]]
        chosen: list[str] = []
        while left and own:
            word = max(
                own, key=lambda w: (sum(counts[m][w] < own[w] for m in left), not w[0].isdigit())
            )
            rest = [m for m in left if counts[m][word] >= own[word]]
            if len(rest) == len(left):
                break
            chosen.append(word)
            left = rest
        out.append(", ".join(sorted(chosen, key=words[n].index)))
    return out


def _arguments(*signatures: str) -> list[str]:
    """The first argument that differs in two signatures, with its own short ones; "" if none do."""
    short = [_SPACE.sub("", _CAST.sub("", text)) for text in signatures]
    at = sum(1 for __ in takewhile(lambda x: x[0] == x[1], zip(*short, strict=False)))
    said = ["".join(x[0] for x in _LEAF.finditer(y) if x.start() <= at < x.end()) for y in short]
    return said if said[0] != said[1] and max(map(len, said)) <= _LONGEST // 2 else ["", ""]


def _with_arguments(name: str, launch: Launch) -> str:
    arguments = template_arguments(launch)
    return f"{name}<{arguments}>" if arguments else name


def shortened(name: str, longest: int = _LONGEST) -> str:
    """A name, cut to at most `longest` letters."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def told_apart(names: Sequence[str]) -> list[str]:
    """`shortened` names; if their beginnings are equal, they keep the parts that differ.

    ``sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_t…warpgroupsize2x1x1``
    """
    out = [shortened(name) for name in names]
    for text in [text for text, often in Counter(out).items() if often > 1]:
        own = [n for n, each in enumerate(out) if each == text]
        apart = distinctions([names[n].replace("_", " ") for n in own])
        for n, words in zip(own, apart, strict=True):
            end = words[-(_LONGEST // 2) :]
            out[n] = shortened(names[n], _LONGEST - len(end)) + end
    return out


def template_arguments(launch: Launch) -> str:
    """Short template arguments of a launch's kernel; "" if it is not a template.

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
    return shortened(short)
