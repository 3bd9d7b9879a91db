"""A launch's instructions as shown, and a hunk's on both sides of a step.

`Listing` has the operations, costs and live registers of instructions.

A register is live while its value is still needed, by the classic backward data flow over blocks
(Aho, Lam, Sethi and Ullman, *Compilers*, 9.2.5), on general registers. A conditional write keeps
the old value. The result is the pressure of this code, at most the number that the compiler
allocated: alignment and calls may need more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

from workbench.analysis.aggregate import LADDER, Recent
from workbench.analysis.blame import UNITS, Account, blame_launch
from workbench.analysis.code import Flow, KernelCode, code_of, issues
from workbench.analysis.placing import Placing
from workbench.analysis.source.lines import align
from workbench.counters import Reading, read
from workbench.model import Launch, Number, Profile, Record
from workbench.sass import UNIFORM, SassOp, role, shape

#: ``R255`` is ``RZ``; wide groups next to it are not.
_MASK = (1 << UNIFORM) - 1


class Listing:
    """A launch's instructions, read once: operations, liveness, blame by row."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.code = code_of(launch)
        self.operations = self.code.operations
        self.issued = issues(launch.instructions)
        self.live = _live(self.code)
        self.account: Account = blame_launch(launch)
        duration = read(launch, "duration")
        seconds = float(duration.value) if isinstance(duration, Reading) else 0.0
        per_sample = seconds / max(1, self.account.samples)
        self.seconds: dict[int, float] = {
            row: sum(states.values()) / UNITS * per_sample
            for row, states in self.account.units().items()
        }


#: For the latest launches: a version is the new side of one step and the old one of others.
listing_of = Recent(Listing, most=4)


@lru_cache(maxsize=LADDER)
def _live(code: KernelCode) -> list[int]:
    return live_registers(code.operations, code.flow)


def live_registers(operations: Sequence[SassOp], flow: Flow) -> list[int]:
    """Row -> general registers that are live while it runs, including its own results."""
    reads = [_bits(operation.reads) for operation in operations]
    writes = [_bits(operation.writes) for operation in operations]
    kept = [0 if o.conditional else w for o, w in zip(operations, writes, strict=True)]
    live_in = [0] * len(flow.first)
    waiting = list(range(len(flow.first)))
    while waiting:
        block = waiting.pop()
        live = _out(flow, block, live_in)
        for row in range(flow.last[block], flow.first[block] - 1, -1):
            live = live & ~kept[row] | reads[row]
        if live != live_in[block]:
            live_in[block] = live
            waiting += flow.predecessors[block]
    counts = [0] * len(operations)
    for block in range(len(flow.first)):
        live = _out(flow, block, live_in)
        for row in range(flow.last[block], flow.first[block] - 1, -1):
            before = live & ~kept[row] | reads[row]
            counts[row] = max((live | writes[row]).bit_count(), before.bit_count())
            live = before
    return counts


def _out(flow: Flow, block: int, live_in: Sequence[int]) -> int:
    live = 0
    for after in flow.successors[block]:
        live |= live_in[after]
    return live


def _bits(registers: Sequence[int]) -> int:
    bits = 0
    for register in registers:
        bits |= 1 << register
    return bits & _MASK


# --- Machine code of a hunk on both sides: classes of opcodes, and instructions aligned ----------
#
# Instructions match if their opcodes are alike and they depend on matching instructions: the key
# of an instruction is its own shape with the shapes of its operands' writers. Instructions between
# two matches are paired by role, so that an ``LDS.128`` is seen to replace ``LDS``.

#: The most instructions of a side to align one by one; if there are more, only classes are shown.
_ALIGNED = 3000
#: The shape of an operand's writer counts within this many instructions.
_NEAR = 64
#: Roles whose change of opcode is shown; changes of integers and moves mean nothing.
_TOLD = frozenset(
    {"global load", "global store", "shared load", "shared store", "local memory", "atomic"}
    | {"product", "floating point"}
)


class CodeSide(Record, frozen=True):
    """One side: instructions, how often they were issued, seconds of blame, live registers."""

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
    """Instructions of one class that replace another class of the same role on the old side."""

    old: str
    new: str
    rows: int


