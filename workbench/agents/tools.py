"""The tools: the purpose and the arguments of each, and the command that answers it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from workbench.agents import arguments as takes
from workbench.agents.fence import Fence, Permit, plain
from workbench.agents.pages import wire_size
from workbench.views.shapes import Json

#: Fields that name the profile of an answer.
_WHICH = ("study", "version", "problem", "engine", "device", "stale")
#: Fields of a step's document that form the causal strip.
_STRIP = ("study", "problem", "device", "old", "new", "comparable", "warnings", "time")
_CAUSE = ("sentence", "strip", "cause")
#: Most characters of a verdict on a claim, without the answer's envelope.
_VERDICT_BYTES = 950


class Tool(NamedTuple):
    """One tool; clients choose by its `text`. `permit`: None: always allowed."""

    name: str
    text: str
    takes: type[takes.Arguments]
    permit: Permit | None = None

    @property
    def schema(self) -> Json:
        """The JSON schema of its arguments."""
        _, parts = msgspec.json.schema_components([self.takes])
        return dict(parts[self.takes.__name__])


TOOLS = (
    Tool(
        "list",
        "Studies, their versions and problems, and what is recorded of each. Start here.",
        takes.ListArguments,
    ),
    Tool(
        "show",
        "One recorded profile: counters of every launch, lines, ncu's rules, build, time.",
        takes.ShowArguments,
    ),
    Tool(
        "headroom",
        "What limits a version now, its hottest line, and what to try with an upper bound of each.",
        takes.TargetArguments,
    ),
    Tool(
        "hot_lines",
        "The source lines that most of the time is spent on, with the stalls of their warps.",
        takes.TargetArguments,
    ),
    Tool(
        "strip",
        "Why a step is faster or slower, in one line: edit, counter, stall, time, what limits now; "
        "with its proofs and the hunks that they name.",
        takes.StepArguments,
    ),
    Tool(
        "diff",
        "All that moved from one version to another: counters, hunks, how each counter's change "
        "and the time are split over the hunks, expectations.",
        takes.DiffArguments,
    ),
    Tool(
        "check",
        "Did the step move what its author predicted, and nothing else for the worse? With claim, "
        "over and at_least: is a speed-up accepted, refused or not judged, and why?",
        takes.CheckArguments,
    ),
    Tool("source", "A version's source, line by line.", takes.SourceArguments),
    Tool("explain", "What counters mean: unit, which way is better, name.", takes.ExplainArguments),
    Tool("doctor", "Check this machine, and how to install what it lacks.", takes.PlainArguments),
    Tool(
        "verify",
        "Run versions on small inputs against a float64 reference; a wrong result is reported "
        "with its line. The emulator needs no GPU, and finds races, missing barriers and bad "
        "addresses.",
        takes.VerifyArguments,
        "verify",
    ),
    Tool(
        "profile",
        "Verify and profile versions, and record the counters (no times without a GPU).",
        takes.ProfileArguments,
        "profile",
    ),
    Tool("time", "Time versions on the GPU, and record that.", takes.RunArguments, "time"),
    Tool(
        "new_version",
        "Start a version from its parent, with the text given. The next call is verify.",
        takes.NewArguments,
        "write",
    ),
    Tool(
        "edit_version",
        "Rewrite a version that new_version started over this connection, and no other.",
        takes.EditArguments,
        "write",
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}


# --- commands ------------------------------------------------------------------------------


def _options(given: takes.Arguments, *names: str) -> list[str]:
    """``--study=sgemm`` for each given field: one word, so that no value becomes an option."""
    words = []
    for name in names:
        value = getattr(given, name)
        if value not in ("", None):
            text = plain(value, name) if isinstance(value, str) else str(value)
            words.append(f"--{name.removesuffix('_s')}={text}")
    return words


def in_arguments(hint: str, tool: Tool) -> str:
    """Replace options in a command's hint by the names of a tool's arguments.

    Options that a client cannot give stay, and so does a command line in backticks.
    """
    names = {name.removesuffix("_s"): name for name in tool.takes.__struct_fields__}

    def named(found: re.Match[str]) -> str:
        return names.get(found["option"] or "", "") or found[0]

    return re.sub(r"`[^`]*`|--(?P<option>[a-z][a-z-]*)(?: [A-Z]+\b)?", named, hint)


def _flags(given: takes.Arguments, *names: str) -> list[str]:
    return [f"--{name}" for name in names if getattr(given, name)]


def command_of(tool: str, given: takes.Arguments, fence: Fence) -> list[str]:
    """The command line, without ``workbench``, that answers a call.

    Raises UsageError, DataError: it uses a name that a client may not use.
    """
    recorded = ("study", "problem", "device", "engine")
    json = "--format=json"
    match given:
        case takes.ListArguments():
            return ["list", json, *_options(given, *recorded[:3])]
        case takes.DiffArguments() | takes.StepArguments():
            sides = [fence.target(given.old, "old"), fence.target(given.new, "new")]
            flags = _flags(given, "force", *(("memory", "sass") if tool == "diff" else ()))
            return ["diff", json, *_options(given, *recorded), *flags, "--", *sides]
        case takes.TargetArguments():
            flags = _flags(given, "memory") if isinstance(given, takes.ShowArguments) else []
            target = fence.target(given.target, "target")
            return ["show", json, *_options(given, *recorded), *flags, "--", target]
        case takes.CheckArguments():
            sides = [fence.target(each, "versions") for each in given.versions]
            time = [] if given.time else ["--no-time"]
            every = [] if sides else ["--all"]
            if given.claim or given.over:
                every = _options(given, "claim", "over", "at-least")
            return ["check", json, *_options(given, *recorded), *time, *every, "--", *sides]
        case takes.RunArguments():
            names = ("study", "problem", "arch", "seed", "timeout_s", "engine")
            own = [name for name in names if hasattr(given, name)]
            versions = [plain(each, "versions") for each in given.versions]
            form = [] if tool == "profile" else [json]
            return [tool, *form, *_options(given, *own), "--", *versions]
        case _:
            return ["doctor", json]


# --- answers -------------------------------------------------------------------------------


def answer_of(tool: str, document: Any) -> Any:
    """The part of a command's document that the tool returns."""
    if not isinstance(document, dict):
        return document
    if tool == "headroom":
        return _part(document, (*_WHICH, "time", "notices", "headroom"))
    if tool == "hot_lines":
        return _part(document, (*_WHICH, "hot_lines"))
    if tool == "check" and "claim" in document:
        return _ruled(document)
    if tool == "strip" and "cause" in document:
        if not document["strip"]:
            # The time is unknown, as without a GPU, but each hunk's changes are known.
            return _part(document, (*_STRIP, *_CAUSE, "story", "hunks"))
        return {**_part(document, (*_STRIP, *_CAUSE)), "hunks": _named(document)}
    if tool == "diff" and "story" in document:
        # Counters that moved come first: an answer is read from the start.
        first = (*_STRIP, *_CAUSE, "story", "hunks")
        counters = sorted(
            document["counters"], key=lambda each: (each["verdict"] == "missing", not each["moved"])
        )
        return {**_part(document, first), **document, "counters": counters}
    return document


def _ruled(document: Json) -> Json:
    """A claim's verdict with its reasons (those against it as text), in less than a kilobyte."""
    states: dict[str, list[Json]] = {"fail": [], "inconclusive": [], "pass": []}
    for gate in document["gates"]:
        states[gate["status"]].append(gate)
    answer: Json = {}
    for width in (240, 160, 80, 40):
        said = {
            state: {gate["name"][:24]: gate["message"][:width] for gate in gates[:3]}
            for state, gates in states.items()
        }
        answer = {
            **document["claim"],
            **said,
            "pass": list(dict.fromkeys(g["name"][:24] for g in states["pass"]))[:6],
        }
        if wire_size(answer) < _VERDICT_BYTES:
            break
    return answer


def _part(document: Json, keys: Sequence[str]) -> Json:
    return {key: document[key] for key in keys if key in document}


def _named(document: Json) -> list[Json]:
    """The hunks that the strip and the proofs name."""
    wanted = {stop["hunk"] for stop in document["strip"]}
    for proof in document["cause"]["proofs"]:
        wanted |= set(proof["hunks"])
    return [hunk for hunk in document["hunks"] if hunk["id"] in wanted]
