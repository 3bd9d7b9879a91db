"""``[tool.workbench.cluster.slurm]``: how jobs are asked for; a complaint names file and line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec

from workbench.disk.limits import SETTINGS, read_regular
from workbench.errors import UsageError, did_you_mean
from workbench.project import Project
from workbench.study.keys import key_lines

_TABLE = "cluster.slurm"
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")
_Count = Annotated[int, msgspec.Meta(ge=1)]


class SlurmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How jobs are asked for; what is empty is left to the cluster.

    Attributes:
        gres: What each job gets; one GPU.
        time: Limit of one job: minutes, or ``1:30:00``, or ``2-00:00:00``.
        array_parallelism: How many jobs of ours may run at once.
        per_job: How many combinations one job does, one after another.
        exclusive: Jobs that take times have their node for themselves.
        setup: Lines of the shell before the work: ``module load cuda``.
        exclude: Nodes that no job may go to.
        patience: Seconds until a job that ended without a result is taken for lost: a network
            file system may show a file so much later on another node.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    gres: str = "gpu:1"
    mem: str = ""
    cpus_per_task: _Count | None = None
    time: int | str = "1:00:00"
    array_parallelism: _Count = 64
    per_job: _Count = 1
    exclusive: bool = True
    setup: tuple[str, ...] = ()
    exclude: str = ""
    patience: Annotated[float, msgspec.Meta(ge=0)] = 60.0

    @property
    def minutes(self) -> int:
        """The limit of one job in whole minutes, as ``sbatch --time`` reads it."""
        if isinstance(self.time, int):
            return self.time
        match = _TIME.fullmatch(self.time)
        if match is None:
            return 0
        days, first, second, third = match.groups()
        if days is not None:  # days-hours[:minutes[:seconds]]
            return int(days) * 1440 + int(first) * 60 + int(second or 0) + bool(int(third or 0))
        if third is not None:  # hours:minutes:seconds
            return int(first) * 60 + int(second) + bool(int(third))
        return int(first) + bool(int(second or 0))  # minutes[:seconds]


#: Key -> how it is written, for what is no plain text.
_FORMS = {
    "cpus_per_task": "cpus_per_task = 8",
    "time": 'time = "1:00:00"',
    "array_parallelism": "array_parallelism = 16",
    "per_job": "per_job = 4",
    "exclusive": "exclusive = false",
    "setup": 'setup = ["module load cuda"]',
    "patience": "patience = 60",
}


def read_settings(project: Project) -> SlurmSettings:
    """The project's settings for Slurm; what it does not set has its default.

    Raises:
        UsageError: an unknown key or a wrong value, with its file and line.
    """
    cluster = project.settings.get("cluster", {})
    if not isinstance(cluster, dict):
        raise _wrong(project, "cluster", "`cluster` must be a table", f"Write [{_TABLE}].")
    if unknown := sorted(set(cluster) - {"slurm"}):
        hint = "The only cluster system supported is `slurm`."
        raise _wrong(project, f"cluster.{unknown[0]}", f"unknown cluster `{unknown[0]}`", hint)
    try:
        settings = msgspec.convert(cluster.get("slurm", {}), SlurmSettings)
    except msgspec.ValidationError as error:
        raise _told(project, str(error)) from error
    if settings.minutes < 1:
        raise _wrong(
            project,
            f"{_TABLE}.time",
            f"`time` must be minutes or hours:minutes:seconds, not {settings.time!r}",
            f"Write {_FORMS['time']}.",
        )
    return settings


def _told(project: Project, message: str) -> UsageError:
    """The complaint of msgspec in our words."""
    if unknown := re.match(r"Object contains unknown field `(.*)`", message, re.DOTALL):
        key = unknown[1]
        hint = did_you_mean(key, SlurmSettings.__struct_fields__, "keys")
        return _wrong(project, f"{_TABLE}.{key}", f"unknown key `{key}` in [{_TABLE}]", hint)
    place = re.search(r"at `\$\.?(\w*)", message)
    key = place[1] if place else ""
    if not key:
        return _wrong(project, _TABLE, f"[{_TABLE}] must be a table", "Write keys below it.")
    what = message.partition(" - at")[0].lower()
    write = _FORMS.get(key, f'{key} = "…"')
    return _wrong(project, f"{_TABLE}.{key}", f"`{key}`: {what}", f"Write {write}.")


def _wrong(project: Project, key: str, what: str, hint: str) -> UsageError:
    """The error for a key, with the line on which it stands."""
    path, prefix = project.root / "workbench.toml", ""
    if not path.exists():
        path, prefix = project.root / "pyproject.toml", "tool.workbench."
    lines = _lines(path)
    key = prefix + key
    while key not in lines and "." in key:
        key = key.rpartition(".")[0]
    return UsageError(f"{path.name}:{lines.get(key, 1)}: {what}", hint)


def _lines(path: Path) -> dict[str, int]:
    try:
        return key_lines(read_regular(path, SETTINGS).decode())
    except (OSError, UnicodeDecodeError):
        return {}
