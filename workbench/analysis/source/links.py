"""From changed symbols to the lines that they reach: the uses of a hunk's changes.

Roots are the items that a hunk changes: a symbol's declaration, a value assigned to it, the header
of a loop or condition, a call, the attributes of a function. From each root the change spreads over
uses; every step costs, the cheapest chain to a line wins, and equally cheap ones share the line.
The costs are the module's constants.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.analysis.aggregate import LaunchPair
from workbench.analysis.source.hunks import FileDiff, Size, diff_file
from workbench.analysis.source.lines import Range, Source, Statements, Tokens, information, renamed
from workbench.analysis.source.symbols import Definition, Extent, Governed, Routine, SourceMap, Use
from workbench.model import Profile, Record, SourceFile

#: One definition, one use: a step of a chain.
STEP = 1
#: A store to an element changes the content of an array, not its layout.
STORE = 2
#: From a header to the lines that it governs, whatever they use.
GOVERNED = 2
#: From ``if (…) return;`` to all that follows.
EXIT = 3
#: From the attributes of a function (launch bounds, inlining) to its body: the weakest.
FUNCTION = 50
#: A variable with more definitions than this is followed as one value, in any order.
_FLOW_LIMIT = 48

Label = tuple[int, str]  # (hunk, symbol)
Line = tuple[int, int]  # (file, line)
_What = tuple[str, str, str]  # (kind, scope, name)
HunksOf = Callable[[Extent], frozenset[int]]


@dataclass(frozen=True, slots=True)
class LineLink:
    """The link of a line: its cheapest labels, and the names on the path from one of them.

    `via` ends with a name on the line, or with the statement that governs it (``for i``); it is
    empty if the line itself mentions a label's symbol, or is governed by it.
    """

    cost: int
    labels: frozenset[Label]
    via: tuple[str, ...]


def cheapest(one: LineLink | None, other: LineLink) -> LineLink:
    """The cheaper of two links; if they are equally cheap, both together."""
    if one is None or one.cost != other.cost:
        return other if one is None or other.cost < one.cost else one
    return LineLink(one.cost, one.labels | other.labels, _way(one.via, other.via))


def _way(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """One of two paths, independent of their order; a path with names comes first."""
    return min(one or other, other or one)


@dataclass(slots=True)
class _Roots:
    """Changed things of one side, each with its labels."""

    symbols: dict[int, set[Label]] = field(default_factory=lambda: defaultdict(set))
    definitions: dict[int, set[Label]] = field(default_factory=lambda: defaultdict(set))
    lines: list[tuple[Extent, int, set[Label], tuple[str, ...]]] = field(default_factory=list)


def link(
    old: SourceMap, new: SourceMap, old_hunks: HunksOf, new_hunks: HunksOf, names: Mapping[str, str]
) -> tuple[dict[Line, LineLink], dict[Line, LineLink]]:
    """Links of the lines of both sides.

    Hunks are ids of the code hunks that have lines in a place of a side; `names` are old name ->
    new name of renamed identifiers.
    """
    local = _parameter_names(old, new, names)
    tables = _on_hunks(old, old_hunks, names, local), _on_hunks(new, new_hunks, {}, {})
    both = _Roots(), _Roots()
    for what in sorted(tables[0].keys() | tables[1].keys()):
        entries = [table.get(what, []) for table in tables]
        counts = [Counter(key for key, _, _ in side) for side in entries]
        surplus = [counts[0] - counts[1], counts[1] - counts[0]]
        changed = [
            [entry for entry in side if entry[0] in extra]
            for side, extra in zip(entries, surplus, strict=True)
        ]
        if what[0] == "argument" and not all(changed):
            continue  # a call was added or removed: this belongs to the call, not to the parameter
        for found, roots, side in zip((old, new), both, changed, strict=True):
            for _, hunks, index in side:
                _root(found, roots, what[0], index, {(hunk, what[2]) for hunk in hunks})
    return _spread(old, both[0]), _spread(new, both[1])


def callers(found: SourceMap, hunks_of: HunksOf) -> dict[Line, frozenset[int]]:
    """The hunks that call the function (not a kernel) whose body a line is in."""
    calls: dict[str, frozenset[int]] = {}
    for call in found.calls:
        calls[call.name] = calls.get(call.name, frozenset()) | hunks_of(call.place)
    return {
        (routine.place[0], line): hunks
        for routine in found.routines
        if not routine.kernel and (hunks := calls.get(routine.name))
        for line in range(routine.place[1], routine.place[2] + 1)
    }


def sizes(
    old: SourceMap, new: SourceMap, new_hunks: HunksOf, names: Mapping[str, str]
) -> dict[int, set[Size]]:
    """The constants of a file that each hunk declares with another number."""
    before = {names.get(one.name, one.name): one for one in old.symbols if not one.scope}
    out: dict[int, set[Size]] = defaultdict(set)
    for one in new.symbols:
        was = before.get(one.name) if not one.scope else None
        if was is None or len(was.shape) != len(one.shape):
            continue
        apart = [pair for pair in zip(was.shape, one.shape, strict=True) if pair[0] != pair[1]]
        if len(apart) == 1 and all(token.isdecimal() and int(token) for token in apart[0]):
            size = Size(one.name, int(apart[0][0]), int(apart[0][1]))
            for hunk in frozenset[int]().union(*(new_hunks(place) for place in one.places)):
                out[hunk].add(size)
    return out


def _parameter_names(
    old: SourceMap, new: SourceMap, names: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Old function -> old name -> new name of parameters that were only renamed.

    Such a name may mean something else elsewhere, so it is not a renaming of the whole text.
    """
    out: dict[str, dict[str, str]] = {}
    partners = {routine.name: routine for routine in new.routines}
    for routine in old.routines:
        partner = partners.get(names.get(routine.name, routine.name))
        if partner is None or len(partner.parameters) != len(routine.parameters):
            continue
        found: dict[str, str] = {}
        for a, b in zip(routine.parameters, partner.parameters, strict=True):
            one, other = old.symbols[a], new.symbols[b]
            here = {one.name: other.name}
            apart = one.name not in partner.tokens and other.name not in routine.tokens
            if apart and renamed(renamed(one.shape, names), here) == other.shape:
                found |= here
        if found:
            out[routine.name] = found
    return out


