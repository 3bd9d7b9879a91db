"""Reading a report file: check it, extract it in a child process, keep the answer.

The order matters. `container` rejects files that are cut short or not reports (the native reader
would accept them), then the child process extracts the `Profile`. Whatever the child does, the
caller gets a profile or a `DataError`.
"""

from __future__ import annotations

import contextlib
import hashlib
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import msgspec

from workbench.disk.cache import Cache, entry_name
from workbench.disk.limits import seconds
from workbench.disk.writing import private_folder
from workbench.errors import DataError, UsageError, nearest
from workbench.model import DEBUG_BUILD, SCHEMA_VERSION, Capture, Launch, Notice, Profile
from workbench.ncurep import child
from workbench.ncurep.child import Readers, Standby
from workbench.ncurep.container import CaptureSession, Container, read_container
from workbench.ncurep.excerpt import ListedResult, list_results
from workbench.ncurep.files import AGAIN, LARGE, PRINTED, SUFFIXES, exists, plain_report
from workbench.ncurep.large import Choose, Progress, decoded, read_parts
from workbench.ncurep.printed import read_printed
from workbench.ncurep.values import CODES, lacks
from workbench.project import cache_folder
from workbench.units import extent

#: The most launches that an error names.
_SHOWN = 8
#: The most reports in a folder with which a misspelled name is compared.
_NEAR = 1000
#: Time limit of NVIDIA's reader; a report of a thousand launches takes seconds.
_TIMEOUT_S = 120.0
#: The answer for a larger report is not kept as a whole: it would displace all others.
_KEPT = 128 << 20
#: Raised whenever `workbench.ncurep.extract` gives a different answer for the same file.
EXTRACTOR = 9
#: Beyond this many bytes the oldest answers are removed.
_CACHED = 256 << 20
_TOOLS = {"CUDA Version": "cuda", "Display Driver Version": "driver", "PerfWorks": "perfworks"}


def _beside(path: Path) -> str:
    """The hint for a missing report: a file beside it with a similar name."""
    names = []
    with contextlib.suppress(OSError):
        near = (each.name for each in path.parent.iterdir() if each.name.endswith(SUFFIXES))
        names = list(islice(near, _NEAR))
    close = nearest(path.name, names)
    return f"Did you mean `{path.with_name(close)}`?" if close else "Check the path."


def select_kernels(profile: Profile, name: str | None) -> Profile:
    """The profile with the launches whose kernel is called `name`; None keeps all.

    An exact name wins over an exact signature, and this over a part of either (ignoring case).
    ``softmax#2`` is the second launch that ``softmax`` picks, ``#2`` the second of all. Raises
    UsageError: no launch matches; the error names the kernels that are there.
    """
    if name is None:
        return profile
    head, mark, number = name.rpartition("#")
    if mark and number.isascii() and number.isdigit():
        return select_launch(select_kernels(profile, head or None), int(number), of=head)
    part = name.lower()
    for matches in (
        lambda x: x.kernel == name,
        lambda x: x.signature == name,
        lambda x: part in x.kernel.lower() or part in x.signature.lower(),
    ):
        found = tuple(launch for launch in profile.launches if matches(launch))
        if found:
            return _only(profile, found)
    kernels = list(dict.fromkeys(launch.kernel[:80] for launch in profile.launches))
    shown = ", ".join(kernels[:12]) + (f" and {len(kernels) - 12} more" if kernels[12:] else "")
    close = nearest(name, kernels)
    meant = f"Did you mean `{close}`? " if close else ""
    raise UsageError(f"no kernel matches {name!r}", f"{meant}The report has: {shown}.")


def _only(profile: Profile, launches: tuple[Launch, ...]) -> Profile:
    """The profile with some of its launches, and the notices that these need."""
    kept = [notice for notice in profile.notices if notice.code not in CODES]
    notices = (*kept, *lacks(launches, profile.sources)) if not profile.study else profile.notices
    return msgspec.structs.replace(profile, launches=launches, notices=notices)


def select_launch(profile: Profile, number: int, *, of: str = "") -> Profile:
    """The profile with only its `number`-th launch, counted from 1.

    `number` is as a user wrote it; `of` is the text that chose the launches, for the error.
    Raises UsageError: there is no such launch; the error names those that are there.
    """
    launches = profile.launches
    if 1 <= number <= len(launches):
        return _only(profile, (launches[number - 1],))
    there = [
        f"{place} {launch.kernel[:60]} grid {extent(launch.grid)}"
        for place, launch in enumerate(launches[:_SHOWN], 1)
    ]
    more = f" and {len(launches) - _SHOWN} more" if len(launches) > _SHOWN else ""
    listed = f"{', '.join(there)}{more}"
    many = f"There are {len(launches)} launches: {listed}."
    raise UsageError(
        f"no launch {number}{f' of {of!r}' if of else ''}",
        f"There is one launch: {listed}." if len(launches) == 1 else many,
    )


