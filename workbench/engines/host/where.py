"""Where a version runs: on the GPU here, or behind a launcher."""

from __future__ import annotations

import shlex

from workbench.engines.host import presence
from workbench.errors import UsageError
from workbench.model import Record


class Where(Record, frozen=True):
    """Where and for how long the worker may run.

    `launcher` stands before every command (``srun --gres=gpu:1``); `arch` is what
    versions are compiled for.
    """

    arch: str
    launcher: tuple[str, ...] = ()
    timeout_s: float = 300.0


def choose_where(
    launcher: str = "", arch: str = "", timeout_s: float = 300.0, *, known: bool = False
) -> Where:
    """Settle where to run before anything is compiled.

    Args:
        launcher: Command to put before every other, split as a shell would.
        arch: What to compile for; empty: what the GPU here needs.
        timeout_s: Time limit of one worker, in seconds.
        known: Nothing will be run here (``--dry-run``): `arch` is enough.

    Raises:
        MissingError: no GPU, no PyCUDA, and something is to be run here.
        UsageError: a launcher that is no command; or no `arch`, and no GPU here to read
            it from.
    """
    try:
        words = tuple(shlex.split(launcher))
    except ValueError as error:
        raise UsageError(
            f"--launcher {launcher!r} cannot be split into words: {error}", "Check its quotes."
        ) from error
    if not words and not known:
        gpu = presence.need_gpu()
        presence.need_pycuda()
        return Where(arch=arch or presence.arch_of(gpu), timeout_s=timeout_s)
    if not arch:
        found, _ = presence.find_gpus()
        if not found:
            raise UsageError(
                "--launcher reaches a GPU that cannot be asked from here"
                if words
                else "no GPU is here to ask what to compile for",
                "Say what to compile for, for example --arch sm_90 for H100 and H200.",
            )
        arch = presence.arch_of(found[0])
    return Where(arch=arch, launcher=words, timeout_s=timeout_s)
