"""A folder of generated pages: its contents, outdated pages, and other people's files.

Every page has a content key over all of its inputs. The keys of the pages on disk are kept in a
manifest, so an unchanged page is not rendered again, and a page whose input is gone is removed. A
study has a key over all possible inputs of its pages, so an unchanged study's files are not opened.
A folder that holds other people's files is refused.

The manifest is read under the lock, and names a page before the page is written: after a killed
run, the next one knows all pages and continues.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import msgspec

from workbench import __version__
from workbench.disk.limits import MIB, REPORT, ByteLimit, read_regular
from workbench.disk.lock import locked
from workbench.disk.opening import parts_of
from workbench.disk.writing import is_temporary, remove_file, replace_file, tidy_folder, write_files
from workbench.errors import DataError, UsageError
from workbench.language import _, current
from workbench.model import Record
from workbench.revisions import git, published, web_pages
from workbench.views.html.page import KeptPage, Page, PageCount, digest

MANIFEST = ".manifest.json"
_FORMAT = "workbench-report"
#: Files that version control keeps in an otherwise empty folder, and our own lock.
_HARMLESS = {".gitignore", ".gitkeep", ".lock"}
_LOCK_TIMEOUT_S = 10.0
#: The largest manifest; one of ten thousand pages has a sixth of this size.
_LIMIT = ByteLimit("a report's manifest", 64 * MIB)
#: Replaces the digest of a file that is not shown.
_LEFT_OUT = "left out"
#: Seconds between writes of the manifest while pages are written.
_SAVE_EVERY_S = 0.5

#: A file's `stat` (modified, in ns; size) and the digest of its content at that time.
FileStamp = tuple[int, int, str]


class KeptStudy(Record, frozen=True):
    """The key of a study whose pages are all written, and the paths of its includes."""

    key: str = ""
    places: tuple[str, ...] = ()


class _Manifest(Record, frozen=True):
    format: str = ""
    pages: dict[str, KeptPage] = msgspec.field(default_factory=dict)
    assets: dict[str, str] = msgspec.field(default_factory=dict)
    files: dict[str, FileStamp] = msgspec.field(default_factory=dict)
    studies: dict[str, KeptStudy] = msgspec.field(default_factory=dict)
    ended: bool = True  # False: the run was killed


class Writing(NamedTuple):
    """How pages are written.

    Attributes:
        force: No page counts as up to date.
        first: Pages to write before the others, by their paths below the folder.
        tell: Called with the number of written pages and of all pages.
    """

    force: bool = False
    first: Collection[str] = ()
    tell: Callable[[int, int], None] | None = None


#: Only pages that have changed.
CHANGED = Writing()


class Site:
    """The generated site in one folder; use as a context manager.

    Entering takes the folder (refusing a foreign one) and its lock; leaving writes the manifest,
    also after an error, so that finished pages count as done.

    Raises:
        UsageError: the folder is not empty and not a report.
        MissingError: the folder cannot be written, or another writer is at work.
    """

    def __init__(self, out: Path, how: Writing = CHANGED) -> None:
        self.out = out
        self._how = how
        self._manifest = _Manifest()
        self._pages: dict[str, KeptPage] = {}
        self._assets: dict[str, str] = {}
        self._files: dict[str, FileStamp] = {}
        self._studies: dict[str, KeptStudy] = {}
        self._seen_files: dict[str, FileStamp] = {}
        self._relative: dict[Path, str] = {}
        self._owned: dict[str, dict[str, KeptPage]] | None = None
        self._saved = 0.0
        self._held = ExitStack()

    def __enter__(self) -> Site:
        _read_manifest(self.out)  # another user's folder gets no lock either
        with ExitStack() as held:
            held.enter_context(locked(self.out, _LOCK_TIMEOUT_S))
            self._manifest = _read_manifest(self.out)
            self._pages = dict(self._manifest.pages)
            self._assets = dict(self._manifest.assets)
            self._files = self._manifest.files
            self._studies = dict(self._manifest.studies)
            if not self._manifest.ended:
                for folder in {"", "assets", *(path.rpartition("/")[0] for path in self._pages)}:
                    tidy_folder(self.out, folder)
            self._held = held.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with self._held:
            # Pages that were planned and never written.
            for path in [path for path, kept in self._pages.items() if not kept.key]:
                if not (self.out / path).exists():
                    del self._pages[path]
            self._save(ended=True)

    def _save(self, *, ended: bool) -> None:
        # Files that this run did not request belong to other studies, or are gone.
        others = {
            name: stamp
            for name, stamp in self._files.items()
            if name not in self._seen_files and (self.out / name).exists()
        }
        files = {**others, **self._seen_files}
        manifest = _Manifest(
            format=_FORMAT,
            pages=dict(self._pages),
            assets=dict(self._assets),
            files=files,
            studies=dict(self._studies),
            ended=ended,
        )
        # Not only for speed: a run that changes nothing must not write to the disk.
        if manifest != self._manifest:
            data = msgspec.json.encode(manifest)
            if ended:
                write_files(self.out, {MANIFEST: data})
            else:
                replace_file(self.out, MANIFEST, data)
            self._manifest = manifest
        self._saved = time.monotonic()

    def pages(self, owner: str) -> dict[str, KeptPage]:
        """The pages now on disk of an owner (or of all of one kind), by path."""
        if self._owned is None:
            self._owned = {}
            for path, kept in self._pages.items():
                # By owner and by the owner's kind: it is requested once per ladder, and must not
                # search all pages each time.
                for name in dict.fromkeys((kept.owner, kept.owner.partition(":")[0])):
                    self._owned.setdefault(name, {})[path] = kept
        return self._owned.get(owner, {})

    def suspects(self) -> list[Path]:
        """Files that an earlier run left out (`leave_out`)."""
        names = [name for name, stamp in self._files.items() if stamp[2] == _LEFT_OUT]
        return [Path(os.path.abspath(self.out / name)) for name in names]  # noqa: PTH100 - no links

    def leave_out(self, paths: Iterable[Path]) -> None:
        """Remember files that no page shows, so that the next run need not check them again."""
        for path in paths:
            self._seen_files[self._name(path)] = (0, 0, _LEFT_OUT)

    def study(self, owner: str) -> KeptStudy:
        """An earlier run's record of the study that owns pages."""
        return self._studies.get(owner, KeptStudy())

    def keep_study(self, owner: str, kept: KeptStudy) -> None:
        """Remember the study that owns pages."""
        self._studies[owner] = kept

    def _name(self, path: Path) -> str:
        folder = self._relative.get(path.parent)
        if folder is None:
            # Relative to the site: a published manifest reveals no home folder.
            folder = self._relative[path.parent] = os.path.relpath(path.parent, self.out)
        return f"{folder}/{path.name}"

    def content(self, path: Path) -> str:
        """The digest of a file's content; a file with an unchanged `stat` is not read again."""
        name = self._name(path)
        try:
            status = path.stat()
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read: {error.strerror}", "Check the file and its permissions."
            ) from error
        stamp = self._files.get(name)
        if stamp is None or stamp[0] != status.st_mtime_ns or stamp[1] != status.st_size:
            stamp = (status.st_mtime_ns, status.st_size, digest(read_regular(path, REPORT)))
        self._seen_files[name] = stamp
        return stamp[2]

    def write(self, pages: Iterable[Page], *, owners: Iterable[str]) -> PageCount:
        """Bring pages up to date; remove those of `owners` that are not among them.

        Pages are rendered and written group by group, and a group's inputs are released, so memory
        does not grow with their number. Many groups share the processors. Raises MissingError: no
        space or no permission; earlier pages stay intact.
        """
        owned = set(owners)
        seen: set[str] = set()
        first: list[list[Page]] = []
        groups: list[list[Page]] = []
        unchanged = written = 0
        for page in pages:
            seen.add(page.path)
            if self.current(page) is not None:
                unchanged += 1
            elif page.path in self._how.first:
                first.append([page])
            elif groups and page.group and groups[-1][0].group == page.group:
                groups[-1].append(page)
            else:
                groups.append([page])
        groups = [*first, *groups]
        planned = sum(map(len, groups))
        self._intend(page for group in groups for page in group)
        if groups:
            from workbench.views.html.pool import rendered  # processes: slow to load
        for done in rendered(self.out, groups) if groups else ():
            for path, kept in done:
                before = self._pages.get(path)
                for name in set(_beside(path, before) if before else ()) - set(_beside(path, kept)):
                    remove_file(self.out, name)
                self._pages[path] = kept
                written += 1
            if self._how.tell is not None:
                self._how.tell(written, planned)
            if time.monotonic() > self._saved + _SAVE_EVERY_S:
                self._save(ended=False)
        self._owned = None
        gone = [p for p, kept in self._pages.items() if kept.owner in owned and p not in seen]
        for path in gone:
            self._remove(path)
        return PageCount(written=written, unchanged=unchanged, removed=len(gone))

    def _intend(self, pages: Iterable[Page]) -> None:
        """Record the pages that will be written, with a key that no page has."""
        before = dict(self._pages)
        for page in pages:
            kept = before.get(page.path) or KeptPage(key="", owner=page.owner)
            self._pages[page.path] = msgspec.structs.replace(kept, key="")
        if self._pages != before:
            self._owned = None
            self._save(ended=False)

    def current(self, page: Page) -> KeptPage | None:
        """The record of a page that need not be written again; None: it must be written.

        A page without a key was being written when a run was killed.
        """
        kept = self._pages.get(page.path)
        if self._how.force or kept is None or not kept.key or not self._whole(page.path):
            return None
        return kept if kept.key == page.key else None

    def _whole(self, path: str) -> bool:
        """True if a page and the files beside it are complete on the disk."""
        kept = self._pages[path]
        folder = path.rpartition("/")[0]
        sizes = {path: kept.size, **{f"{folder}/{n}": size for n, size in kept.beside.items()}}
        try:
            # As strings: making thousands of paths costs more than reading the sizes.
            return all(
                os.stat(f"{self.out}/{name}").st_size == size  # noqa: PTH116
                for name, size in sizes.items()
            )
        except OSError:
            return False

    def fresh(self, owner: str, key: str) -> int:
        """The number of pages of `owner`, if all of them exist with this key; else 0."""
        own = self.pages(owner)
        same = all(kept.key == key for kept in own.values())
        return len(own) if same and self.whole(owner) else 0

    def whole(self, owner: str) -> bool:
        """True if every page of `owner` exists and a complete run wrote it."""
        own = self.pages(owner).items()
        return not self._how.force and all(kept.key and self._whole(path) for path, kept in own)

    def asset(self, name: str, key: str, read: Callable[[], bytes]) -> None:
        """Put one shared asset under ``assets/`` unless that content already exists."""
        target = self.out / "assets" / name
        if self._assets.get(name) == key and target.is_file():
            return
        if not self._manifest.format:
            self._save(ended=False)  # from here on the folder is a report
        write_files(self.out, {f"assets/{name}": read()})
        self._assets[name] = key

    def forget_assets(self, wanted: Iterable[str]) -> None:
        """Remove the assets that an earlier version of the program needed."""
        for name in set(self._assets) - set(wanted):
            remove_file(self.out, f"assets/{name}")
            del self._assets[name]

    def _remove(self, path: str) -> None:
        for name in (*_beside(path, self._pages[path]), path):
            remove_file(self.out, name)
        self._studies.pop(self._pages[path].owner, None)
        del self._pages[path]