def read_report(
    path: Path,
    *,
    timeout_s: float | None = None,
    standby: Standby | None = None,
    progress: Progress | None = None,
    choose: Choose | None = None,
) -> Profile:
    """Read a ``.ncu-rep``, ``.ncu-repz`` or ``.ncu-rep.zst`` that ncu 2021 to 2026 wrote.

    Args:
        path: The report.
        timeout_s: Limit of the native reader in seconds (None: the usual one); for a large report,
            for each part.
        standby: A child process that waits for this report. Its result is not cached:
            a report that we captured ourselves is read only once.
        progress: Gets the number of launches of a large report that are read, and of all.
        choose: Selects launches of a large report (None: all); a small one is read as a whole.

    Raises:
        UsageError: there is no such file.
        DataError: not a report, cut short, damaged, without any profiled kernel, or the
            native reader crashed or did not end.
        MissingError: NVIDIA's reader is not installed.
    """
    if not exists(path):
        raise UsageError(f"no such report: {path}", _beside(path))
    if path.suffix in PRINTED:
        return read_printed(path)
    timeout_s = seconds(_TIMEOUT_S) if timeout_s is None else timeout_s
    chosen = False
    with plain_report(path) as plain:
        container = read_container(plain, shown=path)
        size = plain.stat().st_size
        if size < LARGE:
            profile = _extract(plain, path, timeout_s, standby)
        else:
            keep = choose is not None or size < _KEPT
            common: dict[Any, Any] = {}
            with Readers() as readers:
                profile = read_parts(
                    plain,
                    lambda part: (
                        _extract(part, path, timeout_s, standby, keep, common)
                        if part == plain
                        else _extract(part, path, timeout_s, readers, keep, common)
                    ),
                    progress,
                    choose,
                )
            chosen = choose is not None
    if not any(launch.profiled for launch in profile.launches):
        names = ", ".join(launch.kernel[:60] for launch in profile.launches[:3])
        listed = f" (listed, but never measured: {names})" if names else ""
        raise DataError(
            f"{path} holds no profiled kernel{listed}",
            "See what ncu printed: its filters (--kernel-name, --nvtx-include) may have matched "
            "nothing, or it could not measure.",
        )
    return _with_session(profile, container, lost=not chosen)


def report_results(path: Path) -> tuple[list[ListedResult], CaptureSession]:
    """Launches and their times, without the native reader; DataError: not a report, or damaged."""
    with plain_report(path) as plain:
        return list_results(plain), read_container(plain, shown=path).session


def _extract(
    plain: Path,
    shown: Path,
    timeout_s: float,
    standby: Standby | Readers | None,
    keep: bool = True,
    common: dict[Any, Any] | None = None,
) -> Profile:
    """Run the native reader over a checked file, or take its answer from the cache.

    `keep` stores the answer there; `common` has the parts that launches of several files share.
    """
    cache = Cache(cache_folder("reports"), _CACHED)
    key = "" if isinstance(standby, Standby) or not keep else _entry(plain)
    if key and (known := cache.load(key, Profile)) is not None:
        return known
    with private_folder() as folder:
        output = Path(folder) / "profile.json"
        if isinstance(standby, Readers):
            standby.extract(plain, shown, output, timeout_s)
        else:
            child.extract(plain, shown, output, timeout_s, standby)
        try:
            data = output.read_bytes()
            profile = decoded(data, {} if common is None else common)
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{shown}: the native reader gave no answer ({error})", AGAIN
            ) from error
    if key:
        cache.save(key, data)
    return profile


def _entry(report: Path) -> str:
    """The name under which a report's answer is kept, made from the report's content."""
    with report.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return entry_name(content, SCHEMA_VERSION, EXTRACTOR)


def _option(words: list[str], name: str, default: str) -> str:
    """The last value of ``--name value`` or ``--name=value`` in a recorded command line."""
    value = default
    for i, word in enumerate(words):
        if word == name and i + 1 < len(words):
            value = words[i + 1]
        elif word.startswith(f"{name}="):
            value = word.partition("=")[2]
    return value


def _capture(session: CaptureSession, passes: int) -> Capture:
    """The settings of the capture, from the command line that ncu recorded.

    If the command line is known, an option that is not on it has ncu's default.
    """
    # ncu joins its arguments with blanks and quotes nothing: a finer split would be a guess.
    words = session.command.split()
    if not words:
        return Capture(passes=passes)
    words[0] = words[0].replace("\\", "/").rpartition("/")[2]
    sections = tuple(value for word, value in pairwise(words) if word == "--section")
    return Capture(
        command=tuple(words),
        clock_control=_option(words, "--clock-control", "base"),
        cache_control=_option(words, "--cache-control", "all"),
        replay_mode=_option(words, "--replay-mode", "kernel"),
        sections=sections,
        passes=passes,
    )


def _with_session(profile: Profile, container: Container, *, lost: bool) -> Profile:
    """Add the data that only the file's frame holds: versions, command line, time of capture."""
    session = container.session
    tools = {
        ours: session.tools[theirs] for theirs, ours in _TOOLS.items() if theirs in session.tools
    }
    if session.ncu_version:
        tools["ncu"] = session.ncu_version
    return msgspec.structs.replace(
        profile,
        captured=session.when,
        tools=tools,
        capture=_capture(session, profile.capture.passes),
        notices=(
            *_doubts(container, len(profile.launches) if lost else container.results),
            *profile.notices,
        ),
    )


def _doubts(container: Container, launches: int) -> tuple[Notice, ...]:
    found = []
    if container.doubts:
        why = "; ".join(container.doubts)
        message = f"the file may have been cut between two kernels: {why}"
        found.append(Notice("perhaps-cut", message))
    if launches < container.results:
        message = f"the native reader gives {launches} of the file's {container.results} results"
        found.append(Notice("lost-results", message))
    if container.debug:
        which = ", ".join(name[:60] for name in container.debug[:3])
        more = f" and {len(container.debug) - 3} more" if container.debug[3:] else ""
        message = f"built for debugging (-G), its code is not optimized: {which}{more}"
        found.append(Notice(DEBUG_BUILD, message))
    return tuple(found)
