"""What buffers and symbols hold before the first launch: ``[[fill]]``, settled for one problem.

A fill writes one of the version's own buffers (outputs, scratch) or a ``__constant__`` or
``__device__`` variable of its code. Any other name is taken for such a variable; whether the
build has it is known only to what runs the version.
"""

from __future__ import annotations

import re
from typing import Protocol

from workbench.errors import did_you_mean
from workbench.model import Problem, Record
from workbench.specs import FillSpec, Version
from workbench.study.launches import is_float
from workbench.study.scope import Key, Scope

_INTEGER = re.compile(r"(u?)int(\d+)\Z")


class ResolvedFill(Record, frozen=True):
    """A fill with its values evaluated.

    `input` names the input that is copied; empty: `values` of type `dtype` are repeated, the
    last repetition cut where the memory ends. They are numbers as text, because some cross
    the border to the worker that JSON has not (infinities). `where` is the place in the front
    matter.
    """

    name: str
    symbol: bool
    input: str = ""
    dtype: str = ""
    values: tuple[str, ...] = ()
    where: str = ""


class FillScope(Scope, Protocol):
    """What resolving needs of a `workbench.study.folder.Study` beyond a `Scope`."""

    input_names: tuple[str, ...]

    def outputs(self, problem: Problem) -> dict[str, tuple[tuple[int, ...], str]]:
        """Name -> shape and dtype of each output."""
        ...


def resolve_fills(study: FillScope, version: Version, problem: Problem) -> tuple[ResolvedFill, ...]:
    """A version's fills for one problem.

    Raises:
        UsageError: an input is to be filled, or copied under a name that no input has; a
            value that the type does not hold; at the key's line.
    """
    if not version.fills:
        return ()
    names = study.names(version, problem)
    types = {name: dtype for name, (_, dtype) in study.outputs(problem).items()}
    types |= {each.name: each.dtype for each in version.scratch}
    return tuple(
        _resolved(study, version, index, types, names) for index in range(len(version.fills))
    )


def _resolved(
    study: FillScope, version: Version, index: int, types: dict[str, str], names: dict[str, int]
) -> ResolvedFill:
    spec = version.fills[index]
    name, value, source = (
        Key(version, f"fill[{index}].{key}") for key in ("name", "value", "input")
    )
    if spec.name in study.input_names:
        raise name.error(
            f"`{spec.name}` is an input, which study.py fills",
            "Fill an output, a scratch buffer, or a __constant__ or __device__ variable.",
        )
    if spec.input and spec.input not in study.input_names:
        raise source.error(
            f"unknown input `{spec.input}`", did_you_mean(spec.input, study.input_names, "inputs")
        )
    dtype = _dtype(spec, types, name) if spec.values else ""
    return ResolvedFill(
        name=spec.name,
        symbol=spec.name not in types,
        input=spec.input,
        dtype=dtype,
        values=tuple(_number(value, text, dtype, names) for text in spec.values),
        where=name.where,
    )


def _dtype(spec: FillSpec, types: dict[str, str], key: Key) -> str:
    """The type of the values: the buffer's own, or the one said for a variable of the code."""
    own = types.get(spec.name, "")
    if own and spec.dtype not in ("", own):
        raise key.error(f"`{spec.name}` holds {own}, not {spec.dtype}", "Leave `dtype` out.")
    if not (dtype := own or spec.dtype):
        raise key.error(
            f"`{spec.name}` is not a buffer, and the type of its value is not given",
            f'Add dtype = "float32" for a variable of the code. '
            f"{did_you_mean(spec.name, sorted(types), 'buffers')}",
        )
    return dtype


def _number(key: Key, text: str, dtype: str, names: dict[str, int]) -> str:
    integer = _INTEGER.match(dtype)
    if is_float(text):
        if integer:
            raise key.error(f"value {text} is no {dtype}", "Write it without a point.")
        return text
    number = key.value(text, names)
    if not integer:
        return str(number)
    bits = int(integer[2])
    low, high = (0, 2**bits - 1) if integer[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not low <= number <= high:
        raise key.error(f"value {number} is more than {dtype} holds", f"From {low} to {high}.")
    return str(number)