def _beside(path: str, kept: KeptPage) -> list[str]:
    """The files that belong only to one page, by their paths in the site."""
    folder, slash, _ = path.rpartition("/")
    return [f"{folder}{slash}{name}" for name in kept.beside]


def _read_manifest(out: Path) -> _Manifest:
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder", "Give another folder with --out.")
    path = out / MANIFEST
    try:
        manifest = msgspec.json.decode(read_regular(path, _LIMIT), type=_Manifest)
    except FileNotFoundError:
        manifest = _Manifest()
    except (OSError, msgspec.MsgspecError):
        # A truncated or foreign manifest is not an error: a complete new one replaces it.
        ours = (out / "assets" / "workbench.css").is_file() and (out / "index.html").is_file()
        if not ours and not _is_empty(out, {MANIFEST}):
            raise _foreign(out) from None
        return _Manifest()
    if manifest.format != _FORMAT and not _is_empty(out, set()):
        raise _foreign(out)
    _check_names(out, manifest)
    return manifest


def _check_names(out: Path, manifest: _Manifest) -> None:
    """Refuse a manifest with paths outside the site, which would be written or removed."""
    names = [name for path, kept in manifest.pages.items() for name in (path, *_beside(path, kept))]
    try:
        for name in (*names, *(f"assets/{name}" for name in manifest.assets)):
            parts_of(out, name)
    except DataError as error:
        raise DataError(
            f"{out / MANIFEST} cannot be trusted: {error.message}",
            f"Nothing was changed. Remove {out}; a report can be written again at any time.",
        ) from error


