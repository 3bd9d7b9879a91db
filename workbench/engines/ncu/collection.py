"""Choose what ncu collects; the default takes the fewest passes that fill the catalog."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import tomli

from workbench.counters import catalog
from workbench.model import Record

ClockControl = Literal["none", "base", "boost", "reset"]
CacheControl = Literal["all", "none"]
#: Keep the raw report; ``auto``: if it is small and names no folder of this machine.
Keep = Literal["auto", "always", "never"]
ReplayMode = Literal["kernel", "application", "range", "app-range"]


@cache
def default_collection() -> tuple[tuple[str, ...], frozenset[str]]:
    """Sections of the default collection, and the names of the catalog that they deliver."""
    # Not importlib.resources, which adds 15 ms to start-up for reading one file.
    path = Path(__file__).resolve().parents[2] / "data" / "ncu_sections.toml"
    table = tomli.loads(path.read_text(encoding="utf-8"))
    return tuple(table["sections"]), frozenset(table["delivers"])


def default_metrics() -> tuple[str, ...]:
    """Names of the catalog that no default section delivers, one per counter.

    A counter has several names if chips and ncu versions differ; the first is the current one.
    Counters that have a formula instead need no name of their own.
    """
    _sections, have = default_collection()
    wanted: dict[str, None] = {}
    for counter in catalog():
        if counter.names and not have.intersection(counter.names):
            wanted[counter.names[0]] = None
    return tuple(wanted)


class Collection(Record, frozen=True):
    """A user's choices about the collection.

    With neither `sets` nor `sections`, the default collection is taken, and `metrics` are added to
    it. Clocks are not changed by default ("none"): ncu's own default locks them to the chip's base
    clock, which is never used for timing here, and which shifts the balance of memory and
    arithmetic; counts do not depend on it.
    """

    sets: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    clock_control: ClockControl = "none"
    cache_control: CacheControl = "all"
    replay_mode: ReplayMode = "kernel"

    @property
    def chosen_sections(self) -> tuple[str, ...]:
        """The sections requested by name."""
        if self.sets or self.sections:
            return self.sections
        return default_collection()[0]

    @property
    def chosen_metrics(self) -> tuple[str, ...]:
        """The metrics requested by name, each once."""
        return tuple(dict.fromkeys((*self.catalog_metrics, *self.metrics)))

    @property
    def catalog_metrics(self) -> tuple[str, ...]:
        """The metrics requested to fill the catalog."""
        return () if self.sets or self.sections else default_metrics()

    @property
    def words(self) -> tuple[str, ...]:
        """Options of ncu for what it collects, and how."""
        words = ["--clock-control", self.clock_control, "--cache-control", self.cache_control]
        words += ["--replay-mode", self.replay_mode, "--import-source", "yes"]
        for name in self.sets:
            words += ["--set", name]
        for name in self.chosen_sections:
            words += ["--section", name]
        if self.chosen_metrics:
            words += ["--metrics", ",".join(self.chosen_metrics)]
        return tuple(words)
