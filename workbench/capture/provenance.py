"""Whose state was captured, told without telling whose machine it was.

What is kept is shared: commands and paths are written relative to the sources, and a home
folder as ``~``. No environment variable is kept, and neither the host's name nor the user's.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from workbench.captures.revisions import repository
from workbench.captures.texts import supplied, texts_at
from workbench.errors import UsageError
from workbench.model import Notice, Profile, SourceFile

#: Users that many machines have: their name says nothing, and stands in paths of systems.
_NOBODY = frozenset({"root", "user", "ubuntu", "nobody"})


class Neutral:
    """Takes this machine and its user out of texts.

    Args:
        root: The folder of the sources, which paths are made relative to.
    """

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
        """A profile whose paths, command and remarks name no machine.

        Texts of sources stay as they are: their hash tells which they were.
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
    """Ncu's recorded command, without where it wrote: a temporary folder of ours."""
    out: list[str] = []
    skip = False
    for word in command:
        if not skip and word not in ("--export", "--log-file"):
            out.append(word)
        skip = word in ("--export", "--log-file")
    return tuple(out)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def root_of(folder: Path) -> Path:
    """The folder that paths of sources are relative to: the repository's root, or the folder."""
    return (repository(folder) or folder).resolve()


def with_texts(profile: Profile, folder: Path, where: str | None) -> Profile:
    """A profile with the texts of the sources that its line tables name, and with their hashes.

    Args:
        profile: As it was read; a text that it has stays.
        folder: Where the program was run: its sources are looked for below their root.
        where: A folder or a revision that a user named instead.

    Raises:
        UsageError: `where` is neither folder nor revision, or holds none of the files.
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
    notice = Notice(code="source-not-found", message=f"{why}; --source names where it is")
    return replace(profile, notices=(*profile.notices, notice))