def _changeable(found: SourceMap) -> Iterator[tuple[_What, str, Tokens, Sequence[Extent], int]]:
    """All items that a hunk can change: kind and name, function, text, place, index."""
    kernels = {routine.symbol for routine in found.routines if routine.kernel}
    for symbol in found.symbols:
        if symbol.index not in kernels:  # only host code uses a kernel's name
            what = ("symbol", symbol.scope, symbol.name)
            yield what, symbol.scope, symbol.shape, symbol.places, symbol.index
    for made in found.definitions:
        owner = found.symbols[made.symbol]
        kind = "argument" if made.kind == "argument" else "definition"
        yield (kind, owner.scope, owner.name), made.scope, made.key, [made.place], made.index
    for each in found.governed:
        kind = "exit" if each.early_exit else "governed"
        yield (kind, each.scope, each.label), each.scope, each.key, [each.header], each.index
    for number, call in enumerate(found.calls):
        yield ("call", "", call.name), call.scope, call.key, [call.place], number
    for number, routine in enumerate(found.routines):
        what = ("head", "", routine.name)
        yield what, routine.name, routine.head, [routine.head_place], number


def _on_hunks(
    found: SourceMap,
    hunks_of: HunksOf,
    names: Mapping[str, str],
    local: Mapping[str, Mapping[str, str]],
) -> dict[_What, list[tuple[Tokens, frozenset[int], int]]]:
    """Changeable items on hunks' lines, by their new name: text, hunks, index."""
    out: dict[_What, list[tuple[Tokens, frozenset[int], int]]] = defaultdict(list)
    for (kind, owner, name), where, key, places, index in _changeable(found):
        hunks = frozenset().union(*(hunks_of(place) for place in places))
        if hunks:
            # A name is resolved in its owner's scope, its text in the scope of its place.
            (name,) = renamed(renamed((name,), names), local.get(owner, {}))
            key = renamed(renamed(key, names), local.get(where, {}))
            out[kind, names.get(owner, owner), name].append((key, hunks, index))
    return out


