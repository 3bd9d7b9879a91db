"""How near the emulator comes to the hardware: every recorded profile, line by line.

For each profile that Nsight Compute recorded, the PTX kept in it is run on the same
problem (large ones by a sample of blocks, every edge of the grid included), and the
counters that both have are compared over source lines. ``make agreement``.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from workbench.engines.emulated import emulate, recorded_build
from workbench.engines.emulated_profile import device_of, launch_record
from workbench.errors import WorkbenchError
from workbench.model import Launch, Profile
from workbench.project import require_project
from workbench.store import Store
from workbench.study import Study, load_study

SECTORS = "memory_l2_theoretical_sectors_global"
WAVES = "memory_l1_wavefronts_shared"
OTHERS = (SECTORS + "_ideal", "memory_l1_tag_requests_global", WAVES + "_ideal")
#: Thread-level multiply-adds above which only a sample of the blocks is run.
_WHOLE_BELOW = 1 << 31

Lines = dict[tuple[str, int], float]


def lines(profile: Profile, launch: Launch, column: str) -> Lines:
    """One line counter, summed over (file, line)."""
    table = launch.instructions
    out: Lines = defaultdict(float)
    found = table.columns.get(column)
    if found is None:
        return out
    for row, value in zip(found.rows, found.values, strict=True):
        file = table.file[row]
        path = profile.sources[file].path if file >= 0 else "?"
        out[Path(path).name, table.line[row]] += value
    return out


def compare(seen: Lines, want: Lines) -> tuple[int, int, list[str]]:
    """Lines that agree, lines in all, and the others in words."""
    places = sorted({place for place in {*seen, *want} if seen[place] or want[place]})
    apart = [
        f"{place[0]}:{place[1]} {seen[place]:,.0f} for {want[place]:,.0f}"
        for place in places
        if round(seen[place]) != round(want[place])
    ]
    return len(places) - len(apart), len(places), apart


def ratio(seen: float, want: float) -> str:
    """A deviation in percent; a dash where there is nothing to compare."""
    return f"{100 * (seen / want - 1):+.2f}%" if want else "—"


def rows(study: Study, profile: Profile) -> list[tuple[str, ...]]:
    """One row of the table for each launch of a profile."""
    project = require_project()
    version, problem = study.version(profile.version), study.problem(profile.problem)
    built = recorded_build(profile)
    if built is None:
        return []
    heavy = study.flops(problem) > _WHOLE_BELOW
    done = emulate(project, study, version, problem, seed=1, built=built, blocks=24 * heavy)
    out = []
    for index, (outcome, launch) in enumerate(zip(done.outcomes, profile.launches, strict=True)):
        ours = launch_record(
            outcome, index, built, done.module, device_of(built.build.arch), study.bytes(problem)
        )
        mine = Profile(
            engine="emulator", device=profile.device, captured="", launches=(ours,),
            sources=tuple(_sources(done.module.files.values(), profile)),
        )  # fmt: skip
        cells = [f"{study.name} {version.id}", problem.name, launch.kernel]
        apart: list[str] = []
        for column in (SECTORS, WAVES):
            seen, want = lines(mine, ours, column), lines(profile, launch, column)
            same, total, different = compare(seen, want)
            cells += [f"{same} of {total}", ratio(sum(seen.values()), sum(want.values()))]
            apart += different
        for column in OTHERS:
            same, total, different = compare(
                lines(mine, ours, column), lines(profile, launch, column)
            )
            cells.append(f"{same} of {total}")
            apart += [f"{each} ({column})" for each in different]
        estimate = ours.metrics["ptx__machine_inst_estimate"].value
        recorded = sum(lines(profile, launch, "inst_executed").values())
        assert not isinstance(estimate, str)
        cells.append(ratio(estimate, recorded))
        out.append(tuple(cells))
        for each in apart:
            sys.stderr.write(f"  {cells[0]} {cells[1]}: {each}" + "\n")
    return out


def _sources(names: object, profile: Profile) -> list[object]:
    from workbench.model import SourceFile

    own = {source.path for source in profile.sources}
    listed = list(dict.fromkeys([*names, *own]))  # type: ignore[misc]
    return [SourceFile(path=str(name)) for name in listed]


def main() -> None:
    """Print the table in Markdown."""
    project = require_project()
    store = Store(project.profiles)
    header = ("version", "problem", "kernel", "sectors: lines", "total", "wavefronts: lines",
              "total", "ideal sectors", "tags", "ideal wavefronts", "instructions")  # fmt: skip
    sys.stdout.write("| " + " | ".join(header) + " |" + "\n")
    sys.stdout.write("|" + " --- |" * len(header) + "\n")
    for entry in store.find(engine="ncu"):
        try:
            study = load_study(project, entry.study)
            if study.version(entry.version).kind != "cuda":
                continue
            for cells in rows(study, store.load(entry.path)):
                sys.stdout.write("| " + " | ".join(cells) + " |" + "\n")
        except WorkbenchError as error:
            sys.stderr.write(f"  {entry.study}/{entry.version} {entry.problem}: {error.message}\n")


if __name__ == "__main__":
    main()
