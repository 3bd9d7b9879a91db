"""Facts about the chips that the emulator models (``data/emulated.toml``)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import tomli

from workbench.model import Device, Record

_FACTS = Path(__file__).resolve().parents[2] / "data" / "emulated.toml"
_CLOCK_KHZ, _SMS, _MAJOR, _MINOR = 13, 16, 75, 76  # CUdevice_attribute


@cache
def _table() -> dict[str, Any]:
    return tomli.loads(_FACTS.read_text(encoding="utf-8"))


def chips() -> tuple[str, ...]:
    """The names that ``--chip`` takes, the default first."""
    return tuple(_table()["chip"])


class ShownChip(Record, frozen=True):
    """A chip as programs see it. `arch`: nvcc's target; `memory`: in bytes."""

    name: str
    arch: str
    sms: int
    memory: int
    attributes: dict[str, int]

    @property
    def capability(self) -> int:
        """``90`` for sm_90a."""
        return int(self.arch.removeprefix("sm_").rstrip("a"))

    @property
    def facts(self) -> str:
        """The facts for the driver's stand-in, one per line."""
        major, minor = divmod(self.capability, 10)
        own = {str(_SMS): self.sms, str(_MAJOR): major, str(_MINOR): minor}
        every = {**_table()["attributes"], **self.attributes, **own}
        lines = [f"name {self.name}", f"memory {self.memory}"]
        return "\n".join([*lines, *(f"attribute {key} {value}" for key, value in every.items())])

    @property
    def device(self) -> Device:
        """The device in records of emulated launches: only the chip's limits."""
        return Device(
            name=f"emulator (limits of an {self.name})",
            slug=f"emulator-sm{self.capability}",
            compute_capability=divmod(self.capability, 10),
            sms=self.sms,
            sm_clock=1e3 * self.attributes[str(_CLOCK_KHZ)],
        )


def chip(name: str) -> ShownChip:
    """Return one of `chips`; KeyError: unknown."""
    return ShownChip(**_table()["chip"][name])


def device_of(arch: str) -> Device:
    """The emulated device of an architecture: its last chip, or limits without a product."""
    base = arch.rstrip("af")
    known = [each for each in map(chip, chips()) if each.arch.rstrip("a") == base]
    if known:
        return known[-1].device
    digits = base.removeprefix("sm_")
    return Device(
        name=f"emulator ({base})",
        slug=f"emulator-sm{digits}",
        compute_capability=(int(digits[:-1]), int(digits[-1])),
    )
