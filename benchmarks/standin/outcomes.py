"""One program run by `workbench run`: its outcome, and what all outcomes add up to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

#: Programs of this project: a mistake names its kind and line in a comment, the others are right.
OWN = Path(__file__).parents[2] / "tests/data/programs"
_EXPECTED = re.compile(r"^// fault: (?P<kind>[a-z-]+) at line (?P<line>\d+)$", re.MULTILINE)
#: Seconds beyond `--timeout` after which the command itself is ended, and characters kept.
_GRACE_S, _TAIL = 60, 4000
#: A program that prints its own verdict more than once has failed where one of them is this.
_FAILED = re.compile(r"\b(FAIL|FAILED|Test failed|mismatch)\b")

Verdict = Literal["passed", "failed", "none"]


@dataclass(frozen=True)
class Listed:
    """A program of a list.

    Attributes:
        name: ``repository/program``.
        group: ``public``, ``mistakes`` or ``legal``.
        program: An executable, or a ``.cu`` that `workbench run` compiles.
        check: A regular expression that the program's own verdict matches, ``exit`` where its
            exit code says it, ``none`` where it has no check.
        fault: Kind and line of the mistake that a program was written with.
    """

    name: str
    group: str
    program: Path
    folder: Path
    args: tuple[str, ...] = ()
    check: str = "none"
    built: bool = True
    fault: tuple[str, int] | None = None

    def command(self, timeout_s: float, *, bare: bool) -> list[str]:
        """How it is run; `bare`: on a GPU, without workbench."""
        if bare:
            return [str(self.program), *self.args]
        run = [sys.executable, "-m", "workbench.cli", "run", "--format", "json"]
        run += ["--timeout", f"{timeout_s:g}"]
        if self.program.suffix == ".cu":
            return [*run, str(self.program), "--", *self.args]
        return [*run, "--", str(self.program), *self.args]


@dataclass
class Outcome:
    """What came of a program; `notices` say what it wanted and did not get."""

    name: str
    group: str
    built: bool
    ended: bool = False
    verdict: Verdict = "none"
    code: int | None = None
    stopped: str = ""
    seconds: float = 0.0
    launches: int = 0
    repeated: int = 0
    thread_instructions: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    expected: tuple[str, int] | None = None
    output: str = ""

    @classmethod
    def read(cls, line: str) -> Self:
        """An outcome as `line` gives it."""
        known = json.loads(line)
        expected = known.pop("expected")
        return cls(**known, expected=tuple(expected) if expected else None)

    @property
    def line(self) -> str:
        """The outcome as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @property
    def silent(self) -> bool:
        """Whether the program ended with a wrong answer and without a word of why."""
        return self.verdict == "failed" and not self.faults and not self.notices

    @property
    def found(self) -> bool:
        """Whether the mistake that the program was written with was found at its line."""
        return any((each["kind"], each["line"]) == self.expected for each in self.faults)


def listed(path: Path) -> Iterator[Listed]:
    """The programs of a list: TOML, with an array ``program`` of what `Listed` has."""
    for each in tomllib.loads(path.read_text("utf-8"))["program"]:
        known = {name: each[name] for name in ("name", "group", "check", "built") if name in each}
        program, folder = Path(each["program"]), Path(each["folder"])
        yield Listed(program=program, folder=folder, args=tuple(each.get("args", ())), **known)


def own_programs() -> Iterator[Listed]:
    """The programs of this project: mistakes, and what is legal though it does not look so."""
    for path in sorted(OWN.glob("*/*.cu")):
        expected = _EXPECTED.search(path.read_text("utf-8"))
        yield Listed(
            name=f"{path.parent.name}/{path.stem}",
            group=path.parent.name,
            program=path,
            folder=path.parent,
            check=r"(?m)^right$",
            fault=(expected["kind"], int(expected["line"])) if expected else None,
        )


def run(program: Listed, timeout_s: float, *, bare: bool = False) -> Outcome:
    """Run a program, on a GPU where `bare`."""
    outcome = Outcome(program.name, program.group, program.built, expected=program.fault)
    if not program.built:
        return outcome
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            program.command(timeout_s, bare=bare),
            cwd=program.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s + _GRACE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        outcome.stopped = "the command itself did not end in time"
        outcome.seconds = time.perf_counter() - begin
        return outcome
    outcome.seconds = time.perf_counter() - begin
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    outcome.output = (out if bare else err)[-_TAIL:]
    if bare:
        outcome.code, outcome.ended = done.returncode, done.returncode >= 0
    else:
        _fill(outcome, out)
    if outcome.ended:
        outcome.verdict = _verdict(program.check, outcome.code, out + err if bare else err)
    return outcome


def _fill(outcome: Outcome, document: str) -> None:
    """What the command's document says."""
    try:
        said = json.loads(document)
    except ValueError:
        errors = [line for line in outcome.output.splitlines() if line.startswith("error: ")]
        outcome.stopped = (errors or ["no document"])[-1]
        return
    outcome.code, outcome.stopped = said["code"], said["stopped"]
    outcome.launches, outcome.repeated = said["launches"], said["repeated"]
    outcome.thread_instructions = said["thread_instructions"]
    outcome.faults, outcome.notices = said["faults"], said["notices"]
    outcome.ended = not outcome.stopped


def _verdict(check: str, code: int | None, text: str) -> Verdict:
    if check == "none":
        return "none"
    said = check == "exit" or re.search(check, text)
    return "passed" if said and not code and not _FAILED.search(text) else "failed"


def summary(outcomes: Iterable[Outcome]) -> str:
    """All outcomes in Markdown: a row a repository, then each that did not pass, and the faults."""
    every = list(outcomes)
    sources = dict.fromkeys(each.name.partition("/")[0] for each in every)
    lines = [
        "| repository | programs | built | ended | check passed | no check | failed | silent |",
        "| --- " * 8 + "|",
    ]
    for source in [*sources, "all"]:
        mine = [each for each in every if source in ("all", each.name.partition("/")[0])]
        ended = [each for each in mine if each.ended]
        cells = [len(mine), sum(each.built for each in mine), len(ended)]
        cells += [sum(e.verdict == v for e in ended) for v in ("passed", "none", "failed")]
        cells.append(sum(each.silent for each in mine))
        lines.append(f"| {source} | " + " | ".join(map(str, cells)) + " |")
    lines += ["", *(_row(each) for each in every if _told(each))]
    return "\n".join(lines) + "\n"


def _told(outcome: Outcome) -> bool:
    """Whether the report has a line of this program."""
    if outcome.group == "mistakes":
        return not outcome.found
    return bool(outcome.faults or outcome.stopped or outcome.verdict == "failed") or (
        not outcome.built
    )


def _row(outcome: Outcome) -> str:
    if not outcome.built:
        return f"- {outcome.name}: not built"
    why = [outcome.stopped] if outcome.stopped else []
    why += [f"check {outcome.verdict}, exit code {outcome.code}"] if outcome.ended else []
    for each in outcome.faults:
        place = f"{Path(each['path']).name}:{each['line']}"
        why.append(f"{each['kind']} at {place} ×{each['count']}")
    why += outcome.notices
    if outcome.expected:
        why.append("expected: {} at line {}".format(*outcome.expected))
    return f"- {outcome.name}: " + "; ".join(why)
