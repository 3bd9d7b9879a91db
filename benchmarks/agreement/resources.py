"""What a compiler says of kernels beside what ncu recorded of their launches.

Registers, shared memory, spills, local memory, and the blocks that fit on an SM by each limit: the
project says all of them before a kernel runs. A recording is compared where its version's source
is still the recorded one, with the build that it keeps, and with what the compiler makes here.
One thing no compiler knows: how much of the L1 the driver makes shared memory. Limits are those of
the recorded part; the theoretical occupancy is said without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from workbench.analysis.aggregate import value_of
from workbench.analysis.limits.occupancy import Resources, needs, occupancy, resources
from workbench.compile.build import build
from workbench.gpus import Chip, chip_for
from workbench.model import Build, KernelResources, Launch, Number
from workbench.project import Project
from workbench.store import Entry, Store
from workbench.study.folder import Study, load_study
from workbench.study.mangling import own_name
from workbench.study.sources import source_hash

#: Limit -> ncu's counter of it.
LIMITS = {
    "registers": "occupancy_limit_registers",
    "shared memory": "occupancy_limit_shared",
    "warps": "occupancy_limit_warps",
    "blocks": "occupancy_limit_blocks",
}
#: Fact of a kernel -> ncu's counter; of the last two, whether there are any.
FACTS = {
    "registers": "registers",
    "static shared memory": "static_shared",
    "registers spilled": "spill_instructions",
    "local sectors": "local_sectors",
}
Said = dict[str, Number | str | None]


class Fact(NamedTuple):
    """One fact of a launch: by `by`, and by ncu."""

    name: str
    where: str
    by: str
    said: Number | str | None
    recorded: Number | str | None
    why: str = ""  # they may differ

    @property
    def equal(self) -> bool:
        """Do both say the same, but for the rounding of percents?"""
        if isinstance(self.said, float) and isinstance(self.recorded, float):
            return math.isclose(self.said, self.recorded, rel_tol=1e-9)
        return self.said == self.recorded


def by_ncu(launch: Launch) -> Said:
    """All that ncu says of a launch."""
    known = [value_of(launch, counter) for counter in FACTS.values()]
    limits = {name: value_of(launch, counter) for name, counter in LIMITS.items()}
    values = [*known[:2], *(None if each is None else each > 0 for each in known[2:])]
    return {
        **dict(zip(FACTS, values, strict=True)),
        **_limits(limits),
        "limited by": _least(limits),
        "theoretical occupancy": value_of(launch, "theoretical_occupancy"),
    }


def _limits(limits: dict[str, Number | None]) -> Said:
    return {f"limit by {name}": limits[name] for name in LIMITS}


def _least(limits: dict[str, Number | None]) -> str:
    least = min(each for each in limits.values() if each is not None)
    return " and ".join(name for name in LIMITS if limits[name] == least)


def of_block(chip: Chip, need: Resources, launch: Launch) -> Said:
    """What fits on an SM; the occupancy is that of the largest part of the L1."""
    known = resources(launch)
    part = known.shared_config if known is not None else 0
    alone = occupancy(chip, need)
    given = occupancy(chip, msgspec.structs.replace(need, shared_config=part))
    limits: dict[str, Number | None] = dict(given.limits)
    return {
        **_limits(limits),
        "limited by": _least(limits),
        "theoretical occupancy": alone.percent,
    }


def by_compiler(chip: Chip, kernel: KernelResources, launch: Launch) -> Said:
    """All that a compiler says of a launch."""
    need = needs(kernel, math.prod(launch.block), launch.dynamic_shared)
    spills, local = kernel.spill_stores + kernel.spill_loads > 0, kernel.stack > 0
    values = (need.registers, kernel.static_shared, spills, local)
    return {**dict(zip(FACTS, values, strict=True)), **of_block(chip, need, launch)}


def compared(project: Project, study: Study, entry: Entry, here: bool) -> Iterator[Fact | str]:
    """Facts of a recording's launches, or in words why there are none of its compiler."""
    version = study.version(entry.version)
    profile = Store(project.profiles).load(entry.path)
    chip = chip_for(profile.device)
    where = f"{entry.device} {entry.study} {entry.version} {entry.problem}"
    assert chip is not None
    builds: list[tuple[str, Build]] = []
    if profile.build is None:
        yield f"{where}: a library's kernels"
    elif profile.source_hash != source_hash(project, version):
        yield f"{where}: the source is another by now"
    else:
        builds.append(("the compiler, as recorded", profile.build))
        if here:
            made = build(project, version, profile.build.arch.rstrip("af")).build
            builds.append(("the compiler, here", made))
    for launch in profile.launches:
        theirs, place = by_ncu(launch), f"{where} {launch.kernel}"
        if need := resources(launch):
            for name, value in of_block(chip, need, launch).items():
                yield Fact(name, place, "the formula, of ncu's resources", value, theirs[name])
        for by, made in builds:
            kernel = _kernel(made.resources, launch.kernel)
            if kernel is None:
                yield f"{place}: not among the kernels of its build"
                continue
            recorded_by = profile.build.compiler if profile.build else ""
            other = f"recorded with {recorded_by}" if made.compiler != recorded_by else ""
            for name, value in by_compiler(chip, kernel, launch).items():
                untaken = "its stack is of a path that no thread took"
                why = other or (untaken if name == "local sectors" and value else "")
                yield Fact(name, place, f"{by} ({made.compiler})", value, theirs[name], why)


def _kernel(known: tuple[KernelResources, ...], name: str) -> KernelResources | None:
    return next((each for each in known if own_name(each.name) == own_name(name)), None)


def table(project: Project, entries: list[Entry], here: bool) -> tuple[str, bool]:
    """How many facts are equal, by compiler; each that differs; what has no compiler."""
    studies = {name: load_study(project, name) for name in {entry.study for entry in entries}}
    found = [one for each in entries for one in compared(project, studies[each.study], each, here)]
    facts = [one for one in found if isinstance(one, Fact)]
    lines = []
    for by in dict.fromkeys(one.by for one in facts):
        lines.append(f"{by}:")
        for name in dict.fromkeys(one.name for one in facts if one.by == by):
            every = [one for one in facts if (one.name, one.by) == (name, by)]
            some = sum(bool(one.recorded) for one in every)
            yes = f", {some} of them above 0" if name in FACTS else ""
            lines.append(
                f"  {name}: {sum(one.equal for one in every)} of {len(every)} launches equal{yes}"
            )
    apart = [one for one in facts if not one.equal]
    for one in apart:
        why = f": {one.why}" if one.why else ""
        lines.append(f"{one.where}: {one.name} {one.said} ({one.by}), ncu {one.recorded}{why}")
    lines += [f"not compared: {one}" for one in dict.fromkeys(found) if isinstance(one, str)]
    return "\n".join(lines) + "\n", all(one.why for one in apart)
