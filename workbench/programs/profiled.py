"""A block of a script, captured: ``with wb.profiled("softmax") as seen:``.

The script runs again from its beginning, under the tracer and under ncu, which record only the
launches in this block. Since 2026.2.1, ncu can attach to a running process if its library was
loaded there before CUDA. That would avoid the second run, and work in a notebook. It is not used:
docs/api.md says why.
"""

from __future__ import annotations

import builtins
import os
import sys
from contextlib import ContextDecorator
from pathlib import Path

import nvtx

from workbench.errors import UsageError
from workbench.programs.capture.capture_store import check_name, find_shelf
from workbench.programs.capture.launch_choice import Wish
from workbench.programs.capture.survey import Invocation
from workbench.programs.capture.taking import Order, take
from workbench.session.targets import Target, resolve
from workbench.session.workspace import Workspace

#: Environment variables that are set in a profiled process, by us or by a loaded tool.
_AGAIN, _INJECTED = "WORKBENCH_PROFILED", "CUDA_INJECTION64_PATH"
_DOMAIN = "workbench"


class ProfiledBlock(ContextDecorator):
    """The result of `profiled`: a context, or a decorator of a function.

    Attributes:
        name: The name of the capture and of the NVTX range (in the domain ``workbench``).
        target: The capture, as `Session.show` returns it; None before the block has ended, after a
            failure, and in the profiled process.
    """

    def __init__(self, name: str) -> None:
        self.name = check_name(name)
        self.target: Target | None = None

    def __enter__(self) -> ProfiledBlock:
        if not self._looked_at and self.target is None:
            self._command = _command_line()
        nvtx.push_range(self.name, domain=_DOMAIN)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        nvtx.pop_range(domain=_DOMAIN)
        if kind is None and not self._looked_at and self.target is None:
            self.target = self._captured()

    @property
    def _looked_at(self) -> bool:
        return _AGAIN in os.environ or _INJECTED in os.environ

    def _captured(self) -> Target:
        """Capture another run of the same script, restricted to this block."""
        place = Workspace()
        order = Order(
            invocation=Invocation(command=self._command, folder=Path.cwd()),
            wish=Wish(nvtx=f"{_DOMAIN}@{self.name}"),
            name=self.name,
        )
        sys.stdout.flush()
        os.environ[_AGAIN] = self.name
        try:
            take(order, find_shelf(place.start), lambda _: None)
        finally:
            del os.environ[_AGAIN]
        (found,) = resolve(place, (f"@{self.name}",))
        return found


def _command_line() -> tuple[str, ...]:
    """The command line that started this process.

    Raises UsageError: the process is interactive, and cannot be run again.
    """
    if hasattr(builtins, "get_ipython") or hasattr(sys, "ps1") or sys.flags.interactive:
        raise UsageError(
            "wb.profiled runs its script again, but a notebook or a prompt has no script",
            "Write the block into a file (in a notebook: %%writefile bench.py), and run it: "
            "`python bench.py`; then wb.Session().show('@NAME') here has what was captured.",
        )
    return tuple(sys.orig_argv)


def profiled(name: str) -> ProfiledBlock:
    """``wb.profiled``: capture the kernels that a block, or a function's first call, launches.

    Args:
        name: The capture's name; ``workbench show @NAME`` shows it as well.

    Raises UsageError: an unfit name; or (when the block begins) there is no script to run again.
    When the block ends, it raises the errors of `take`.
    """
    return ProfiledBlock(name)