def _is_empty(out: Path, besides: set[str]) -> bool:
    if not out.is_dir():
        return True
    names = _HARMLESS | besides
    return all(entry.name in names or is_temporary(entry.name) for entry in out.iterdir())


def _foreign(out: Path) -> UsageError:
    return UsageError(
        f"{out} is not empty and was not written by `workbench report`",
        "Give an empty or new folder with --out, or remove what is in it.",
    )


_OWN = Path(__file__).parent / "assets"
_ASSETS = ("workbench.css", "workbench.js", "around.js", "plotly-basic.min.js")


@lru_cache(maxsize=1)
def code_stamp() -> str:
    """The key of the rendering code and its templates: a page made by other code is out of date.

    It covers sizes and modification times; reading every module would cost more than the rest of a
    run that changes nothing.
    """
    root = Path(str(files("workbench")))
    parts: list[str | bytes] = [__version__]
    for path in sorted(root.rglob("*")):
        if path.suffix in {".py", ".html", ".css", ".js", ".toml", ".mo"}:
            status = path.stat()
            parts.append(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}")
    return digest(*parts)


#: The relative path from a site to its version in another language.
_twin: ContextVar[str] = ContextVar("twin", default="")


@contextmanager
def beside_twin(way: str) -> Iterator[None]:
    """Set the relative path to the same site in another language, such as ``zh/``."""
    token = _twin.set(way)
    try:
        yield
    finally:
        _twin.reset(token)


