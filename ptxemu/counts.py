"""Counts of a launch, instruction by instruction: executions and costs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ptxemu.compiled import CompiledKernel
from ptxemu.errors import Fault
from ptxemu.launch import KernelLaunch
from ptxemu.ptx.instructions import Instr
from ptxemu.ptx.waits import schedule_dependent_blocks, schedule_dependent_places
from ptxemu.ptxas import MachineCode, issued
from ptxemu.sass import Functions
from ptxemu.state.context import CodeSite
from ptxemu.state.lanes import WARP

_HALF = ("f16", "f16x2", "bf16", "bf16x2")
_BY_OPCODE = {
    **dict.fromkeys(("ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "prefetch",
                     "tex"), "memory"),
    **dict.fromkeys(("bra", "brx", "ret", "exit", "bar", "barrier", "membar", "fence", "trap",
                     "nanosleep", "mbarrier", "setmaxnreg", "griddepcontrol"), "control"),
    **dict.fromkeys(("shfl", "vote", "match", "redux", "activemask", "elect"), "exchange"),
    "cvt": "conversion", "mov": "move", "cvta": "move", "mma": "tensor",
}  # fmt: skip
_BY_TYPE = {"f32": "float32", "f64": "float64", **dict.fromkeys(_HALF, "half")}
#: Floating-point operations of one instruction of one thread.
_OPERATIONS = {"fma": 2, "mad": 2, "add": 1, "sub": 1, "mul": 1}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")


@dataclass(slots=True)
class Executed:
    """One PTX instruction with its counts. `warps` and `threads`: how often it ran."""

    instr: Instr
    block: int
    warps: int
    threads: int
    site: CodeSite

    @property
    def on(self) -> int:
        """Threads whose guard was true."""
        return self.site.on if self.instr.guard is not None else self.threads

    @property
    def kind(self) -> str:
        """Its class in an instruction mix: memory, float32, integer, tensor, for example."""
        instr = self.instr
        if instr.op == "wmma":
            return "tensor" if instr.parts[1] == "mma" else "memory"
        if instr.op == "wgmma":
            return "tensor" if instr.parts[1] == "mma_async" else "control"
        return _BY_OPCODE.get(instr.op) or _BY_TYPE.get(instr.parts[-1], "integer")

    @property
    def operations(self) -> int:
        """Multiplications and additions, including those of integers on tensor cores."""
        instr = self.instr
        if self.kind == "tensor":
            shape = next((found for p in instr.parts if (found := _SHAPE.match(p))), None)
            if shape is None:
                return 0
            m, n, k = (int(size) for size in shape.groups())
            # A warpgroup's product is executed by four warps.
            return 2 * m * n * k * self.warps // (4 if instr.op == "wgmma" else 1)
        kind = instr.parts[-1]
        if kind not in ("f32", "f64", *_HALF):
            return 0
        return _OPERATIONS.get(instr.op, 0) * self.on * (2 if kind.endswith("x2") else 1)

    @property
    def copied(self) -> bool:
        """True if it moved data of global memory that no count of sectors includes.

        Like ncu's, these counts include neither sectors nor wavefronts of bulk copies, or of loads
        and stores of another block's shared memory. The sectors of a texture fetch are unknown.
        """
        parts = self.instr.parts
        if self.instr.op == "tex":
            return bool(self.warps)
        asks = not {"commit_group", "wait_group", "prefetch"} & set(parts)
        return bool(self.warps) and {"bulk", "global"} <= set(parts) and asks


@dataclass(slots=True)
class Counts:
    """The counters of one launch, scaled to the whole grid if only a sample ran.

    `error` is then the relative standard error of the sums of `ERRORS`, from the differences
    between the batches of each stratum.
    """

    launch: KernelLaunch
    compiled: CompiledKernel
    functions: Functions = field(default_factory=dict)  # machine code of its module
    rows: list[Executed] = field(default_factory=list)
    blocks_run: int = 0
    error: dict[str, float] = field(default_factory=dict)
    margins: dict[int, list[float]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # operations that run on a chip, but are likely mistakes
    doubts: tuple[str, ...] = ()  # results that may differ on a chip, if used
    faults: tuple[Fault, ...] = ()  # faults after which it continued
    printed: str = ""  # its printed output, if it is collected

    def margin(self, site: CodeSite, name: str) -> float:
        """The standard error of one counter of one instruction; 0 if all blocks ran."""
        found = self.margins.get(id(site))
        return found[CodeSite.COUNTS.index(name)] if found else 0.0

    def total(self, counter: str) -> int:
        """The sum of a counter of `CodeSite` over all instructions: ``sectors``, ``wavefronts``."""
        return sum(getattr(row.site, counter) for row in self.rows)

    @property
    def sampled(self) -> float:
        """Share of the grid's blocks that were run."""
        return self.blocks_run / self.launch.geometry.blocks

    @property
    def schedule_dependent(self) -> list[Executed]:
        """Instructions whose executions depend on the order of the warps."""
        geometry = self.launch.geometry
        if geometry.blocks * geometry.warps == 1:
            return []
        graph = self.compiled.graph
        loops = schedule_dependent_blocks(graph)
        evenly = {id(row.instr) for row in self.rows if row.on in (row.warps, WARP * row.warps)}
        places = schedule_dependent_places(graph, evenly)
        return [
            row
            for row in self.rows
            if row.warps and (row.block in loops or row.site.meets or id(row.instr) in places)
        ]

    @property
    def thread_instructions(self) -> int:
        """PTX instructions executed, over threads."""
        return sum(row.threads for row in self.rows)

    @property
    def lanes(self) -> int:
        """PTX instructions executed, over the lanes of warps, idle ones included."""
        return WARP * sum(row.warps for row in self.rows)

    def machine_code(self) -> MachineCode | None:
        """The machine instructions that warps issued, row by row; None without its code."""
        return issued(self.functions, self.launch.kernel, self.compiled.graph, self.rows)
