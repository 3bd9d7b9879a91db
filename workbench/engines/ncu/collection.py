"""What ncu is asked to collect: the default is the fewest passes that fill the catalog."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from workbench.counters import catalog


@cache
def _data() -> tuple[tuple[str, ...], frozenset[str]]:
    # Not importlib.resources, which costs 15 ms of start-up for reading one file.
    path = Path(__file__).resolve().parents[2] / "data" / "ncu_sections.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(table["sections"]), frozenset(table["delivers"])


def default_sections() -> tuple[str, ...]:
    """Sections of the default collection (``data/ncu_sections.toml``)."""
    return _data()[0]


def delivered() -> frozenset[str]:
    """Names of the catalog that the default sections deliver."""
    return _data()[1]


def default_metrics() -> tuple[str, ...]:
    """Names of the catalog that no default section delivers, one per counter.

    A counter has several names where chips and ncu versions differ; the first is the
    current one. Counters that have a formula instead need no name of their own.
    """
    have = delivered()
    wanted: dict[str, None] = {}
    for counter in catalog():
        if counter.names and not have.intersection(counter.names):
            wanted[counter.names[0]] = None
    return tuple(wanted)
