"""How many machine instructions each PTX instruction becomes, by ptxas's habits.

PTX is not what runs. Address casts and most moves vanish, a product goes into the
addition after it, a short branch becomes predicates, division is a routine, and every
kernel starts with instructions that PTX does not have: the stack pointer, the memory
descriptor, parameters and the window of shared memory are loaded from constant memory.
The weights below are those habits, read off machine code of compute capability 8.0 and
9.0; `docs/emulator-rules.md` says how near they come. Everything that follows from addresses
is counted without them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from workbench.emulator.program import Program
from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import (
    ControlFlow,
    arguments,
    results,
    varying,
    walk,
)
from workbench.emulator.ptx.instructions import SIZES, Addr, Imm, Instr, Operand, Reg, Sym, Variable
from workbench.emulator.ptxas.constants import joined_blocks, loads
from workbench.emulator.ptxas.divergence import exits, fences, hammocks
from workbench.emulator.ptxas.folding import ADDS, LOGIC, WIDE, WORDS, Names, folded, literal
from workbench.emulator.ptxas.fragments import awaited, fragments
from workbench.emulator.ptxas.operands import taken
from workbench.emulator.ptxas.predicates import spills
from workbench.emulator.ptxas.registers import (
    bases_of_atomics,
    copies,
    gathered,
    overwritten,
    stored_literals,
    unpacked,
    wide_literals,
)
from workbench.emulator.ptxas.sequences import RECIPROCAL, ROUTINES, sequence
from workbench.emulator.ptxas.unrolling import unrolled
from workbench.emulator.ptxas.words import WideWords

#: What puts the lanes of a warp together that add (or the like) to one word: which lanes there
#: are, the first of them, their values joined, and the test for the lane that goes.
_TOGETHER = 7.0
#: The same where each lane wants the word's value before its own turn: it knows its number among
#: the lanes that add one value, or (all lanes being there) scans what the lanes before it add.
_NUMBERED, _SCANNED = 10.0, 23.0
#: Loads of shared memory under a predicate that is never true, before the copies of a block.
_BEFORE_COPIES = 3.0
_JOINED = frozenset(("add", "min", "max", "and", "or", "xor"))


class Weights:
    """Machine instructions for each execution of a PTX instruction.

    Args:
        graph: The kernel.
        joined: `workbench.emulator.cost.joined.merged` of it.
        params: Its parameters, in order; none: their loads are not counted.
        spaces: State space of each variable that it names.
        target: The architecture that the PTX names, such as ``sm_90``.
        registers: PTX type of each register; of one that is not there: 32 bits.
    """

    def __init__(
        self,
        graph: ControlFlow,
        joined: dict[int, int],
        params: Sequence[Variable] = (),
        spaces: Mapping[str, str] | None = None,
        target: str = "sm_90",
        registers: Mapping[str, str] | None = None,
    ) -> None:
        digits = "".join(c for c in target if c.isdigit())
        #: Since compute capability 9.0 constants are loaded before they are used.
        self._loads_constants = int(digits or 90) >= 90
        self._joined = joined
        self._graph = graph
        blocks = graph.ordered
        self._names = Names(blocks)
        self._folded = folded(blocks, self._names, self._loads_constants)
        self._taken = taken(blocks, self._names, self._folded)
        self._words = WideWords(blocks, self._names)
        self._copies = copies(graph)
        self._overwritten = overwritten(graph, self._names, self._folded)
        self._differing = varying(blocks)
        self._divided: dict[object, set[tuple[Operand, ...]]] = defaultdict(set)
        self._of: dict[int, float] = {
            id(instr): self._plain(instr, block) for block, instr in walk(blocks)
        }
        #: Machine instructions for each lane that comes to an instruction, by ``id``: a loop's.
        self.by_lane = _lane_loops(blocks, self._differing, registers or {})
        predicated = dict(
            hammocks(
                graph,
                lambda block: sum(
                    math.inf if id(each) in self.by_lane else self._of[id(each)]
                    for each in block.instrs
                ),
            )
        )
        #: Block -> the block whose warps issue its instructions.
        self.host = {inner: outer for outer, inner in predicated.items()}
        fenced = fences(graph, self._differing, predicated)
        #: Branches, by ``id``, of whose parts each comes to a BSYNC of its own accord.
        self.parting = {id(graph.blocks[index].last) for index in fenced}
        for block in blocks:
            if block.last is not None and block.kind == "branch":
                # BSSY, the branch and, where the warp comes together again, BSYNC.
                weight = 3.0 if fenced.get(block.index) else 1.0
                self._of[id(block.last)] = 0.0 if block.index in predicated else weight
        extra = (
            fragments(graph, self.host, self._names), gathered(graph), stored_literals(graph),
            wide_literals(graph), unpacked(graph, self._names),
            bases_of_atomics(graph, self._names, self._differing),
        )  # fmt: skip
        for place, more in (item for each in extra for item in each.items()):
            self._of[place] += more
        for place in awaited(graph, self.host):
            self._of[place] += 1.0
        for place in _first_copies(graph, self.host):
            self._of[place] += _BEFORE_COPIES
        never, once = exits(blocks)
        for place in never:
            self._of[place] = 0.0
        for place in once:
            self._of[place] += 1.0
        #: Loops that ptxas unrolls: how often their own instructions run is known after a launch.
        self.unrolled = unrolled(
            graph,
            joined_blocks(graph, self.host),
            self.host,
            lambda block: sum(self._of[id(each)] for each in block.every),
        )
        self._prologue(blocks, params, spaces or {})
        for place, moves in spills(graph, self.host).items():
            self._of[place] += moves

    @classmethod
    def of(cls, program: Program) -> Weights:
        """Those of a kernel as it was compiled for a launch."""
        spaces = {name: space for name, (space, _) in program.ctx.symbols.items()}
        flat = program.flat
        merged = program.ctx.merged
        return cls(program.graph, merged, flat.params, spaces, flat.target, flat.registers)

    def __getitem__(self, instr: Instr) -> float:
        """The weight of one instruction of the graph."""
        return self._of[id(instr)]

    # --- what PTX does not have

    def _prologue(
        self, blocks: list[BasicBlock], params: Sequence[Variable], spaces: Mapping[str, str]
    ) -> None:
        """Loads that every kernel makes before its own work, charged to where they belong."""
        start = next((instr for _, instr in walk(blocks)), None)
        if start is None:
            return
        self._of[id(start)] += 1.0  # the stack pointer, whether used or not
        if any(_is_global(instr) for _, instr in walk(blocks)):
            self._of[id(start)] += 1.0  # the descriptor of global memory
        if not self._loads_constants:
            return
        for instr in loads(self._graph, params, self.host):
            self._of[id(instr)] += 1.0
        seen: set[str] = set()
        for block, instr in walk(blocks):
            for name in _symbols(instr):
                space = spaces.get(name, "")
                if space == "shared" and block.index in self.host:
                    self._of[id(instr)] += 3.0  # made anew under its predicate
                    continue
                if name in seen:
                    continue
                if space == "shared":
                    # The window's place in the cluster, once; then an offset and a shift.
                    first = not any(spaces[known] == "shared" for known in seen)
                    self._of[id(instr)] += 3.0 if first else 2.0
                elif space in ("global", "const"):
                    self._of[id(instr)] += 1.0  # its address lies in constant memory
                else:
                    continue
                seen.add(name)

    # --- single instructions

    def _plain(self, instr: Instr, block: BasicBlock) -> float:
        op, kind = instr.op, instr.parts[-1]
        if self._joined.get(id(instr)) == 0 or op in ("cvta", "pragma"):
            return 0.0
        if op == "ld" and instr.parts[1] == "param":
            return 0.0
        if id(instr) in self._taken:
            return self._taken[id(instr)]
        if op == "mov":
            return self._move(instr)
        if op == "cvt" and (self._loaded_narrow(instr) or _cuts(instr)):
            return 0.0
        if op == "and" and self._masked_already(instr):
            return 0.0
        if op == "cvt" and "tf32" in instr.parts:
            # Half a bit added unless it is infinite (in another register where the value is needed
            # as well), and the rest cut off.
            source = instr.operands[1]
            return 4.0 if isinstance(source, Reg) and self._names.uses[source.name] > 1 else 3.0
        if op == "bra":
            return 0.0 if instr.guard is None else 1.0
        if op in (*LOGIC, "not") and kind == "pred":
            return 0.0 if op == "not" or self._in_comparison(instr) else 1.0
        if id(instr) in self._folded or id(instr) in self._overwritten:
            return 0.0
        words = self._words.weight(instr)
        if words is not None:
            return words
        if op in ADDS and kind in WIDE:
            return self._wide_add(instr)
        if op == "add" and kind in WORDS and literal(instr) and self._only_addresses(instr):
            return 0.0  # becomes the offset in the address
        if op == "wmma":
            return 0.0  # see `fragments`
        if op == "cp" and "wait_all" in instr.parts:
            return 2.0
        if op in ("div", "rem") and kind in ("s32", "u32"):
            return self._division(instr, self._divided[block.loops])
        several = sequence(instr)
        if several is not None:
            return several
        if op in ("atom", "red"):
            return 1.0 + self._together(instr)
        return 1.0

    def _together(self, instr: Instr) -> float:
        """What a warp does more that goes to one known word for all of its lanes."""
        place = instr.operands[1 if instr.op == "atom" else 0]
        base = place.base if isinstance(place, Addr) else None
        known = instr.parts[-1] in ("u32", "s32", "b32") and not _JOINED.isdisjoint(instr.parts)
        if not known or (isinstance(base, Reg) and base.name in self._differing):
            return 0.0
        value = instr.operands[-1]
        if any(self._names.uses[name] for name in results(instr)):
            if "add" not in instr.parts:
                return 0.0
            same = not (isinstance(value, Reg) and value.name in self._differing)
            return _NUMBERED if same else _SCANNED
        only = self._names.makers[value.name] if isinstance(value, Reg) else []
        one = only[0].operands[1] if len(only) == 1 and only[0].op == "mov" else value
        # Ones are counted by the memory itself (ATOMS.POPC.INC).
        counts = {"shared", "add"} <= set(instr.parts) and one == Imm(1)
        return 0.0 if counts else _TOGETHER

    def _only_addresses(self, instr: Instr) -> bool:
        """Is the result used as the base of addresses, and for nothing else?"""
        name = results(instr)[0]
        users = self._names.users[name]
        bases = [
            operand
            for user in users
            for operand in user.operands
            if isinstance(operand, Addr) and operand.base == Reg(name)
        ]
        return bool(users) and len(bases) == len(users) == self._names.uses[name]

    def _loaded_narrow(self, instr: Instr) -> bool:
        """A load of one or two bytes widens them by itself."""
        source = instr.operands[1]
        makers = self._names.makers[source.name] if isinstance(source, Reg) else []
        kind = instr.parts[-1]
        return (
            kind in ("u16", "u8", "s16", "s8")
            # The upper half of 64 bits is a register that is zero.
            and instr.parts[-2] in ("u32", "s32", *WIDE[: 2 * (kind[0] == "u")])
            and bool(makers)
            and all(maker.op == "ld" and maker.parts[-1][0] == kind[0] for maker in makers)
        )

    def _masked_already(self, instr: Instr) -> bool:
        """Is what it cuts off zero, for a load of one or two bytes has left it so?"""
        source, mask = instr.operands[1:3]
        sizes = [size for size in (1, 2) if mask == Imm(256**size - 1)]
        while sizes and isinstance(source, Reg):
            made = self._names.makers[source.name]
            if len(made) != 1 or made[0].op not in ("cvt", "ld"):
                return False
            if made[0].op == "ld":  # of a vector, bytes are taken out of a word
                kind, alone = made[0].parts[-1], isinstance(made[0].operands[0], Reg)
                return alone and SIZES.get(kind, 8) <= sizes[0] and kind[0] != "s"
            source = made[0].operands[1]
        return False

    def _division(self, instr: Instr, seen: set[tuple[Operand, ...]]) -> float:
        """The reciprocal of a divisor is found once a loop; a remainder follows a quotient."""
        first, second = instr.operands[1:3]
        again, pair = (second,) in seen, (first, second) in seen
        seen |= {(second,), (first, second)}
        if pair:
            return 2.0
        whole = ROUTINES[instr.op, instr.parts[-1]]
        return whole - RECIPROCAL[instr.parts[-1]] if again else whole

    def _in_comparison(self, instr: Instr) -> bool:
        """Predicates are combined by the comparison that makes one of them for this alone."""
        names = [name for name in arguments(instr) if self._names.uses[name] == 1]
        return any(maker.op == "setp" for name in names for maker in self._names.makers[name])

    def _move(self, instr: Instr) -> float:
        source = instr.operands[1]
        if (
            isinstance(source, Reg)
            and source.name.startswith("%")
            and not self._names.makers.get(source.name)
        ):
            return 0.0 if self._loads_constants else 1.0  # a special register
        if id(instr) in self._copies:
            return self._copies[id(instr)]
        return 0.0 if isinstance(source, Sym) else 1.0

    def _wide_add(self, instr: Instr) -> float:
        if literal(instr):
            return 0.0 if self._only_addresses(instr) else 2.0  # becomes the offset there
        makers = [
            maker
            for operand in instr.operands[1:]
            if isinstance(operand, Reg)
            for maker in self._names.makers[operand.name]
        ]
        wide = any(id(maker) in self._folded and maker.op == "mul" for maker in makers)
        return 1.0 if wide else 2.0  # one IMAD.WIDE, or two halves


def _cuts(instr: Instr) -> bool:
    """Does a conversion only leave out upper bits? The lower register has the rest."""
    kinds = instr.parts[-2:]
    whole = all(kind[0] in "us" for kind in kinds) and "sat" not in instr.parts
    return whole and SIZES.get(kinds[0], 0) < SIZES.get(kinds[1], 0)


def _is_global(instr: Instr) -> bool:
    if instr.op in ("ld", "st", "atom", "red"):
        return not any(
            p.split("::")[0] in ("shared", "local", "param", "const") for p in instr.parts[1:]
        )
    return instr.op in ("cp", "wmma") and len(instr.operands) > 1


def _symbols(instr: Instr) -> list[str]:
    """Variables whose address an instruction takes."""
    out = []
    for operand in instr.operands:
        if isinstance(operand, Addr) and isinstance(operand.base, Sym):
            out.append(operand.base.name)
        elif isinstance(operand, Sym) and instr.op == "mov":
            out.append(operand.name)
    return out


def _first_copies(graph: ControlFlow, host: Mapping[int, int]) -> list[int]:
    """The first copy to shared memory (LDGSTS) of each block of machine code, by ``id``."""
    first = joined_blocks(graph, host)
    out: dict[int, int] = {}
    for block, instr in walk(graph.ordered):
        if (
            instr.parts[:2] == ("cp", "async")
            and "global" in instr.parts
            and "bulk" not in instr.parts
        ):
            out.setdefault(first[host.get(block.index, block.index)], id(instr))
    return list(out.values())


def _lane_loops(
    blocks: list[BasicBlock], differing: set[str], registers: Mapping[str, str]
) -> dict[int, float]:
    """Bulk copies whose operands may differ between lanes: instructions of one lane's turn.

    Such a copy takes its operands from uniform registers, so ptxas puts a loop over the lanes
    around it (read off ptxas 13.0). What may be done once for equal lanes compares each word
    (PLOP3, R2UR) and closes with PLOP3, the copy and BRA.U.ANY; reductions, and copies that an
    mbarrier counts, elect one lane after another (ELECT, R2UR of each word, two PLOP3).
    """
    out: dict[int, float] = {}
    for _, instr in walk(blocks):
        if instr.op != "cp" or "bulk" not in instr.parts:
            continue
        kinds = [registers.get(name, "b32") for name in arguments(instr) if name in differing]
        words = sum(max(1, SIZES[kind] // 4) for kind in kinds if kind != "pred")
        if words:
            counted = "reduce" in instr.parts or "mbarrier::complete_tx::bytes" in instr.parts
            out[id(instr)] = 5.0 + words if counted else 3.0 + 2.0 * words
    return out