def _root(found: SourceMap, roots: _Roots, kind: str, index: int, labels: set[Label]) -> None:
    if kind == "symbol":
        roots.symbols[index] |= labels
    elif kind in ("definition", "argument"):
        roots.definitions[index] |= labels
    elif kind in ("governed", "exit", "call"):
        cost, called = 0, {found.calls[index].name} if kind == "call" else set[str]()
        if kind != "call":
            (file, first, last), cost = (
                found.governed[index].body,
                EXIT if kind == "exit" else GOVERNED,
            )
            roots.lines.append(((file, first, last), cost, labels, ()))
            calls = (x for x in found.calls if x.place[0] == file and first <= x.place[1] <= last)
            called = {call.name for call in calls}
        routines = (routine for routine in found.routines if routine.name in called)
        roots.lines += ((x.place, cost + GOVERNED, labels, (x.name,)) for x in routines)
    else:
        roots.lines.append((found.routines[index].place, FUNCTION, labels, ()))


class _Chains:
    """Cheapest chains from the roots of one side, in order of cost (Dijkstra in buckets)."""

    def __init__(self, found: SourceMap) -> None:
        self.found = found
        self.lines: dict[Line, LineLink] = {}
        self.uses: dict[int, list[Use]] = defaultdict(list)
        for use in found.uses:
            self.uses[use.symbol].append(use)
        self.defined: dict[int, list[Definition]] = defaultdict(list)
        for definition in found.definitions:
            self.defined[definition.symbol].append(definition)
        self.buckets: dict[int, dict[tuple[str, int, bool], LineLink]] = defaultdict(dict)
        self.settled: set[tuple[str, int, bool]] = set()
        self.bare: dict[Line, list[Governed]] = defaultdict(list)
        for loop in found.governed:
            for line in range(loop.body[1], loop.body[2] + 1) if loop.bare else ():
                self.bare[loop.body[0], line].append(loop)

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
            symbol = self.found.definitions[index].symbol
            if len(self.defined[symbol]) > _FLOW_LIMIT:
                kind, index = "value", symbol
        state = (kind, index, called)
        if state in self.settled:
            return
        waiting = self.buckets[cost]
        known = waiting.get(state)
        if known is not None:
            via = _way(via, known.via)
            labels |= known.labels
        waiting[state] = LineLink(cost, labels, via)

    def reach(self, line: Line, cost: int, labels: frozenset[Label], via: tuple[str, ...]) -> None:
        known = self.lines.get(line)
        if known is None or cost < known.cost:
            self.lines[line] = LineLink(cost, labels, via)
        elif cost == known.cost and not labels <= known.labels:
            self.lines[line] = LineLink(cost, labels | known.labels, _way(via, known.via))

    def govern(
        self, place: Extent, cost: int, labels: frozenset[Label], via: tuple[str, ...] = ()
    ) -> None:
        """Offer a chain to all lines of a place."""
        file, first, last = place
        for line in range(first, last + 1):
            self.reach((file, line), cost, labels, via)

    def run(self) -> None:
        """Settle everything, cheapest first."""
        while self.buckets:
            cost = min(self.buckets)
            for (kind, index, called), chain in self.buckets.pop(cost).items():
                if (kind, index, called) in self.settled:
                    continue
                self.settled.add((kind, index, called))
                symbol = index if kind != "definition" else self.found.definitions[index].symbol
                for use in self.reached(kind, index, symbol):
                    self.spread(use, chain, called)

    def reached(self, kind: str, index: int, symbol: int) -> list[Use]:
        """Uses that see a change of this state."""
        uses = self.uses.get(symbol, [])
        if kind == "symbol":
            return uses
        uses = [use for use in uses if not use.target]
        if kind == "value" or not self.found.symbols[symbol].scope:
            return uses
        definition = self.found.definitions[index]
        if definition.kind == "argument":
            return uses
        killers = [d for d in self.defined[symbol] if d.kills and d.index != index]
        around = [
            loop
            for loop in self.found.loops.get(definition.place[0], [])
            if loop[0] <= definition.start < loop[1]
            and self.found.symbols[symbol].block[0] <= loop[0]
        ]
        return [use for use in uses if _reaches(definition, use, killers, around)]

    def spread(self, use: Use, chain: LineLink, called: bool) -> None:
        """Follow one mention of a changed item: its line, and the items that it flows into."""
        cost, labels = chain.cost + STEP, chain.labels
        # The first name of a chain is its label's; the last one is on the line itself.
        via = (*chain.via, self.found.symbols[use.symbol].name)
        shown = via[1:] + ((use.macro,) if use.macro else ())
        self.reach((use.file, use.line), cost, labels, shown)
        for loop in self.bare.get((use.file, use.line), ()):
            # One statement with its head, where the compiler puts unrolled code.
            self.govern(loop.header, cost + STEP, labels, (*shown, loop.label))
        if use.target:
            return
        for target, index in use.feeds:
            if target == "definition":
                definition = self.found.definitions[index]
                more = STORE - STEP if definition.kind == "element" else 0
                entered = called or definition.kind == "argument"
                self.push("definition", index, entered, cost + more, labels, via)
            elif target == "shape":
                self.push("symbol", index, called, cost, labels, via)
            elif target == "return":
                if not called:
                    self.push("symbol", index, called, cost, labels, via)
            else:
                governed = self.found.governed[index]
                self.govern(governed.body, cost + GOVERNED, labels, (*shown, governed.label))


