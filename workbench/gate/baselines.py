"""Rolling baselines on disk: the last good runs of each version, problem and device.

Layout below the root (``.workbench/baselines/NAME/`` of a project)::

    <device>/<study>/<version>/<problem>.json

A file is small, plain JSON, so that a person can read it and a cache of a CI can carry it. It is
replaced as a whole, under a lock: two jobs that keep runs at once lose none.
`workbench.analysis.times.regression` compares a new run with them.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from workbench.disk.limits import FACTS, read_regular
from workbench.disk.lock import locked
from workbench.disk.writing import replace_file
from workbench.errors import DataError, MissingError, UsageError
from workbench.model import Estimate, Record, Timing
from workbench.store import component

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
#: Notices of a disturbed timing, which is unfit as a baseline: the disturbance has ended.
DISTURBED = ("throttled", "clock-moved", "not-converged", "drift", "unsettled")
_LOCK_S = 30.0


class BaselineRun(Record, frozen=True):
    """One run: a median with its interval, and the conditions of its measurement.

    `name` is the run's own: a second run of that name takes its place, so that a job that is
    started again counts once.
    """

    name: str
    captured: str
    source_hash: str
    time: Estimate
    cache: str
    method: str
    driver: str = ""

    @classmethod
    def of(cls, timing: Timing, name: str = "") -> BaselineRun:
        """The run of a timing; without a name, its time names it."""
        return cls(
            name=name or timing.captured,
            captured=timing.captured,
            source_hash=timing.source_hash,
            time=timing.time,
            cache=timing.cache,
            method=timing.method,
            driver=timing.tools.get("driver", ""),
        )

    def again(self, other: BaselineRun) -> bool:
        """Whether both are the same run: of a job that was started twice, or of one measurement."""
        return self.name == other.name or self.captured == other.captured

    def like(self, other: BaselineRun) -> bool:
        """Whether two runs were measured in the same way, so that their times may be compared."""
        return (self.cache, self.method) == (other.cache, other.method)


class _Runs(Record, frozen=True):
    runs: tuple[BaselineRun, ...]
    format: str = "workbench-baseline"
    schema_version: int = 1


class Baselines:
    """The baselines of one name below `root`, which the first kept run makes.

    Raises UsageError: `name` cannot name a folder.
    """

    def __init__(self, root: Path, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"a baseline cannot be named {name!r}",
                "Letters, digits and . _ + - are allowed, up to 100 of them: main, nightly.",
            )
        self.root = root
        self.name = name

    def _file(self, timing: Timing) -> str:
        names = (timing.device.slug, timing.study, timing.version, timing.problem)
        kinds = ("device", "study", "version", "problem")
        return "/".join((self.name, *map(component, names, kinds))) + ".json"

    def runs(self, timing: Timing) -> tuple[BaselineRun, ...]:
        """The kept runs of a timing's version, problem and device, from old to new.

        Raises:
            DataError: the file is damaged, or was written by a newer workbench.
            MissingError: it may not be read.
        """
        path = self.root / self._file(timing)
        try:
            data = read_regular(path, FACTS)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise MissingError(
                f"cannot read {path}: {error.strerror}", "Check its permissions."
            ) from error
        hint = "Delete it; later runs then build up a new baseline."
        try:
            file = msgspec.json.decode(data, type=_Runs)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is damaged: {error}", hint) from error
        if file.schema_version > 1:
            raise DataError(f"{path} was written by a newer workbench", "Update workbench.")
        if not all(0 < run.time.low <= run.time.value <= run.time.high for run in file.runs):
            raise DataError(f"{path} is damaged: a time outside of its interval", hint)
        return tuple(sorted(file.runs, key=lambda run: run.captured))

    def keep(self, timing: Timing, run: BaselineRun, most: int, *, anew: bool = False) -> None:
        """Add a run, or replace the one of its name, and drop the oldest beyond `most`.

        `anew` drops all others, to accept a new level.

        Raises:
            MissingError: no space, no permission, another writer; the file is unchanged.
            DataError: the file is damaged, or a link on the way.
        """
        with locked(self.root, _LOCK_S):
            others = [] if anew else [each for each in self.runs(timing) if not run.again(each)]
            runs = sorted([*others, run], key=lambda each: each.captured)[-most:]
            data = msgspec.json.format(msgspec.json.encode(_Runs(runs=tuple(runs))), indent=1)
            replace_file(self.root, self._file(timing), data + b"\n", durable=True)
