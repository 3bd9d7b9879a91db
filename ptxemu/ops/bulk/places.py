"""Operands that must point into shared memory, the thread's own block's or its cluster's.

An address of the cluster window has the block's rank plus one in its upper byte, so that an
address of a block's own shared memory is one of the cluster window as it stands, as on the
chip.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import Fault
from ptxemu.faults.words import who
from ptxemu.ptx.instructions import Instr, Operand
from ptxemu.state.context import Context, Registers
from ptxemu.state.lanes import Lanes, Mask
from ptxemu.state.spaces import RESERVED, SHARED_WINDOW, WINDOW
from ptxemu.state.values import Array, unsigned

Ints = NDArray[np.int64]
#: Where the rank of a block stands in an address of the cluster window.
RANK = 24
_OFFSET = (1 << RANK) - 1


class Spots(NamedTuple):
    """Where active lanes point to in shared memory, one entry a lane.

    Attributes:
        row: The lane's own block in the batch.
        thread: Its number in the block.
        owner: The block in the batch whose memory it is.
        address: Bytes from the start of that memory.
    """

    row: Ints
    thread: Ints
    owner: Ints
    address: Ints


def owner_of(lanes: Lanes, row: Array, address: Array) -> tuple[Array, Array]:
    """The blocks that addresses of the cluster window belong to, and the addresses there."""
    rank, size = address >> RANK, lanes.geometry.blocks_of_cluster
    first = row // size * size
    owner = np.where(rank == 0, row, first + rank - 1)
    return np.where(rank > size, -1, owner), address & _OFFSET


def lanes_of(R: Registers, slot: int, size: int, M: Mask, lanes: Lanes) -> Array:
    """A register's value in each active lane, in the order of blocks and threads."""
    whole = np.broadcast_to(unsigned(R[slot], size), lanes.shape)
    return whole.reshape(-1) if M.arr is None else whole[M.arr]


Fetch = Callable[[Registers, Mask], Spots]


def shared_operand(
    instr: Instr, ctx: Context, operand: Operand, width: int = 0, align: int = 1
) -> Fetch:
    """What finds the spots that an operand points to.

    Args:
        instr: For messages.
        ctx: The kernel's context.
        operand: An address, generic or of shared memory.
        width: Bytes that must lie inside; 0: whoever asks checks them.
        align: What the address must be a multiple of.

    Raises:
        Fault: (when it runs) a lane points elsewhere.
    """
    slot, offset, known = ctx.address(operand)
    base = getattr(operand, "base", None)
    size = 4 if known == "shared" or base is None else ctx.size(base, 8)
    rt = ctx.rt

    def find(R: Registers, M: Mask) -> Spots:
        lanes = rt.lanes
        row, thread = np.nonzero(lanes.full(M))
        raw = lanes_of(R, slot, size, M, lanes).astype(np.int64) + offset
        inside = (raw >= SHARED_WINDOW) & (raw < SHARED_WINDOW + WINDOW)
        raw = np.where(inside, raw - SHARED_WINDOW, raw)
        owner, address = owner_of(lanes, row, raw)
        spots = Spots(row, thread, owner, address)
        check_spots(instr, ctx, spots, width, align)
        return spots

    return find


def check_spots(
    instr: Instr, ctx: Context, spots: Spots, width: int | Array, align: int = 1
) -> None:
    """Raise where `width` bytes from a spot on do not lie in its block's shared memory."""
    _, _, owner, address = spots
    out = (owner < 0) | (address < RESERVED) | (address + width > ctx.rt.shared_limit)
    crooked = (owner >= 0) & (address % align != 0)
    bad = out | crooked
    if not bad.any():
        return
    at = int(np.argmax(bad))
    place = ctx.variable_at("shared", int(address[at]))
    does = f"{who(ctx.rt.lanes, int(spots.row[at]), int(spots.thread[at]))} points to {place}"
    if crooked[at]:
        raise Fault(
            f"{ctx.where(instr)}: misaligned access: {does}, which is not a multiple of {align}",
            f"`{instr.op}` needs an address aligned to {align} bytes: use __align__.",
        )
    raise Fault(
        f"{ctx.where(instr)}: out of bounds: {does}, outside of the block's "
        f"{max(ctx.rt.shared_limit - RESERVED, 0)} bytes of shared memory",
        "Check the index against the array's size, and that the address is of shared memory.",
    )


def ended(ctx: Context, instr: Instr, spots: Spots, at: int) -> Fault:
    """The error for a spot in the shared memory of a block all of whose threads have ended."""
    lane = who(ctx.rt.lanes, int(spots.row[at]), int(spots.thread[at]))
    rank = int(spots.owner[at]) % ctx.rt.lanes.geometry.blocks_of_cluster
    return Fault(
        f"{ctx.where(instr)}: shared memory of a block that has exited: {lane} accesses that of "
        f"rank {rank}",
        "A block whose shared memory others use must wait for its cluster before it exits.",
    )