def _reaches(
    definition: Definition,
    use: Use,
    killers: Sequence[Definition],
    loops: Sequence[tuple[int, int]],
) -> bool:
    """True if a value may still exist at a use: nothing certainly overwrote it in between."""
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


def _spread(found: SourceMap, roots: _Roots) -> dict[Line, LineLink]:
    out = _Chains(found)
    for index, labels in roots.symbols.items():
        out.push("symbol", index, False, 0, frozenset(labels), ())
    for index, labels in roots.definitions.items():
        definition = found.definitions[index]
        cost = STORE - STEP if definition.kind == "element" else 0
        entered = definition.kind == "argument"
        out.push("definition", index, entered, cost, frozenset(labels), ())
    for place, cost, labels, via in roots.lines:
        out.govern(place, cost, frozenset(labels), via)
    out.run()
    return out.lines


FilePair = tuple[int | None, int | None]


class LaunchLines(Record, frozen=True):
    """A launch's kernel, and the file and line of each of its instructions."""

    kernel: str
    file: tuple[int, ...]
    line: tuple[int, ...]


class SourceSide(Record, frozen=True):
    """All parts of a profile that the comparison of sources uses; none of them was measured."""

    sources: tuple[SourceFile, ...]
    compiler: str
    launches: tuple[LaunchLines, ...]


def side_of(profile: Profile) -> SourceSide:
    """The part of a profile that the comparison of sources reads."""
    return SourceSide(
        sources=profile.sources,
        compiler=profile.build.compiler if profile.build else "",
        launches=tuple(
            LaunchLines(each.kernel, each.instructions.file, each.instructions.line)
            for each in profile.launches
        ),
    )


