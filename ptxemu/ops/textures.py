"""``tex``: read texels at coordinates, the nearest or interpolated (`ptxemu.texture`).

How a coordinate becomes texels follows "Texture Fetching" of the CUDA C++ Programming Guide; how
the weights of several axes are combined, and how sums of integers are rounded, was measured on an
H200 (`tests/data/textures.npz`). A fetch's requests to L1 and L2 are not documented: only its
executions are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ptxemu.faults.watching import check_written
from ptxemu.faults.words import first_lane, who
from ptxemu.ops.access import items_of
from ptxemu.ptx.instructions import Addr, Instr, Operand, Vec
from ptxemu.state.context import Bound, CodeSite, Context, Registers, Run, put, writes_itself
from ptxemu.state.lanes import Mask
from ptxemu.state.values import Array, Ints, narrow, signed, single, unsigned
from ptxemu.texture import CHANNELS, Addressing, Texture

#: Steps of a weight: it has 9 bits, 8 of them after the point, so that 1 is exact.
_STEPS = 256
#: Beyond any axis: coordinates are clamped to this, so that they fit into an integer.
_FAR = 2.0**40
_AXES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2}
#: The resolution of sums of integers that are read as numbers, by the sign of their type.
_UNSIGNED, _SIGNED = 65_535, 32_767
#: A texel along one axis, or along all axes: its place, and whether it exists.
_Place = tuple[Ints, Array]


def fetch(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """A fetch of the texture that a register names.

    Raises:
        Unsupported: a cube or sparse texture, gradients, or a texture that is a symbol.
    """
    axes = next((_AXES[part] for part in instr.parts if part in _AXES), 0)
    goal, source = instr.operands[0], instr.operands[1]
    gives, takes = instr.parts[-2:]
    plain = {"tex", "level", "base", "v4", *_AXES, gives, takes}
    known = plain.issuperset(instr.parts) and gives in ("f32", "s32", "u32")
    if not (axes and known and takes in ("f32", "s32") and isinstance(source, Vec)):
        raise ctx.unsupported(instr)
    # A texture without mipmaps always uses its first level, whichever is requested.
    if len(instr.operands) != 2 + ("level" in instr.parts):
        raise ctx.unsupported(instr, "with offsets")
    handle, *rest = source.items
    if not isinstance(handle, Addr) or len(rest) != 1 or not isinstance(goal, Vec):
        raise ctx.unsupported(instr)
    slot, _, space = ctx.address(handle)
    if space:
        raise ctx.unsupported(instr, "a texture that is not an argument")
    layered = not {"a1d", "a2d"}.isdisjoint(instr.parts)
    first, *indices = items_of(rest[0])
    indices = indices if layered else [first, *indices]
    layer = [ctx.slot(first, 4)] if layered else []
    coordinates = [ctx.slot(each, 4, takes) for each in indices[:axes]]
    targets = [ctx.target(each) for each in goal.items]
    wanted = _wanted(goal.items, ctx)
    site.space, site.width = "texture", 0
    rt = ctx.rt

    @writes_itself
    def run(R: Registers, M: Mask) -> None:
        at = tuple(
            single(R[each]) if takes == "f32" else signed(R[each], 4) for each in coordinates
        ) + tuple(unsigned(R[each], 4) for each in layer)
        handles = unsigned(R[slot], 8)
        on = rt.lanes.full(M)
        for each in np.unique(np.broadcast_to(handles, on.shape)[on]).tolist():
            inner = M if handles.size == 1 else rt.lanes.within(M, handles == each)
            inner.partial = M.partial or inner is not M
            bound = ctx.textures.get(each)
            wrong = _refused(bound, axes, gives, takes, wanted, layered=layered)
            if wrong is not None:
                row, thread = first_lane(rt.lanes, on & (handles == each))
                what, hint = wrong
                raise ctx.fault(
                    instr, "other", f"{who(rt.lanes, row, thread)} fetches {what}", hint
                )
            assert bound is not None
            site.width = bound.texture.texel
            for target, value in zip(targets, _fetched(bound, at, gives, ctx, site, inner),
                                     strict=False):  # fmt: skip
                put(R, inner, target, value, 4)

    return run


def _wanted(items: tuple[Operand, ...], ctx: Context) -> int:
    """The number of channels (of four) up to the last that is read."""
    names = [getattr(each, "name", "") for each in items]
    return max((n for n, name in enumerate(names, 1) if name in ctx.read), default=0)


def _refused(
    bound: Bound | None, axes: int, gives: str, takes: str, wanted: int, *, layered: bool
) -> tuple[str, str] | None:
    """The message and hint for an invalid fetch; None if it is valid."""
    if bound is None:
        return (
            "from no texture of this launch",
            "Pass a texture object whose memory exists: a `TextureArgument`.",
        )
    texture, name = bound.texture, bound.name
    if layered != bool(texture.layers):
        has, other = ("no layers", "") if layered else (f"{texture.layers} layers", "Layered")
        return (
            f"from the texture over {name}, which has {has}",
            f"Read it with tex{len(texture.dims)}D{other}.",
        )
    if axes != len(texture.dims):
        return (
            f"at {axes} coordinates from the texture over {name}, which has {len(texture.dims)}",
            f"Read it with tex{len(texture.dims)}D, or give its `dims` as the kernel reads it.",
        )
    if axes == 1 and (takes == "s32") != (texture.layout == "linear"):
        has, read, other = (
            ("linear memory", "tex1Dfetch", "array")
            if texture.layout == "linear"
            else ("an array", "tex1D", "linear")
        )
        return (
            f"from the texture over {name}, which is of {has}: only {read} reads that",
            f'Read it with {read}, or write layout = "{other}".',
        )
    if (gives == "f32") != texture.floating:
        kind = "floating-point numbers" if gives == "f32" else "integers"
        integers = CHANNELS[texture.dtype][1]
        way = 'read = "float"' if gives == "f32" and integers else "the `dtype` that it reads"
        return (
            f"{kind} from the texture of {texture.dtype} over {name}",
            f"Give the texture {way}, or fetch its own type in the kernel.",
        )
    if wanted > texture.channels:
        return (
            f"{wanted} channels from the texture over {name}, which has {texture.channels}",
            f"Give it channels = {wanted if wanted != 3 else 4}, or read fewer in the kernel.",
        )
    return None


def _fetched(
    bound: Bound, at: tuple[Array, ...], gives: str, ctx: Context, site: CodeSite, M: Mask
) -> Iterator[Array]:
    """The channels of the texels at coordinates, one after the other."""
    rt, texture = ctx.rt, bound.texture
    size = CHANNELS[texture.dtype][0]
    taps = list(_taps(texture, at))
    for channel in range(texture.channels):
        total: Array | None = None
        for byte, inside, weight in taps:
            first = bound.start + byte + channel * size
            _look(ctx, site, first, inside, M)
            memory = rt.arena.view(np.dtype(texture.dtype))
            value = np.where(inside, _number(texture, memory[first // size]), 0)
            part = value if weight is None else value * weight
            total = part if total is None else total + part
        assert total is not None
        if weight is not None:
            total = total / _STEPS
        if texture.as_float:
            grain = _grain(texture)
            total = (total if weight is None else np.floor(total + 0.5)) / grain
            # Signed texels reach below -1 (-128 of 127): they are not clamped, but their sum is.
            total = np.maximum(total, -1)
        if gives == "f32":
            yield narrow(np.atleast_2d(total).astype(np.float64))
        else:
            yield np.atleast_2d(total).astype(np.int64).astype(np.uint32)


def _look(ctx: Context, site: CodeSite, first: Ints, inside: Array, M: Mask) -> None:
    """Note the addresses read, and check that they were written."""
    rt, lanes = ctx.rt, ctx.rt.lanes
    if rt.arena.written is not None:
        bad = lanes.full(M) & inside & (rt.arena.written[first] == 0)
        if bad.any():
            check_written(ctx, site, bad, first + rt.arena.base)
    if rt.origins is not None:
        rt.origins.touch("load", "global", first, site.width, M)


def _grain(texture: Texture) -> int:
    """The unit of an integer while it is weighted; its own size without filtering."""
    if texture.filter == "point":
        return CHANNELS[texture.dtype][1]
    return _UNSIGNED if texture.dtype.startswith("u") else _SIGNED


def _number(texture: Texture, texels: Array) -> Array:
    """Channels in the form in which they are weighted: float64, or the integers themselves."""
    if not texture.floating:
        return texels
    wide = texels.astype(np.float64)
    if not texture.as_float:
        return wide
    most, grain = CHANNELS[texture.dtype][1], _grain(texture)
    return wide * grain / most


def _taps(texture: Texture, at: tuple[Array, ...]) -> Iterator[tuple[Ints, Array, Ints | None]]:
    """The texels that fetches read: their bytes in the texture, whether inside, and weights."""
    rows = texture.dims[1] if len(texture.dims) > 1 else 1
    steps = (texture.texel, texture.row, texture.row * rows)
    axes = [_along(texture, axis, each) for axis, each in enumerate(at[: len(texture.dims)])]
    # The layer follows the coordinates; beyond the last one a chip takes the last.
    layer = sum(np.minimum(each, max(texture.layers, 1) - 1) for each in at[len(axes) :])
    start = np.asarray(layer, np.int64) * (texture.row * rows) + np.zeros((1, 1), np.int64)
    weights = _weights([share for _, share in axes if share is not None])
    for chosen in product(*(range(len(places)) for places, _ in axes)):
        byte, inside = start, np.ones((1, 1), np.bool_)
        for number, (places, _), step in zip(chosen, axes, steps, strict=False):
            index, there = places[number]
            byte, inside = byte + index * step, inside & there
        yield byte, inside, weights.get(chosen)


def _weights(shares: list[Ints]) -> dict[tuple[int, ...], Ints]:
    """The weights of 2, 4 or 8 texels, in units of 1/256, from the shares of the upper ones.

    A chip keeps 8 bits of each product, and all weights add up to 256: it divides them along z,
    then along x, where halves go to the upper texel, and then along y, where they go up at the
    upper x and down at the lower one. This was measured, in two and three axes without exception.
    """
    if not shares:
        return {}
    x, y, z = [*shares, None, None][:3]
    assert x is not None
    found: dict[tuple[int, ...], Ints] = {}
    for front, depth in ((0, _STEPS - z), (1, z)) if z is not None else ((0, _STEPS),):
        right = (x * depth + _STEPS // 2) // _STEPS
        for side, both in ((0, depth - right), (1, right)):
            if y is None:
                found[side,] = both
                continue
            upper = (both * y + _STEPS // 2 - 1 + side) // _STEPS
            for row, weight in ((0, both - upper), (1, upper)):
                found[(side, row) if z is None else (side, row, front)] = weight
    return found


def _along(texture: Texture, axis: int, at: Array) -> tuple[list[_Place], Ints | None]:
    """The texels along one axis, and for two the share of the upper one, in units of 1/256."""
    size, mode = texture.dims[axis], texture.modes[axis]
    if at.dtype.kind == "i":
        # Outside linear memory a fetch returns 0, whatever the mode.
        mode = "border" if texture.layout == "linear" else mode
        return [_placed(at.astype(np.int64), size, mode)], None
    place = at.astype(np.float64)
    place = np.where(np.isfinite(place), place, 0.0)
    if texture.normalized:
        place = (place - np.floor(place) if mode == "wrap" else place) * size
    place = np.clip(place, -_FAR, _FAR)
    if texture.filter == "point":
        return [_placed(np.floor(place).astype(np.int64), size, mode)], None
    # Beyond its middle only the last texel is used; otherwise two copies would share weights.
    place = np.clip(place, 0.5, size - 0.5) if mode == "clamp" else place
    steps = np.floor((place - 0.5) * _STEPS + 0.5).astype(np.int64)
    low = steps // _STEPS
    return [_placed(low, size, mode), _placed(low + 1, size, mode)], steps % _STEPS


def _placed(index: Ints, size: int, mode: Addressing) -> tuple[Ints, Array]:
    """Texels by their places, which may be outside, and whether they exist."""
    inside = (index >= 0) & (index < size)
    if mode == "border":
        return np.clip(index, 0, size - 1), inside
    if mode == "wrap":
        index = index % size
    elif mode == "mirror":
        index = index % (2 * size)
        index = np.where(index < size, index, 2 * size - 1 - index)
    return np.clip(index, 0, size - 1), np.ones_like(inside)
