"""Which edits bound a kernel's registers: launch bounds, and the macros that they are made of.

The compiler decides how many registers a thread gets, and ``__launch_bounds__`` (or
``__maxnreg__``) how many it may (CUDA C++ Programming Guide, "Launch Bounds"). So of a change of
registers the edit of a bound says more than the lines whose instructions changed most.
"""

from __future__ import annotations

from collections import defaultdict

from workbench.analysis.cause.places import Origin
from workbench.analysis.source.tokens import Tokens, scan
from workbench.analysis.split.attribution import Attribution
from workbench.model import Profile

_BOUNDS = frozenset({"__launch_bounds__", "__maxnreg__"})


def bounded_in(attribution: Attribution, old: Profile, new: Profile) -> Origin | None:
    """The hunks that changed a bound; None where none did.

    A bound that reads the same changed with a macro that the command line defines: that is an
    edit of the front matter, where there is one.
    """
    changed = {macro.partition("=")[0] for macro in _macros(old) ^ _macros(new)}
    sides = _bounds(old), _bounds(new)
    hunks: set[int] = set()
    for side, bounds in enumerate(sides):
        for bound, places in bounds.items():
            if changed & set(bound):
                hunks |= {hunk.id for hunk in attribution.hunks if hunk.kind == "front-matter"}
            if bound not in sides[1 - side]:
                hunks |= {n for path, line in places for n in _over(attribution, side, path, line)}
    return Origin(link="compiler", hunks=tuple(sorted(hunks)), by="bounds") if hunks else None


def _bounds(profile: Profile) -> dict[Tokens, list[tuple[str, int]]]:
    """The tokens of each bound, as far as its line goes -> where it stands (file, line)."""
    out: dict[Tokens, list[tuple[str, int]]] = defaultdict(list)
    for source in profile.sources:
        for number, tokens in enumerate(scan(source.text or "", source.path).tokens, 1):
            for at, token in enumerate(tokens):
                if token in _BOUNDS:
                    out[_call(tokens[at:])].append((source.path, number))
    return out


def _call(tokens: Tokens) -> Tokens:
    """A name with its arguments: up to the bracket that closes the first one."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if at and not depth:
            return tokens[: at + 1]
    return tokens


def _macros(profile: Profile) -> set[str]:
    """``BLOCKS=6`` of ``-DBLOCKS=6``."""
    flags = profile.build.flags if profile.build is not None else ()
    return {flag.removeprefix("-D") for flag in flags if flag.startswith("-D")}


def _over(attribution: Attribution, side: int, path: str, line: int) -> set[int]:
    """Code hunks that hold a line of one side."""
    found = set()
    for hunk in attribution.hunks:
        (first, last), file = (hunk.new, hunk.new_file) if side else (hunk.old, hunk.old_file)
        if hunk.kind == "code" and file == path and first <= line <= last:
            found.add(hunk.id)
    return found
