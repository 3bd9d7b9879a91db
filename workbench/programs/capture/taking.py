"""One capture, from a command to a record on disk: complete, or not at all.

A capture may be shared, so it names the captured state, but neither the machine nor the user:
commands and paths are written relative to the sources, and a home folder as ``~``. Environment
variables, the host's name and the user's name are not kept.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from workbench import __version__
from workbench.engines import Say, now
from workbench.engines.host.presence import find_gpus
from workbench.engines.host.process import Input
from workbench.errors import KernelError, UsageError, WorkbenchError
from workbench.language import using
from workbench.model import Device, Notice, Profile, Record, SourceFile
from workbench.programs.capture.capture_store import Shelf, check_name
from workbench.programs.capture.launch_choice import KernelDetail, Picked, Wish, pick, take_detail
from workbench.programs.capture.records import ProgramCapture, Survey
from workbench.programs.capture.survey import Chosen, Invocation, take_survey
from workbench.programs.capture.trace import wanted_range
from workbench.programs.capture.tracer import find_cupti
from workbench.revisions import State, repository, state_of, worktree
from workbench.session.source_lookup import supplied, texts_at
from workbench.store import device_slug
from workbench.units import several

#: User names of many machines: they identify no person, and occur in system paths.
_NOBODY = frozenset({"root", "user", "ubuntu", "nobody"})


class Neutral:
    """Removes this machine and its user from texts; makes paths relative to `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._exact = [(f"{self.root}/", ""), (str(self.root), ".")]
        home = str(Path.home())
        if home != "/":
            self._exact.append((home, "~"))
        names = {_user(): "user", socket.gethostname(): "host"}
        words = [re.escape(name) for name in names if len(name) > 2 and name not in _NOBODY]
        self._word = re.compile(rf"(?<![\w-])({'|'.join(words)})(?![\w-])") if words else None
        self._names = names

    def __call__(self, text: str) -> str:
        """The text, with its paths relative and without names."""
        for private, neutral in self._exact:
            text = text.replace(private, neutral)
        if self._word is not None:
            text = self._word.sub(lambda match: self._names[match[1]], text)
        return text

    def words(self, words: Sequence[str]) -> tuple[str, ...]:
        """The same for every word."""
        return tuple(map(self, words))

    def profile(self, profile: Profile) -> Profile:
        """A profile whose paths, command and remarks do not name the machine.

        Source texts stay unchanged: their hash identifies them.
        """
        capture = replace(profile.capture, command=self.words(_own(profile.capture.command)))
        return replace(
            profile,
            capture=capture,
            sources=tuple(
                replace(source, path=self(PurePosixPath(source.path).as_posix()))
                for source in profile.sources
            ),
            notices=tuple(
                replace(notice, message=self(notice.message)) for notice in profile.notices
            ),
        )


def _own(command: Sequence[str]) -> tuple[str, ...]:
    """Ncu's recorded command, without its output path in our temporary folder."""
    paths = {"--export", "--log-file"}
    return tuple(word for before, word in pairwise(("", *command)) if not paths & {before, word})


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def root_of(folder: Path) -> Path:
    """The folder that source paths are relative to: the repository's root, or `folder`."""
    return (repository(folder) or folder).resolve()


def with_texts(profile: Profile, folder: Path, where: str | None) -> Profile:
    """A profile with the texts and hashes of the sources that its line tables name.

    Args:
        profile: The profile as read; texts that it holds stay.
        folder: The program's working folder; sources are searched for below its root.
        where: The folder or revision that the user named instead.

    Raises UsageError: `where` is neither folder nor revision, or holds none of the files.
    """
    if not any(source.text is None for source in profile.sources):
        return _hashed(profile)
    if where is not None:
        return _hashed(supplied("the capture", profile, texts_at(where)))
    lacking: list[str] = []
    try:
        texts = texts_at(str(root_of(folder)))
    except UsageError as error:
        return _noted(_hashed(profile), error.message)
    sources: list[SourceFile] = []
    for source in profile.sources:
        if source.text is None:
            try:
                source = replace(source, text=texts.find(source))
            except UsageError as error:
                lacking.append(error.message)
        sources.append(source)
    found = _hashed(replace(profile, sources=tuple(sources)))
    return _noted(found, "; ".join(lacking)) if lacking else found


def _hashed(profile: Profile) -> Profile:
    def hashed(source: SourceFile) -> SourceFile:
        if source.text is None or source.sha256:
            return source
        return replace(source, sha256=sha256(source.text.encode()).hexdigest())

    return replace(profile, sources=tuple(map(hashed, profile.sources)))


def _noted(profile: Profile, why: str) -> Profile:
    notice = Notice("source-not-found", f"{why}; --source gives its folder")
    return replace(profile, notices=(*profile.notices, notice))


class Order(Record, frozen=True):
    """A capture to take, and its options."""

    invocation: Invocation
    wish: Wish = Wish()
    name: str | None = None
    source: str | None = None
    survey: Chosen = "auto"
    detailed: bool = True


class Taken(Record, frozen=True):
    """A kept capture: its place, and whether it replaced another one of its name.

    `broken` says why the detailed run failed although the program alone did not.
    """

    capture: ProgramCapture
    folder: Path
    replaced: bool
    broken: str = ""


def take(order: Order, shelf: Shelf, say: Say) -> Taken:
    """Survey a program, profile the kernels that matter, and keep both.

    Raises:
        UsageError: it launches nothing; an unfit name; a filter that nothing matches.
        ProgramError: it failed by itself.
        KernelError: it did not end in time.
        MissingError: neither the tracer nor ncu works here; no space; no permission.
        KeyboardInterrupt: Ctrl-C. In each of these cases a survey that was made is kept.
    """
    folder = order.invocation.folder
    state = state_of(folder)
    name = check_name(order.name or default_name(state))
    within = wanted_range(order.wish.nvtx) if order.wish.nvtx is not None else None
    neutral = Neutral(root_of(folder))

    def kept(
        survey: Survey, profile: Profile | None, works: tuple[int, ...], notices: Sequence[Notice]
    ) -> Taken:
        capture = ProgramCapture(
            name=name,
            command=neutral.words(order.invocation.command),
            captured=now(),
            survey=survey,
            folder=os.path.relpath(folder.resolve(), neutral.root),
            state=state,
            device=_device(profile),
            tools=_tools(profile, survey),
            detail=works if profile is not None else (),
            notices=tuple(replace(x, message=neutral(x.message)) for x in notices),
        )
        return Taken(capture, *shelf.save(capture, profile))

    with Input() as given:
        survey, trace = take_survey(order.invocation, given, order.survey, say, within)
        notices = _doubts(survey, trace.dropped)
        try:
            picked = pick(survey, trace, order.wish) if order.detailed else Picked()
            detail = KernelDetail()
            if picked.works:
                detail = take_detail(order.invocation, given, survey, picked, order.wish, say)
            profile = detail.profile
            if profile is not None:
                profile = neutral.profile(with_texts(profile, folder, order.source))
        except BaseException as error:
            # Whatever ends the run now, Ctrl-C included: the survey took a whole run and is kept.
            why = error.message if isinstance(error, WorkbenchError) else "it was stopped"
            message = f"Only the survey was taken: {why}"
            kept(survey, None, (), [*notices, Notice("detail-not-taken", message)])
            say(f"the survey is kept as @{name}")
            raise
    notices += [*picked.notices, *([detail.notice] if detail.notice else [])]
    broken = detail.notice.message if detail.broken and detail.notice else ""
    return replace(kept(survey, profile, detail.works, notices), broken=broken)


def default_name(state: State) -> str:
    """The commit, with a few letters of the uncommitted change's hash; outside Git, the time."""
    if not state.commit:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S")
    changed = f"+{state.patch_sha256[:6]}" if state.patch_sha256 else ""
    return state.commit[:12] + changed


@contextlib.contextmanager
def checked_out(
    invocation: Invocation, revision: str, build: str, say: Say
) -> Iterator[Invocation]:
    """The same invocation in a worktree of a revision, after the shell command `build` ran there.

    Raises:
        UsageError: no such revision, or the folder is not in it.
        MissingError: no space for the worktree.
        KernelError: it does not build.
    """
    here = invocation.folder.resolve()
    with worktree(here, revision, say) as place:
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
                    f"{revision} does not build: `{build}` exited with code {done.returncode}",
                    "The command is `build` of [tool.workbench.capture]; it runs in a worktree.",
                )
        else:
            say(f"{revision} is run as checked out: [tool.workbench.capture] names no `build`")
        yield replace(invocation, folder=folder)


@using("en")  # it is stored, and translated for each reader
def _doubts(survey: Survey, dropped: int) -> list[Notice]:
    found = []
    if cut := sum(run.cut for run in survey.runs):
        what = f"{several(cut, 'process', 'processes')} did not end by themselves"
        why = f"{what}: their last launches (half a second at most) may be missing"
        found.append(Notice("cut-processes", why))
    if dropped:
        message = f"CUPTI lost {several(dropped, 'launch', 'launches')}: their times are missing"
        found.append(Notice("dropped-launches", message))
    if survey.way == "ncu":
        message = "surveyed by ncu: every launch ran alone, and copies are not included"
        found.append(Notice("survey-by-ncu", message))
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
    """``build`` of ``[tool.workbench.capture]``; empty if it is not set.

    Raises UsageError: the table holds something else.
    """
    table = settings.get("capture", {})
    build = table.get("build", "") if isinstance(table, dict) else None
    if not isinstance(build, str) or set(table if isinstance(table, dict) else ()) - {"build"}:
        raise UsageError(
            "[tool.workbench.capture] has one setting, build, which is a shell command",
            'Such as build = "make -C csrc" or build = "pip install -e .".',
        )
    return build