def statements_of(maps: Callable[[], tuple[SourceMap, SourceMap]], a: int, b: int) -> Statements:
    """Statements of several lines in an old file and a new one, looked up on demand."""

    def statements() -> tuple[Sequence[Range], Sequence[Range]]:
        old, new = maps()
        return old.statements.get(a, ()), new.statements.get(b, ())

    return statements


def kernel_names(
    old: SourceSide, new: SourceSide, launches: Sequence[LaunchPair]
) -> dict[str, str]:
    """Kernels that are compared under different names: old -> new."""
    out: dict[str, str] = {}
    for pair in launches:
        if pair.old is not None and pair.new is not None:
            a, b = (
                plain_name(old.launches[pair.old].kernel),
                plain_name(new.launches[pair.new].kernel),
            )
            if a != b:
                out.setdefault(a, b)
    return out


def plain_name(kernel: str) -> str:
    """A kernel's name as its source spells it: no template arguments, no namespace."""
    name = kernel.replace("(anonymous namespace)::", "").replace("{unnamed}::", "")
    return name.split("<")[0].split("(")[0].split("::")[-1].strip().split(" ")[-1]


def mentions(sources: Sequence[Source], word: str) -> bool:
    """True if a word occurs in the code of some sources."""
    return any(word in line for source in sources for line in source.tokens)


def kernel_files(profile: SourceSide, sources: Sequence[Source]) -> set[int]:
    """The file of each launch's kernel, as indices into `sources`.

    Among the files that instructions come from, the one that names the kernel; if several do, or
    none (a missing text): the one with the most instructions. Their number alone says little: if a
    kernel's copies and products are inline functions, the header has more.
    """
    out: set[int] = set()
    for launch in profile.launches:
        counts = Counter(file for file in launch.file if file >= 0)
        name = plain_name(launch.kernel)
        named = {file for file in counts if mentions(sources[file : file + 1], name)}
        if counts:
            out.add(max(named or counts, key=lambda file: (counts[file], -file)))
    return out


def pair_files(
    before: Sequence[Source], after: Sequence[Source], kernels_old: set[int], kernels_new: set[int]
) -> list[FilePair]:
    """Pair files: by the longest common end of their paths, by content, then those of the kernels.

    Files with one name under different roots are the same files; if several paths end alike, those
    that share most of their paths are paired, and then most of their lines. Returns index pairs;
    None if a file is on one side only. Files on one side only that hold no text are left out.
    """
    pairs: list[tuple[int, int]] = []
    left = dict.fromkeys(range(len(before)))
    right = dict.fromkeys(range(len(after)))

    def take(candidates: Iterable[tuple[float, int, int]]) -> None:
        """Take candidates (score, old, new), the best first, in the order of the files."""
        for _, a, b in sorted(candidates, key=lambda each: (-each[0], each[1], each[2])):
            if a in left and b in right:
                pairs.append((a, b))
                del left[a], right[b]

    # Reports from Windows have backslashes.
    paths = [[s.path.replace("\\", "/").split("/") for s in side] for side in (before, after)]
    by_name: dict[str, list[int]] = {}
    for b, path in enumerate(paths[1]):
        by_name.setdefault(path[-1], []).append(b)
    take(
        (common_end(path, paths[1][b]) + _alike(before[a], after[b]) / 2, a, b)
        for a, path in enumerate(paths[0])
        for b in by_name.get(path[-1], ())
    )
    if len(left) * len(right) <= _COMPARED:
        alike = ((_alike(before[a], after[b]), a, b) for a in left for b in right)
        take([each for each in alike if each[0] >= _SAME_FILE])
    main_old = [a for a in left if a in kernels_old and before[a].lines]
    main_new = [b for b in right if b in kernels_new and after[b].lines]
    take((0, a, b) for a, b in zip(main_old, main_new, strict=False))
    found: list[FilePair] = list(pairs)
    found += [(a, None) for a in left if before[a].lines]
    found += [(None, b) for b in right if after[b].lines]
    found.sort(key=lambda pair: (pair[1] is None, pair[1] or 0, pair[0] or 0))
    return found


