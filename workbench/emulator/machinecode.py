"""How many machine instructions the PTX becomes: an estimate by ptxas's habits.

PTX is not what runs. Address casts and most moves vanish, a product goes into the
addition after it, a short branch becomes predicates, division is a routine, and every
kernel starts with instructions that PTX does not have: the stack pointer, the memory
descriptor, parameters and the window of shared memory are loaded from constant memory.
The weights below are those habits, read off machine code of compute capability 8.0 and
9.0; `docs/emulator.md` says how near they come. Everything that follows from addresses
is counted without them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from workbench.emulator.cfg import Block, Graph, arguments, results
from workbench.emulator.divergence import fenced, hammocks, varying, walk
from workbench.emulator.ir import Addr, Imm, Instr, Operand, Reg, Sym, Variable

#: Loops up to this many instructions are unrolled by ptxas, if nothing in them forbids it.
_UNROLL_BELOW = 64
_UNROLL = 4
_ROUTINES = {  # instructions of ptxas's in-line sequences, common path
    ("div", "f32"): 10.0, ("div", "f64"): 20.0, ("sqrt", "f32"): 8.0, ("sqrt", "f64"): 16.0,
    ("rcp", "f32"): 6.0, ("rcp", "f64"): 10.0, ("rem", "s32"): 22.0, ("rem", "u32"): 18.0,
    ("div", "s32"): 20.0, ("div", "u32"): 16.0, ("div", "s64"): 70.0, ("div", "u64"): 60.0,
    ("rem", "s64"): 70.0, ("rem", "u64"): 60.0,
}  # fmt: skip
_RECIPROCAL = 6.0
_ADDS = ("add", "sub")
_LOGIC = ("and", "or", "xor")
_WORDS = ("s32", "u32", "b32")
_WIDE = ("s64", "u64", "b64")
#: 64-bit integers are two registers, and most of what is done with them is done twice.
_BY_HALVES = ("mul", "mad", "shl", "shr", "setp", "selp", "min", "max", "neg", "abs", *_LOGIC)


class Weights:
    """Machine instructions for each execution of a PTX instruction.

    Args:
        graph: The kernel.
        joined: `workbench.emulator.coalesce.merged` of it.
        params: Its parameters, in order; none: their loads are not counted.
        spaces: State space of each variable that it names.
        target: The architecture that the PTX names, such as ``sm_90``.
    """

    def __init__(
        self,
        graph: Graph,
        joined: dict[int, int],
        params: Sequence[Variable] = (),
        spaces: Mapping[str, str] | None = None,
        target: str = "sm_90",
    ) -> None:
        digits = "".join(c for c in target if c.isdigit())
        #: Since compute capability 9.0 constants are loaded before they are used.
        self._loads_constants = int(digits or 90) >= 90
        self._joined = joined
        self._uses: Counter[str] = Counter()
        self._users: dict[str, list[Instr]] = defaultdict(list)
        self._makers: dict[str, list[Instr]] = defaultdict(list)
        blocks = [graph.blocks[index] for index in graph.order]
        for _, instr in walk(blocks):
            for name in arguments(instr):
                self._uses[name] += 1
                self._users[name].append(instr)
            for name in results(instr):
                self._makers[name].append(instr)
        self._absorbers = self._find_absorbed(blocks)
        predicated = dict(hammocks(graph))
        #: Block -> the block whose warps issue its instructions.
        self.host = {inner: outer for outer, inner in predicated.items()}
        self._varying = varying(blocks)
        self._of: dict[int, float] = {}
        self._divided: dict[object, set[tuple[Operand, ...]]] = defaultdict(set)
        for block in blocks:
            share = 1 / _UNROLL if self._unrolled(block) else 1.0
            for _, instr in walk([block]):
                weight = self._plain(instr, block)
                if instr is block.last and block.kind == "branch":
                    weight = 0.0 if block.index in predicated else self._branch(graph, block)
                if share < 1 and self._counts(block, instr):
                    weight *= share
                self._of[id(instr)] = weight
        self._prologue(blocks, params, spaces or {})

    def __getitem__(self, instr: Instr) -> float:
        """The weight of one instruction of the graph."""
        return self._of[id(instr)]

    # --- what PTX does not have

    def _prologue(
        self, blocks: list[Block], params: Sequence[Variable], spaces: Mapping[str, str]
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
        self._load_params(blocks, params)
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

    def _load_params(self, blocks: list[Block], params: Sequence[Variable]) -> None:
        """A parameter is one load; two neighbours of four bytes are one together."""
        place: dict[str, int] = {}
        at = 0
        for each in params:
            align = max(each.align, 1)
            at = -(-at // align) * align
            place[each.name] = at
            at += each.size
        loaded: set[int] = set()
        for _, instr in walk(blocks):
            where = instr.operands[1] if instr.op == "ld" and "param" in instr.parts else None
            if not isinstance(where, Addr) or not isinstance(where.base, Sym):
                continue
            word = (place.get(where.base.name, 0) + where.offset) // 8
            if word not in loaded:
                loaded.add(word)
                self._of[id(instr)] += 1.0

    # --- what becomes part of something else

    def _find_absorbed(self, blocks: list[Block]) -> set[int]:
        """Instructions that all of their users take with them.

        A product or shift goes into each addition of it (IMAD, LEA), an addition or
        logic operation with one user into a three-operand one (IADD3, LOP3); no user
        takes more than one.
        """
        taken: set[int] = set()
        absorbed: set[int] = set()
        for kinds in (("mul", "shl", "shr"), ("cvt",), _ADDS, _LOGIC):
            for _, instr in walk(blocks):
                if instr.op not in kinds or instr.guard is not None:
                    continue
                users = self._absorbers_of(instr)
                if users and not any(id(user) in taken for user in users):
                    absorbed.add(id(instr))
                    if instr.op != "cvt":
                        taken.update(id(user) for user in users)
        return absorbed

    def _absorbers_of(self, instr: Instr) -> list[Instr]:
        """The users that can take an instruction with them; none if one cannot."""
        names = results(instr)
        if len(names) != 1 or len(self._makers[names[0]]) != 1:
            return []
        users = self._users[names[0]]
        kind = instr.parts[-1]
        if self._uses[names[0]] != len(users):
            return []
        if instr.op == "cvt":
            fits = kind in ("s32", "u32") and len(users) == 1
            return users if fits and users[0].op in ("mul", "add", "shl", "mad") else []
        if instr.op == "shr" and (kind != "u32" or not isinstance(instr.operands[2], Imm)):
            return []
        if instr.op == "shl" and not isinstance(instr.operands[2], Imm):
            return []
        if instr.op == "mul" and instr.parts[1] not in ("wide", "lo"):
            return []
        if instr.op in ("mul", "shl", "shr"):
            wide = instr.parts[1] == "wide" or kind in _WIDE
            wanted = ("s64", "u64") if wide else ("s32", "u32")
            if kind in _WIDE and instr.op != "shl":
                return []
            fits = all(
                user.op == "add" and user.parts[-1] in wanted and not _literal(user)
                for user in users
            )
            return users if fits else []
        if len(users) != 1 or kind not in _WORDS:
            return []
        user = users[0]
        if instr.op in _ADDS:
            fits = user.op in _ADDS and user.parts[-1] in _WORDS and "cc" not in user.parts
            return users if fits and not _literal(instr) else []
        fits = user.op in _LOGIC or (user.op == "setp" and _zero(user.operands[-1]))
        return users if fits else []

    def _branch(self, graph: Graph, block: Block) -> float:
        """A branch that may part a warp is fenced by BSSY and, where it ends, BSYNC."""
        return 3.0 if fenced(graph, block, self._varying) else 1.0

    # --- loops

    def _unrolled(self, block: Block) -> bool:
        """A loop of one block without barriers, not marked ``nounroll``."""
        return (
            block.kind == "branch"
            and block.index in block.targets
            and len(block.instrs) <= _UNROLL_BELOW
            and not block.nounroll
        )

    def _counts(self, block: Block, instr: Instr) -> bool:
        """Loop overhead: steps of a register by a literal, the test, the jump."""
        if instr is block.last or instr.op == "setp":
            return True
        names = results(instr)
        return (
            instr.op in _ADDS
            and len(names) == 1
            and names[0] in arguments(instr)
            and _literal(instr)
        )

    # --- single instructions

    def _plain(self, instr: Instr, block: Block) -> float:
        op, kind = instr.op, instr.parts[-1]
        if self._joined.get(id(instr)) == 0 or op in ("cvta", "pragma"):
            return 0.0
        if op == "ld" and instr.parts[1] == "param":
            return 0.0
        if op == "mov":
            return self._move(instr)
        if op == "cvt" and self._loaded_narrow(instr):
            return 0.0
        if op == "bra":
            return 0.0 if instr.guard is None else 1.0
        if op in (*_LOGIC, "not") and kind == "pred":
            return 0.0 if op == "not" or self._in_comparison(instr) else 1.0
        if id(instr) in self._absorbers:
            return 0.0
        if op in _ADDS and kind in _WIDE:
            return self._wide_add(instr)
        if op == "add" and kind in _WORDS and _literal(instr) and self._only_addresses(instr):
            return 0.0  # becomes the offset in the address
        if op == "wmma":
            return _fragment(instr)
        if op == "cp" and "wait_all" in instr.parts:
            return 2.0
        if kind in _WIDE and op in _BY_HALVES:
            return 4.0 if op in ("mul", "mad") else 2.0
        if op in ("div", "rem") and kind in ("s32", "u32"):
            return self._division(instr, self._divided[block.loops])
        if (op, kind) in _ROUTINES and "approx" not in instr.parts and "full" not in instr.parts:
            return _ROUTINES[op, kind]
        return 1.0

    def _only_addresses(self, instr: Instr) -> bool:
        """Is the result used as the base of addresses, and for nothing else?"""
        name = results(instr)[0]
        users = self._users[name]
        bases = [
            operand
            for user in users
            for operand in user.operands
            if isinstance(operand, Addr) and operand.base == Reg(name)
        ]
        return bool(users) and len(bases) == len(users) == self._uses[name]

    def _loaded_narrow(self, instr: Instr) -> bool:
        """A load of one or two bytes widens them by itself."""
        source = instr.operands[1]
        makers = self._makers[source.name] if isinstance(source, Reg) else []
        kind = instr.parts[-1]
        return (
            kind in ("u16", "u8", "s16", "s8")
            and instr.parts[-2] in ("u32", "s32")
            and bool(makers)
            and all(maker.op == "ld" and maker.parts[-1][0] == kind[0] for maker in makers)
        )

    def _division(self, instr: Instr, seen: set[tuple[Operand, ...]]) -> float:
        """The reciprocal of a divisor is found once a loop; a remainder follows a quotient."""
        first, second = instr.operands[1:3]
        again, pair = (second,) in seen, (first, second) in seen
        seen |= {(second,), (first, second)}
        if pair:
            return 2.0
        whole = _ROUTINES[instr.op, instr.parts[-1]]
        return whole - _RECIPROCAL if again else whole

    def _in_comparison(self, instr: Instr) -> bool:
        """Predicates are combined by the comparison that makes one of them for this alone."""
        names = [name for name in arguments(instr) if self._uses[name] == 1]
        return any(maker.op == "setp" for name in names for maker in self._makers[name])

    def _move(self, instr: Instr) -> float:
        source = instr.operands[1]
        if (
            isinstance(source, Reg)
            and source.name.startswith("%")
            and not self._makers.get(source.name)
        ):
            return 1.0  # a special register
        if self._constant(source):
            # The start of a loop's variable is written; any other literal stands in place.
            many = any(len(self._makers[name]) > 1 for name in results(instr))
            return 1.0 if many else 0.0
        return 0.0 if isinstance(source, Reg | Sym) else 1.0

    def _constant(self, operand: Operand) -> bool:
        """A literal, or a register that only ever holds one."""
        if isinstance(operand, Reg) and len(self._makers[operand.name]) == 1:
            maker = self._makers[operand.name][0]
            return maker.op == "mov" and isinstance(maker.operands[1], Imm)
        return isinstance(operand, Imm)

    def _wide_add(self, instr: Instr) -> float:
        name = results(instr)[0]
        users = self._users[name]
        if _literal(instr):
            if users and all(user.op in ("ld", "st") for user in users):
                return 0.0  # becomes the offset in the address
            return 2.0
        makers = [
            maker
            for operand in instr.operands[1:]
            if isinstance(operand, Reg)
            for maker in self._makers[operand.name]
        ]
        wide = any(id(maker) in self._absorbers and maker.op == "mul" for maker in makers)
        return 1.0 if wide else 2.0  # one IMAD.WIDE, or two halves


def _fragment(instr: Instr) -> float:
    """Memory instructions and turns of a ``wmma`` load or store; the halves of a product."""
    if instr.parts[1] == "mma":
        return 2.0
    turned = "col" in instr.parts
    if instr.parts[2] in ("a", "b"):
        return 4.0 if "global" in instr.parts else 1.0
    return 8.0 if turned else 4.0


def _literal(instr: Instr) -> bool:
    return any(isinstance(operand, Imm) for operand in instr.operands[1:])


def _zero(operand: Operand) -> bool:
    return isinstance(operand, Imm) and operand.bits == 0


def _is_global(instr: Instr) -> bool:
    if instr.op in ("ld", "st", "atom", "red"):
        return not any(p.split("::")[0] in ("shared", "local", "param") for p in instr.parts[1:])
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


def estimate(weights: Weights, executed: Iterable[tuple[Instr, int, int]]) -> list[float]:
    """Machine instructions issued for each row of a launch.

    Args:
        weights: Of its kernel.
        executed: (instruction, its block's index, warps that ran it) for every row.
    """
    rows = list(executed)
    ran = {block: warps for _, block, warps in rows}
    # A predicated instruction is issued by the warps that do not need it as well.
    return [
        weights[instr] * ran.get(weights.host.get(block, block), warps)
        for instr, block, warps in rows
    ]
