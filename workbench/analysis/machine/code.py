"""Machine code of a hunk on both sides: classes of opcodes, and instructions aligned.

Instructions are alike where their opcode is and where they depend on alike ones: the key of an
instruction is its own shape with the shapes of what writes its operands. What stands between
two alike ones is paired by role, so that an ``LDS.128`` is seen to stand in for ``LDS``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from functools import lru_cache

from workbench.analysis.aggregate import pair_launches
from workbench.analysis.blame.kernel import KernelCode
from workbench.analysis.blame.queues import pipe
from workbench.analysis.blame.sass import MachineOp
from workbench.analysis.machine.listing import Listing, listing_of
from workbench.analysis.source.alignment import align
from workbench.analysis.source.files import SourceDiff, compare_sources
from workbench.analysis.split.placing import Placing
from workbench.model import Number, Profile, Record

#: Instructions of one side that are aligned one by one; of more, classes alone are told.
_ALIGNED = 3000
#: Instructions back to which the shape of an operand's writer counts.
_NEAR = 64
_ROLES = {
    **dict.fromkeys(["LDG", "LD"], "global load"),
    **dict.fromkeys(["STG", "ST"], "global store"),
    **dict.fromkeys(["LDS", "LDSM"], "shared load"),
    # A copy takes the place of the store that filled shared memory.
    **dict.fromkeys(["STS", "STSM", "LDGSTS", "UTMALDG", "UBLKCP"], "shared store"),
    **dict.fromkeys(["LDL", "STL"], "local memory"),
    **dict.fromkeys(["LDC", "ULDC"], "constant load"),
    **dict.fromkeys(["ATOM", "ATOMG", "ATOMS", "RED", "REDG"], "atomic"),
    # A product of matrices takes the place of products of numbers.
    **dict.fromkeys(["FFMA", "FFMA2", "HFMA2", "DFMA", "IDP"], "product"),
    **dict.fromkeys(["FADD", "FMUL", "HADD2", "HMUL2", "DADD", "DMUL"], "floating point"),
    **dict.fromkeys(["BAR", "DEPBAR", "LDGDEPBAR", "SYNCS", "WARPSYNC"], "synchronization"),
    **dict.fromkeys(["BRA", "EXIT", "BSSY", "BSYNC", "CALL", "RET"], "control"),
    **dict.fromkeys(["MUFU", "F2I", "I2F", "F2F", "F2FP", "I2FP"], "conversion"),
    **dict.fromkeys(["MOV", "UMOV", "CS2R"], "move"),
}
#: Roles whose change of opcode is worth a word; integers and moves come and go as they please.
_TOLD = frozenset(
    {"global load", "global store", "shared load", "shared store", "local memory", "atomic"}
    | {"product", "floating point"}
)
_MEMORY = frozenset(
    """
    LD LDG ST STG LDS STS LDSM STSM LDL STL LDC ULDC LDGSTS
    """.split()  # noqa: SIM905
)
_WIDTHS = frozenset({"8", "16", "64", "128", "U8", "S8", "U16", "S16", "M88", "2", "4", "BYPASS"})


class CodeSide(Record, frozen=True):
    """One side: instructions, how often they were issued, seconds of blame, registers live."""

    instructions: int
    executed: Number
    seconds: float
    live: int


class CodeClass(Record, frozen=True):
    """One opcode with its width on both sides: (instructions, issued, seconds of blame)."""

    name: str
    role: str
    old: tuple[int, Number, float]
    new: tuple[int, Number, float]


class StandIn(Record, frozen=True):
    """Instructions of one class where the old side had another of the same role."""

    old: str
    new: str
    rows: int


class MachineDiff(Record, frozen=True):
    """A hunk's machine code on both sides.

    `classes` have those that differ most first. `rows` are (old row, new row), None where
    one side has no counterpart; empty where there are too many to align.
    """

    kernel: str
    old: CodeSide
    new: CodeSide
    classes: tuple[CodeClass, ...]
    replaced: tuple[StandIn, ...]
    rows: tuple[tuple[int | None, int | None], ...]


class HunkCode(Record, frozen=True):
    """What the compiler made of one hunk (its own lines, and those that it links).

    `rows` are its rows of the `listings` on both sides; `launches` are their positions in
    their profiles.
    """

    hunk: int
    code: MachineDiff
    rows: tuple[tuple[int, ...], tuple[int, ...]]
    listings: tuple[Listing, Listing]
    launches: tuple[int, int]


@lru_cache(maxsize=1 << 14)
def shape(operation: MachineOp) -> str:
    """The opcode with what decides how much it does: ``LDS.128``, ``HMMA.16816.F32``."""
    if operation.opcode in _MEMORY:
        parts = operation.name.split(".")[1:]
        return ".".join([operation.opcode, *(part for part in parts if part in _WIDTHS)])
    if operation.opcode.endswith("MMA") or operation.opcode in ("MUFU", "IDP"):
        return operation.name
    if operation.name.startswith(("IMAD.MOV", "IMAD.WIDE")):
        return ".".join(operation.name.split(".")[:2])
    return operation.opcode


@lru_cache(maxsize=1 << 14)
def role(operation: MachineOp) -> str:
    """What an instruction is there for: ``shared load``, ``product``, ``integer`` or another."""
    if operation.name.startswith(("IMAD.MOV", "HFMA2.MMA")) and "RZ" in operation.operands:
        return "move"
    if operation.opcode.endswith("MMA"):
        return "product"
    known = _ROLES.get(operation.opcode)
    if known is not None:
        return known
    return "integer" if pipe(operation.opcode) in ("ALU", "FMA", "uniform") else "other"


@lru_cache(maxsize=24)
def _kinds(code: KernelCode) -> tuple[list[str], list[str]]:
    """The shape of every instruction, and its role."""
    return [shape(one) for one in code.operations], [role(one) for one in code.operations]


def machine_code(
    old: Listing, new: Listing, rows_old: Sequence[int], rows_new: Sequence[int]
) -> MachineDiff:
    """What stands on some rows of one launch, and on some of another.

    Args:
        old: The launch before.
        new: The launch after.
        rows_old: Rows of the old instruction table, ascending.
        rows_new: Rows of the new one.
    """
    few = max(len(rows_old), len(rows_new)) <= _ALIGNED
    pairs, replaced = (
        _aligned(old.code, new.code, tuple(rows_old), tuple(rows_new)) if few else ((), ())
    )
    return MachineDiff(
        kernel=new.launch.kernel,
        old=_sums(old, rows_old),
        new=_sums(new, rows_new),
        classes=_classes(old, new, rows_old, rows_new),
        replaced=replaced,
        rows=pairs,
    )


def _sums(listing: Listing, rows: Sequence[int]) -> CodeSide:
    """Sums over some rows."""
    return CodeSide(
        instructions=len(rows),
        executed=sum(listing.issued.get(row, 0) for row in rows),
        seconds=sum(listing.seconds.get(row, 0.0) for row in rows),
        live=max((listing.live[row] for row in rows), default=0),
    )


def _key(code: KernelCode, row: int) -> Hashable:
    """The shape of an instruction and those of what writes its operands."""
    known = code.keys.get(row)
    if known is None:
        operation = code.operations[row]
        writers = code.slices.writers(row, operation.reads, _NEAR)
        names, _ = _kinds(code)
        near = {names[source.row] for source in writers}
        known = code.keys[row] = names[row], tuple(sorted(near))
    return known


def _classes(
    old: Listing, new: Listing, rows_old: Sequence[int], rows_new: Sequence[int]
) -> tuple[CodeClass, ...]:
    found: dict[str, str] = {}
    sums: list[dict[str, list[float]]] = [defaultdict(lambda: [0, 0, 0.0]) for _ in range(2)]
    for listing, rows, side in ((old, rows_old, sums[0]), (new, rows_new, sums[1])):
        names, roles = _kinds(listing.code)
        for row in rows:
            name = names[row]
            if name not in found:
                found[name] = roles[row]
            one = side[name]
            one[0] += 1
            one[1] += listing.issued.get(row, 0)
            one[2] += listing.seconds.get(row, 0.0)
    classes = []
    for name in found:
        (a, b, c), (x, y, z) = (side.get(name, [0, 0, 0.0]) for side in sums)
        classes.append(
            CodeClass(name=name, role=found[name], old=(int(a), b, c), new=(int(x), y, z))
        )
    return tuple(sorted(classes, key=_by_change))


def _by_change(one: CodeClass) -> tuple[float, float, str]:
    return -abs(one.new[2] - one.old[2]), -abs(one.new[1] - one.old[1]), one.name


_Rows = tuple[tuple[int | None, int | None], ...]


@lru_cache(maxsize=256)
def _aligned(
    old: KernelCode, new: KernelCode, rows_old: tuple[int, ...], rows_new: tuple[int, ...]
) -> tuple[_Rows, tuple[StandIn, ...]]:
    """Alike instructions in order, between them those of one role; and what stands in for what."""
    keys_old, keys_new = [_key(old, row) for row in rows_old], [_key(new, row) for row in rows_new]
    anchors = align(keys_old, keys_new, {})
    out: list[tuple[int | None, int | None]] = []
    i = j = 0
    for a, b in [*anchors, (len(rows_old), len(rows_new))]:
        out += _by_role(old, new, rows_old[i:a], rows_new[j:b])
        if a < len(rows_old):
            out.append((rows_old[a], rows_new[b]))
        i, j = a + 1, b + 1
    return tuple(out), _replaced(old, new, out)


def _replaced(
    old: KernelCode, new: KernelCode, pairs: Sequence[tuple[int | None, int | None]]
) -> tuple[StandIn, ...]:
    replaced: Counter[tuple[str, str]] = Counter()
    for a, b in pairs:
        if a is not None and b is not None:
            names = shape(old.operations[a]), shape(new.operations[b])
            told = role(old.operations[a]) in _TOLD
            replaced[names] += told and names[0] != names[1]
    return tuple(
        StandIn(old=a, new=b, rows=count)
        for (a, b), count in sorted(replaced.items(), key=lambda item: (-item[1], item[0]))
        if count
    )


def _by_role(
    old: KernelCode, new: KernelCode, rows_old: Sequence[int], rows_new: Sequence[int]
) -> list[tuple[int | None, int | None]]:
    waiting: dict[str, list[int]] = defaultdict(list)
    for row in rows_new:
        waiting[role(new.operations[row])].append(row)
    out: list[tuple[int | None, int | None]] = []
    for row in rows_old:
        same = waiting[role(old.operations[row])]
        out.append((row, same.pop(0) if same else None))
    left = sorted(row for rows in waiting.values() for row in rows)
    return [*out, *((None, row) for row in left)]


def hunk_codes(
    old: Profile,
    new: Profile,
    diff: SourceDiff | None = None,
    placing: Placing | None = None,
) -> tuple[HunkCode, ...]:
    """The machine code of every hunk that has any, kernel by kernel.

    Args:
        old: The old profile.
        new: The new profile.
        diff: Their sources compared, if that was done already.
        placing: Their lines placed, likewise.
    """
    pairs = pair_launches(old.launches, new.launches)
    if diff is None:
        diff = compare_sources(old, new, pairs)
    if placing is None:
        placing = Placing(old, new, diff, pairs)
    out: list[HunkCode] = []
    seen: set[str] = set()
    for pair in pairs:
        if pair.old is None or pair.new is None or pair.kernel in seen:
            continue
        seen.add(pair.kernel)
        sides = listing_of(old.launches[pair.old]), listing_of(new.launches[pair.new])
        if not all(side.account.known for side in sides):
            continue
        rows: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, launch in ((0, pair.old), (1, pair.new)):
            for row, place in enumerate(placing.rows(side, launch)):
                key = placing.placed[place].key
                if len(key.hunks) == 1 and key.link in ("hunk", "symbol"):
                    rows[key.hunks[0]][side].append(row)
        for hunk in sorted(rows):
            code = machine_code(*sides, *rows[hunk])
            out.append(
                HunkCode(
                    hunk=hunk,
                    code=code,
                    rows=(tuple(rows[hunk][0]), tuple(rows[hunk][1])),
                    listings=sides,
                    launches=(pair.old, pair.new),
                )
            )
    return tuple(out)
