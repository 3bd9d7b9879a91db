"""From changed symbols to the lines they reach: who uses what a hunk changed.

Roots are what a hunk changes: a symbol's declaration, a value that it is given, the
header of a loop or condition, a call, the attributes of a function. From each root
the change spreads over uses; every step costs, the cheapest chain to a line wins,
and equally cheap ones share the line. The costs are the module's constants.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.analysis.source.hunks import renamed
from workbench.analysis.source.symbols import Definition, Place, Program, Use
from workbench.analysis.source.tokens import Tokens

#: One definition, one use: a step of a chain.
STEP = 1
#: A store to an element changes what an array holds, not how it is laid out.
STORE = 2
#: From a header to the lines that it governs, whatever they use.
GOVERNED = 2
#: From ``if (…) return;`` to all that follows.
EXIT = 3
#: From the attributes of a function (launch bounds, inlining) to its body: the weakest.
FUNCTION = 50
#: Beyond this many definitions a variable is followed as one value, whatever the order.
_FLOW_LIMIT = 48

Label = tuple[int, str]  # (hunk, symbol)
Line = tuple[int, int]  # (file, line)
HunksOf = Callable[[Place], frozenset[int]]


@dataclass(frozen=True, slots=True)
class Link:
    """Why a line is linked: its cheapest labels, and the names on the way of the first."""

    cost: int
    labels: frozenset[Label]
    via: tuple[str, ...]


@dataclass(slots=True)
class _Roots:
    """Changed things of one side, each with its labels."""

    symbols: dict[int, set[Label]] = field(default_factory=lambda: defaultdict(set))
    definitions: dict[int, set[Label]] = field(default_factory=lambda: defaultdict(set))
    lines: list[tuple[Place, int, set[Label]]] = field(default_factory=list)


def link(
    old: Program,
    new: Program,
    old_hunks: HunksOf,
    new_hunks: HunksOf,
    names: Mapping[str, str],
) -> tuple[dict[Line, Link], dict[Line, Link]]:
    """Links of the lines of both sides.

    Args:
        old: The old sources, read.
        new: The new sources, read.
        old_hunks: Ids of the code hunks that have lines in a place of the old side.
        new_hunks: The same of the new side.
        names: Old name -> new name, for what was only renamed.
    """
    roots_old, roots_new = _Roots(), _Roots()
    _differences(old, new, old_hunks, new_hunks, names, roots_old, roots_new)
    return _spread(old, roots_old), _spread(new, roots_new)


def _differences(
    old: Program,
    new: Program,
    old_hunks: HunksOf,
    new_hunks: HunksOf,
    names: Mapping[str, str],
    roots_old: _Roots,
    roots_new: _Roots,
) -> None:
    """Fill the roots: what stands on a hunk's lines and has no equal on the other side."""
    none: Mapping[str, str] = {}
    sides = (
        (old, old_hunks, names, roots_old),
        (new, new_hunks, none, roots_new),
    )
    tables: list[dict[tuple[str, ...], list[tuple[Tokens, frozenset[int], int]]]] = []
    for program, hunks_of, mapping, _ in sides:
        table: dict[tuple[str, ...], list[tuple[Tokens, frozenset[int], int]]] = defaultdict(list)

        def add(
            what: tuple[str, ...],
            key: Tokens,
            places: Sequence[Place],
            index: int,
            table: dict[tuple[str, ...], list[tuple[Tokens, frozenset[int], int]]] = table,
            hunks_of: HunksOf = hunks_of,
            mapping: Mapping[str, str] = mapping,
        ) -> None:
            hunks = frozenset().union(*(hunks_of(place) for place in places))
            if hunks:
                name = (what[0], *renamed(what[1:], mapping))
                table[name].append((renamed(key, mapping), hunks, index))

        kernels = {function.symbol for function in program.functions if function.kernel}
        for symbol in program.symbols:
            if symbol.index in kernels:
                continue  # only host code uses a kernel's name
            add(("symbol", symbol.scope, symbol.name), symbol.shape, symbol.places, symbol.index)
        for d in program.definitions:
            owner = program.symbols[d.symbol]
            kind = "argument" if d.kind == "argument" else "definition"
            add((kind, owner.scope, owner.name), d.key, [d.place], d.index)
        for region in program.regions:
            kind = "exit" if region.early_exit else "region"
            add((kind, region.scope, region.label), region.key, [region.header], region.index)
        for number, call in enumerate(program.calls):
            add(("call", "", call.name), call.key, [call.place], number)
        for number, function in enumerate(program.functions):
            add(("head", "", function.name), function.head, [function.head_place], number)
        tables.append(table)
    for what in sorted(tables[0].keys() | tables[1].keys()):
        entries = [table.get(what, []) for table in tables]
        counts = [Counter(key for key, _, _ in side) for side in entries]
        surplus = [counts[0] - counts[1], counts[1] - counts[0]]
        changed = [
            [entry for entry in side if entry[0] in extra]
            for side, extra in zip(entries, surplus, strict=True)
        ]
        if what[0] == "argument" and not all(changed):
            continue  # a call came or went: that is the call's, not the parameter's
        for (program, _, _, roots), side in zip(sides, changed, strict=True):
            for _, hunks, index in side:
                _root(program, roots, what[0], index, {(hunk, what[2]) for hunk in hunks})


def _root(program: Program, roots: _Roots, kind: str, index: int, labels: set[Label]) -> None:
    if kind == "symbol":
        roots.symbols[index] |= labels
    elif kind in ("definition", "argument"):
        roots.definitions[index] |= labels
    elif kind in ("region", "exit"):
        cost = EXIT if kind == "exit" else GOVERNED
        roots.lines.append((program.regions[index].body, cost, labels))
    elif kind == "call":
        called = program.calls[index].name
        for function in program.functions:
            if function.name == called:
                roots.lines.append((function.place, GOVERNED, labels))
    else:
        roots.lines.append((program.functions[index].place, FUNCTION, labels))


