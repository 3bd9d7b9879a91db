"""A dispatch on a cluster: files that the login node and the jobs share, each written whole.

Below ``.workbench/jobs/NAME/`` of the project::

    order.json        the task
    pieces.json       versions on problems, by their numbers
    arrays/K.json     a sent array: which element does which pieces
    begun/…json       a job has begun a piece: where, and on which GPU
    done/N.json       the outcome of piece N

Only the job that does a piece writes the piece's files, and only the watcher of a dispatch writes
the others; so only the watcher needs a lock across nodes.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from workbench.disk.limits import FACTS, read_regular
from workbench.disk.lock import locked
from workbench.disk.writing import clear_folder, remove_file, replace_file
from workbench.errors import (
    DataError,
    InconclusiveError,
    KernelError,
    MissingError,
    UsageError,
    WorkbenchError,
)
from workbench.measure.plan import Key
from workbench.model import Record
from workbench.project import PRIVATE
from workbench.session.runners import R, Task

JOBS = f"{PRIVATE}/jobs"
LOG = "log"
_NAME = re.compile(r"[\w.=-]{1,120}")
_DEVICES = "devices.json"
_ERRORS: dict[int, type[WorkbenchError]] = {
    each.exit_code: each
    for each in (UsageError, MissingError, KernelError, DataError, InconclusiveError)
}


class JobOrder(Record, frozen=True):
    """A task, as it was sent; `words` are its command line, `submitted` is ISO 8601."""

    kind: str
    study: str
    words: str
    submitted: str
    task: msgspec.Raw

    @classmethod
    def of(cls, task: Task[Any], study: str, words: str, submitted: str) -> JobOrder:
        """A task of a study, about to be sent."""
        return cls(task.kind, study, words, submitted, msgspec.Raw(msgspec.json.encode(task)))

    def read(self, like: Task[R]) -> Task[R]:
        """Read the task; it has the same type as `like`."""
        return msgspec.json.decode(self.task, type=type(like))

    def is_for(self, study: str, task: Task[Any]) -> bool:
        """True if another command asks for the same task, perhaps with other inputs."""
        if (self.kind, self.study) != (task.kind, study):
            return False
        seed = self.read(task).run.seed
        return self.read(task) == replace(task, run=replace(task.run, seed=seed))


class Array(Record, frozen=True):
    """An array that was sent: its name in the queue, and the pieces of each element."""

    name: str
    works: tuple[tuple[int, ...], ...]
    job: str = ""


class Standing(Record, frozen=True):
    """Counts pieces of a dispatch; `words` is its command, `jobs` the queue's names of its arrays.

    Running the command again resends `lost` pieces: they have neither a job nor an outcome.
    """

    name: str
    words: str
    submitted: str
    jobs: tuple[str, ...]
    queued: int
    running: int
    done: int
    failed: int
    lost: int


class PieceOutcome(Record, frozen=True):
    """The result of a piece. `begun` and `ended` are seconds since 1970, by the node's clock.

    The waiting command prints `notes`; `source_hash` is that of the version that was run.
    """

    version: str
    problem: str
    node: str
    gpus: str = ""
    job: str = ""
    begun: float = 0.0
    ended: float = 0.0
    found: tuple[msgspec.Raw, ...] = ()
    notes: tuple[str, ...] = ()
    source_hash: str = ""
    error: WorkbenchError | None = None

    @property
    def key(self) -> Key:
        """Version and problem."""
        return self.version, self.problem


def packed(record: object) -> bytes:
    """A record, with errors in it, in its form for transfer from a job to the login node."""
    return msgspec.json.encode(record, enc_hook=_plain)


def unpacked(data: bytes | msgspec.Raw, kind: type[R]) -> R:
    """Restore the record; an error gets the class of its exit code.

    Raises:
        msgspec.DecodeError: it is damaged.
    """
    return msgspec.json.decode(data, type=kind, dec_hook=_error)


def _plain(error: object) -> object:
    if not isinstance(error, WorkbenchError):
        raise NotImplementedError
    return error.exit_code, error.message, error.hint


def _error(_type: type, plain: object) -> WorkbenchError:
    code, message, hint = msgspec.convert(plain, tuple[int, str, str])
    return _ERRORS.get(code, WorkbenchError)(message, hint)


class Dispatch:
    """One dispatch's files."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name
        self.folder = root / JOBS / name

    # --- the task ---------------------------------------------------------------------

    @property
    def order(self) -> JobOrder:
        """Return the task, as it was sent; DataError: its file is damaged."""
        return _read(self.folder / "order.json", JobOrder)

    @property
    def pieces(self) -> list[Key]:
        """Versions on problems, by their numbers."""
        return _read(self.folder / "pieces.json", list[Key])

    def add(self, keys: Sequence[Key]) -> list[int]:
        """Add pieces; return their numbers."""
        there = self.pieces if (self.folder / "pieces.json").exists() else []
        self._write("pieces.json", [*there, *keys])
        return list(range(len(there), len(there) + len(keys)))

    # --- sent arrays --------------------------------------------------------------------

    @property
    def arrays(self) -> list[Array]:
        """Arrays, in the order in which they were sent."""
        paths = sorted((self.folder / "arrays").glob("*.json"), key=lambda path: int(path.stem))
        return [_read(path, Array) for path in paths]

    def plan_array(self, works: Sequence[tuple[int, ...]]) -> Array:
        """Record an array before it is sent, so that it can be found by its name."""
        number = len(self.arrays)
        array = Array(name=f"workbench-{self.name}-{number}", works=tuple(works))
        self._write(f"arrays/{number}.json", array)
        return array

    def sent(self, array: Array, job: str) -> None:
        """Record the queue's own name of an array."""
        number = array.name.rpartition("-")[2]
        self._write(f"arrays/{number}.json", replace(array, job=job))

    def unsent(self, array: Array) -> None:
        """Forget an array that the queue refused."""
        self._forget(f"arrays/{array.name.rpartition('-')[2]}.json")

    # --- outcomes ---------------------------------------------------------------------

    def begin(self, number: int, begun: PieceOutcome) -> None:
        """Record that a job has begun a piece; each start is kept."""
        self._write(f"begun/{number}.{begun.job}.{int(begun.begun * 1e3)}.json", begun)

    def begun(self, number: int) -> list[PieceOutcome]:
        """The recorded starts of a piece."""
        paths = (self.folder / "begun").glob(f"{number}.*.json")
        return [_read(path, PieceOutcome) for path in paths]

    def finish(self, number: int, outcome: PieceOutcome) -> None:
        """Record the outcome of a piece."""
        self._write(f"done/{number}.json", outcome)

    def outcome(self, number: int) -> PieceOutcome | None:
        """Return the result of a piece; None: not finished."""
        path = self.folder / "done" / f"{number}.json"
        return _read(path, PieceOutcome) if path.exists() else None

    def reopen(self, number: int) -> None:
        """Delete the outcome of a piece, so that it is done again."""
        self._forget(f"done/{number}.json")

    # --- the end ----------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True if its end was reported to a user."""
        return (self.folder / "closed").exists()

    def close(self, *, keep: bool) -> None:
        """Close it after its end was reported; `keep`: keep its files for a look at its errors."""
        if keep:
            self._write("closed", {})
        else:
            self.remove()

    def remove(self) -> None:
        """Remove all its files."""
        home = f"{JOBS}/{self.name}"
        with contextlib.suppress(OSError):  # a job that is ending may still write its output
            clear_folder(self.root, home, keep="order.json")
        remove_file(self.root, f"{home}/order.json")

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Hold the watcher's lock for the length of the block.

        Raises BusyError: another process watches the dispatch.
        """
        with locked(self.root, 0.0, f"{JOBS}/{self.name}", keep=True):
            yield

    def _forget(self, name: str) -> None:
        remove_file(self.root, f"{JOBS}/{self.name}/{name}")

    def _write(self, name: str, record: object) -> None:
        data = msgspec.json.format(packed(record), indent=1)
        replace_file(self.root, f"{JOBS}/{self.name}/{name}", data, durable=True)


def _read(path: Path, kind: type[R]) -> R:
    try:
        return unpacked(read_regular(path, FACTS), kind)
    except (msgspec.DecodeError, OSError) as error:
        raise DataError(
            f"{path} cannot be read: {error}", f"Remove its dispatch: {path.parents[1]}."
        ) from error


# --- all of a project -----------------------------------------------------------------------


def dispatches(root: Path) -> list[Dispatch]:
    """A project's dispatches, the oldest first."""
    paths = [path.parent for path in (root / JOBS).glob("*/order.json")]
    return [Dispatch(root, path.name) for path in sorted(paths, key=lambda path: path.name)]


