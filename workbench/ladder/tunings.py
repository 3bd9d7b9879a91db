"""A tuning on disk: every trial of a version's space, its fate, and the winners.

Layout below the root (``profiles/`` of a project)::

    <device>/<study>/tuned/<version>/<engine>.jsonl
    <device>/<study>/tuned/<version>/<values>/      profiles of a winner or a runner-up

A file is lines of JSON that are only ever added to: the start of a run (`TuningBegun`), each
`Trial` as it ends, and the end of the run (`TuningEnded`). So if the program is killed, only
running trials are lost; a last line that was cut off is reported (`Tuning.torn`), skipped, and
removed by the next writer. A run that continues adds a `TuningBegun` of its own; a run with other
sources or another space starts a new file.
"""

from __future__ import annotations

import contextlib
import math
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from workbench.disk.limits import RECORD, read_regular
from workbench.disk.lock import locked
from workbench.disk.writing import append_file, remove_file, replace_file
from workbench.errors import DataError, MissingError
from workbench.language import N_, _
from workbench.model import EngineName, Record
from workbench.store import TUNED, Store, component
from workbench.study.frontmatter import define_text
from workbench.units import factor, several

#: A parameter's value: that of a define, or a block's shape as ``32x8``.
Value = int | float | str | bool
Values = dict[str, Value]
#: The fate of a trial. ``dropped``: certainly slower than the best, and so not timed to the end.
#: ``counted``: only by the emulator, which knows no times. ``not run``: never tried, for
#: `Trial.why`.
Fate = Literal[
    "timed",
    "counted",
    "dropped",
    "not compiled",
    "does not fit",
    "wrong",
    "hung",
    "failed",
    "not run",
]
FATES: tuple[Fate, ...] = (
    N_("timed"), N_("counted"), N_("dropped"), N_("not run"),
    N_("does not fit"), N_("not compiled"), N_("wrong"), N_("hung"), N_("failed"),
)  # fmt: skip
TuningEngine = Literal["gpu", "emulator"]
#: The reason why a run ended: all of the space tried, nothing better found, time used up, ….
Reason = Literal["space", "converged", "budget", "interrupted", "failed"]

FORMAT, SCHEMA = "workbench-tuning", 1
_LOCK_S = 1.0
#: Counts of a unit -> the fact with the seconds that the unit needs for them at its peak.
BUSY = {
    "shared_wavefronts": "shared_memory_s",
    "instructions": "issue_slots_s",
    "atomics": "atomics_s",
}
#: Names of choices, after the version's name, that are valid in a file name.
_PLAIN = re.compile(r"[\w+-][\w.+-]{0,59}\Z", re.ASCII)


class Trial(Record, frozen=True):
    """One choice of values on one problem.

    `registers` (per thread) and `shared` (bytes per block, static and dynamic) are the largest of
    the launches, `occupancy` (0-1) is the smallest theoretical one of the launches. `bound_s` is a
    lower bound of the time, from counts of the emulator and the chip's peaks; trials are ordered by
    `estimate`: such bounds of all units together, lengthened if SMs have no work or few warps.
    `samples_s` are times in seconds, in the order in which they were taken; `low_s` and `high_s`
    are the ends of the 95% interval of their median, `median_s`. `gpu_s` are the seconds of a GPU
    that it took, start and check included. Unknown values are None. `facts` are further facts from
    the compiler and the emulator about the longest launch: counters by their id, ``spill_bytes``,
    ``stack_bytes``, ``waves``, the seconds of `BUSY`; unknown ones are left out. `verified` are
    problems on which its result is right.
    """

    values: Values
    fate: Fate
    problem: str
    why: str = ""
    registers: int | None = None
    shared: int | None = None
    occupancy: float | None = None
    bound_s: float | None = None
    estimate: float | None = None
    samples_s: tuple[float, ...] = ()
    low_s: float | None = None
    median_s: float | None = None
    high_s: float | None = None
    gpu_s: float | None = None
    facts: dict[str, float] = msgspec.field(default_factory=dict)
    verified: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The trial's key: a later line of the same key replaces it."""
        return key_of(self.values), self.problem


class TuningBegun(Record, frozen=True):
    """The start of a run of `workbench tune`; see `Tuning`."""

    study: str
    version: str
    source_hash: str
    problems: tuple[str, ...]
    gpu: str
    engine: TuningEngine
    parameters: dict[str, tuple[Value, ...]]
    default: Values
    strategy: str
    seed: int
    started: str
    requires: str = ""
    budget_s: float | None = None
    format: str = FORMAT
    schema_version: int = SCHEMA

    def goes_on(self, earlier: TuningBegun) -> bool:
        """True if an earlier run had the same sources and the same space."""
        return all(
            getattr(self, name) == getattr(earlier, name)
            for name in ("source_hash", "parameters", "requires", "default")
        )


