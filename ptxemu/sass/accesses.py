"""What ptxas made of the accesses of PTX: on which line each stands, and how wide it is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ptxemu.callers import Foreign, shipped
from ptxemu.sass.cubin import Functions
from ptxemu.sass.opcodes import MachineInstr, Sign


class Assembled:
    """The machine code of a module, looked up by lines of its PTX; false where it is not known.

    Args:
        functions: `ptxemu.sass.cubin.functions_of` its cubin.
        foreign: Whether a path is that of a header which nobody edits.
    """

    def __init__(self, functions: Functions | None = None, foreign: Foreign = shipped) -> None:
        self._foreign = foreign
        self.functions = functions or {}
        self._made: defaultdict[int, list[MachineInstr]] = defaultdict(list)
        for code in self.functions.values():
            for each in code:
                self._made[each.ptx_line].append(each)

    def __bool__(self) -> bool:
        return bool(self.functions)

    def _of(self, ptx_line: int, op: str) -> Iterator[MachineInstr]:
        for each in self._made.get(ptx_line, ()):
            if each.sign(op) in (Sign.EFFECT, Sign.FRAGMENT):
                yield each

    def place(self, ptx_line: int, op: str) -> tuple[str, int] | None:
        """Path and line at which a profiler finds what an instruction of PTX does.

        ptxas moves the line with the instruction, and gives one to what PTX leaves without. None
        where it says nothing, or names a toolkit's header: then PTX says whose the cost is.

        Args:
            ptx_line: Its line.
            op: Its opcode.
        """
        found = Counter((each.file, each.line) for each in self._of(ptx_line, op))
        if not found:
            return None
        ((place, _),) = found.most_common(1)
        return None if self._foreign(place[0]) or not place[1] else place

    def holds(self, ptx_line: int, op: str, distance: int) -> bool:
        """Does a load or store stand for another one so many bytes further as well?

        ptxas may give two accesses that it does not join the line of the first.
        """
        offsets = {each.offset for each in self._of(ptx_line, op) if each.moves}
        return any(offset + distance in offsets for offset in offsets)

    def width(self, ptx_line: int, op: str) -> int | None:
        """Bytes of a thread that a load or store moves on the machine.

        More than in PTX where ptxas joined it with its neighbours, fewer where somebody reads a
        part alone, 0 where another access has it along. None where code is not known, or copies
        of the instruction differ, as in a loop some of whose turns are joined.
        """
        if not self:
            return None
        widths = {each.width for each in self._of(ptx_line, op) if each.moves}
        return widths.pop() if len(widths) == 1 else None if widths else 0
