"""Details that ncu printed (``--page details``), as CSV or text: the output of hosted services.

They hold rounded numbers under labels, no instructions and no sources. A label whose meaning and
unit are a metric's becomes that metric; all others are left out, so their counters are absent.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from workbench.disk.limits import RECORD
from workbench.errors import DataError
from workbench.model import Device, Launch, Metric, Notice, Profile
from workbench.ncurep.files import read_raw
from workbench.ncurep.values import base_unit, to_base
from workbench.store import device_slug
from workbench.study.mangling import own_name

#: Label and base unit -> ncu's metric, as ncu's section files pair them.
_METRICS = {
    ("Duration", "s"): "gpu__time_duration.sum",
    ("Elapsed Cycles", "cycle"): "sm__cycles_elapsed.max",
    ("SM Active Cycles", "cycle"): "sm__cycles_active.avg",
    ("SM Frequency", "hz"): "smsp__cycles_elapsed.avg.per_second",
    ("DRAM Frequency", "hz"): "dram__cycles_elapsed.avg.per_second",
    ("Compute (SM) Throughput", "%"): "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ("Memory Throughput", "%"): "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ("Memory Throughput", "byte/s"): "dram__bytes.sum.per_second",
    ("DRAM Throughput", "%"): "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    ("L1/TEX Cache Throughput", "%"): "l1tex__throughput.avg.pct_of_peak_sustained_active",
    ("L2 Cache Throughput", "%"): "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    ("L1/TEX Hit Rate", "%"): "l1tex__t_sector_hit_rate.pct",
    ("L2 Hit Rate", "%"): "lts__t_sector_hit_rate.pct",
    ("Theoretical Occupancy", "%"): "sm__maximum_warps_per_active_cycle_pct",
    ("Achieved Occupancy", "%"): "sm__warps_active.avg.pct_of_peak_sustained_active",
    ("Achieved Active Warps Per SM", "warp"): "sm__warps_active.avg.per_cycle_active",
    ("Eligible Warps Per Scheduler", "warp"): "smsp__warps_eligible.avg.per_cycle_active",
    ("Executed Instructions", "inst"): "smsp__inst_executed.sum",
    ("Registers Per Thread", "register/thread"): "launch__registers_per_thread",
    ("Waves Per SM", ""): "launch__waves_per_multiprocessor",
}
_SIZES = r"\((\d{1,10}), (\d{1,10}), (\d{1,10})\)"
#: The line above a launch's tables, after its number; versions before 2022 print no grid.
_HEADING = re.compile(
    rf"\d+ (.*?)(?: ?{_SIZES}x{_SIZES})?(?:, \d{{4}}-[^,]+)?, "
    r"Context [^C]*(?:CC (\d{1,3})\.(\d{1,3}))?"
)
_NUMBER = re.compile(r"-?\d[\d,]{0,30}(?:\.\d+)?")


def read_printed(path: Path) -> Profile:
    """The launches of a file of printed details; DataError: it cannot be read, or holds none."""
    launches: dict[str, Launch] = {}
    chip = (0, 0)
    text = read_raw(path, RECORD).decode("utf-8-sig", "replace")
    for heading, label, unit, value in _rows(text):
        unit, divisor, multiplier = base_unit(unit)
        unit = "hz" if unit == "cycle/s" else unit  # as older versions write it
        name, found = _METRICS.get((label, unit)), _HEADING.fullmatch(heading)
        if name is None or found is None or not _NUMBER.fullmatch(value):
            continue
        if heading not in launches:
            signature, *numbers = found.groups("0")
            x, y, z, *block, major, minor = map(int, numbers)
            chip = major, minor
            kernel = own_name(signature.rpartition("(")[0].removeprefix("void ") or signature)
            launches[heading] = Launch(
                kernel,
                index=len(launches),
                signature=signature if signature != kernel else "",
                grid=(x, y, z),
                block=(block[0], block[1], block[2]),
            )
        number = to_base(float(value.replace(",", "")), divisor, multiplier)
        launches[heading].metrics.setdefault(name, Metric(number, unit))
    if not launches:
        raise DataError(
            f"{path} holds no details that ncu printed",
            "Print them with `ncu --page details` (with --csv for .csv), or name a report.",
        )
    device = "compute capability {}.{}".format(*chip) if any(chip) else "unknown device"
    said = "read from what ncu printed: rounded numbers, without instructions and sources"
    return Profile(
        engine="ncu",
        device=Device(device, device_slug(""), compute_capability=chip),
        captured="",
        launches=tuple(launches.values()),
        notices=(Notice("printed-details", said),),
    )


def _rows(text: str) -> Iterator[tuple[str, str, str, str]]:
    """The heading of a launch, a label, ncu's unit and a number as printed.

    Lines before the first are the program's own output.
    """
    columns: list[str] = []
    heading = ""
    for number, line in enumerate(text.splitlines()):
        cells = next(csv.reader([line[: csv.field_size_limit()]]), [])
        if "Metric Name" in cells:
            columns = cells
        elif columns:
            row = defaultdict(str, zip(columns, cells, strict=False))
            name = "{ID} {Kernel Name} {Grid Size}x{Block Size}, Context {Context}, CC {CC}"
            label, unit, value = (row[f"Metric {each}"] for each in ("Name", "Unit", "Value"))
            yield name.format_map(row), label, unit, value
        elif ", Context " in line and ", Stream " in line:
            heading = f"{number} {line.strip()}"
        elif heading and len(words := line.split()) > 1:
            # A unit is optional, and the last word of a label may look like one.
            yield heading, " ".join(words[:-2]), words[-2], words[-1]
            yield heading, " ".join(words[:-1]), "", words[-1]
