"""The kinds of flow between levels of memory, and by which counters each is known.

Amounts are counters of the chip; what only the machine code tells apart (shared loads from
stores, asynchronous copies) is the part of a line counter that belongs to some opcodes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

Place = Literal["sm", "shared", "l1", "tma", "l2", "dram"]
Unit = Literal["byte", "wavefront"]
Access = Literal["load", "store", "atomic", "copy", "bulk in", "bulk out", ""]

#: Bytes of a sector.
SECTOR = 32
_OPERATION = re.compile(r"^\s*(?:@!?(?:U?P\w+|%\w+)\s+)?([\w.:]+)")
#: How opcodes of SASS and of PTX begin; the first that fits.
_ACCESSES: tuple[tuple[str, Access], ...] = (
    (r"UTMALDG|UBLKCP\.S|cp\.async\.bulk\.(tensor\.\dd\.)?shared", "bulk in"),
    (r"UTMASTG|UTMAREDG|UBLK(CP|RED)", "bulk out"),
    (r"cp\.(reduce\.)?async\.bulk\.(tensor\.\dd\.)?global", "bulk out"),
    (r"LDGSTS\b|cp\.async\.c[ag]", "copy"),
    (r"ATOM|RED(G|AS)?\b|atom|red\.", "atomic"),
    (r"LD[GSL]?\b|LDSM|\w*GMMA|ld|wgmma", "load"),
    (r"ST[GSL]?\b|STSM|STAS|st", "store"),
)


@lru_cache(maxsize=1 << 14)  # a kernel's code is asked for once a flow, on every problem
def access_of(text: str) -> Access:
    """What an instruction does with memory, by its opcode in SASS or PTX; "" for nothing."""
    found = _OPERATION.match(text)
    return _access(found[1]) if found else ""


def _access(opcode: str) -> Access:
    return next((access for pattern, access in _ACCESSES if re.match(pattern, opcode)), "")


class Kind(NamedTuple):
    """How a flow is found.

    `amounts` are sums of counters of the catalog (``@id``) or of ncu's names, times a factor;
    the first that a report fills counts. Without one, and where `split` holds before all, it
    is the part of the line counter `column` that belongs to the instructions of `accesses`.
    `peaks` are ncu's percentages, or the catalog's word for what a formula needs (``wavefront``,
    ``line``, ``bandwidth``). Kinds that are not `usual` are left out where nothing of them is
    known to have happened.
    """

    id: str
    title: str
    start: Place
    end: Place
    amounts: tuple[tuple[int, tuple[str, ...]], ...]
    peaks: tuple[str, ...]
    counter: str = ""
    column: str = ""
    accesses: tuple[Access, ...] = ()
    unit: Unit = "byte"
    usual: bool = True
    split: bool = False


_WAVES, GLOBAL, LOCAL = "shared_wavefronts", "global_sectors", "local_sectors"
_DATA = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_"
_L1 = "l1tex__t_sectors_pipe_"
_IN, _OUT = "l1tex__m_xbar2l1tex_read_", "l1tex__m_l1tex2xbar_"
_L2 = "lts__t_sectors_srcunit_tex_op_"
#: How ncu's percentages of a peak end.
PERCENT = ".pct_of_peak_sustained_elapsed"


def _shared(name: str, title: str, ways: tuple[Place, Place], *accesses: Access) -> Kind:
    ncu = {"load": "ld", "store": "st", "atomic": "atom"}.get(accesses[0])
    return Kind(
        f"shared_{name}",
        title,
        *ways,
        amounts=((1, (f"{_DATA}{ncu}.sum",)),) if ncu else (),
        peaks=("wavefront",),
        counter=_WAVES,
        column=_WAVES,
        accesses=accesses,
        unit="wavefront",
        usual=name in ("loads", "stores"),
        split=True,
    )


KINDS = (
    # The matrix units read their operands from shared memory without a load.
    _shared("loads", "Shared loads", ("shared", "sm"), "load", ""),
    _shared("stores", "Shared stores", ("sm", "shared"), "store"),
    _shared("atomics", "Shared atomics", ("sm", "shared"), "atomic"),
    _shared("copies", "Asynchronous copies", ("l1", "shared"), "copy", "bulk in", "bulk out"),
    Kind(
        "global_loads", "Global loads", "l1", "sm", ((SECTOR, ("@global_load_sectors",)),),
        ("line",), "global_load_sectors", GLOBAL, ("load", "copy"),
    ),
    Kind(
        "global_stores", "Global stores", "sm", "l1", ((SECTOR, ("@global_store_sectors",)),),
        ("line",), "global_store_sectors", GLOBAL, ("store",),
    ),
    Kind(
        "global_atomics", "Global atomics", "sm", "l1",
        ((SECTOR, (f"{_L1}lsu_mem_global_op_atom.sum", f"{_L1}lsu_mem_global_op_red.sum")),),
        ("line",), GLOBAL, GLOBAL, ("atomic",), usual=False,
    ),
    Kind(
        "local_loads", "Local loads", "l1", "sm", ((SECTOR, (f"{_L1}lsu_mem_local_op_ld.sum",)),),
        ("line",), LOCAL, LOCAL, ("load",), usual=False,
    ),
    Kind(
        "local_stores", "Local stores", "sm", "l1",
        ((SECTOR, (f"{_L1}lsu_mem_local_op_st.sum",)),),
        ("line",), LOCAL, LOCAL, ("store",), usual=False,
    ),
    Kind(
        "texture", "Texture", "l1", "sm", ((SECTOR, (f"{_L1}tex_mem_texture.sum",)),),
        ("line",), usual=False,
    ),
    Kind(
        "tma_loads", "TMA copies in", "l2", "tma",
        ((1, (f"{_IN}bytes_mem_global_op_tma_ld.sum",)),),
        (f"{_IN}bytes_mem_global_op_tma_ld.sum{PERCENT}",),
        column="instructions", accesses=("bulk in",), usual=False,
    ),
    Kind(
        "tma_stores", "TMA copies out", "tma", "l2",
        ((1, tuple(f"{_OUT}write_bytes_mem_global_op_tma_{way}.sum" for way in ("st", "red"))),),
        (f"{_OUT}write_bytes_mem_global_op_tma_st.sum{PERCENT}",),
        column="instructions", accesses=("bulk out",), usual=False,
    ),
    Kind(
        "l2_reads", "L2 reads", "l2", "l1", ((SECTOR, ("@l2_read_sectors",)),),
        (f"{_IN}sectors.sum{PERCENT}", f"{_IN}sectors.avg{PERCENT}"),
        "l2_read_sectors", GLOBAL, ("load", "copy"),
    ),
    Kind(
        "l2_writes", "L2 writes", "l1", "l2", ((SECTOR, ("@l2_write_sectors",)),),
        (f"{_OUT}write_bytes.sum{PERCENT}", f"{_OUT}req_cycles_active.sum{PERCENT}"),
        "l2_write_sectors", GLOBAL, ("store",),
    ),
    Kind(
        "l2_atomics", "L2 atomics", "l1", "l2",
        ((SECTOR, (f"{_L2}atom.sum", f"{_L2}red.sum")),),
        (f"{_L2}atom.sum{PERCENT}",), "", GLOBAL, ("atomic",), usual=False,
    ),
    Kind(
        "dram_reads", "Device memory read", "dram", "l2", ((1, ("@dram_read_bytes",)),),
        ("bandwidth",), "dram_read_bytes", GLOBAL, ("load", "copy"),
    ),
    Kind(
        "dram_writes", "Device memory written", "l2", "dram", ((1, ("@dram_write_bytes",)),),
        ("bandwidth",), "dram_write_bytes", GLOBAL, ("store", "atomic"),
    ),
)  # fmt: skip
#: Place, title, hit rate and throughput as counters.
LEVELS: tuple[tuple[Place, str, str, str], ...] = (
    ("sm", "SM", "", "sm_throughput"),
    ("shared", "Shared memory", "", ""),
    ("l1", "L1/TEX", "l1_hit_rate", "l1_throughput"),
    ("tma", "TMA", "", ""),
    ("l2", "L2", "l2_hit_rate", "l2_throughput"),
    ("dram", "Device memory", "", "dram_throughput"),
)