class TuningEnded(Record, frozen=True):
    """The end of a run, and the GPU seconds of all its work."""

    ended: Reason
    stopped: str
    gpu_s: float | None = None


class Tuning(TuningBegun, frozen=True, weakref=True, dict=True):
    """A version's tuning: all runs of the same sources and space, taken together.

    Attributes:
        source_hash: The hash of the version's sources then.
        gpu: Slug of the device; for the emulator, that of the chip to which the bounds apply.
        engine: The engine that ran the trials.
        default: The values that the version has without tuning.
        strategy: How choices were made: ``all``, in the order of the estimate, or a search's name.
        seed: The seed of the inputs and of the search.
        budget_s: The budget of the last run, in seconds.
        gpu_s: GPU seconds of all runs; None: none was used.
        started: The start of the first run (ISO 8601).
        stopped: The end of the last run; empty: it was killed, or is still running.
        ended: The reason for its end; see `Reason`.
        trials: In the order in which they ended, each once.
        torn: The last line was cut off.
    """

    trials: tuple[Trial, ...] = ()
    gpu_s: float | None = None
    stopped: str = ""
    ended: Reason = "interrupted"
    torn: bool = False

    def of(self, problem: str) -> tuple[Trial, ...]:
        """The trials on a problem."""
        return tuple(each for each in self.trials if each.problem == problem)

    def ranked(self, problem: str) -> tuple[Trial, ...]:
        """The timed trials on a problem, the fastest first; for the emulator, by the estimate."""
        return ranked(self.of(problem))

    def default_trial(self, problem: str) -> Trial | None:
        """The trial of the default values on a problem; None: they were not tried."""
        key = key_of(self.default), problem
        return next((each for each in self.trials if each.key == key), None)

    def runner_up(self, problem: str) -> Trial | None:
        """The second best on a problem: timed to the end, or else the fastest that was dropped."""
        if rest := self.ranked(problem)[1:]:
            return rest[0]
        dropped = [each for each in self.of(problem) if each.median_s]
        return next(iter(ranked(dropped, "dropped")), None)

    def choice(self, values: Values) -> str:
        """The name of a choice: ``v3@32-4``."""
        return choice_name(self.version, self.parameters, values)

    def sides(self, store: Store, problem: str) -> list[tuple[Trial, Path]]:
        """A problem's winner and runner-up, each with the (future) path of its profile.

        Empty unless there are both: otherwise there is nothing to compare.
        """
        both = self.winners.get(problem), self.runner_up(problem)
        engine: EngineName = "ncu" if self.engine == "gpu" else "emulator"
        found = [
            (each, store.path_of(self.gpu, self.study, self.choice(each.values), problem, engine))
            for each in both
            if each is not None
        ]
        return found if len(found) == len(both) else []

    @property
    def winners(self) -> dict[str, Trial]:
        """Problem -> its best trial; a problem without any is left out."""
        found = {problem: self.ranked(problem) for problem in self.problems}
        return {problem: ranked[0] for problem, ranked in found.items() if ranked}

    @cached_property
    def fates(self) -> dict[Fate, int]:
        """The number of trials of each fate, without zeros."""
        count = {fate: sum(each.fate == fate for each in self.trials) for fate in FATES}
        return {fate: many for fate, many in count.items() if many}

    @property
    def saved(self) -> int:
        """The number of GPU runs that checks on the CPU saved."""
        before = ("not compiled", "does not fit", "wrong", "hung", "failed", "not run")
        return sum(each.fate in before and each.gpu_s is None for each in self.trials)


def score(engine: TuningEngine, trial: Trial | None) -> float | None:
    """The score of a trial, in seconds: a time, or the emulator's estimate."""
    if trial is None or trial.fate not in ("timed", "counted", "dropped"):
        return None
    return trial.median_s if engine == "gpu" else trial.estimate


def key_of(values: Values) -> str:
    """Values as one word, the same whatever order they are in: ``TILE=32,UNROLL=4``."""
    return ",".join(f"{name}={values[name]}" for name in sorted(values))