class CodeDiff(Record, frozen=True):
    """A hunk's machine code on both sides.

    `classes` come with those that differ most first. `rows` are (old row, new row), None if one
    side has no counterpart; empty if there are too many to align.
    """

    kernel: str
    old: CodeSide
    new: CodeSide
    classes: tuple[CodeClass, ...]
    replaced: tuple[StandIn, ...]
    rows: tuple[tuple[int | None, int | None], ...]


class HunkCode(Record, frozen=True):
    """The machine code of one hunk (its own lines, and those that it links).

    `rows` are its rows of the `listings` on both sides; `launches` are their positions in
    their profiles.
    """

    hunk: int
    code: CodeDiff
    rows: tuple[tuple[int, ...], tuple[int, ...]]
    listings: tuple[Listing, Listing]
    launches: tuple[int, int]


def compare_code(
    old: Listing, new: Listing, rows_old: Sequence[int], rows_new: Sequence[int]
) -> CodeDiff:
    """Compare ascending rows of one launch's instruction table with rows of another's."""
    few = max(len(rows_old), len(rows_new)) <= _ALIGNED
    pairs, replaced = (
        _aligned(old.code, new.code, tuple(rows_old), tuple(rows_new)) if few else ((), ())
    )
    return CodeDiff(
        kernel=new.launch.kernel,
        old=_sums(old, rows_old),
        new=_sums(new, rows_new),
        classes=_classes(old, new, rows_old, rows_new),
        replaced=replaced,
        rows=pairs,
    )


def _sums(listing: Listing, rows: Sequence[int]) -> CodeSide:
    return CodeSide(
        instructions=len(rows),
        executed=sum(listing.issued.get(row, 0) for row in rows),
        seconds=sum(listing.seconds.get(row, 0.0) for row in rows),
        live=max((listing.live[row] for row in rows), default=0),
    )


#: Code -> row -> its key for likeness.
_keys_of: WeakKeyDictionary[KernelCode, dict[int, Hashable]] = WeakKeyDictionary()


def _key(code: KernelCode, row: int) -> Hashable:
    """The shape of an instruction and those of its operands' writers."""
    keys = _keys_of.setdefault(code, {})
    known = keys.get(row)
    if known is None:
        operation = code.operations[row]
        writers = code.slices.writers(row, operation.reads, _NEAR)
        near = {shape(code.operations[source.row]) for source in writers}
        known = keys[row] = shape(operation), tuple(sorted(near))
    return known


def _classes(
    old: Listing, new: Listing, rows_old: Sequence[int], rows_new: Sequence[int]
) -> tuple[CodeClass, ...]:
    found: dict[str, str] = {}
    sums: list[dict[str, list[float]]] = [defaultdict(lambda: [0, 0, 0.0]) for _ in range(2)]
    for listing, rows, side in ((old, rows_old, sums[0]), (new, rows_new, sums[1])):
        for row in rows:
            name = shape(listing.operations[row])
            found.setdefault(name, role(listing.operations[row]))
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
    by_name = sorted(classes, key=lambda one: one.name)
    return tuple(
        sorted(by_name, key=lambda c: (-abs(c.new[2] - c.old[2]), -abs(c.new[1] - c.old[1])))
    )


_Rows = tuple[tuple[int | None, int | None], ...]


@lru_cache(maxsize=256)
def _aligned(
    old: KernelCode, new: KernelCode, rows_old: tuple[int, ...], rows_new: tuple[int, ...]
) -> tuple[_Rows, tuple[StandIn, ...]]:
    """Alike instructions in order, between them those with the same role; and the replacements."""
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


def hunk_codes(old: Profile, new: Profile, placing: Placing | None = None) -> tuple[HunkCode, ...]:
    """The machine code of every hunk that has any, kernel by kernel.

    `placing`: the placement of their lines, if already computed.
    """
    placing = placing or Placing(old, new)
    out: list[HunkCode] = []
    seen: set[str] = set()
    for pair in placing.launches:
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
            code = compare_code(*sides, *rows[hunk])
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
