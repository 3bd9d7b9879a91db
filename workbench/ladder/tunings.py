"""What a list and a version say of tunings: that there are some, and what came of them.

Nothing is imported for it that takes long: few versions have one.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.errors import DataError
from workbench.language import _
from workbench.store import Store
from workbench.tune.record import Tuning, find, load, score, shown_values
from workbench.units import factor, several


def tuned_lines(
    store: Store,
    study: str,
    hash_of: Callable[[str], str],
    damaged: list[DataError],
    version: str | None = None,
) -> tuple[str, ...]:
    """A line for each winner of a study's tunings, or of those of one version.

    Args:
        store: Where they are kept.
        study: The study's name.
        hash_of: Gives the hash of a version's sources as they are now.
        damaged: Takes the errors of files that cannot be read.
        version: The version; None: all.
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
    before, after = score(tuning, own), score(tuning, best)
    if own is best:
        said += _(", which are its own values")
    elif before and after:
        said += _(", {factor} the speed of its own values").format(factor=factor(before / after))
    if tuning.engine == "emulator":
        said += _(", by the emulator’s estimate")
    return said + (_("; its source has changed since") if stale else "")