class _Spread:
    """Cheapest chains from the roots of one side, in order of cost (Dijkstra in buckets)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: dict[Line, Link] = {}
        self.uses: dict[int, list[Use]] = defaultdict(list)
        for use in program.uses:
            self.uses[use.symbol].append(use)
        self.defined: dict[int, list[Definition]] = defaultdict(list)
        for definition in program.definitions:
            self.defined[definition.symbol].append(definition)
        self.buckets: dict[int, dict[tuple[str, int, bool], Link]] = defaultdict(dict)
        self.settled: set[tuple[str, int, bool]] = set()

    def push(
        self,
        kind: str,
        index: int,
        called: bool,
        cost: int,
        labels: frozenset[Label],
        via: tuple[str, ...],
    ) -> None:
        """Offer a chain to a symbol, a definition, or (over the flow limit) a variable's value.

        `called`: the chain entered a function by its argument, so that it must not
        leave by the return to all the other callers.
        """
        if kind == "definition":
            symbol = self.program.definitions[index].symbol
            if len(self.defined[symbol]) > _FLOW_LIMIT:
                kind, index = "value", symbol
        state = (kind, index, called)
        if state in self.settled:
            return
        waiting = self.buckets[cost]
        known = waiting.get(state)
        if known is not None:
            via = min(via, known.via)
            labels |= known.labels
        waiting[state] = Link(cost, labels, via)

    def reach(self, line: Line, cost: int, labels: frozenset[Label], via: tuple[str, ...]) -> None:
        """Offer a chain to a line."""
        known = self.lines.get(line)
        if known is None or cost < known.cost:
            self.lines[line] = Link(cost, labels, via)
        elif cost == known.cost and not labels <= known.labels:
            self.lines[line] = Link(cost, labels | known.labels, min(via, known.via))

    def govern(self, place: Place, cost: int, labels: frozenset[Label]) -> None:
        """Offer a chain to all lines of a place."""
        file, first, last = place
        for line in range(first, last + 1):
            self.reach((file, line), cost, labels, ())

    def run(self) -> None:
        """Settle everything, cheapest first."""
        while self.buckets:
            cost = min(self.buckets)
            for (kind, index, called), chain in self.buckets.pop(cost).items():
                if (kind, index, called) in self.settled:
                    continue
                self.settled.add((kind, index, called))
                symbol = index if kind != "definition" else self.program.definitions[index].symbol
                for use in self.reached(kind, index, symbol):
                    self.spread(use, chain, called)

    def reached(self, kind: str, index: int, symbol: int) -> list[Use]:
        """Uses that see a change of this state."""
        uses = self.uses.get(symbol, [])
        if kind == "symbol":
            return uses
        uses = [use for use in uses if not use.target]
        if kind == "value" or not self.program.symbols[symbol].scope:
            return uses
        definition = self.program.definitions[index]
        if definition.kind == "argument":
            return uses
        killers = [d for d in self.defined[symbol] if d.kills and d.index != index]
        around = [
            loop
            for loop in self.program.loops.get(definition.place[0], [])
            if loop[0] <= definition.start < loop[1]
            and self.program.symbols[symbol].block[0] <= loop[0]
        ]
        return [use for use in uses if _reaches(definition, use, killers, around)]

    def spread(self, use: Use, chain: Link, called: bool) -> None:
        """One mention of what changed: its line, and what the mention flows into."""
        cost, labels = chain.cost + STEP, chain.labels
        self.reach((use.file, use.line), cost, labels, chain.via)
        if use.target:
            return
        via = (*chain.via, self.program.symbols[use.symbol].name)
        for target, index in use.feeds:
            if target == "definition":
                definition = self.program.definitions[index]
                more = STORE - STEP if definition.kind == "element" else 0
                entered = called or definition.kind == "argument"
                self.push("definition", index, entered, cost + more, labels, via)
            elif target == "shape":
                self.push("symbol", index, called, cost, labels, via)
            elif target == "return":
                if not called:
                    self.push("symbol", index, called, cost, labels, via)
            else:
                self.govern(self.program.regions[index].body, cost + GOVERNED, labels)


def _reaches(
    definition: Definition,
    use: Use,
    killers: Sequence[Definition],
    loops: Sequence[tuple[int, int]],
) -> bool:
    """Whether a value may still be there at a use: no certain overwrite on the way."""
    if definition.place[0] != use.file:
        return True
    if definition.end <= use.at and not any(
        definition.end < k.end <= use.at and k.guard[0] <= use.at < k.guard[1] for k in killers
    ):
        return True
    return any(
        low <= use.at < high
        and not any(
            low <= k.start and k.end <= use.at and k.guard[0] <= use.at < k.guard[1]
            for k in killers
        )
        for low, high in loops
    )


def _spread(program: Program, roots: _Roots) -> dict[Line, Link]:
    out = _Spread(program)
    for index, labels in roots.symbols.items():
        out.push("symbol", index, False, 0, frozenset(labels), ())
    for index, labels in roots.definitions.items():
        definition = program.definitions[index]
        cost = STORE - STEP if definition.kind == "element" else 0
        entered = definition.kind == "argument"
        out.push("definition", index, entered, cost, frozenset(labels), ())
    for place, cost, labels in roots.lines:
        out.govern(place, cost, frozenset(labels))
    out.run()
    return out.lines
