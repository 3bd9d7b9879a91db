"""The sources of versions: read them, start one, and rewrite one that was started here."""

from __future__ import annotations

import posixpath

from msgspec.structs import replace

from workbench.agents.fence import plain
from workbench.disk.limits import SOURCE, read_regular
from workbench.disk.writing import replace_file
from workbench.errors import UsageError, did_you_mean
from workbench.project import Project, require_project
from workbench.specs import Version
from workbench.study import frontmatter
from workbench.study.folder import SeenStudy, parse_target, view_study
from workbench.study.scaffold import start_version
from workbench.study.sources import (
    include_folders,
    load_versions,
    local_sources,
    open_to_programs,
)
from workbench.views.shapes import Json

#: The most bytes of a version's text that a client may write.
MOST_TEXT = 256 * 1024


class Workshop:
    """The versions of a project, as a client may see and write them.

    `python`: it may write Python, which runs with the user's rights.
    """

    def __init__(self, project: Project, *, python: bool) -> None:
        self._root, self._closed = project.root, project.closed
        self._python = python
        self._started: set[str] = set()

    def source(self, version: str, file: str, first: int, study: str) -> Json:
        """A version's file (or one that it includes) as lines, from line `first` on.

        Raises UsageError: no such version, file or line.
        """
        project, _, found = self._find(version, study)
        sources = local_sources(project, found)
        names = [source.path for source in sources]
        wanted = plain(file, "file") or found.path
        if wanted not in names:
            raise UsageError(
                f"{wanted} is not a file of {found.study}/{found.id}",
                did_you_mean(wanted, names, "files"),
            )
        lines = (sources[names.index(wanted)].text or "").splitlines()
        if first > max(1, len(lines)):
            raise UsageError(f"{wanted} has {len(lines)} lines", f"first is {first}.")
        return {
            "version": f"{found.study}/{found.id}",
            "title": found.title,
            "parent": found.parent,
            "kind": found.kind,
            "file": wanted,
            "files": names,
            "first": first,
            "last": len(lines),
            "lines": lines[first - 1 :],
        }

    def start(self, version: str, parent: str, study: str, about: tuple[str, str, str]) -> Json:
        """Start a version, ``v5`` or ``sgemm/v5_wide``, from its parent ("": the last one).

        `about` is its title, its change, and its text ("": the parent's code). Raises UsageError:
        it exists, has a wrong name, or cannot be read.
        """
        title, change, text = about
        project = self._project()
        name, stem = parse_target(plain(version, "version"), project, study)
        seen = view_study(project, plain(name, "study"))
        ladder = [each for each in seen.versions.values() if not each.baseline]
        if parent:
            own, parent_id = parse_target(plain(parent, "parent"), project, name)
            if own != name:
                raise UsageError(f"{parent} belongs to another study", f"Name a version of {name}.")
            source = seen.version(parent_id)
        elif ladder:
            source = ladder[-1]
        else:
            raise UsageError(f"study {name} has no version to start from", "Name its parent.")
        self._writable(seen, source, text)
        path = start_version(
            seen,
            project,
            stem,
            source,
            plain(title, "title"),
            change=plain(change, "change"),
            text=text,
        )
        self._started.add(path)
        number = stem.partition("_")[0]
        written = view_study(project, name).version(number)
        given = {"title": title, "change": change, "parent": parent and source.id}
        dropped = [key for key, said in given.items() if said and said != getattr(written, key)]
        answer: Json = {"written": path, "version": f"{name}/{number}", "parent": written.parent}
        if dropped:
            answer["dropped"] = dropped
            answer["note"] = (
                f"The text has front matter of its own, which counts: {', '.join(dropped)} of this "
                "call went nowhere. Write it there, or leave the front matter out."
            )
        return answer

    def write(self, version: str, study: str, text: str) -> Json:
        """Replace the text of a version that was started over this connection.

        Raises UsageError: it was not, or the text is not a version's; the old text stays.
        """
        project, seen, found = self._find(version, study)
        if found.path not in self._started:
            raise UsageError(
                f"{found.path} was not started over this connection, and will not be overwritten",
                f"Start a new one: new_version with parent {found.id}.",
            )
        self._writable(seen, found, text)
        if not frontmatter.present(text, path=found.path, kind=found.kind):
            _, last = frontmatter.parse(found.text, path=found.path, kind=found.kind).lines
            text = "\n".join([*found.text.split("\n")[:last], text])
        frontmatter.parse(text, path=found.path, kind=found.kind)
        before = read_regular(project.root / found.path, SOURCE)
        replace_file(project.root, found.path, text.encode(), durable=True)
        try:
            load_versions(project, found.study).require(found.id)
        except BaseException:
            replace_file(project.root, found.path, before, durable=True)
            raise
        return {"written": found.path, "version": f"{found.study}/{found.id}"}

    def _project(self) -> Project:
        return replace(require_project(self._root), closed=self._closed)

    def _find(self, version: str, study: str) -> tuple[Project, SeenStudy, Version]:
        project = self._project()
        name, own = parse_target(plain(version, "version"), project, plain(study, "study"))
        seen = view_study(project, name)
        return project, seen, seen.version(own)

    def _writable(self, study: SeenStudy, like: Version, text: str) -> None:
        """Refuse binary or too long text, and Python or headers that are not permitted."""
        if like.kind != "cuda" and not self._python:
            raise UsageError(
                f"{like.path} is Python, which runs with its user's rights",
                "Start the server with --allow python if clients may write that.",
            )
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise UsageError("the text is not valid Unicode", "Send it as UTF-8.") from error
        if size > MOST_TEXT:
            raise UsageError(f"the text has {size} bytes", f"At most {MOST_TEXT}.")
        if any(ord(each) < 32 and each not in "\n\t" for each in text):
            raise UsageError(
                "the text holds control characters",
                "End lines with a line feed, and use no other control character.",
            )
        if self._closed and frontmatter.present(text, path=like.path, kind=like.kind):
            flags = frontmatter.parse(text, path=like.path, kind=like.kind).flags
            others = [each for each in study.versions.values() if each.path not in self._started]
            stated = [folder for each in others for folder in include_folders(each.flags)]
            for folder in include_folders(flags):
                if not open_to_programs(posixpath.normpath(folder), stated):
                    raise UsageError(
                        f"flags: -I {folder}: a folder that a program may not have read",
                        "It may name folders of kernels/, and those that versions name which it "
                        "did not write itself.",
                    )