def find(root: Path, name: str) -> Dispatch:
    """Find a dispatch by its name; UsageError: there is no such dispatch."""
    found = Dispatch(root, name)
    if not _NAME.fullmatch(name) or not (found.folder / "order.json").exists():
        known = ", ".join(each.name for each in dispatches(root))
        raise UsageError(
            f"there are no jobs named {name}",
            f"There are: {known}." if known else "None have been sent from this project.",
        )
    return found


def begin(root: Path, order: JobOrder) -> Dispatch:
    """Make a new dispatch without pieces."""
    stamp = re.sub(r"\D", "", order.submitted)[:14]
    name = f"{order.kind}-{stamp}-{os.urandom(2).hex()}"
    dispatch = Dispatch(root, name)
    if not (root / JOBS / ".gitignore").exists():
        replace_file(root, f"{JOBS}/.gitignore", b"*\n")
    dispatch._write("order.json", order)
    return dispatch


def known_devices(root: Path, where: str) -> list[str]:
    """Slugs of the devices that jobs with these settings got so far."""
    path = root / JOBS / _DEVICES
    return _read(path, dict[str, list[str]]).get(where, []) if path.exists() else []


def learn_devices(root: Path, where: str, slugs: Sequence[str]) -> None:
    """Remember which devices jobs got."""
    path = root / JOBS / _DEVICES
    known = _read(path, dict[str, list[str]]) if path.exists() else {}
    every = sorted({*known.get(where, []), *slugs})
    if every != known.get(where):
        data = msgspec.json.encode({**known, where: every})
        replace_file(root, f"{JOBS}/{_DEVICES}", data)
