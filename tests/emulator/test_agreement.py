"""Counters against recorded profiles: the probes of tests/data, and the shipped studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.engines.emulated_agreement import Agreement, agreement, compare
from workbench.project import Project, require_project
from workbench.store import Entry, Store
from workbench.study import load_study

REPO = Path(__file__).resolve().parent.parent.parent
PROBES = REPO / "tests" / "data" / "probes"
SECTORS = "memory_l2_theoretical_sectors_global"
WAVES = "memory_l1_wavefronts_shared"

#: Version -> lines that may differ in sectors and in wavefronts, and why.
MAY_DIFFER = {
    "v0": (0, 1, "16-byte loads of pairs with idle lanes: the chip's rule is not known"),
    "v1": (0, 0, ""),
    "v2": (0, 2, "64-bit sums in shared memory: which lane wins a turn is the chip's choice"),
    "v3": (3, 0, "sums that the compiler makes once a warp stand on the caller's line"),
    "v4": (0, 0, ""),
    # Those of the studies are counted, and agree: only the probe's are not.
    "v5": (57, 67, "ncu counts nothing for this kernel's copies past the first-level cache"),
    "v6": (0, 0, ""),
    "v7": (3, 4, "halves read back by a header's function, which ptxas joins"),
    "v8": (0, 0, ""),
}


def recorded(project: Project) -> list[Entry]:
    return [
        entry
        for entry in Store(project.profiles).find(engine="ncu")
        if load_study(project, entry.study).version(entry.version).kind == "cuda"
    ]


def found(project: Project, entry: Entry, budget: int) -> list[Agreement]:
    profile = Store(project.profiles).load(entry.path)
    return agreement(load_study(project, entry.study), profile, budget)


def test_every_probe_is_recorded() -> None:
    project = require_project(PROBES)
    versions = set(load_study(project, "probes").versions)
    known = {entry.version for entry in recorded(project)}
    # A probe is recorded after it was written: no line of it is compared before that.
    assert set(MAY_DIFFER) <= known <= versions
    assert versions - known <= {"v9"}


@pytest.mark.parametrize("version", MAY_DIFFER)
def test_probes_cost_what_the_hardware_says(version: str) -> None:
    project = require_project(PROBES)
    (entry,) = (each for each in recorded(project) if each.version == version)
    (one,) = found(project, entry, 10**9)
    assert one.sampled == 1
    sectors, waves, why = MAY_DIFFER[version]
    allowed = dict.fromkeys(one.columns, sectors) | {WAVES: waves, WAVES + "_ideal": waves}
    for name, column in one.columns.items():
        assert len(column.apart) <= allowed[name], (why, name, column.apart)
        assert column.same + len(column.apart) == column.lines
    # Patterns were compared at all: each version is about one of these.
    assert max(column.same for column in one.columns.values()) > 50


def test_a_line_that_differs_is_named() -> None:
    column = compare({("k.cu", 3): 8.0, ("k.cu", 4): 1.0}, {("k.cu", 3): 9.0, ("k.cu", 4): 1.0}, {})
    assert (column.same, column.lines, column.apart) == (1, 2, ["k.cu:3 8 for 9"])
    assert column.deviation == pytest.approx(-0.1)
    near = compare({("k.cu", 3): 8.0}, {("k.cu", 3): 9.0}, {("k.cu", 3): 0.4})
    assert near.same == 1
    assert compare({("k.cu", 3): 99.5}, {("k.cu", 3): 98.9}, {}, least=0.01).same == 1


#: Versions with lines that differ from the recording: docs/emulator.md says what is known.
DIFFER = {
    "conv2d_half": {"v9", "v10", "v11", "v12"},
    "conv2d_int8": {"v8", "v9", "v12"},
    "conv2d_tile": {"v5", "v6", "v7", "v8"},
}


@pytest.mark.slow
@pytest.mark.parametrize("study", ["conv2d", "conv2d_direct", "conv2d_tile", "scale_add", "sgemm"])
def test_recorded_profiles_of_the_shipped_studies_agree(study: str) -> None:
    """What docs/emulator.md claims of sectors and wavefronts, by small samples."""
    project = require_project(REPO)
    entries = [
        entry
        for entry in recorded(project)
        if entry.study == study and entry.version not in DIFFER.get(study, set())
    ]
    assert entries
    lines = 0
    for entry in entries:
        for one in found(project, entry, 20_000_000):
            for name in (SECTORS, WAVES):
                column = one.columns[name]
                lines += column.lines
                # A small sample knows lines at the grid's edges badly, totals well.
                assert abs(column.deviation or 0.0) <= 0.02, (entry.version, name, column.apart)
                if one.sampled == 1:
                    assert not column.apart, (entry.version, column.apart)
    assert lines >= 5
