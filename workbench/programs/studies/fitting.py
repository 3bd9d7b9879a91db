"""Check that a launch does the job of a study: its inputs and outputs are the study's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt

from workbench.engines.host.buffers import compare
from workbench.errors import UsageError
from workbench.programs.studies.recordings import BufferUse
from workbench.study.folder import Study
from workbench.study.lifted import LiftedBuffer, RecordedLaunch, lifted_bytes, read_lifted
from workbench.study.parameters import KernelParameter, free_name
from workbench.study.scaffold import recorded_tables
from workbench.study.sources import read_source

#: The largest difference of floating-point results between kernels that do the same job.
_NEAR = 1e-3


class UnfitLaunchError(Exception):
    """A launch does another job; the message names the difference."""


@dataclass(frozen=True)
class JobData:
    """The inputs of a study's launch in one recording, and the outputs that it must write.

    Attributes:
        inputs: Name -> the buffer that held its content before the launch.
        outputs: Uses of buffers by name.
        content: Reads a file of the record.
    """

    inputs: Mapping[str, LiftedBuffer]
    outputs: Mapping[str, BufferUse]
    content: Callable[[str], bytes]

    @classmethod
    def of(cls, uses: Sequence[BufferUse], recorded: RecordedLaunch) -> JobData:
        """The data of the launch that a study is made from."""
        held = [(use, recorded.launch.buffer(use.buffer.name)) for use in uses]
        return cls(
            {use.given: has for use, has in held if use.role != "output" or use.restored},
            {use.name: replace(use, buffer=has) for use, has in held if use.role == "output"},
            recorded.content,
        )


def recorded_in(study: Study, folder: Path) -> list[JobData]:
    """The recordings of a study that was made from a program.

    Raises:
        UsageError: it was not made from recorded launches.
        MissingError, DataError: its data are missing or damaged.
    """
    tables = recorded_tables(read_source(folder / "study.py"))
    inputs, outputs, names = (tables.get(name) for name in ("INPUTS", "OUTPUTS", "RECORDED"))
    if not (isinstance(inputs, dict) and isinstance(outputs, dict) and isinstance(names, list)):
        raise UsageError(
            f"study {study.name} was not made from a program: nothing in it was recorded",
            "Copy the kernel into a version of it: `workbench new v1`.",
        )
    found = []
    for name in names:
        launch = read_lifted(folder / name)
        found.append(
            JobData(
                {given: launch.buffer(row[0]) for given, row in inputs.items()},
                {
                    out: BufferUse(launch.buffer(row[0]), out, row[1], "output")
                    for out, row in outputs.items()
                },
                partial(lifted_bytes, folder / name),
            )
        )
    return found


def fitted(
    asked: JobData, recorded: RecordedLaunch, parameters: Sequence[KernelParameter]
) -> tuple[list[BufferUse], float]:
    """The use of a launch's buffers as a version of the study; the difference of its results.

    Raises UnfitLaunchError: it does another job.
    """
    launch = recorded.launch
    uses: dict[str, BufferUse] = {}
    error = 0.0
    for name, want in asked.outputs.items():
        own, off = _output(name, asked, recorded, _writable(recorded, parameters) - set(uses))
        uses[own.name] = BufferUse(
            own, name, want.dtype, "output", restored=f"{name}_before" in asked.inputs
        )
        error = max(error, off)
    taken = {*asked.inputs, *asked.outputs}
    read = False
    for buffer in launch.buffers:
        if buffer.name in uses:
            continue
        same = [
            name
            for name, each in asked.inputs.items()
            if each.sha256_before == buffer.sha256_before
        ]
        given = buffer.name if buffer.name in same else same[0] if same else ""
        if buffer.kind == "symbol":
            use = BufferUse(buffer, buffer.name, role="symbol", restored=bool(given), source=given)
        elif buffer.after is not None or not (given or any(recorded.content(buffer.before))):
            name = free_name(buffer.name, taken)
            use = BufferUse(buffer, name, role="scratch", restored=bool(given), source=given)
        elif given:
            use = BufferUse(buffer, given)
        else:
            raise UnfitLaunchError(
                f"it reads {buffer.name} ({buffer.size:,} bytes), which v0 is not given"
            )
        read = read or bool(given)
        uses[buffer.name] = use
    outputs = {f"{name}_before" for name in asked.outputs}
    if not read and set(asked.inputs) - outputs:
        raise UnfitLaunchError("it reads none of the inputs of v0")
    return [uses[each.name] for each in launch.buffers], error


def _writable(recorded: RecordedLaunch, parameters: Sequence[KernelParameter]) -> set[str]:
    """Buffers that a launch changed, or may have rewritten with the same content."""
    launch = recorded.launch
    changed = {each.name for each in launch.buffers if each.after is not None}
    return changed | {
        each.target
        for each in launch.pointers
        if recorded.stored and each.argument is not None and parameters[each.argument].writable
    }


def _output(
    name: str, asked: JobData, recorded: RecordedLaunch, among: set[str]
) -> tuple[LiftedBuffer, float]:
    """The launch's buffer that holds an output after it, and the difference.

    Raises UnfitLaunchError: no such buffer.
    """
    want = asked.outputs[name]
    size = want.buffer.size
    fits = [each for each in recorded.launch.buffers if each.name in among and each.size == size]
    fits.sort(key=lambda each: (each.after is None, each.name != want.buffer.name))
    for each in fits:
        if each.sha256_after == want.buffer.sha256_after:
            return each, 0.0
    answer: npt.NDArray[np.float64] | None = None
    for each in fits:
        if not want.dtype.startswith(("float", "bfloat")):
            break
        if answer is None:
            held = asked.content(want.buffer.after or want.buffer.before)
            answer = _array(held, want.dtype).astype(np.float64)
        got = _array(recorded.content(each.after or each.before), want.dtype)
        check = compare({name: got}, {name: answer}, _NEAR, special=True)
        if check.ok and check.error is not None:
            return each, check.error
    if not fits:
        raise UnfitLaunchError(f"it writes no array of {size:,} bytes, as {name} of v0 is")
    raise UnfitLaunchError(f"its output is not v0's {name}")


def _array(data: bytes, dtype: str) -> npt.NDArray[np.generic]:
    return np.frombuffer(data, np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype))