def shown_values(values: Values) -> str:
    """Values for people, in their own order: ``TILE=32 UNROLL=4``."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def choice_name(version: str, parameters: Iterable[str], values: Values) -> str:
    """The name of a choice of a version's values, short and valid in a file name: ``v3@32-4``."""
    shown = "-".join(define_text(values[name]) for name in parameters)
    if not _PLAIN.match(shown):
        shown = f"{zlib.crc32(key_of(values).encode()):08x}"
    return f"{version}@{shown}"


def ranked(trials: Iterable[Trial], *fates: Fate) -> tuple[Trial, ...]:
    """Trials with these fates (if none are given, those that may win), the best first."""

    def rank(trial: Trial) -> tuple[float, float, str]:
        return trial.median_s or math.inf, trial.estimate or math.inf, key_of(trial.values)

    which = fates or ("timed", "counted")
    return tuple(sorted((each for each in trials if each.fate in which), key=rank))


class _TuningLine(Record, frozen=True):
    """A line of the file: one of three records."""

    begun: TuningBegun | None = None
    trial: Trial | None = None
    ended: TuningEnded | None = None


def path_of(root: Path, device: str, study: str, version: str, engine: TuningEngine) -> Path:
    """The path of a tuning's file, below the store's folder."""
    return root / _folder(device, study, version) / f"{engine}.jsonl"


def _folder(device: str, study: str, version: str) -> str:
    names = component(device, "device"), component(study, "study"), TUNED
    return "/".join((*names, component(version, "version")))


class TuningLog:
    """Appends to a tuning's file while its lock is held; see `writing`."""

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._name = root, name

    def add(self, line: Trial | TuningEnded) -> None:
        """Keep a trial, or the end of the run; it is on the disk when this returns.

        Raises MissingError: no space, no permission. Earlier lines are unchanged.
        """
        made = _TuningLine(trial=line) if isinstance(line, Trial) else _TuningLine(ended=line)
        append_file(self._root, self._name, _encoded(made))


@contextlib.contextmanager
def writing(
    root: Path, begun: TuningBegun, *, anew: bool = False
) -> Iterator[tuple[TuningLog, Tuning]]:
    """Begin a run, or continue one with the same sources and space, and keep its results.

    Args:
        root: The store's folder.
        begun: The start of the run.
        anew: Start a new file, whatever the old one holds.

    Yields:
        The log to append to, and the tuning so far with its trials, if there are any.

    Raises:
        BusyError: the same version is being tuned by another process.
        DataError: the file is damaged.
        MissingError: no space, no permission.
    """
    folder = _folder(begun.gpu, begun.study, begun.version)
    name = f"{folder}/{begun.engine}.jsonl"
    with locked(root, _LOCK_S, folder):
        lines, torn = _lines(root / name) if not anew else ([], False)
        first = lines[0].begun if lines else None
        line = _encoded(_TuningLine(begun=begun))
        if first is not None and begun.goes_on(first):
            append_file(root, name, line)
            lines.append(_TuningLine(begun=begun))
        else:
            forget_profiles(root, begun)
            replace_file(root, name, line, durable=True)
            lines, torn = [_TuningLine(begun=begun)], False
        yield TuningLog(root, name), _tuning(lines, torn, root / name)


def forget_profiles(root: Path, begun: TuningBegun, but: Collection[Path] = ()) -> None:
    """Remove the profiles and raw reports that are kept beside a tuning, except those at `but`.

    Raises DataError: a path contains a link.
    """
    keep = {path.with_name(path.name.partition(".")[0]) for path in but}
    for path in (root / _folder(begun.gpu, begun.study, begun.version)).glob("*/*.zst"):
        if path.with_name(path.name.partition(".")[0]) not in keep:
            remove_file(root, path.relative_to(root).as_posix())


def load(path: Path) -> Tuning:
    """Read a tuning.

    Raises:
        MissingError: there is no file, or it may not be read.
        DataError: the file is damaged (except its last line), foreign, or from a newer workbench.
    """
    lines, torn = _lines(path)
    if not lines:
        raise MissingError(
            f"there is no tuning {path}", "`workbench tune VERSION` makes one from a version."
        )
    return _tuning(lines, torn, path)


def find(root: Path, study: str, version: str | None = None) -> list[Path]:
    """The tunings of a study, or of one of its versions, in the order of their paths."""
    below = "*" if version is None else component(version, "version")
    return sorted(root.glob(f"*/{component(study, 'study')}/{TUNED}/{below}/*.jsonl"))


