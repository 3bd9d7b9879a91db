"""``[[tensor_map]]``: descriptors of tensors for the copy engine, settled for one problem.

A tensor map is passed to a kernel by its name, as a ``const __grid_constant__ CUtensorMap``. What
the driver would refuse is refused here, at the line that says it.
"""

from __future__ import annotations

import itertools
import operator

from workbench.errors import UsageError, did_you_mean
from workbench.model import Problem, Record
from workbench.specs import TensorMapSpec, Version
from workbench.study.scope import Key, Scope
from workbench.study.tensormap import ELEMENT_BYTES, DescriptorError, Im2col, TensorMap

#: The keys that only an im2col map has.
_OF_PIXELS = ("lower", "upper", "channels", "pixels")


class TensorMapArg(Record, frozen=True, tag="tensor_map"):
    """The descriptor of a tensor in a buffer; `where` is its place in the front matter."""

    buffer: str
    map: TensorMap
    where: str = ""

    def check(self, size: int) -> None:
        """Refuse a tensor that reaches beyond its buffer of `size` bytes.

        Raises:
            UsageError: it does.
        """
        if self.map.extent > size:
            raise UsageError(
                f"{self.where}: the tensor reaches over {self.map.extent:,} bytes, but buffer "
                f"`{self.buffer}` has {size:,}",
                "Correct `dims`, `strides` or `dtype`; the innermost axis comes first.",
            )


def resolve_tensor_maps(
    study: Scope, version: Version, problem: Problem
) -> dict[str, TensorMapArg]:
    """A version's tensor maps for one problem, by name.

    Raises:
        UsageError: an unknown buffer, a name that a buffer or parameter has, or values that the
            driver would refuse; at the key's line.
    """
    if not version.tensor_maps:
        return {}
    names, buffers = study.names(version, problem), study.buffer_names(version)
    found: dict[str, TensorMapArg] = {}
    for index, spec in enumerate(version.tensor_maps):
        key = f"tensor_map[{index}]"
        (name,), (buffer,) = spec["name"], spec["buffer"]
        if name in buffers or name in names:
            raise Key(version, f"{key}.name").error(
                f"the name `{name}` is taken",
                "Buffers, parameters and maps must all have different names.",
            )
        if buffer not in buffers:
            raise Key(version, f"{key}.buffer").error(
                f"unknown buffer `{buffer}`", did_you_mean(buffer, buffers, "buffers")
            )
        values = {
            each: tuple(Key(version, f"{key}.{each}").value(text, names) for text in texts)
            for each, texts in spec.items()
            if each not in ("name", "buffer", "dtype", "fill")
        }
        try:
            described = _described(spec, values)
        except DescriptorError as error:
            # Strides that were not said follow from the axes.
            fault = error.key if spec.get(error.key) or error.key != "strides" else "dims"
            raise Key(version, f"{key}.{fault}").error(
                f"{error.message} (problem {problem.name})", error.hint
            ) from None
        where = Key(version, f"{key}.dims").where
        found[name] = TensorMapArg(buffer=buffer, map=described, where=where)
    return found


def _described(spec: TensorMapSpec, values: dict[str, tuple[int, ...]]) -> TensorMap:
    (dtype,), (fill,) = spec["dtype"], spec["fill"]
    dims = values["dims"]
    packed = itertools.accumulate(dims[:-1], operator.mul, initial=ELEMENT_BYTES[dtype])
    pixels = None
    if any(values.get(each) for each in _OF_PIXELS):
        for each in _OF_PIXELS:
            if not values.get(each):
                raise DescriptorError(each, f"an im2col map needs `{each}`")
        (channels,), (count,) = values["channels"], values["pixels"]
        pixels = Im2col(values["lower"], values["upper"], channels, count)
    return TensorMap(
        dtype=dtype,
        dims=dims,
        strides=values["strides"] or tuple(packed)[1:],
        box=values["box"],
        element_strides=values["element_strides"],
        swizzle=values["swizzle"][0],  # type: ignore[arg-type] # the rules refuse others
        interleave=values["interleave"][0],  # type: ignore[arg-type]
        fill_nan=fill == "nan",
        im2col=pixels,
        l2_promotion=values["l2_promotion"][0],  # type: ignore[arg-type]
    )
