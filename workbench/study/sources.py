"""Source files as text: reading them, what they include, and their hash."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from pathlib import Path

from workbench.disk.limits import SOURCE, read_regular
from workbench.errors import DataError, UsageError
from workbench.model import SourceFile
from workbench.project import Project
from workbench.specs import Version
from workbench.study import frontmatter

_INCLUDE = re.compile(r'#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]')


def read_source(path: Path, shown: str = "") -> str:
    r"""A source file's text, without a byte order mark, every line ended by ``\n``.

    Raises:
        UsageError: the file cannot be read, is none, too large or not UTF-8; `shown` names it.
    """
    name = shown or str(path)
    try:
        raw = read_regular(path, SOURCE)
    except DataError as error:
        # Of the project, not of what was recorded: the version cannot be used as it is.
        raise UsageError(error.message.replace(str(path), name, 1), error.hint) from error
    except OSError as error:
        raise UsageError(
            f"{name}: cannot be read: {error.strerror}", "Check the file and its permissions."
        ) from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{name}:{line}: not UTF-8 (byte 0x{raw[error.start]:02x})",
            f"Save the file as UTF-8, for example: iconv -f LATIN1 -t UTF-8 {name}",
        ) from error
    # nvcc counts "\r\n" as one line end, as every editor does; text compares and
    # hashes must not depend on which of the two a checkout wrote.
    return text.replace("\r\n", "\n")


def source_file(path: str, text: str) -> SourceFile:
    """The record of one source file, with the hash of its text."""
    return SourceFile(path=path, text=text, sha256=hashlib.sha256(text.encode("utf-8")).hexdigest())


def include_folders(flags: tuple[str, ...]) -> list[str]:
    """The folders that ``-I`` flags name, as they were written."""
    folders = []
    pending = False
    for flag in flags:
        if pending:
            folders.append(flag)
            pending = False
        elif flag in ("-I", "--include-path"):
            pending = True
        elif flag.startswith("-I"):
            folders.append(flag[2:].lstrip("="))
        elif flag.startswith("--include-path="):
            folders.append(flag.partition("=")[2])
    return folders


def local_sources(project: Project, version: Version) -> tuple[SourceFile, ...]:
    """The version's file, then every project file that it includes, in order of use.

    A quoted include is looked for beside the file that names it, then (as one in
    angle brackets) in the ``-I`` folders of the version, which are relative to the
    project's root. What is not found there is the toolkit's, and the compiler's to
    report.

    Raises:
        UsageError: an included file lies outside the project or is not UTF-8.
    """
    found = {version.path: source_file(version.path, version.text)}
    queue = [(version.path, version.text)]
    folders = include_folders(version.flags)
    while queue:
        path, text = queue.pop(0)
        for match in _INCLUDE.finditer(text):
            if text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip(" \t"):
                continue  # only the first word of a line is a directive
            places = [posixpath.dirname(path)] if match[1] == '"' else []
            for folder in (*places, *folders):
                candidate = posixpath.normpath(posixpath.join(folder, match[2]))
                if candidate in found:
                    break
                if not (project.root / candidate).exists():
                    continue
                if candidate.startswith("..") or posixpath.isabs(candidate):
                    line = text.count("\n", 0, match.start(2)) + 1
                    raise UsageError(
                        f"{path}:{line}: includes `{match[2]}`, outside the project",
                        "Copy the file into the project, so that a profile can show its lines.",
                    )
                included = read_source(project.root / candidate, candidate)
                found[candidate] = source_file(candidate, included)
                queue.append((candidate, included))
                break
    return tuple(found.values())


def source_hash(project: Project, version: Version) -> str:
    """SHA-256 over all that decides what a version computes and how fast.

    That is its code after the front matter, its launches, scratch buffers, fills and tensor
    maps, its defines and flags, and the text of the project files that it includes. Title,
    change, expectations and requirements are prose: editing them leaves a recorded
    profile valid. Line ends, trailing blanks and blank lines around the code do
    not count; comments do, because they are part of what a report shows.
    """
    sources = local_sources(project, version)
    code = frontmatter.code(version.text, kind=version.kind)
    content = {
        "code": "\n".join(line.rstrip() for line in code.split("\n")).strip("\n"),
        "includes": [[each.path, each.sha256] for each in sources[1:]],
        "launches": [
            [
                launch.kernel,
                launch.grid,
                launch.block,
                launch.args,
                launch.dynamic_shared,
                launch.cluster,
                # Only where it is said: profiles recorded before there was the key stay valid.
                *(["cooperative"] if launch.cooperative else []),
                *(["when", launch.when] if launch.when != "1" else []),
                *([launch.num_stages, launch.divisible_by_16] if launch.num_stages else []),
            ]
            for launch in version.launches
        ],
        "scratch": [[each.name, each.dtype, each.shape] for each in version.scratch],
        # As with `cooperative`: versions without one keep their hash.
        **(
            {"fills": [[each.name, each.dtype, each.values, each.input] for each in version.fills]}
            if version.fills
            else {}
        ),
        **({"tensor_maps": version.tensor_maps} if version.tensor_maps else {}),
        **({"arch_specific": True} if version.arch_specific else {}),
        "defines": version.defines,
        "flags": version.flags,
    }
    packed = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(packed.encode("ascii")).hexdigest()