def files(root: Path, study: str) -> list[Path]:
    """The tunings of a study, and the records of its choices."""
    below = (folder.rglob("*") for folder in root.glob(f"*/{component(study, 'study')}/{TUNED}"))
    return sorted(
        path for found in below for path in found if path.name.endswith((".jsonl", ".json.zst"))
    )


def _encoded(line: _TuningLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _lines(path: Path) -> tuple[list[_TuningLine], bool]:
    try:
        data = read_regular(path, RECORD)
    except FileNotFoundError:
        return [], False
    except OSError as error:
        raise MissingError(f"cannot read {path}: {error.strerror}", "Check the path.") from error
    whole, _, rest = data.rpartition(b"\n")
    lines: list[_TuningLine] = []
    for number, text in enumerate(whole.split(b"\n") if whole else (), 1):
        try:
            lines.append(msgspec.json.decode(text, type=_TuningLine))
        except (ValueError, RecursionError) as error:
            raise _damaged(path, f"line {number}: {error}") from error
    if lines:
        _check_first(path, lines[0].begun)
    return lines, bool(rest)


def _check_first(path: Path, first: TuningBegun | None) -> None:
    if first is None or first.format != FORMAT:
        raise _damaged(path, f"it does not start like a {FORMAT}")
    if first.schema_version > SCHEMA:
        raise DataError(f"{path} was written by a newer workbench", "Update workbench.")


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        f"{path} is damaged: {why}",
        "Restore it (`git checkout -- <file>`), or start again with `workbench tune --restart`.",
    )


def _tuning(lines: list[_TuningLine], torn: bool, path: Path) -> Tuning:
    begun = [line.begun for line in lines if line.begun is not None]
    trials: dict[tuple[str, str], Trial] = {}
    unkept, spent = 0.0, 0.0  # GPU seconds of a run that has not ended, and of the finished runs
    used = False
    end: TuningEnded | None = None
    for line in lines:
        if line.begun is not None:
            spent, unkept, end = spent + unkept, 0.0, None
        elif line.trial is not None:
            trials.pop(line.trial.key, None)
            trials[line.trial.key] = line.trial
            used = used or line.trial.gpu_s is not None
            unkept += line.trial.gpu_s or 0.0
        elif line.ended is not None:
            end, unkept = line.ended, 0.0
            spent += end.gpu_s or 0.0
            used = used or end.gpu_s is not None
    for each in trials.values():
        if not all(math.isfinite(x) and x > 0 for x in each.samples_s):
            raise _damaged(path, f"a time of {key_of(each.values)} is not a positive number")
    first, last = begun[0], begun[-1]
    whole = msgspec.structs.asdict(last) | {
        "started": first.started,
        "problems": tuple(dict.fromkeys(name for each in begun for name in each.problems)),
    }
    return Tuning(
        **whole,
        trials=tuple(trials.values()),
        gpu_s=spent + unkept if used else None,
        stopped=end.stopped if end else "",
        ended=end.ended if end else "interrupted",
        torn=torn,
    )


def tuned_lines(
    store: Store,
    study: str,
    hash_of: Callable[[str], str],
    damaged: list[DataError],
    version: str | None = None,
) -> tuple[str, ...]:
    """A line for each winner of a study's tunings, or of those of one version.

    `hash_of` gives the hash of a version's current sources; `damaged` receives the errors of files
    that cannot be read.
    """
    found: list[str] = []
    for path in find(store.root, study, version):
        try:
            tuning = load(path)
        except DataError as error:
            damaged.append(error)
            continue
        stale = hash_of(tuning.version) != tuning.source_hash
        found += [_line(tuning, problem, stale=stale) for problem in tuning.winners]
    return tuple(found)


def _line(tuning: Tuning, problem: str, *, stale: bool) -> str:
    best, own = tuning.winners[problem], tuning.default_trial(problem)
    tried = sum(each.fate != "not run" for each in tuning.of(problem))
    said = _("{version} was tuned on {problem} ({device}, {date}): {best} is the best of {choices}")
    said = said.format(
        version=tuning.version,
        problem=problem,
        device=tuning.gpu,
        date=(tuning.stopped or tuning.started)[:10],
        best=shown_values(best.values),
        choices=several(tried, "choice"),
    )
    before, after = score(tuning.engine, own), score(tuning.engine, best)
    if own is best:
        said += _(", which are its own values")
    elif before and after:
        said += _(", {factor} the speed of its own values").format(factor=factor(before / after))
    if tuning.engine == "emulator":
        said += _(", by the emulator’s estimate")
    return said + (_("; its source has changed since") if stale else "")
