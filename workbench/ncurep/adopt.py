"""A foreign report as the profile of a version, with a notice of each mismatch.

The source text inside the report shows whether it is of this version's code, and its launches show
whether it ran this problem. Every difference becomes a notice in the profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from workbench.model import Launch, Notice, Profile, SourceFile
from workbench.specs import Version
from workbench.study import frontmatter
from workbench.study.launches import ResolvedLaunch
from workbench.study.mangling import own_name


def adopt(
    profile: Profile,
    version: Version,
    *,
    problem: str,
    parameters: dict[str, int],
    sources: Sequence[SourceFile],
    source_hash: str,
    expected: Sequence[ResolvedLaunch] = (),
) -> Profile:
    """The report's profile, filed under `version` and `problem`.

    Sources and their hash are those of the version as it is now. `expected` are its launches on
    that problem; empty if they are unknown. Returns the profile with study, version, problem,
    source paths of the project where the text is the same, and notices. `source_hash` is the
    version's if the report's source is the version's code, a different one (so that the profile
    counts as stale) if it differs, and empty if the report holds no source.
    """
    profile = _renumbered(profile, version, sources)
    matched, own_hash, notices = _match(profile.sources, version, sources, source_hash)
    return msgspec.structs.replace(
        profile,
        study=version.study,
        version=version.id,
        problem=problem,
        parameters=parameters,
        sources=matched,
        source_hash=own_hash,
        notices=(*notices, *_launch_notices(profile.launches, expected, problem), *profile.notices),
    )


def _renumbered(profile: Profile, version: Version, sources: Sequence[SourceFile]) -> Profile:
    """The profile with the lines of the version's file, if the code is further down there."""
    ours = next((each for each in sources if each.path == version.path), None)
    if ours is None or version.image:
        return profile
    code = _lines(frontmatter.code(ours.text or "", kind=version.kind))
    for index, theirs in enumerate(profile.sources):
        text = theirs.text or ""
        there = _lines(frontmatter.code(text, kind=version.kind))
        if not text or there != code or _lines(text) == _lines(ours.text or ""):
            continue
        down = _first(ours.text or "", code) - _first(text, code)
        launches = tuple(_moved(launch, index, down) for launch in profile.launches)
        sources = list(profile.sources)
        sources[index] = msgspec.structs.replace(theirs, text=ours.text)
        return msgspec.structs.replace(profile, launches=launches, sources=tuple(sources))
    return profile


def _first(text: str, code: Sequence[str]) -> int:
    """The line (from 0) at which the code at the end of a text begins."""
    return len(text.replace("\r\n", "\n").rstrip("\n").split("\n")) - len(code)


def _moved(launch: Launch, file: int, down: int) -> Launch:
    table = launch.instructions
    at = zip(table.file, table.line, strict=True)
    lines = tuple(line + down if of == file and line else line for of, line in at)
    table = msgspec.structs.replace(table, line=lines)
    return msgspec.structs.replace(launch, instructions=table)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.replace("\r\n", "\n").strip("\n").split("\n")]


def _match(
    recorded: Sequence[SourceFile],
    version: Version,
    sources: Sequence[SourceFile],
    source_hash: str,
) -> tuple[tuple[SourceFile, ...], str, list[Notice]]:
    """Give recorded sources their paths in the project, and judge the version's own file."""
    texts = [source for source in recorded if source.text]
    if not texts:
        message = (
            f"the report holds no source: whether it ran {version.path} as it is now is unknown"
        )
        return tuple(recorded), "", [Notice("source-unknown", message)]
    renamed: dict[str, SourceFile] = {}
    for ours in sources:
        for theirs in texts:
            if _lines(theirs.text or "") == _lines(ours.text or ""):
                renamed.setdefault(theirs.path, ours)
    # A path in the project means the project's text: another file must not use it.
    taken = {ours.path for ours in renamed.values()}
    out = tuple(
        msgspec.structs.replace(source, path=renamed[source.path].path)
        if source.path in renamed
        else msgspec.structs.replace(source, path=f"report:{source.path}")
        if source.path in taken
        else source
        for source in recorded
    )
    if version.path in taken:
        return out, source_hash, []
    nearest = _nearest(texts, version.path)
    digest = hashlib.sha256((nearest.text or "").encode()).hexdigest()
    message = (
        f"stale: the report's source {nearest.path} differs from {version.path}; lines and "
        "counters are those of the report's text"
    )
    return out, digest, [Notice("source-differs", message)]


def _nearest(texts: Sequence[SourceFile], path: str) -> SourceFile:
    name = PurePosixPath(path).name
    same = [s for s in texts if PurePosixPath(s.path.replace("\\", "/")).name == name]
    return (same or list(texts))[0]


def _launch_notices(
    launches: Sequence[Launch], expected: Sequence[ResolvedLaunch], problem: str
) -> list[Notice]:
    """Notices of differences between the report's launches and the version's."""
    if not expected:
        return []
    out = []
    # A report has the function's name, but a version may name an instance of a template.
    ours = {own_name(launch.kernel): launch for launch in expected}
    theirs = [launch for launch in launches if own_name(launch.kernel) in ours]
    if not theirs:
        there = ", ".join(dict.fromkeys(launch.kernel[:60] for launch in launches))
        message = f"the version launches {', '.join(ours)}; the report has {there}"
        out.append(Notice("kernel-differs", message))
    elif len(theirs) > len(ours) and not any(launch.nvtx for launch in theirs):
        message = "no NVTX ranges: which launch of a kernel is the version's own is unknown"
        out.append(Notice("no-nvtx", message))
    pairs = [(launch, ours[own_name(launch.kernel)]) for launch in theirs]
    if not pairs and len(launches) == len(expected):
        pairs = list(zip(launches, expected, strict=True))
    for launch, want in pairs:
        if launch.profiled and (launch.grid, launch.block) != (want.grid, want.block):
            message = (
                f"{launch.kernel[:60]} ran with grid {launch.grid} and block {launch.block}; on "
                f"{problem} the version has grid {want.grid} and block {want.block}: "
                "another problem, or another version"
            )
            out.append(Notice("launch-differs", message))
    return out
