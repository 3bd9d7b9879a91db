"""Damaged kernels: PTX and CUDA C++ of the shipped versions, changed in a place or two."""

from __future__ import annotations

import contextlib
import random
import re
from functools import cache
from pathlib import Path

from workbench.engines import Subject
from workbench.engines.emulated.engine import recorded_build
from workbench.errors import WorkbenchError
from workbench.project import Project, require_project
from workbench.store import Entry, Store
from workbench.study.folder import Study, load_study

REPO = Path(__file__).resolve().parent.parent.parent
_PREFIX = r"(\s*(?:@!?%\w+\s+)?)"
_KINDS = ("u8", "u16", "s16", "b16", "f16", "u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64")
_NUMBERS = (0, 1, -1, 2, 7, 31, 32, 64, 1 << 31, 1 << 40)


@cache
def _project() -> Project:
    return require_project(REPO)


@cache
def shipped() -> tuple[list[Entry], list[float]]:
    """A profile of every shipped version in CUDA, and how often to take it.

    Short ones more often: what takes seconds to run does not tell more.
    """
    entries = Store(_project().profiles).find(engine="ncu", device="h200")
    found = {(each.study, each.version): each for each in entries if each.version[1:].isdigit()}
    return list(found.values()), [each.path.stat().st_size ** -2 for each in found.values()]


@cache
def _study(name: str) -> Study:
    return load_study(_project(), name)


@cache
def _subject(entry: Entry) -> Subject | None:
    study, built = _study(entry.study), recorded_build(Store(_project().profiles).load(entry.path))
    version = study.versions.get(entry.version)
    if version is None or version.kind == "python" or built is None:
        return None
    for problem in sorted(study.problems_for("verify"), key=study.flops):
        with contextlib.suppress(WorkbenchError):
            study.check_requirements(version, problem)
            return Subject.of(study, version, problem, lambda _version: built)
    return None


def any_version(rng: random.Random) -> Subject:
    """A shipped version with its recorded PTX, on the least problem that it can do."""
    while True:
        (entry,) = rng.choices(*shipped())
        if subject := _subject(entry):
            return subject


def drop(lines: list[str], at: int, rng: random.Random) -> None:
    lines[at] = ""


def swap(lines: list[str], at: int, rng: random.Random) -> None:
    found = re.match(_PREFIX + r"(\S+\s+)(.*);", lines[at])
    operands = re.split(r",\s*(?![^{\[]*[}\]])", found[3]) if found else []
    if found and len(operands) > 1:
        one, two = rng.sample(range(len(operands)), 2)
        operands[one], operands[two] = operands[two], operands[one]
        lines[at] = f"{found[1]}{found[2]}{', '.join(operands)};"


def number(lines: list[str], at: int, rng: random.Random) -> None:
    if found := list(re.finditer(r"(?<![\w%$.])-?\d+\b", lines[at])):
        which = rng.choice(found)
        new = rng.choice((*_NUMBERS, int(which[0]) + 1, 2 * int(which[0])))
        lines[at] = lines[at][: which.start()] + str(new) + lines[at][which.end() :]


def register(lines: list[str], at: int, rng: random.Random) -> None:
    """Another register, mostly of the same type; perhaps one that nothing writes."""
    if found := list(re.finditer(r"%([a-z]+)\d+", lines[at])):
        which = rng.choice(found)
        kind = which[1] if rng.random() < 0.7 else "[a-z]+"
        other = rng.choice(re.findall(rf"%{kind}\d+", "\n".join(lines)))
        lines[at] = lines[at][: which.start()] + other + lines[at][which.end() :]


def retype(lines: list[str], at: int, rng: random.Random) -> None:
    kind = rng.choice(_KINDS)
    lines[at] = re.sub(r"\.[usbf](8|16|32|64)\b", f".{kind}", lines[at], count=1)


def repeat(lines: list[str], at: int, rng: random.Random) -> None:
    lines[rng.choice(places(lines))] += "\n" + lines[at]


def rename(lines: list[str], at: int, rng: random.Random) -> None:
    """Another instruction's opcode."""
    other = re.match(_PREFIX + r"(\S+)", lines[rng.choice(places(lines))])
    if other:
        lines[at] = re.sub(_PREFIX + r"\S+", lambda found: found[1] + other[2], lines[at], count=1)


_OF_PTX = (drop, swap, number, register, retype, repeat, rename)


def places(lines: list[str]) -> list[int]:
    """Lines with an instruction."""
    return [n for n, line in enumerate(lines) if re.match(r"\t[@a-z][^{}]*\S;\Z|\t@?.*\};\Z", line)]


def ptx_mutant(ptx: str, rng: random.Random) -> str:
    """The same with one to three changes."""
    lines = ptx.split("\n")
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(_OF_PTX)(lines, rng.choice(places(lines)), rng)
    return "\n".join(lines)


_WORD = re.compile(r"[A-Za-z_]\w*|\d+|[-+*/%<>=!&|^]=?|[;,(){}\[\]]")
_SIGNS = ("+", "-", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "<<", ">>")
_LITERALS = ("0", "1", "-1", "2", "7", "31", "32", "33", "1024", "65536", "2147483647", "1e30f")


def drop_line(lines: list[str], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def repeat_line(lines: list[str], rng: random.Random) -> None:
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))


def swap_lines(lines: list[str], rng: random.Random) -> None:
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]


def change_word(lines: list[str], rng: random.Random) -> None:
    """A sign for a sign, a number for a number, a name for another name of the file."""
    at = rng.choice([n for n, line in enumerate(lines) if _WORD.search(line)])
    found = rng.choice(list(_WORD.finditer(lines[at])))
    text = found[0]
    if text[0].isdigit():
        new = rng.choice(_LITERALS)
    elif text[0].isalpha() or text[0] == "_":
        new = rng.choice(re.findall(r"[A-Za-z_]\w*", "\n".join(lines)))
    else:
        new = rng.choice(_SIGNS)
    lines[at] = lines[at][: found.start()] + new + lines[at][found.end() :]


_OF_CUDA = (drop_line, repeat_line, swap_lines, change_word, change_word, change_word)


def cuda_mutant(text: str, rng: random.Random) -> str:
    """The kernel with a change or two; its front matter stays."""
    front, end, body = text.partition("--- */\n")
    lines = body.split("\n")
    for _ in range(rng.choice((1, 1, 2))):
        rng.choice(_OF_CUDA)(lines, rng)
    return front + end + "\n".join(lines)
