"""The launches of a run: the counts of each, and the heaviest of each kernel with their lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

import ptxemu
from workbench.compile.build import remarks, resources
from workbench.engines.emulated.chips import ShownChip
from workbench.engines.emulated.record import COLUMNS, launch_records
from workbench.model import Launch, SourceFile
from workbench.programs.capture.counted import CountedLaunch
from workbench.programs.capture.records import Counted
from workbench.programs.standin.modules import LoadedModule

#: Launches of a kernel that are kept with their instructions.
_KEPT = 3
#: A launch replaces another one if it is heavier by this factor.
_HEAVIER = 1.25

_COLUMNS = {
    "sectors": "memory_l2_theoretical_sectors_global",
    "sectors_ideal": "memory_l2_theoretical_sectors_global_ideal",
    "wavefronts": "memory_l1_wavefronts_shared",
    "wavefronts_ideal": "memory_l1_wavefronts_shared_ideal",
}


def counted(counts: ptxemu.Counts) -> Counted:
    """Counts of one launch."""
    sums = {
        name: round(sum(COLUMNS[column][0](row) for row in counts.rows))
        for name, column in _COLUMNS.items()
    }
    code = counts.machine_code()
    known = code is not None and code.complete  # else PTX instructions are counted
    issued = code.total if code is not None and known else sum(row.warps for row in counts.rows)
    return Counted(instructions=round(issued), **sums)


@dataclass(slots=True)
class Launches:
    """All launches of a run, in order; ptxas' `log`, and its `remarks` on kernels that ran."""

    chip: ShownChip
    log: str = ""
    remarks: dict[str, None] = field(default_factory=dict)
    count: int = 0
    repeated: int = 0
    failed: int = 0
    thread_instructions: int = 0
    _threads: dict[CountedLaunch, int] = field(default_factory=dict)
    _order: list[CountedLaunch] = field(default_factory=list)
    _details: dict[str, list[tuple[int, Launch]]] = field(default_factory=dict)
    _files: dict[str, int] = field(default_factory=dict)

    def add(
        self, counts: ptxemu.Counts, module: LoadedModule, process: int = 0, stream: int = 0
    ) -> CountedLaunch:
        """Add a launch that ran; returns its kind, for `repeat`."""
        launch = counts.launch
        kind = CountedLaunch(
            launch.kernel, launch.grid, launch.block, launch.dynamic_shared, counted(counts)
        )
        if kind not in self._threads:
            self._threads[kind] = counts.thread_instructions
            self._keep(kind.counted.weight, counts, module)
        self._append(kind, process, stream)
        return kind

    def repeat(self, kind: CountedLaunch, process: int = 0, stream: int = 0) -> None:
        """Add a launch of a known kind."""
        self.repeated += 1
        self._append(kind, process, stream)

    def _append(self, kind: CountedLaunch, process: int, stream: int) -> None:
        self.count += 1
        self.thread_instructions += self._threads[kind]
        one = replace(kind, stream=stream, process=process)
        if self._order and replace(last := self._order[-1], times=1) == one:
            self._order[-1] = replace(last, times=last.times + 1)
        else:
            self._order.append(one)

    def _keep(self, weight: int, counts: ptxemu.Counts, module: LoadedModule) -> None:
        """Keep the instructions of a launch, if it is one of its kernel's heaviest."""
        kept = self._details.setdefault(counts.launch.kernel, [])
        if len(kept) >= _KEPT:
            least = min(kept, key=lambda each: each[0])
            if weight < _HEAVIER * least[0]:
                return
            kept.remove(least)
        built, device = module.build(self.chip.arch), self.chip.device
        made = replace(built.build, resources=resources(self.log), log=self.log)
        self.remarks |= dict.fromkeys(remarks(made, [counts.launch.kernel]))
        (record,) = launch_records([counts], built, module.module, device, 0)
        kept.append((weight, self._refiled(record, module.sources)))

    def _refiled(self, launch: Launch, sources: Sequence[SourceFile]) -> Launch:
        """The launch, with files numbered among those of all modules."""
        places = [self._files.setdefault(each.path, len(self._files)) for each in sources]
        table = launch.instructions
        files = tuple(places[file] if file >= 0 else -1 for file in table.file)
        return replace(launch, instructions=replace(table, file=files))

    @property
    def order(self) -> tuple[CountedLaunch, ...]:
        """Every launch, with equal ones in a row merged."""
        return tuple(self._order)

    @property
    def details(self) -> tuple[tuple[str, Launch], ...]:
        """Symbol and record of the kept launches, the heaviest of a kernel first."""
        return tuple(
            (symbol, launch)
            for symbol, kept in self._details.items()
            for _, launch in sorted(kept, key=lambda each: -each[0])
        )

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """The files that their instructions name."""
        return tuple(SourceFile(path=path) for path in self._files)
