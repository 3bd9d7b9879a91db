"""What an operation keeps busy: the units behind a warp's wait, by opcode.

After the table of warp states in NVIDIA's profiling guide
(https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#statistical-sampler): a long
scoreboard guards what L1TEX answers, a short one what the MIO answers besides, and a throttle
is a full queue in front of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.analysis.blame.sass import MachineOp
from workbench.model import InstructionTable, Number

_GLOBAL_LOADS = frozenset({"LD", "LDG", "LDL", "ATOM", "ATOMG", "SULD", "SUATOM", "QSPC"})
_TEXTURES = frozenset({"TEX", "TLD", "TLD4", "TMML", "TXD", "TXQ"})
#: Asynchronous copies into shared memory.
COPIES = frozenset({"LDGSTS", "UTMALDG", "UBLKCP"})
#: Stores and reductions: what must leave the SM before a warp may end.
STORES = frozenset({"ST", "STG", "STL", "RED", "REDG", "SUST", "SURED", "UTMASTG", "ATOMG", "ATOM"})
#: What a long scoreboard waits for.
LONG = _GLOBAL_LOADS | _TEXTURES
_SHARED = frozenset({"LDS", "LDSM", "STS", "STSM", "ATOMS"})
_SPECIAL = frozenset(
    """
    MUFU SHFL S2R S2UR LDC B2R F2I I2F F2F FRND POPC FLO UFLO BREV REDUX MATCH MOVM R2UR
    R2B SYNCS AL2P IPA UPOPC VOTEU
    """.split()  # noqa: SIM905
)
#: What a short scoreboard waits for.
SHORT = frozenset({"LDS", "LDSM", "ATOMS"}) | _SPECIAL
_LOCAL_GLOBAL = _GLOBAL_LOADS | STORES | {"LDGSTS", "CCTL"}
#: Products of a warpgroup, which run by themselves.
WARPGROUP = frozenset({"HGMMA", "IGMMA", "QGMMA", "BGMMA"})
BARRIERS = frozenset({"BAR", "UCGABAR_WAIT", "BARRIER"})
FENCES = frozenset({"MEMBAR", "FENCE", "ERRBAR", "CGAERRBAR"})

#: Name -> a line counter, and the opcodes of which alone it is taken. ncu counts loads and stores
#: of a line together, and at no line what the copy engine reads (``bulk_loads`` are its copies) or
#: what warps do to wait for one another (``arrivals``: all that is done to an mbarrier).
KINDS = {
    "load_tags": ("memory_l1_tag_requests_global", frozenset({"LD", "LDG", "LDGSTS"})),
    "load_sectors": ("memory_l2_theoretical_sectors_global", frozenset({"LD", "LDG", "LDGSTS"})),
    "store_tags": ("memory_l1_tag_requests_global", frozenset({"ST", "STG"})),
    "store_sectors": ("memory_l2_theoretical_sectors_global", frozenset({"ST", "STG"})),
    "atomics": ("thread_inst_executed_true", frozenset({"ATOMG", "REDG", "ATOM", "RED"})),
    "bulk_loads": ("inst_executed", COPIES - {"LDGSTS"}),
    "barriers": ("inst_executed", BARRIERS),
    "arrivals": ("inst_executed", frozenset({"SYNCS"})),
}

_PIPES = {
    **dict.fromkeys(["FFMA", "FFMA2", "FMUL", "FADD", "IMAD", "IMUL", "FSWZADD"], "FMA"),
    **dict.fromkeys(["HADD2", "HFMA2", "HMUL2", "HSET2", "HSETP2", "HMNMX2"], "FP16"),
    **dict.fromkeys(["DADD", "DFMA", "DMUL", "DSETP", "DMNMX"], "FP64"),
    **dict.fromkeys(["HMMA", "IMMA", "DMMA", "BMMA", "QMMA", *WARPGROUP], "tensor"),
}
#: Throttle -> the operations that fill its queue.
_QUEUES = {
    "mio_throttle": ("MIO", _SHARED | _SPECIAL | _LOCAL_GLOBAL | _TEXTURES),
    "lg_throttle": ("LSU", _LOCAL_GLOBAL),
    "tex_throttle": ("TEX", _TEXTURES | _GLOBAL_LOADS | {"SUST"}),
}
_OTHERS = """
    IADD3 IADD LEA LOP3 LOP PLOP3 SHF SHL SHR SEL FSEL ISETP FSETP FSET FMNMX IMNMX VIMNMX VIADD
    VIADDMNMX PRMT MOV IABS IDP SGXT BMSK P2R R2P F2FP I2FP VABSDIFF VABSDIFF4 CS2R VOTE FCHK
""".split()  # noqa: SIM905
_UNIFORM = """
    UIADD3 ULEA ULOP3 UPLOP3 USHF USEL UISETP UPRMT UMOV UIMAD UP2UR UR2UP UBMSK USGXT
""".split()  # noqa: SIM905
#: Pipe -> its opcodes.
_ARITHMETIC = {
    name: frozenset(op for op, of in _PIPES.items() if of == name)
    for name in dict.fromkeys(_PIPES.values())
} | {"ALU": frozenset(_OTHERS), "uniform": frozenset(_UNIFORM)}
_COSTS = ("memory_l1_wavefronts_shared", "memory_l1_tag_requests_global", "inst_executed")


def pipe(opcode: str) -> str:
    """The arithmetic pipe of an opcode: ``FMA``, ``tensor`` or ``ALU``."""
    return _PIPES.get(opcode, "uniform" if opcode[:1] == "U" else "ALU")


def queue_of(state: str, opcode: str) -> str:
    """Name of the queue or pipe that a throttle at an instruction waits for; "": no throttle."""
    if state in _QUEUES:
        return _QUEUES[state][0]
    return pipe(opcode) if state == "math_pipe_throttle" else ""


def fillers(state: str, name: str) -> frozenset[str]:
    """The opcodes that go through the queue (or pipe) of that name."""
    if state in _QUEUES:
        return _QUEUES[state][1]
    return _ARITHMETIC[name]


def costs(table: InstructionTable, operations: Sequence[MachineOp]) -> list[Number]:
    """Row -> how long it keeps its queue busy: wavefronts, look-ups of tags, else issues."""
    out: list[Number] = [0] * len(operations)
    for name in _COSTS:
        column = table.columns.get(name)
        for row, value in zip(column.rows, column.values, strict=True) if column else ():
            out[row] = max(out[row], value)
    return out


def issues(table: InstructionTable) -> Mapping[int, Number]:
    """Row -> how often it was issued; empty where that was not counted."""
    column = table.columns.get("inst_executed")
    return dict(zip(column.rows, column.values, strict=True)) if column else {}
