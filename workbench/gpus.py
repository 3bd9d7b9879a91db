"""Look up a chip's limits by compute capability, and its peaks by product.

The facts are data (``data/chips.toml``, with their sources). `chip_for` joins them with the
profile's own device: the number of SMs and the clocks are always the device's, because products
differ in both.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomli

from workbench.model import Device, Record

_Row = TypeVar("_Row", bound=Record)


class Chip(Record, frozen=True):
    """Limits and peaks of one device. Sizes are in bytes, rates per second.

    `memory_bandwidth` is the data sheet's, else computed from the device's memory
    clock and bus (see `bandwidth_source`), else 0. `assumed` names the compute capability whose
    limits are used for one that the table does not list.
    """

    name: str
    compute_capability: tuple[int, int]
    # limits of one SM
    warps_per_sm: int
    blocks_per_sm: int
    shared_per_sm: int
    shared_per_block: int  # bytes with opt-in
    shared_reserved: int  # bytes per block, reserved by CUDA
    shared_unit: int  # allocation granularity in bytes
    shared_configs: tuple[int, ...]  # sizes that the shared-memory part of the L1 can have
    fp32_lanes: int
    fp64_lanes: int
    warp_size: int
    max_threads_per_block: int
    registers_per_sm: int
    registers_per_thread: int
    register_unit: int
    schedulers: int
    banks: int
    bank_bytes: int
    sector_bytes: int
    line_bytes: int
    # dense operations per cycle of an SM's matrix units; 0: unknown
    tensor_half: int = 0
    tensor_tf32: int = 0
    tensor_int8: int = 0
    store_sectors: int = 0  # bytes that an SM sends to the L2 in a cycle; 0: unknown
    # this device
    sms: int = 0
    sm_clock: float = 0.0
    memory_bandwidth: float = 0.0
    bandwidth_source: str = ""
    l2_requests: float = 0.0  # requests that the L2 takes, one for each line touched; 0: unknown
    assumed: str = ""

    def fp32_peak(self, clock: float | None = None) -> float:
        """FLOP/s of float32 multiply-adds: 2 × lanes × SMs × clock (default: the device's)."""
        return 2.0 * self.fp32_lanes * self.sms * (clock or self.sm_clock)

    def tensor_peak(self, operations: int, clock: float | None = None) -> float:
        """Operations per second of matrix units that do `operations` per cycle and SM."""
        return float(operations) * self.sms * (clock or self.sm_clock)


@lru_cache(maxsize=1)
def _table(name: str = "chips") -> dict[str, Any]:
    text = (Path(__file__).parent / f"data/{name}.toml").read_text(encoding="utf-8")
    return tomli.loads(text)


def of_all_chips(table: str, row: type[_Row]) -> tuple[_Row, ...]:
    """A table of ``data/machine.toml``: properties common to all chips."""
    return msgspec.convert(_table("machine")[table], tuple[row, ...])  # type: ignore[valid-type]


def _limits(capability: tuple[int, int]) -> tuple[dict[str, Any], str] | None:
    """The table's row for a capability, or for the nearest older one of the same major."""
    rows = {tuple(map(int, row["id"].split("."))): row for row in _table()["capability"]}
    older = [known for known in rows if known[0] == capability[0] and known <= capability]
    if not older:
        return None
    nearest = max(older)
    row = {key: value for key, value in rows[nearest].items() if key != "id"}
    return row, "" if nearest == capability else f"{nearest[0]}.{nearest[1]}"


def shared_per_block(arch: str) -> int:
    """Bytes of shared memory that a block may have on a target like ``sm_90a``; 0: unknown."""
    number = arch.removeprefix("sm_").rstrip("af")
    found = _limits((int(number[:-1]), int(number[-1]))) if number[1:].isdigit() else None
    return int(found[0]["shared_per_block"]) if found else 0


def _product(device: Device) -> dict[str, Any]:
    """Return the known facts about a product, by the fields of `Chip`."""
    for product in _table()["product"]:
        # Word boundaries keep "T4" out of "T400" and "L4" out of "L40".
        if re.search(rf"\b{re.escape(product['match'])}\b", device.name, re.IGNORECASE):
            return {
                "memory_bandwidth": product["memory_bandwidth"],
                "bandwidth_source": product["source"],
                "l2_requests": product.get("l2_requests", 0.0),
            }
    # Every memory since GDDR5 and HBM moves two words per clock that CUDA reports.
    computed = 2.0 * device.memory_clock * device.memory_bus_bits / 8
    source = "memory clock and bus width of the device" if computed else ""
    return {"memory_bandwidth": computed, "bandwidth_source": source}


@lru_cache(maxsize=64)
def chip_for(device: Device) -> Chip | None:
    """Return limits and peaks of a device; None if its capability is unknown or too old."""
    limits = _limits(device.compute_capability)
    if limits is None:
        return None
    row, assumed = limits
    fields = {
        **_table()["common"],
        **row,
        "name": device.name,
        "compute_capability": device.compute_capability,
        "sms": device.sms,
        "sm_clock": device.sm_clock,
        **_product(device),
        "assumed": assumed,
    }
    return msgspec.convert(fields, Chip)


#: Common to all chips: the bytes of a sector, of a line and of all banks; the lanes of a warp.
SECTOR_BYTES: int = _table()["common"]["sector_bytes"]
LINE_BYTES: int = _table()["common"]["line_bytes"]
WAVEFRONT_BYTES: int = _table()["common"]["banks"] * _table()["common"]["bank_bytes"]
WARP_SIZE: int = _table()["common"]["warp_size"]
