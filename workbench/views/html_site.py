"""A folder of generated pages: what is in it, what is out of date, what is ours.

Every page has a content key over all that it is made of. The keys of the pages on
disk are kept in a manifest, so an unchanged page is not rendered again, and a page
whose input is gone is removed. A folder that holds other people's files is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path

import msgspec

from workbench.atomic import locked, write_files
from workbench.errors import MissingError, UsageError
from workbench.model import Record

MANIFEST = ".manifest.json"
_FORMAT = "workbench-report"
#: Files that version control keeps in an otherwise empty folder, and our own lock.
_HARMLESS = {".gitignore", ".gitkeep", ".lock"}
_LOCK_TIMEOUT_S = 10.0


class Rendered(Record, frozen=True):
    """A page's text and, for the index, what is worth saying about it there."""

    html: str
    summary: dict[str, object] = msgspec.field(default_factory=dict)


class Page(Record, frozen=True):
    """A page that should exist. `owner` groups the pages that come and go together."""

    path: str  # relative to the site, forward slashes
    key: str
    owner: str
    render: Callable[[], Rendered]


class Kept(Record, frozen=True):
    """What the manifest remembers of a page."""

    key: str
    owner: str
    summary: dict[str, object] = msgspec.field(default_factory=dict)


class _Manifest(Record, frozen=True):
    format: str = ""
    pages: dict[str, Kept] = msgspec.field(default_factory=dict)
    assets: dict[str, str] = msgspec.field(default_factory=dict)


class Outcome(Record, frozen=True):
    """How many pages were written, left alone because unchanged, and removed."""

    written: int = 0
    unchanged: int = 0
    removed: int = 0

    def plus(self, other: Outcome) -> Outcome:
        """The sum of two outcomes."""
        return Outcome(
            written=self.written + other.written,
            unchanged=self.unchanged + other.unchanged,
            removed=self.removed + other.removed,
        )


def digest(*parts: str | bytes) -> str:
    """A content key; parts are kept apart, so ("ab", "c") and ("a", "bc") differ."""
    state = blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


class Site:
    """The generated site in one folder; use as a context manager.

    Entering takes the folder (refusing one that is not ours) and its lock; leaving
    writes the manifest, also after an error, so that finished pages count as done.

    Raises:
        UsageError: the folder is not empty and not a report.
        MissingError: the folder cannot be written, or another writer is at work.
    """

    def __init__(self, out: Path, *, force: bool = False) -> None:
        self.out = out
        self._force = force
        self._manifest = _read_manifest(out)
        self._pages = dict(self._manifest.pages)
        self._assets = dict(self._manifest.assets)
        self._lock = locked(out, _LOCK_TIMEOUT_S)

    def __enter__(self) -> Site:
        self._lock.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._save()
        finally:
            self._lock.__exit__(None, None, None)

    def _save(self) -> None:
        manifest = _Manifest(format=_FORMAT, pages=self._pages, assets=self._assets)
        # Not an early return for speed alone: a run that changes nothing must not touch the disk.
        if manifest != self._manifest:
            write_files({self.out / MANIFEST: msgspec.json.encode(manifest)})
            self._manifest = manifest

    def pages(self, owner: str = "") -> dict[str, Kept]:
        """The pages now on disk whose owner starts with `owner`, by path."""
        return {p: k for p, k in self._pages.items() if k.owner.startswith(owner)}

    def write(self, pages: Iterable[Page], *, owners: Iterable[str]) -> Outcome:
        """Bring pages up to date; remove those of `owners` that are not among them.

        Pages are rendered and written one after the other, so memory does not grow
        with their number.

        Raises:
            MissingError: no space or no permission; earlier pages stay whole.
        """
        owned = set(owners)
        seen: set[str] = set()
        written = unchanged = 0
        for page in pages:
            seen.add(page.path)
            kept = self._pages.get(page.path)
            target = self.out / page.path
            if not self._force and kept and kept.key == page.key and target.is_file():
                unchanged += 1
                continue
            rendered = page.render()
            write_files({target: rendered.html.encode("utf-8", "replace")})
            self._pages[page.path] = Kept(key=page.key, owner=page.owner, summary=rendered.summary)
            written += 1
        gone = [p for p, kept in self._pages.items() if kept.owner in owned and p not in seen]
        for path in gone:
            self._remove(path)
        return Outcome(written=written, unchanged=unchanged, removed=len(gone))

    def fresh(self, owner: str, key: str) -> int:
        """How many pages `owner` has, if all of them are there with this key; else 0."""
        own = {path: kept for path, kept in self._pages.items() if kept.owner == owner}
        if self._force or any(kept.key != key for kept in own.values()):
            return 0
        return len(own) if all((self.out / path).is_file() for path in own) else 0

    def asset(self, name: str, key: str, read: Callable[[], bytes]) -> None:
        """Put one shared asset under ``assets/`` unless that content is there already."""
        target = self.out / "assets" / name
        if self._assets.get(name) == key and target.is_file():
            return
        write_files({target: read()})
        self._assets[name] = key

    def _remove(self, path: str) -> None:
        target = self.out / path
        try:
            target.unlink(missing_ok=True)
            for folder in target.relative_to(self.out).parents:
                if folder != Path() and not any((self.out / folder).iterdir()):
                    (self.out / folder).rmdir()
        except FileNotFoundError:
            pass  # somebody cleared the folder meanwhile, which is what was wanted
        except OSError as error:
            raise MissingError(
                f"cannot remove {target}: {error.strerror}", "Check the folder's permissions."
            ) from error
        del self._pages[path]


def _read_manifest(out: Path) -> _Manifest:
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder", "Give another folder with --out.")
    path = out / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except FileNotFoundError:
        manifest = _Manifest()
    except (OSError, msgspec.MsgspecError):
        # A cut or foreign manifest is no reason to fail: ours is rewritten as a whole.
        return _Manifest() if _is_empty(out, {MANIFEST}) else _ours_or_refuse(out)
    if manifest.format == _FORMAT or _is_empty(out, set()):
        return manifest
    raise _foreign(out)


def _ours_or_refuse(out: Path) -> _Manifest:
    if (out / "assets" / "workbench.css").is_file() and (out / "index.html").is_file():
        return _Manifest()
    raise _foreign(out)


def _is_empty(out: Path, besides: set[str]) -> bool:
    if not out.is_dir():
        return True
    return all(entry.name in _HARMLESS | besides for entry in out.iterdir())


def _foreign(out: Path) -> UsageError:
    return UsageError(
        f"{out} is not empty and was not written by `workbench report`",
        "Give an empty or new folder with --out, or remove what is in it.",
    )