def copy_assets(site: Site, code: Path | None = None) -> None:
    """Put stylesheet and scripts into the site; `code` is the folder whose commits they link."""
    twin, web = _twin.get(), web_pages(code) if code else ""
    for name in _ASSETS:
        status = (_OWN / name).stat()
        # Compare sizes and times, so that a run that changes nothing does not read the files.
        key, read = f"{status.st_size} {status.st_mtime_ns}", (_OWN / name).read_bytes
        if name == _ASSETS[1] and (twin or current() != "en"):
            key, read = f"{key} {code_stamp()} {current()} {twin}", partial(_speaking, twin)
        if name == _ASSETS[2] and code and web:
            key += f"{web} {git(code, 'rev-parse', 'HEAD', '--remotes')!r}"
            read = partial(_linking, web, code)
        site.asset(name, key, read)
    site.forget_assets(_ASSETS)


#: Matches a user-facing text in a script.
_SAID = re.compile(r'\b_\("((?:[^"\\]|\\.)*)"')


def script_texts() -> list[str]:
    """The scripts' texts for people, in English."""
    scripts = (_OWN / name for name in _ASSETS[1:3])
    return [said for each in scripts for said in _SAID.findall(each.read_text("utf-8"))]


def _speaking(twin: str) -> bytes:
    """The first script, preceded by the texts of all scripts in the current language."""
    words = {said: str(_(said)) for said in script_texts() if _(said) != said}
    data = msgspec.json.encode({"twin": twin, "words": words})
    return b"window.workbenchLanguage=" + data + b";\n" + (_OWN / _ASSETS[1]).read_bytes()


def _linking(web: str, code: Path) -> bytes:
    """The second script, preceded by the commits of the project's code."""
    data = msgspec.json.encode({"web": web, "commits": published(code)})
    return b"window.workbenchCommits=" + data + b";\n" + (_OWN / _ASSETS[2]).read_bytes()