#: Part of their lines (0-1) that two files with different names must share to be one file.
_SAME_FILE = 0.5
#: The most pairs of files to compare by content; beyond that, names alone decide.
_COMPARED = 400


def common_end(one: Sequence[str], other: Sequence[str]) -> int:
    """Parts that two paths have in common at their ends."""
    most = min(len(one), len(other))
    return next((n for n in range(most) if one[-1 - n] != other[-1 - n]), most)


def _alike(one: Source, other: Source) -> float:
    """The part (0-1) of the lines with information that two files have in common."""
    sides = [Counter(line for line in s.tokens if information(line)) for s in (one, other)]
    most = max(sum(side.values()) for side in sides)
    return sum((sides[0] & sides[1]).values()) / most if most else 0.0


def both_hold_both(
    before: Sequence[Source],
    after: Sequence[Source],
    maps: Callable[[], tuple[SourceMap, SourceMap]],
    kernels: Mapping[str, str],
) -> bool:
    """True if each side's sources define the other side's kernel too."""
    if not any(mentions(after, a) and mentions(before, b) for a, b in kernels.items()):
        return False
    names = [{f.name for f in found.routines} for found in maps()]
    return any(a in names[1] and b in names[0] for a, b in kernels.items())


def _function(found: SourceMap, name: str) -> Routine | None:
    named = [f for f in found.routines if f.name == name]
    return next((f for f in named if f.kernel), named[0] if named else None)


def compare_kernels(
    before: Sequence[Source],
    after: Sequence[Source],
    maps: tuple[SourceMap, SourceMap],
    files: Sequence[FilePair],
    kernels: Mapping[str, str],
) -> list[FileDiff]:
    """Align the bodies of differently named kernels, and the rest of the files around them."""
    diffs: list[FileDiff] = []
    for name, other_name in kernels.items():
        one, other = _function(maps[0], name), _function(maps[1], other_name)
        if one is None or other is None:
            continue
        diffs.append(
            diff_file(
                before[one.place[0]],
                after[other.place[0]],
                kernels,
                old_lines=range(one.place[1], one.place[2] + 1),
                new_lines=range(other.place[1], other.place[2] + 1),
                silent=kernels,
                statements=statements_of(lambda: maps, one.place[0], other.place[0]),
            )
        )
    aside = {*kernels.keys(), *kernels.values()}
    for a, b in files:
        if a is None or b is None:
            continue
        # The compared kernels are set aside; in the rest, equal names are equal.
        hidden = _bodies(maps[0], a, aside), _bodies(maps[1], b, aside)
        lines_old = range(1, len(before[a].lines) + 1)
        lines_new = range(1, len(after[b].lines) + 1)
        diffs.append(
            diff_file(
                before[a],
                after[b],
                {},
                old_lines=[n for n in lines_old if n not in hidden[0]],
                new_lines=[n for n in lines_new if n not in hidden[1]],
            )
        )
    return diffs


def _bodies(found: SourceMap, file: int, names: set[str]) -> set[int]:
    return {
        line
        for f in found.routines
        if f.name in names and f.place[0] == file
        for line in range(f.place[1], f.place[2] + 1)
    }


def used_lines(found: SourceMap, kernels: set[str], profile: SourceSide) -> set[Line]:
    """Lines of the kernels, of all declarations that they reach, and of instructions."""
    out: set[Line] = set()
    for launch in profile.launches:
        out.update(zip(launch.file, launch.line, strict=True))
    by_line: dict[Line, set[int]] = {}
    for use in found.uses:
        by_line.setdefault((use.file, use.line), set()).add(use.symbol)
    todo: list[Extent] = [f.place for f in found.routines if f.name in kernels]
    while todo:
        file, first, last = todo.pop()
        for n in range(first, last + 1):
            out.add((file, n))
            for symbol in by_line.pop((file, n), ()):
                todo += found.symbols[symbol].places
    return out
