"""The device that a program without a GPU is shown (``data/standin/device.toml``)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import tomli

from workbench.model import Record

_FACTS = Path(__file__).resolve().parents[1] / "data" / "standin" / "device.toml"
_SMS, _MAJOR, _MINOR = 16, 75, 76  # CUdevice_attribute


@cache
def _table() -> dict[str, Any]:
    return tomli.loads(_FACTS.read_text(encoding="utf-8"))


def chips() -> tuple[str, ...]:
    """The names that ``--chip`` takes, the default first."""
    return tuple(_table()["chip"])


class ShownChip(Record, frozen=True):
    """A chip as programs see it. `arch`: what nvcc compiles for; `memory` in bytes."""

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
        """What the stand-in of the driver is told, a line each."""
        major, minor = divmod(self.capability, 10)
        own = {str(_SMS): self.sms, str(_MAJOR): major, str(_MINOR): minor}
        every = {**_table()["attributes"], **self.attributes, **own}
        lines = [f"name {self.name}", f"memory {self.memory}"]
        return "\n".join([*lines, *(f"attribute {key} {value}" for key, value in every.items())])


def chip(name: str) -> ShownChip:
    """One of `chips`.

    Raises:
        KeyError: there is no such chip.
    """
    return ShownChip(**_table()["chip"][name])
