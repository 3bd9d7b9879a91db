"""Arguments of each tool, as records: their fields are type-checked, and described to clients."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

#: Bytes of an answer: the minimum, the default, the maximum.
LEAST_BYTES, BYTES, MOST_BYTES = 2_000, 12_000, 60_000

Name = Annotated[str, Meta(max_length=500)]
_Target = Annotated[
    str,
    Meta(
        max_length=500,
        description="v3, sgemm/v3, a capture (@before, @before::kernel), or a report below the "
        "project (a.ncu-rep, a.ncu-rep::kernel)",
    ),
]
_Versions = Annotated[
    list[Name], Meta(min_length=1, max_length=50, description="such as [v3] or [sgemm/v3]")
]
_Study = Annotated[str, Meta(max_length=500, description="study of versions written without one")]
_Problem = Annotated[str, Meta(max_length=500, description="problem; default: the study's own")]
_Seconds = Annotated[
    float, Meta(ge=1, le=3600, description="seconds after which a version on a problem is stopped")
]
_Seed = Annotated[int, Meta(ge=0, le=2**32 - 1, description="of the inputs; default: a new one")]
_Select = Annotated[
    str | list[str],
    Meta(
        description="JSON pointer(s) into the answer: /counters, /launches/0/lines, "
        "/counters/*/id; default: all of it"
    ),
]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of every tool: which part of its answer to return, and how much of it."""

    select: _Select = ""
    offset: Annotated[int, Meta(ge=0, le=2**40, description="entries of select to skip")] = 0
    max_bytes: Annotated[
        int, Meta(ge=LEAST_BYTES, le=MOST_BYTES, description="size of the answer")
    ] = BYTES


class ListArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of `list`."""

    study: _Study = ""
    problem: _Problem = ""
    device: Name = ""


class ChoiceArguments(Arguments, frozen=True, kw_only=True):
    """Select recorded profiles."""

    study: _Study = ""
    problem: _Problem = ""
    device: Name = ""
    engine: Literal["", "ncu", "emulator"] = ""


class TargetArguments(ChoiceArguments, frozen=True, kw_only=True):
    """Arguments of `hot_lines` and `headroom`."""

    target: _Target


class ShowArguments(TargetArguments, frozen=True, kw_only=True):
    """Arguments of `show`."""

    memory: Annotated[bool, Meta(description="only what moved between levels of memory")] = False


class StepArguments(ChoiceArguments, frozen=True, kw_only=True):
    """Arguments of `strip`."""

    old: _Target
    new: _Target
    force: Annotated[
        bool, Meta(description="compare even what is not comparable; the answer says so")
    ] = False


class DiffArguments(StepArguments, frozen=True, kw_only=True):
    """Arguments of `diff`."""

    memory: Annotated[bool, Meta(description="only what moved between levels of memory")] = False
    sass: Annotated[bool, Meta(description="the machine code of every hunk as well")] = False


class CheckArguments(ChoiceArguments, frozen=True, kw_only=True):
    """Arguments of `check`."""

    versions: Annotated[
        list[Name],
        Meta(max_length=2, description="[old, new], [version] against its parent, or [] for all"),
    ] = []
    time: Annotated[bool, Meta(description="judge durations")] = True
    claim: Annotated[str, Meta(max_length=500, description="judge whether it is faster")] = ""
    over: Annotated[str, Meta(max_length=500, description="than this version")] = ""
    at_least: Annotated[float, Meta(gt=0, le=1e6, description="by this factor")] = 1.0


class RunArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of `time`."""

    versions: _Versions
    study: _Study = ""
    problem: _Problem = ""
    arch: Annotated[
        str,
        Meta(pattern=r"^(sm_\d{2,3}[a-z]?)?$", description="sm_90a; default: the GPU's, or sm_90"),
    ] = ""
    seed: _Seed | None = None
    timeout_s: _Seconds = 300.0


class VerifyArguments(RunArguments, frozen=True, kw_only=True):
    """Arguments of `verify`."""

    engine: Literal["auto", "gpu", "emulator"] = "auto"


class ProfileArguments(RunArguments, frozen=True, kw_only=True):
    """Arguments of `profile`."""

    engine: Literal["auto", "ncu", "emulator"] = "auto"


class SourceArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of `source`."""

    version: Name
    study: _Study = ""
    file: Annotated[
        str,
        Meta(
            max_length=500,
            description="one of the version's `files`; default: the version's own file",
        ),
    ] = ""
    first: Annotated[int, Meta(ge=1, le=2**31, description="first line to return")] = 1


class NewArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of `new_version`."""

    version: Annotated[str, Meta(max_length=100, description="v5 or v5_some_name")]
    parent: Annotated[str, Meta(max_length=500, description="default: the last version")] = ""
    study: _Study = ""
    title: Name = ""
    change: Annotated[str, Meta(max_length=500, description="what differs from the parent")] = ""
    text: Annotated[
        str,
        Meta(
            description="the whole file with its front matter, or the code alone, which keeps the "
            "parent's launches; default: a copy of the parent"
        ),
    ] = ""


class EditArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of `edit_version`."""

    version: Name
    study: _Study = ""
    text: Annotated[str, Meta(description="the whole file, or the code below its front matter")]


class ExplainArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of `explain`."""

    words: Annotated[
        list[Name],
        Meta(min_length=1, max_length=50, description="ids or ncu names of counters"),
    ]


class PlainArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of `doctor`, which takes none."""
