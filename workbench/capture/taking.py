"""One capture, from a command to a record on disk: whole, or nothing of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from workbench import __version__
from workbench.capture.detail import KernelDetail, take_detail
from workbench.capture.provenance import Neutral, root_of, with_texts
from workbench.capture.ranges import wanted_range
from workbench.capture.selection import Wish, pick
from workbench.capture.survey import Chosen, Invocation, take_survey
from workbench.capture.tracer import find_cupti
from workbench.captures.records import ProgramCapture, State, Survey
from workbench.captures.revisions import state_of, worktree
from workbench.captures.shelf import Shelf, check_name
from workbench.engines import Say, now
from workbench.engines.host.foreground import Input
from workbench.engines.host.presence import find_gpus
from workbench.errors import KernelError, UsageError
from workbench.model import Device, Notice, Profile, Record
from workbench.store import device_slug
from workbench.units import several


class Order(Record, frozen=True):
    """What is to be captured, and how."""

    invocation: Invocation
    wish: Wish = Wish()
    name: str | None = None
    source: str | None = None
    survey: Chosen = "auto"
    detailed: bool = True


class Taken(Record, frozen=True):
    """A capture that was kept: where, and whether another one of its name was there before.

    `broken` says why the detailed run failed where the program alone did not.
    """

    capture: ProgramCapture
    folder: Path
    replaced: bool
    broken: str = ""


def take(order: Order, shelf: Shelf, say: Say) -> Taken:
    """Survey a program, look at what matters in it, and keep both.

    Raises:
        UsageError: it launches nothing; an unfit name; a filter that nothing matches.
        ProgramError: it failed by itself.
        KernelError: it did not end in time.
        MissingError: no way to look at it here; no space; no permission.
        KeyboardInterrupt: Ctrl-C. In each of these cases nothing is kept.
    """
    folder = order.invocation.folder
    state = state_of(folder)
    name = check_name(order.name or default_name(state))
    within = wanted_range(order.wish.nvtx) if order.wish.nvtx is not None else None
    with Input() as given:
        survey, trace = take_survey(order.invocation, given, order.survey, say, within)
        picked = pick(survey, trace.launches, order.wish)
        detail = KernelDetail()
        if order.detailed and picked.works:
            detail = take_detail(order.invocation, given, survey, picked, order.wish, say)
    neutral = Neutral(root_of(folder))
    profile = detail.profile
    if profile is not None:
        profile = neutral.profile(with_texts(profile, folder, order.source))
    notices = [*_doubts(survey, trace.dropped), *([detail.notice] if detail.notice else [])]
    capture = ProgramCapture(
        name=name,
        command=neutral.words(order.invocation.command),
        captured=now(),
        survey=survey,
        folder=os.path.relpath(folder.resolve(), neutral.root),
        state=state,
        device=_device(profile),
        tools=_tools(profile, survey),
        detail=detail.works if profile is not None else (),
        notices=tuple(replace(x, message=neutral(x.message)) for x in notices),
    )
    path, replaced = shelf.save(capture, profile)
    return Taken(
        capture=capture,
        folder=path,
        replaced=replaced,
        broken=detail.notice.message if detail.broken and detail.notice else "",
    )


def default_name(state: State) -> str:
    """The commit, with a few letters of the hash of the change on top; outside of Git the time."""
    if not state.commit:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S")
    changed = f"+{state.patch_sha256[:6]}" if state.patch_sha256 else ""
    return state.commit[:12] + changed


@contextlib.contextmanager
def checked_out(
    invocation: Invocation, revision: str, build: str, say: Say
) -> Iterator[Invocation]:
    """The same invocation in a worktree of a revision, built there.

    Args:
        invocation: In a folder of a repository.
        revision: Which state of it.
        build: A shell command that is run in the same folder of the worktree; empty: none.
        say: Called with what is going on.

    Raises:
        UsageError: no such revision, or the folder is not in it.
        MissingError: no room for the worktree.
        KernelError: it does not build.
    """
    here = invocation.folder.resolve()
    with worktree(here, revision) as place:
        folder = place / here.relative_to(root_of(here))
        if not folder.is_dir():
            raise UsageError(
                f"{revision} has no folder {folder.relative_to(place)}",
                "Run the command in a folder that exists in the revision.",
            )
        if build:
            say(f"building {revision}: {build}")
            done = subprocess.run(build, shell=True, cwd=folder, check=False)
            if done.returncode:
                raise KernelError(
                    f"{revision} does not build: `{build}` ended with {done.returncode}",
                    "The command is `build` of [tool.workbench.capture]; it runs in a worktree.",
                )
        else:
            say(f"{revision} is run as checked out: [tool.workbench.capture] names no `build`")
        yield replace(invocation, folder=folder)


def _doubts(survey: Survey, dropped: int) -> list[Notice]:
    found = []
    if cut := sum(run.cut for run in survey.runs):
        what = f"{several(cut, 'process', 'processes')} did not end by themselves"
        why = f"{what}: their last launches, of half a second at most, may be missing"
        found.append(Notice(code="cut-processes", message=why))
    if dropped:
        message = f"CUPTI lost {several(dropped, 'launch', 'launches')}: their times are missing"
        found.append(Notice(code="dropped-launches", message=message))
    if survey.way == "ncu":
        message = "surveyed by ncu: every launch ran alone, and copies are not in it"
        found.append(Notice(code="survey-by-ncu", message=message))
    return found


def _device(profile: Profile | None) -> Device | None:
    if profile is not None:
        return profile.device
    gpus, _ = find_gpus()
    if not gpus:
        return None
    gpu = gpus[0]
    return Device(
        name=gpu.name,
        slug=device_slug(gpu.name),
        compute_capability=gpu.compute_capability,
        memory_bytes=gpu.memory_bytes,
    )


def _tools(profile: Profile | None, survey: Survey) -> dict[str, str]:
    tools = {"workbench": __version__, **(profile.tools if profile is not None else {})}
    if survey.way == "trace" and (cupti := find_cupti()) is not None:
        tools["cupti"] = str(cupti.version)
    gpus, _ = find_gpus()
    if "driver" not in tools and gpus:
        tools["driver"] = gpus[0].driver
    return tools


def build_command(settings: dict[str, object]) -> str:
    """``build`` of ``[tool.workbench.capture]``; empty where it is not set.

    Raises:
        UsageError: the table holds something else.
    """
    table = settings.get("capture", {})
    build = table.get("build", "") if isinstance(table, dict) else None
    if not isinstance(build, str) or set(table if isinstance(table, dict) else ()) - {"build"}:
        raise UsageError(
            "[tool.workbench.capture] has one setting, build, which is a shell command",
            'Such as build = "make -C csrc" or build = "pip install -e .".',
        )
    return build
