"""The compiler flags that a version may use: an allow-list by kind; all others are refused.

A version's file may come from someone else, and nvcc accepts far more than options for the code of
a kernel: programs to start (``-ccbin``), places to write (``-o``, ``-keep-dir``), files with
further options (``-optf``, ``@file``). The flags in ``data/flags.toml`` only choose how device code
is made. Other flags are refused before any compiler starts.

nvcc starts its programs through a shell and quotes their arguments with ``"``, within which
``$``, a backtick and a backslash keep their meaning. No text of a project that reaches its command
line may contain one of these: flags, defines, and the path of the file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import tomli

from workbench.errors import nearest

_FACTS = tomli.loads((Path(__file__).parents[1] / "data/flags.toml").read_text(encoding="utf-8"))
#: Flags without a value; flags with a value, and its pattern; the same for ``-Xptxas``.
SWITCHES = frozenset(name for names in _FACTS["switches"].values() for name in names)
VALUES = {name: each["form"] for each in _FACTS["value"] for name in each["names"]}
PTXAS = {name: each.get("form", "") for each in _FACTS["ptxas"] for name in each["names"]}
#: Flags that are refused -> what to do instead.
_KNOWN = {name: each["hint"] for each in _FACTS["refused"] for name in each["names"]}
#: Flags of one letter whose value may follow at once: ``-DTILE=4``.
_GLUED = re.compile(r"-([DUIO])(.+)", re.DOTALL)
_INCLUDES = ("include-path", "I")
_PTXAS = ("ptxas-options", "Xptxas")

#: Flags that versions never have, whose value is the next word and may look like a flag.
_FOLLOWED = ("Xcompiler", "Xlinker", "Xnvlink", "compiler-options", "linker-options")

_LISTED = "`workbench docs front-matter` lists the flags that a version may have."


def refusal(flags: Sequence[str]) -> tuple[str, str] | None:
    """The fault of the first forbidden flag, and the remedy; None: all are allowed."""
    for flag, name, value in _read(flags):
        if not name:
            kind = "further options" if flag.startswith("@") else "code"
            return (
                f"`{_shown(flag)}` is not a flag, and would be taken for a file of {kind}",
                "Flags begin with `-`; use #include for other sources.",
            )
        if not shell_safe(flag) or not shell_safe(value or ""):
            return f"`{_shown(flag)}` contains a character that a shell may interpret", UNSAFE
        if name in SWITCHES and value is None:
            continue
        if name not in VALUES or value is None:
            return _unlisted(flag, name)
        if not re.fullmatch(VALUES[name], value):
            return f"`{flag}`: {name} cannot be `{value}`", _LISTED
        if name in _INCLUDES and not _inside(value):
            return (
                f"`{flag}` points outside the project",
                "Name a folder of the project, relative to its root; copy the needed files there.",
            )
        if name in _PTXAS and (wrong := _ptxas(value)):
            return f"`{wrong}` may not be passed to ptxas", _LISTED
    return None


def accepted(flags: Sequence[str]) -> list[str]:
    """The compiler's flags that a version may have, one word each; no ``-I``."""
    words, other = [], ""
    for flag, name, value in _read(flags):
        word, before, other = flag, other, name
        if before in _FOLLOWED:
            continue
        if value is not None and name in VALUES:
            word = f"-{name}{value}" if len(name) == 1 else f"-{name}={value}"
        if name not in _INCLUDES and refusal([word]) is None:
            words.append(word)
    return words


#: The hint for a text that is not `shell_safe`.
UNSAFE = "nvcc passes it to a shell: write it without $, backticks, backslashes and line ends."


def shell_safe(text: str) -> bool:
    """True if the shell leaves a text as it is between the double quotes that nvcc adds."""
    return not any(each in "$`\\" or not each.isprintable() for each in text.replace("\t", " "))


def _read(flags: Sequence[str]) -> Iterator[tuple[str, str, str | None]]:
    """Flag by flag: as written, its name ("" if it is not a flag), its value."""
    words = iter(flags)
    for word in words:
        body = word.removeprefix("-").removeprefix("-")
        name, mark, value = body.partition("=")
        if not word.startswith("-") or not name:
            yield word, "", None
        elif name in SWITCHES or (name in VALUES and mark):
            yield word, name, value if mark else None
        elif name in VALUES:
            following = next(words, None)
            yield f"{word} {following or ''}".rstrip(), name, following
        elif (glued := _GLUED.fullmatch(word)) and name not in _KNOWN:
            yield word, glued[1], glued[2].removeprefix("=") if glued[1] == "I" else glued[2]
        else:
            yield word, name, value if mark else None


def _unlisted(flag: str, name: str) -> tuple[str, str]:
    if name in VALUES:
        return f"`{flag}` needs a value", _LISTED
    if name in SWITCHES:
        return f"`{flag}`: {name} takes no value", f"Write -{name}."
    if name in _KNOWN:
        return f"`{flag}` cannot be chosen by a version", _KNOWN[name]
    close = nearest(name, [*SWITCHES, *VALUES])
    meant = f"Did you mean -{close}? " if close else ""
    return f"`{flag}` is not among the flags that a version may have", meant + _LISTED


def _inside(folder: str) -> bool:
    """True if a folder is written as a folder of the project."""
    plain = posixpath.normpath(folder)
    return not (posixpath.isabs(plain) or plain.startswith("..") or re.match(r"[A-Za-z]:|~", plain))


def _ptxas(text: str) -> str:
    """The first forbidden option for ptxas; "" if there is none."""
    for option in text.split(","):
        name, mark, value = option.removeprefix("-").removeprefix("-").partition("=")
        if not mark and re.fullmatch(r"-O\d", option):
            name, value = "O", option[2:]
        form = PTXAS.get(name)
        if not option.startswith("-") or form is None or not re.fullmatch(form, value):
            return option
        if mark and not form:
            return option
    return ""


def _shown(text: str) -> str:
    return text.encode("unicode_escape").decode() if not text.isprintable() else text
