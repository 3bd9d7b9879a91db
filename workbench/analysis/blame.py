"""Blame: each warp sample of a launch is charged to the instruction that caused the wait.

The meaning of a state decides where its cause is searched for:

* a **scoreboard** waits for a result that was requested earlier: the cause is the writers of the
  registers that the waiting instruction reads (or overwrites), if this scoreboard guards their
  kind, or asynchronous copies if the wait is for a group of them;
* **wait** is the fixed latency of the instruction whose result is read;
* a **throttle** is a full queue: the cause is the instructions in the same loop that fill it, by
  their cost;
* **drain** belongs to the stores before the exit, a **barrier**'s wait belongs to the barrier, with
  the late warps' work before it (`Debt.passed`);
* **branch resolving** belongs to the branch, fences and sleeping to their instruction.

Several candidates share a wait in proportion to their issues divided by their distance.
After the ideas of K. Zhou et al., "GPA: A GPU Performance Advisor Based on Instruction
Sampling", CGO 2021 (https://arxiv.org/abs/2009.04061), and Y. Xia and J. Mellor-Crummey
(https://arxiv.org/abs/2604.20032).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal
from weakref import WeakKeyDictionary

from workbench import sass
from workbench.analysis.aggregate import LADDER, Recent
from workbench.analysis.code import Producer, Slices, code_of, issues
from workbench.counters import catalog
from workbench.model import InstructionTable, Launch, Number, Record
from workbench.sass import COPIES, HOLDING, SassOp, register_name

# --- The account: who waited, and who is to blame for it -----------------------------------------
#
# Samples are divided into whole `UNITS`, so that every sum is a sum of integers and exact, and the
# parts of a wait add up to it without a remainder.

#: How the instruction that waited is related to the one to blame.
Kind = Literal["register", "queue", "barrier", "stores", "order", "itself"]

#: Parts into which a sample is divided: their sums are integers, and exact.
UNITS = 1 << 16


class Culprit(Record, frozen=True):
    """A row to blame for `units` / `UNITS` samples, `via` a register or a queue."""

    row: int
    units: int
    via: str = ""


class Debt(Record, frozen=True):
    """Rows that waited in one state, and the rows that made them wait.

    `waited` is row -> samples; the causes' samples add up to these. `passed` charges the same
    amount to the rows that the warps waited for between two barriers: it applies if the barrier
    itself did not change.
    """

    state: str
    kind: Kind
    waited: dict[int, int]
    causes: tuple[Culprit, ...]
    passed: tuple[Culprit, ...] = ()

    @property
    def samples(self) -> int:
        """All samples that are charged."""
        return sum(self.waited.values())


class Account(Record, frozen=True):
    """All samples of a launch: those that are a row's `own`, and those that others caused.

    `own` is state -> row -> samples. `known` is False if the instructions are not SASS: then no
    cause can be found, and every row is charged for itself.
    """

    own: dict[str, dict[int, int]]
    debts: tuple[Debt, ...]
    known: bool = True

    @property
    def samples(self) -> int:
        """All samples of the launch."""
        own = sum(count for rows in self.own.values() for count in rows.values())
        return own + sum(debt.samples for debt in self.debts)

    def units(self) -> dict[int, dict[str, int]]:
        """Row -> state -> samples charged to it, in units of 1 / `UNITS`."""
        out: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for state, rows in self.own.items():
            for row, count in rows.items():
                out[row][state] += count * UNITS
        for debt in self.debts:
            for cause in debt.causes:
                out[cause.row][debt.state] += cause.units
        return out


def apportion(amount: int, weights: Sequence[int]) -> list[int]:
    """Integer shares, proportional to weights, that sum to the amount, by largest remainder.

    Equal remainders go to the earlier weight; weights that are all 0 count as equal.
    """
    whole = sum(weights)
    if not whole:
        weights, whole = [1] * len(weights), len(weights)
    shares = [amount * weight // whole for weight in weights]
    left = amount - sum(shares)
    if left:
        order = sorted(range(len(weights)), key=lambda n: (-(amount * weights[n] % whole), n))
        for n in order[:left]:
            shares[n] += 1
    return shares


STALLED = "smsp__pcsamp_warps_issue_stalled_"
#: The maximum number of instructions between a result of fixed latency and a wait for it.
_FIXED_LATENCY = 16
#: The most steps through fixed-latency instructions, if no writer matches the scoreboard.
_STEPS = 3
#: The most stores to search for before an exit, and copies before a wait for them.
_STORES, _COPIES = 16, 16
#: Number of instructions after a wait for copies at which it can still hold the warp up.
_BEHIND = 2
_SCOREBOARDS = ("long_scoreboard", "short_scoreboard")
#: Opcodes whose results arrive through a scoreboard.
_ANSWERED = HOLDING["long_scoreboard"] | HOLDING["short_scoreboard"]
#: Opcodes that may still have to read a register that is overwritten.
_READERS = _ANSWERED | HOLDING["drain_stall"] | COPIES | {"STS", "STSM"}
#: States that an operation causes, wherever after it the sample lies.
_ASKED = ("membar", "sleeping", "gmma_stall")
#: Counters of an instruction's cost for the queue that it uses.
_COSTS = ("memory_l1_wavefronts_shared", "memory_l1_tag_requests_global", "inst_executed")


def samples(launch: Launch) -> dict[str, dict[int, int]]:
    """Warp state (catalog id, or ncu's name without its prefix) -> row -> samples."""
    out: dict[str, dict[int, int]] = {}
    for name, column in launch.instructions.columns.items():
        if name.startswith(STALLED) and not name.endswith("_not_issued"):
            counter = catalog().by_line(name)
            rows = out.setdefault(counter.id if counter else name.removeprefix(STALLED), {})
            for row, value in zip(column.rows, column.values, strict=True):
                if value:
                    rows[row] = rows.get(row, 0) + int(value)
    return out


def _blame(launch: Launch) -> Account:
    states = samples(launch)
    operations = code_of(launch).operations
    if not states or len([True for o in operations if o.opcode]) * 2 < len(operations):
        return Account(own=states, debts=(), known=False)
    return _Ledger(launch, states).close()


#: Charge every warp sample of a launch to the instruction to blame.
blame_launch = Recent(_blame, most=LADDER)


def _costs(table: InstructionTable, operations: Sequence[SassOp]) -> list[Number]:
    """Row -> how long it keeps its queue busy: wavefronts, look-ups of tags, else issues."""
    out: list[Number] = [0] * len(operations)
    for name in _COSTS:
        column = table.columns.get(name)
        for row, value in zip(column.rows, column.values, strict=True) if column else ():
            out[row] = max(out[row], value)
    return out


#: Code -> (state, row) -> the causes.
_causes_of: WeakKeyDictionary[Slices, dict[tuple[str, int], tuple[Kind, list[Producer]]]] = (
    WeakKeyDictionary()
)


class _Ledger:
    """The debts of one launch, during the search."""

    def __init__(self, launch: Launch, states: dict[str, dict[int, int]]) -> None:
        table, code = launch.instructions, code_of(launch)
        self.states = states
        self.operations = code.operations
        self.issued = issues(table)
        self.costs = _costs(table, code.operations)
        self.flow = code.flow
        self.slices = code.slices_among(frozenset(self.issued))
        self.own: dict[str, dict[int, int]] = {}
        self.debts: list[Debt] = []

    def close(self) -> Account:
        """Find the cause of every sample."""
        for state, rows in self.states.items():
            if state == "barrier_stall":
                continue
            throttled: dict[tuple[str, int, int], dict[int, int]] = defaultdict(dict)
            for row, count in rows.items():
                queue = sass.queue_of(state, self.operations[row].opcode)
                if queue:
                    throttled[queue, *self._place(row)][row] = count
                else:
                    self._settle(state, row, count)
            for (queue, loop, run), waited in throttled.items():
                self._throttle(state, queue, (loop, run), waited)
        self._barriers(self.states.get("barrier_stall", {}))
        return Account(own=self.own, debts=tuple(self.debts))

    def _keep(self, state: str, row: int, count: int) -> None:
        rows = self.own.setdefault(state, {})
        rows[row] = rows.get(row, 0) + count

    def _settle(self, state: str, row: int, count: int) -> None:
        # It does not depend on measurements, so it is valid for every problem.
        found = _causes_of.setdefault(self.slices, {})
        known = found.get((state, row))
        if known is None:
            known = found[state, row] = self._causes(state, row)
        self._owe(state, known[0], row, count, known[1])

    def _causes(self, state: str, row: int) -> tuple[Kind, list[Producer]]:
        kind: Kind = "order"
        if state in _SCOREBOARDS:
            kind, found = self._scoreboard(row, state)
        elif state == "wait_stall":
            kind, found = "register", self._fixed(row)
        elif state == "drain_stall":
            kind, found = "stores", self._drained(row)
        elif state == "branch_resolving":
            found = self._branches(row)
        elif state in _ASKED:
            found = self._asked(row, HOLDING[state])
        else:
            found = []
        return kind, found

    def _owe(self, state: str, kind: Kind, row: int, count: int, found: list[Producer]) -> None:
        if found:
            causes = self._share(count, found, by_cost=kind == "stores")
            self.debts.append(Debt(state=state, kind=kind, waited={row: count}, causes=causes))
        else:
            self._keep(state, row, count)

    def _share(
        self, count: int, found: Iterable[Producer], *, by_cost: bool = False
    ) -> tuple[Culprit, ...]:
        """Shares by issues (or their cost) divided by distance; one cause per row."""
        nearest: dict[int, Producer] = {}
        for source in found:
            known = nearest.get(source.row)
            if known is None or source.distance < known.distance:
                nearest[source.row] = source
        order = [nearest[row] for row in sorted(nearest)]
        weights = [
            int((self.costs[s.row] if by_cost else self.issued.get(s.row, 1)) * UNITS)
            // max(1, s.distance)
            for s in order
        ]
        parts = apportion(count * UNITS, weights)
        return tuple(
            Culprit(
                row=source.row,
                units=units,
                via=register_name(source.register) if source.register is not None else "",
            )
            for source, units in zip(order, parts, strict=True)
            if units
        )

    def _scoreboard(self, row: int, state: str) -> tuple[Kind, list[Producer]]:
        kinds = HOLDING[state]
        operation = self.operations[row]
        touched = dict.fromkeys((*operation.reads, *operation.writes))
        writers = self.slices.writers(row, touched)
        found = [s for s in writers if self.operations[s.row].opcode in kinds]
        if not found and state == "long_scoreboard":
            found = self._copies(row)
            if found:
                return "order", found
        if not found:
            found = self.slices.readers(row, operation.writes, _READERS)
        if not found:
            found = self._through(writers, kinds)
        if found:
            return "register", found
        late = kinds | COPIES if state == "long_scoreboard" else kinds
        return "order", self.slices.nearest(row, late)

    def _through(self, writers: list[Producer], kinds: frozenset[str]) -> list[Producer]:
        """Writers of the kind through fixed-latency instructions, register by register."""
        seen = {source.row for source in writers}
        for _ in range(_STEPS):
            behind: list[Producer] = []
            for source in writers:
                for far in self.slices.writers(source.row, self.operations[source.row].reads):
                    if far.row not in seen:
                        seen.add(far.row)
                        distance = source.distance + far.distance
                        behind.append(Producer(far.row, far.register, distance))
            found = [s for s in behind if self.operations[s.row].opcode in kinds]
            if found or not behind:
                return found
            writers = behind
        return []

    def _copies(self, row: int) -> list[Producer]:
        """Asynchronous copies, if a wait for them is at this row or just before it."""
        for at in range(row, max(-1, row - 1 - _BEHIND), -1):
            operation = self.operations[at]
            if operation.opcode in ("DEPBAR", "SYNCS", "LDGDEPBAR"):
                break
        else:
            return []
        # Groups that may still be in flight after the wait: ``DEPBAR.LE SB0, 0x2``.
        allowed = operation.operands.rpartition(",")[2].strip()
        groups = int(allowed, 16) if operation.opcode == "DEPBAR" and allowed[:2] == "0x" else 0
        start = at
        closing = self.slices.nearest(at, frozenset({"LDGDEPBAR"}), groups + 1)
        if groups and len(closing) > groups:
            start = closing[groups].row
        return self.slices.nearest(start, COPIES, _COPIES)

    def _fixed(self, row: int) -> list[Producer]:
        return [
            source
            for source in self.slices.writers(row, self.operations[row].reads, _FIXED_LATENCY)
            if source.distance <= _FIXED_LATENCY
            and source.row != row
            and self.operations[source.row].opcode not in _ANSWERED
        ]

    def _drained(self, row: int) -> list[Producer]:
        # The sample of a warp that waits in EXIT is on the instruction after it.
        behind = row > 0 and self.operations[row - 1].opcode == "EXIT"
        return self.slices.nearest(row - 1 if behind else row, HOLDING["drain_stall"], _STORES)

    def _branches(self, row: int) -> list[Producer]:
        block = self.flow.block(row)
        if row > self.flow.first[block]:
            before = [row - 1]
        else:
            before = [self.flow.last[b] for b in self.flow.predecessors[block]]
            before += [row - 1] if row else []
        return [
            Producer(at, None, 1)
            for at in dict.fromkeys(before)
            if self.operations[at].opcode in HOLDING["branch_resolving"]
        ]

    def _asked(self, row: int, opcodes: frozenset[str]) -> list[Producer]:
        if self.operations[row].opcode in opcodes:
            return []
        return self.slices.nearest(row, opcodes)

    def _place(self, row: int) -> tuple[int, int]:
        """The loop of a row, or, outside loops, the stretch between two of them."""
        block = self.flow.block(row)
        return self.flow.loop[block], self.flow.stretch[block]

    def _throttle(
        self, state: str, queue: str, place: tuple[int, int], waited: dict[int, int]
    ) -> None:
        kinds = sass.fillers(state, queue)
        rows = [
            row
            for block in range(len(self.flow.first))
            if (self.flow.loop[block], self.flow.stretch[block]) == place
            for row in range(self.flow.first[block], self.flow.last[block] + 1)
            if self.costs[row] and (row in waited or self.operations[row].opcode in kinds)
        ]
        if not rows:
            # The instructions that fill the queue are in a loop inside this one, or around it.
            for row, count in waited.items():
                self._owe(state, "queue", row, count, self.slices.nearest(row, kinds))
            return
        parts = apportion(sum(waited.values()) * UNITS, [int(self.costs[row]) for row in rows])
        causes = tuple(
            Culprit(row=row, units=units, via=queue)
            for row, units in zip(rows, parts, strict=True)
            if units
        )
        self.debts.append(Debt(state=state, kind="queue", waited=waited, causes=causes))

    def _barriers(self, rows: Mapping[int, int]) -> None:
        held: dict[int, dict[int, int]] = defaultdict(dict)
        for row, count in rows.items():
            if self.operations[row].opcode in HOLDING["barrier_stall"]:
                held[row][row] = count
                continue
            if self.operations[row].opcode == "WARPGROUP":
                # Its four warps wait for one another, not at a barrier of the block.
                self._keep("barrier_stall", row, count)
                continue
            nearest = self.slices.nearest(row, HOLDING["barrier_stall"])
            if nearest:
                held[nearest[0].row][row] = count
            else:
                self._keep("barrier_stall", row, count)
        spent = self._spent() if held else []
        for barrier, waited in held.items():
            whole = Culprit(row=barrier, units=sum(waited.values()) * UNITS)
            self.debts.append(
                Debt(
                    state="barrier_stall",
                    kind="barrier",
                    waited=waited,
                    causes=(whole,),
                    passed=self._passed(barrier, whole.units, spent),
                )
            )

    def _spent(self) -> list[dict[int, float]]:
        """Row -> rows to blame -> samples, for all states except barriers.

        Queues are rows of their own after the others, since many rows wait for many.
        """
        spent: list[dict[int, float]] = [{} for _ in range(len(self.operations))]
        for rows in self.own.values():
            for row, count in rows.items():
                spent[row][row] = spent[row].get(row, 0) + count
        for debt in self.debts:
            whole = debt.samples
            if len(debt.waited) > 1:
                for row, count in debt.waited.items():
                    spent[row][len(spent)] = count / whole
                spent.append({cause.row: cause.units / UNITS for cause in debt.causes})
                continue
            for row in debt.waited:
                for cause in debt.causes:
                    known = spent[row].get(cause.row, 0)
                    spent[row][cause.row] = known + cause.units / UNITS
        return spent

    def _passed(
        self, barrier: int, units: int, spent: Sequence[Mapping[int, float]]
    ) -> tuple[Culprit, ...]:
        """The wait at a barrier, charged to the warps' work and waits before it."""
        between: dict[int, float] = defaultdict(float)
        for row in self.slices.interval(barrier, HOLDING["barrier_stall"]):
            for culprit, count in spent[row].items():
                between[culprit] += count
        for queue in [number for number in between if number >= len(self.operations)]:
            share = between.pop(queue)
            for culprit, count in spent[queue].items():
                between[culprit] += share * count
        order = sorted(between)
        parts = apportion(units, [int(between[row] * UNITS) for row in order]) if order else []
        return tuple(
            Culprit(row=row, units=part) for row, part in zip(order, parts, strict=True) if part
        )
