"""Launches of a run, kept with their memory: `new --from-cu` makes a study from them.

One launch of each kernel is kept: its arguments, and every allocation and variable that it can
reach, before and after. Addresses are found by value: in arguments and variables, and in the first
MiB of each reached allocation.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ptxemu
from workbench.programs.standin.callsites import place_of, pointer_name
from workbench.programs.standin.device import ARENA, EmulatedDevice, LaunchAsked
from workbench.programs.standin.modules import LoadedModule
from workbench.study.lifted import (
    LiftedArgument,
    LiftedBuffer,
    LiftedLaunch,
    LiftedPointer,
    LiftedTexture,
    RecordedLaunch,
)
from workbench.study.mangling import demangled, own_name

#: The most bytes of memory to keep for a launch.
LIMIT = 1 << 30
_SCANNED, _WORD = 1 << 20, 8
_UNFIT = re.compile(r"[^A-Za-z0-9_]+")
_KINDS: dict[str, Literal["device", "managed", "host"]] = {
    "device": "device", "array": "device", "managed": "managed", "pinned": "host",
    "mapped": "host",
}  # fmt: skip


_OF_TEXTURE = (
    "dtype", "dims", "channels", "pitch", "layout", "address", "filter", "normalized",
)  # fmt: skip


class _Reached(NamedTuple):
    """Memory that a launch can reach."""

    start: int
    size: int
    kind: Literal["device", "managed", "host", "symbol"]
    name: str
    symbol: str | None


@dataclass(slots=True)
class LaunchRecorder:
    """Keeps the first launch of each kernel that is not too large, if launches are `wanted`.

    `left`: kernels without a kept launch, and why.
    """

    wanted: bool
    kept: dict[str, RecordedLaunch] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def __call__(
        self, device: EmulatedDevice, asked: LaunchAsked, module: LoadedModule
    ) -> Iterator[None]:
        """Record memory before a launch and after it."""
        if not self.wanted or asked.kernel in self.kept:
            yield
            return
        reached = list(_reached(device, asked, module))
        size = sum(each.size for each in reached)
        if size > LIMIT:
            most = max(reached, key=lambda each: each.size)
            self._leave(
                asked.kernel,
                f"its launch reaches {size:,} bytes ({most.name}: {most.size:,}), but only up "
                f"to {LIMIT:,} are kept",
            )
            yield
            return
        self._leave(asked.kernel, "its launch did not end")
        launches, faults = device.state.launches, device.state.found
        known = launches.count, len(faults.all)
        before = [_content(device, each) for each in reached]
        masks = [_written(device, each) for each in reached]
        found = [None if mask is None else bool(mask.any()) for mask in masks]
        yield
        if known == (launches.count, len(faults.all)):
            self._leave(asked.kernel, "its launch failed; `workbench run` says why")
            return
        after = [_content(device, each) for each in reached]
        # Gaps that the launch left in unwritten memory have no value.
        filled = [
            has if has or mask is None or mask.all() else None
            for has, mask in zip(found, masks, strict=True)
        ]
        recorded = _recorded(device, asked, module, reached, before, after, filled)
        self.kept[asked.kernel] = recorded._replace(stored=sum(map(_stored, device.rows)))
        del self.left[asked.kernel]

    def _leave(self, kernel: str, why: str) -> None:
        self.left[kernel] = why


def _content(device: EmulatedDevice, each: _Reached) -> bytes:
    start = each.start - device.base
    return device.data[start : start + each.size].tobytes()


def _written(device: EmulatedDevice, each: _Reached) -> NDArray[np.uint8] | None:
    """True for bytes that were written; None: writes are not watched."""
    start = each.start - device.base
    return None if device.written is None else device.written[start : start + each.size]


def _stored(row: ptxemu.Executed) -> float:
    """The most bytes that the threads of an instruction may have stored."""
    site, op = row.site, row.instr.op
    if row.copied and op != "tex":  # a bulk copy, in either direction
        return math.inf
    if not (site.store and row.warps) or site.space in ("shared", "local"):
        return 0
    return row.on * site.width if op in ("st", "atom", "red") else math.inf


def _handles(device: EmulatedDevice, data: bytes) -> list[int]:
    """Textures among the words of arguments."""
    words = np.frombuffer(data[: len(data) // _WORD * _WORD], np.uint64)
    return [int(word) for word in words if int(word) in device.textures]


def _textures(
    device: EmulatedDevice, arguments: Sequence[LiftedArgument], reached: Sequence[_Reached]
) -> Iterator[LiftedTexture]:
    """The textures that are arguments, if they cover a whole kept buffer."""
    for argument in arguments:
        for handle in _handles(device, argument.data):
            texture, address = device.textures[handle]
            over = next((each for each in reached if each.start == address), None)
            if over is not None and not texture.layers and argument.size == _WORD:
                same = {name: getattr(texture, name) for name in _OF_TEXTURE}
                read: Literal["float", "element"] = "float" if texture.as_float else "element"
                yield LiftedTexture(argument=argument.index, buffer=over.name, read=read, **same)


def _reached(
    device: EmulatedDevice, asked: LaunchAsked, module: LoadedModule
) -> Iterator[_Reached]:
    """Variables of the module, and allocations that they, arguments or memory point to."""
    memory, names = device.memories[asked.module], dict[str, int]()
    texels = [device.textures[handle][1] for handle in _handles(device, asked.parameters)]
    waiting = [asked.parameters, np.array(texels, np.uint64).tobytes()]
    for symbol, size in module.module.variables.items():
        found = _Reached(memory.address(symbol), size, "symbol", own_name(symbol), symbol)
        waiting.append(_content(device, found._replace(size=min(size, _SCANNED))))
        yield found._replace(name=_unique(found.name, names))
    seen: set[int] = set()
    while waiting:
        for _, address in _words(waiting.pop(), device.base, device.base + ARENA):
            allocation = device.holding(address)
            if allocation is None or allocation.start in seen:
                continue
            seen.add(allocation.start)
            place = place_of(device.state.allocations[allocation.number])
            name = (pointer_name(place) if place is not None else "") or "array"
            kind = _KINDS[allocation.kind]
            found = _Reached(allocation.start, allocation.size, kind, _unique(name, names), None)
            waiting.append(_content(device, found._replace(size=min(found.size, _SCANNED))))
            yield found


def _unique(name: str, taken: dict[str, int]) -> str:
    name = _UNFIT.sub("_", name).strip("_") or "array"
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else _unique(f"{name}_{taken[name]}", taken)


def _recorded(
    device: EmulatedDevice,
    asked: LaunchAsked,
    module: LoadedModule,
    reached: Sequence[_Reached],
    before: Sequence[bytes],
    after: Sequence[bytes],
    filled: Sequence[bool | None],
) -> RecordedLaunch:
    files: dict[str, Sequence[bytes]] = {"module.ptx.zst": [module.text]}
    if module.cubin:
        files["module.cubin.zst"] = [module.cubin]
    buffers = []
    for each, old, new, full in zip(reached, before, after, filled, strict=True):
        buffer = LiftedBuffer.sealed(
            each.name,
            (sha256(old).hexdigest(), sha256(new).hexdigest()),
            address=each.start,
            size=each.size,
            kind=each.kind,
            symbol=each.symbol,
            filled=full,
        )
        buffers.append(buffer)
        files.update(zip(buffer.files, ([old], [new]), strict=False))
    kernel = module.kernel(asked.kernel)
    arguments = tuple(
        LiftedArgument(index=place, offset=at, size=size, data=asked.parameters[at : at + size])
        for place, (at, size) in enumerate(kernel.parameters)
    )
    capability = device.state.chip.capability
    launch = LiftedLaunch(
        kernel=asked.kernel,
        demangled=demangled(asked.kernel),
        grid=asked.grid,
        block=asked.block,
        dynamic_shared=asked.shared,
        cluster=asked.cluster if asked.cluster != (1, 1, 1) else None,
        cooperative=asked.cooperative,
        arguments=arguments,
        pointers=tuple(_pointers(arguments, reached, before)),
        buffers=tuple(buffers),
        textures=tuple(_textures(device, arguments, reached)),
        image="module.cubin.zst" if module.cubin else None,
        ptx="module.ptx.zst",
        capability=f"{capability // 10}.{capability % 10}",
        device=f"{device.state.chip.name} (emulated)",
        launch=1,
    )
    return RecordedLaunch(launch, files)


def _pointers(
    arguments: Sequence[LiftedArgument], reached: Sequence[_Reached], before: Sequence[bytes]
) -> Iterator[LiftedPointer]:
    """Words in arguments and memory that are addresses of kept memory."""
    for argument in arguments:
        for offset, target, into in _leading(argument.data, reached):
            yield LiftedPointer(
                offset=offset, target=target, target_offset=into, argument=argument.index
            )
    for each, content in zip(reached, before, strict=True):
        for offset, target, into in _leading(content[:_SCANNED], reached):
            yield LiftedPointer(offset=offset, target=target, target_offset=into, buffer=each.name)


def _leading(data: bytes, reached: Sequence[_Reached]) -> Iterator[tuple[int, str, int]]:
    """Offset of each address, the name of its target, and the offset in the target."""
    low = min((each.start for each in reached), default=0)
    high = max((each.start + each.size for each in reached), default=0)
    for offset, address in _words(data, low, high):
        target = next((r for r in reached if r.start <= address < r.start + r.size), None)
        if target is not None:
            yield offset, target.name, address - target.start


def _words(data: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Words of eight bytes with values from `low` to below `high`, with their offsets."""
    words = np.frombuffer(data[: len(data) // _WORD * _WORD], np.uint64)
    for place in np.flatnonzero((words >= low) & (words < high)):
        yield int(place) * _WORD, int(words[place])
