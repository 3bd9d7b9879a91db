"""A program's own headers: found in a compiler's order, and copied into a study."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from workbench.errors import UsageError
from workbench.study.sources import VERSION_NAME, include_directives, read_source

#: Folders with headers that every machine with a toolkit has.
SYSTEM = ("/usr/", "/opt/")
#: The folder of a study for headers from outside their program's own folder.
_APART = "include"
_MOST = 512


class OwnHeaders(NamedTuple):
    """Copies of headers by their names in the study's folder, and its folders for ``-I``."""

    files: dict[str, str]
    folders: tuple[str, ...]


NO_HEADERS = OwnHeaders({}, ())


def own_headers(source: Path, text: str, folders: Sequence[Path] = ()) -> OwnHeaders:
    """The user's own files that the text of a source includes, and those that these include.

    Raises UsageError: a header is not UTF-8; or there are too many.
    """
    home = _absolute(source).parent
    folders = [*map(_absolute, folders)]
    found: dict[Path, str] = {}
    queue = [(home, text)]
    while queue:
        beside, text = queue.pop(0)
        for mark, name, _ in include_directives(text):
            places = [beside, *folders] if mark == '"' else folders
            paths = [_absolute(each / name) for each in places]
            path = next((each for each in paths if each.is_file()), None)
            if path is None or path in found or str(path).startswith(SYSTEM):
                continue
            found[path] = read_source(path)
            queue.append((path.parent, found[path]))
            if len(found) > _MOST:
                raise UsageError(f"{source} includes more than {_MOST} files", "Make it smaller.")
    used = [each for each in folders if any(path.is_relative_to(each) for path in found)]
    base = Path(os.path.commonpath([home, *(path.parent for path in found), *used]))
    versions = any(path.stem == "study" or VERSION_NAME.match(path.stem) for path in found)
    apart = base != home or versions
    under = Path(_APART) if apart else Path()
    return OwnHeaders(
        {(under / path.relative_to(base)).as_posix(): text for path, text in found.items()},
        tuple(
            (under / each.relative_to(base)).as_posix() for each in ([home] * apart + used) if found
        ),
    )


def _absolute(path: Path) -> Path:
    """An absolute path without dots, in the user's names: links are not followed."""
    return Path(os.path.normpath(path.absolute()))
