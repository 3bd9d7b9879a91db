"""Counters against recorded profiles: the probes of tests/data, and the shipped studies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from benchmarks.agreement.lines import Agreement, agreement
from benchmarks.agreement.resources import table
from benchmarks.recordings import opened
from workbench.analysis.misread import is_misread
from workbench.project import Project, require_project
from workbench.store import Entry, Store
from workbench.study.folder import load_study

REPO = Path(__file__).resolve().parent.parent.parent
PROBES = REPO / "tests" / "data" / "probes"
SECTORS = "memory_l2_theoretical_sectors_global"
WAVES = "memory_l1_wavefronts_shared"
LOCAL = "memory_l2_theoretical_sectors_local"
UNSEEN = REPO / "tests" / "data" / "unseen"
LATER = REPO / "tests" / "data" / "unseen2"
LAST = REPO / "tests" / "data" / "unseen3"
FOURTH = REPO / "tests" / "data" / "unseen4"

#: Version -> lines that may differ in sectors and in wavefronts, and why.
MAY_DIFFER = {
    "v0": (0, 1, "16-byte loads of pairs with idle lanes: the chip's rule is not known"),
    "v1": (0, 0, ""),
    "v2": (0, 2, "64-bit sums in shared memory: which lane wins a turn is the chip's choice"),
    "v3": (0, 0, ""),
    "v4": (0, 0, ""),
    "v5": (2, 0, "two loads of the table stand on the line before their own"),
    "v6": (0, 0, ""),
    "v7": (0, 0, ""),
    "v8": (0, 0, ""),
    "v9": (2, 0, "two loads of the table stand on the line before their own"),
}
#: Version -> copies that ncu misreads, which are not compared.
MISREAD = {"v5": 58, "v9": 10}


def recorded(project: Project, study: str | None = None) -> list[Entry]:
    device = project.default_device or None
    entries = Store.of(project).find(engine="ncu", study=study, device=device)
    studies = {name: load_study(project, name) for name in {entry.study for entry in entries}}
    return [e for e in entries if studies[e.study].version(e.version).kind != "python"]


def found(project: Project, entry: Entry, budget: int) -> list[Agreement]:
    profile = Store.of(project).load(entry.path)
    return agreement(load_study(project, entry.study), profile, budget)


def test_every_probe_is_recorded() -> None:
    project = opened(PROBES)
    versions = set(load_study(project, "probes").versions)
    assert versions == set(MAY_DIFFER) == {entry.version for entry in recorded(project, "probes")}


#: The probes that the quick tests take; others take a second or three each.
QUICK_PROBES = ("v0", "v2", "v6")


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(each, marks=() if each in QUICK_PROBES else pytest.mark.slow)
        for each in MAY_DIFFER
    ],
)
def test_probes_cost_what_the_hardware_says(version: str) -> None:
    project = opened(PROBES)
    (entry,) = (each for each in recorded(project, "probes") if each.version == version)
    (one,) = found(project, entry, 10**9)
    assert one.sampled == 1
    assert (one.misread, one.lines_left_out) == (MISREAD.get(version, 0), 0)
    sectors, waves, why = MAY_DIFFER[version]
    allowed = dict.fromkeys(one.columns, sectors) | {WAVES: waves, WAVES + "_ideal": waves}
    for name, column in one.columns.items():
        assert len(column.apart) <= allowed[name], (why, name, column.apart)
        assert column.same + len(column.apart) == column.lines
    # Patterns were compared at all: each version is about one of these.
    assert max(column.same for column in one.columns.values()) > 50


#: Version of the study `hopper` -> lines with shared memory, all of which must agree.
BESIDE_THREADS = {"v0": 14, "v1": 17, "v2": 11, "v3": 44, "v4": 7, "v5": 26}


@pytest.mark.parametrize("version", BESIDE_THREADS)
def test_copies_and_products_cost_what_the_hardware_says(version: str) -> None:
    """ncu gives lines of copies nothing, and products the rows of 128 bytes that they read."""
    project = opened(PROBES)
    (entry,) = (each for each in recorded(project, "hopper") if each.version == version)
    (one,) = found(project, entry, 10**9)
    for name, column in one.columns.items():
        assert column.seen == column.want, name
        # ptxas gives a product the line of the fence before it.
        assert version == "v3" or column.same == column.lines, (name, column.apart)
    waves = one.columns[WAVES]
    assert waves.lines == BESIDE_THREADS[version] + (22 if version == "v3" else 0)


@pytest.mark.parametrize(
    ("text", "misread"),
    [
        ("@P0   LDGSTS.E.BYPASS.128 [R3], desc[UR6][R4.64]", True),
        ("@!P0  LDGSTS.E.BYPASS.128 [R14], desc[UR8][R90.64]", True),
        ("LDGSTS.E.BYPASS.128 [R21], desc[UR6][R10.64], P0", True),
        ("@!P2  LDGSTS.E.BYPASS.128 [R7+0xc000], desc[UR6][R12.64], !P0", True),
        ("@!P1  LDGSTS.E.BYPASS.128 [R7+0xc000], desc[UR6][R12.64], !P2", False),
        ("LDGSTS.E.BYPASS.128 [R11], desc[UR6][R12.64]", False),
        ("@P0   LDGSTS.E.BYPASS.128.ZFILL [R3], desc[UR6][R4.64], P1", False),
        ("@P0   LDGSTS.E.128 [R3], desc[UR6][R4.64]", False),
        ("@P0   LDG.E R3, desc[UR6][R4.64]", False),
    ],
)
def test_copies_under_the_first_predicate_register_are_misread(text: str, misread: bool) -> None:
    assert is_misread(text) == misread


@pytest.mark.parametrize("version", ["v0", "v1", "v2"])
def test_loops_tickets_and_neighbours_cost_what_the_hardware_says(version: str) -> None:
    """Six ways back to three heads, six tickets of a warp, words that a pair proves aligned."""
    project = opened(PROBES)
    (entry,) = (each for each in recorded(project, "loops") if each.version == version)
    (one,) = found(project, entry, 10**9)
    assert not any(column.apart for column in one.columns.values())
    assert one.columns[SECTORS].lines >= 2 and abs(one.instructions) < 0.2


def test_recorded_launches_have_the_resources_that_the_compiler_says() -> None:
    """Registers, spills, local memory, limits and occupancy; `--resources` says it of all chips."""
    project = require_project(REPO)
    text, same = table(project, Store.of(project).find(engine="ncu", device="h200"), here=False)
    assert same, text
    assert "registers: 178 of 178" in text and "limited by: 211 of 211" in text


#: Versions with lines that differ from the recording.
#: ptxas puts products of warpgroups on the line of their fence, and what it makes of an inlined
#: function on a line of another one.
DIFFER = {"conv2d_half": {"v11"}, "conv2d_int8": {"v8"}, "sgemm": {"v11", "v12", "v13"}}


#: Studies whose estimated instructions come within 15% of the recorded ones, in every version.
ESTIMATED = {"conv2d_direct", "conv2d_tile", "scale_add"}

#: Each recording of a study is one test; `make test-long` runs those that CI does not.
PARTS = {"conv2d": 17, "conv2d_direct": 9, "conv2d_tile": 12, "scale_add": 5, "sgemm": 21}
CI = {("conv2d", 8), ("conv2d_tile", 6), ("scale_add", 2), ("sgemm", 17)}
#: Of studies that were recorded on several problems, the one whose kernels are run here.
SMALL = {"conv2d": "c32_h64_k128", "sgemm": "n1024"}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("study", "part"),
    [
        pytest.param(
            study, part, marks=pytest.mark.slow if (study, part) in CI else pytest.mark.long
        )
        for study, parts in PARTS.items()
        for part in range(parts)
    ],
)
def test_recorded_profiles_of_the_shipped_studies_agree(study: str, part: int) -> None:
    """What docs say of sectors, wavefronts and instructions, by small samples."""
    project = require_project(REPO)
    entries = [
        entry
        for entry in recorded(project, study)
        if entry.problem == SMALL.get(study, entry.problem)
        and entry.version not in DIFFER.get(study, set())
    ]
    assert len(entries) == PARTS[study]
    lines = 0
    for entry in entries[part : part + 1]:
        for one in found(project, entry, 20_000_000):
            if study in ESTIMATED:
                assert abs(one.instructions) <= 0.15, (entry.version, one.kernel, one.instructions)
            for name in (SECTORS, WAVES):
                column = one.columns[name]
                lines += column.lines
                # A small sample knows lines at the grid's edges badly, totals well.
                assert abs(column.deviation or 0.0) <= 0.02, (entry.version, name, column.apart)
                if one.sampled == 1:
                    # But for lines that the emulator itself marks (blocks that wait for others).
                    chance = column.timed - column.timed_same
                    assert len(column.apart) == chance, (entry.version, column.apart)
    assert lines


#: Versions of kernels written after the rules, with so many lines that differ.
APART = {("moments", "v1"): 4, ("moments", "v2"): 1, ("scan", "v3"): 1}
#: Those with launches whose estimated instructions are off by more than 15%.
FAR = {("moments", "v1"), ("moments", "v2")}
#: Of a second set, versions with so many lines that differ.
LATER_APART = {
    ("bfs", "v0"), ("bfs", "v1"), ("ccl", "v0"), ("hamming", "v0"), ("hash", "v0"), ("hash", "v1"),
    ("kmeans", "v0"), ("tridiag", "v0"),
}  # fmt: skip
LATER_FAR = {("ccl", "v0"), ("hamming", "v0"), ("hash", "v0"), ("hash", "v1"), ("kmeans", "v0")}
#: The same of a third one; and its versions that take ten seconds each, for `make test-long`.
LAST_APART = {("bloom", "v1"), ("pic", "v1")}
LAST_FAR = {("pic", "v1")}
LONG = {("pic", "v1"), ("queens", "v0"), ("queens", "v1"), ("trsm", "v1")}


#: Versions whose machine instructions are counted within 15% only, of all sets; others within 2%.
ROUGH = {
    ("compact", "v0"), ("fft", "v0"), ("gather", "v1"), ("scan", "v3"), ("sort", "v3"),
    ("bfs", "v0"), ("bfs", "v1"), ("embbag", "v0"), ("floyd", "v0"), ("match", "v0"),
    ("philox", "v0"), ("topk", "v1"), ("topk", "v2"), ("moe", "v0"), ("gemv", "v0"), ("gemv", "v1"),
    ("strsearch", "v1"), ("bloom", "v1"),
}  # fmt: skip


def near(
    every: Sequence[Agreement], key: tuple[str, str], far: Collection[tuple[str, str]]
) -> bool:
    """Are instructions as near as is known? How far those of `far` are is chance."""
    limit = 0.15 if key in ROUGH else 0.02
    return key in far or all(abs(one.instructions) <= limit for one in every)


def unseen() -> list[tuple[str, str]]:
    return [(entry.study, entry.version) for entry in recorded(opened(UNSEEN))]


def holds(study: str, version: str) -> None:
    """All lines of all launches agree but those that are known not to."""
    project = opened(UNSEEN)
    (entry,) = (e for e in recorded(project) if (e.study, e.version) == (study, version))
    every = found(project, entry, 10**9)
    apart = {line.split()[0] for one in every for c in one.columns.values() for line in c.apart}
    assert len(apart) == APART.get((study, version), 0), apart
    assert sum(column.lines for one in every for column in one.columns.values()) > 0
    assert near(every, (study, version), FAR)


@pytest.mark.parametrize(
    ("study", "version"),
    [("transpose", "v1"), ("gemm_bf16", "v3"), ("scan", "v4"), ("spmv", "v3"), ("spmv", "v4")],
)
def test_kernels_that_nobody_had_seen_cost_what_the_hardware_says(study: str, version: str) -> None:
    """Bank conflicts, ldmatrix and cp.async, atomics whose lanes go together, loops in pieces."""
    holds(study, version)


#: Of the sets that nobody had seen CI runs a part, and `make test-long` the rest.
SLICES = pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.long)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rest", SLICES)
def test_all_kernels_that_nobody_had_seen_cost_what_the_hardware_says(rest: int) -> None:
    for study, version in (v for n, v in enumerate(sorted(unseen())) if (n % 4 > 0) == (rest > 0)):
        holds(study, version)


def same_lines(folder: Path, keys: set[tuple[str, str]], apart: set[tuple[str, str]],
             far: set[tuple[str, str]]) -> int:  # fmt: skip
    """Lines of versions that agree; all must but those that are known not to."""
    project, lines = opened(folder), 0
    for entry in recorded(project):
        key = entry.study, entry.version
        if key not in keys:
            continue
        every = found(project, entry, 10**9)
        columns = [one.columns[name] for one in every for name in (SECTORS, WAVES, LOCAL)]
        assert key in apart or not any(column.apart for column in columns), key
        assert near(every, key, far), (key, [one.instructions for one in every])
        lines += sum(column.same for column in columns)
    return lines


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rest", SLICES)
@pytest.mark.parametrize(
    ("folder", "versions", "apart", "far", "lines", "share"),
    [
        (LATER, 61, LATER_APART, LATER_FAR, 380, 2),
        (LAST, 40, LAST_APART, LAST_FAR, 200, 4),
        # What is apart are 16-byte loads of one place by a part of the lanes.
        (FOURTH, 38, {("attn_tile", "v0")}, set(), 300, 13),
    ],
)
def test_kernels_of_later_sets_cost_what_the_hardware_says(
    folder: Path, versions: int, apart: set[tuple[str, str]], far: set[tuple[str, str]], lines: int,
    share: int, rest: int,
) -> None:  # fmt: skip
    """On the inputs that were profiled; costs of headers at callers, loops of one head, tickets."""
    keys = {(entry.study, entry.version) for entry in recorded(opened(folder))}
    assert len(keys) == versions and keys >= apart | far
    some = set(sorted(keys - LONG)[::share])
    chosen = keys - LONG - some if rest else some
    assert same_lines(folder, chosen, apart, far) >= lines / share / 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_long_kernels_of_the_third_set_cost_what_the_hardware_says() -> None:
    assert same_lines(LAST, LONG, LAST_APART, LAST_FAR) >= 20
