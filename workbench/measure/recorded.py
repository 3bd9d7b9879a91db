"""Which ladders have anything recorded, and which of the files cannot be read.

Paths alone say it: ``profiles/<device>/<study>/<version>/<problem>.<engine>.json.zst``, and
``.time.json.zst`` for times. Only `damaged_files` decodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import DataError, MissingError
from workbench.measure.ladder import Family, Ladder
from workbench.measure.records import Summaries
from workbench.model import Profile, Timing
from workbench.project import Project
from workbench.store import Store, natural_key
from workbench.store.codec import decode

if TYPE_CHECKING:
    from workbench.study.folder import Study

#: The store's layout for times (see workbench.store); their paths are all that is needed here.
_TIME_SUFFIX = ".time.json.zst"


def find_ladders(
    store: Store,
    project: Project | None,
    studies: tuple[str, ...] = (),
    *,
    loaded: Study | None = None,
    damaged: list[DataError] | None = None,
    without: Container[Path] = (),
    summaries: Summaries | None = None,
) -> list[Ladder]:
    """The ladders that have anything recorded, in natural order; no studies: all.

    Args:
        store: Where profiles and times are.
        project: Where the studies are.
        studies: Only these studies' ladders.
        loaded: The one study that is asked for, where it is loaded already.
        damaged: Takes the errors of files that cannot be read; None: they are raised.
        without: Files that are passed over, because they are known to be damaged.
        summaries: Reads what a list says of a profile; None: none is kept for the next one.
    """
    families: dict[tuple[str, str], Family] = {}
    out: dict[tuple[str, str, str], Ladder] = {}

    def ladder(name: str, device: str, problem: str) -> Ladder:
        key = (name, device, problem)
        if key not in out:
            family = families.setdefault(key[:2], Family(store, project, name, device, loaded))
            if without:
                family.damaged = []
            if summaries:
                family.summaries = summaries
            out[key] = Ladder(family, problem, damaged)
        return out[key]

    for name in studies or (None,):
        for file in store.files(study=name):
            if file.path not in without:
                home = ladder(file.study, file.device, file.problem)
                home.add(file.version, file.kind, file.path, file.entry)
    alike: dict[tuple[str, str], list[Ladder]] = defaultdict(list)
    for each in out.values():
        alike[each.name, each.problem].append(each)
    for ladders in alike.values():
        for each in ladders:
            each.elsewhere = {one.device: one.files for one in ladders if one is not each}
    return sorted(
        out.values(), key=lambda x: tuple(map(natural_key, (x.name, x.device, x.problem)))
    )


def recorded_seed(store: Store, study: str) -> int | None:
    """The seed of a study's newest recorded profile, on whatever device; None: none has one.

    What is profiled next gets the same inputs, so that a diff shows the code's change alone.
    """
    summaries = Summaries(str(store.root), study, "profiles")  # a list's has times as well
    found: list[tuple[str, int]] = []
    for entry in store.find(study=study):
        try:
            summary = summaries.of(entry.path)
        except (DataError, MissingError):
            continue  # another command says so; it has no seed to give
        if summary.seed is not None:
            found.append((summary.captured, summary.seed))
    summaries.keep()
    return max(found)[1] if found else None


def damaged_files(paths: Iterable[Path]) -> dict[Path, DataError]:
    """Those of recorded files that are there and cannot be read, and why; all are read for it."""
    found: dict[Path, DataError] = {}
    for path in paths:
        try:
            if path.name.endswith(_TIME_SUFFIX):
                decode(path, Timing)
            else:
                decode(path, Profile)
        except DataError as error:
            found[path] = error
        except MissingError:
            pass
    return found
