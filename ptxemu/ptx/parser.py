"""PTX text -> typed instructions with their source lines.

The grammar is that of the PTX ISA manual
(https://docs.nvidia.com/cuda/parallel-thread-execution/), as far as NVRTC and nvcc
write it: directives, variables of every state space, device functions, nested
scopes (inline assembly), vector operands, predicates, labels, and `.loc` with
``inlined_at``. Debug sections are skipped.
"""

from __future__ import annotations

import struct

from ptxemu.callers import Foreign, shipped
from ptxemu.ptx.instructions import (
    SIZES,
    Addr,
    Function,
    Imm,
    Instr,
    Label,
    Loc,
    Module,
    Operand,
    Pair,
    Reg,
    Sym,
    Variable,
    Vec,
    signature_of,
)
from ptxemu.ptx.lexer import Cursor, float_of, integer_of
from ptxemu.sass.accesses import Assembled
from ptxemu.sass.cubin import Functions

_ONE_MODULE = "Only the kernel's own file is compiled: define it there."


class _Parser(Cursor):
    def parse(self) -> Module:
        """The whole module."""
        linkage = ""
        while self.at < len(self.tokens):
            word = self.next()
            if word == ".version":
                self.module.version = self.next()
            elif word == ".target":
                self.module.target = self.next()
                while self.accept(","):
                    self.next()
            elif word == ".address_size":
                self.next()
            elif word == ".file":
                index = self.integer()
                self.module.files[index] = self.next().strip('"')
                self.skip_line()
            elif word == ".section":
                self.next()
                self.skip_braces()
            elif word in (".visible", ".weak", ".common", ".extern"):
                linkage = word
                continue
            elif word in (".entry", ".func"):
                self.function(entry=word == ".entry")
            elif word in (".global", ".const", ".shared", ".tex"):
                space = "global" if word == ".tex" else word[1:]
                for variable in self.variable(space, extern=linkage == ".extern"):
                    self.module.variables[variable.name] = variable
            elif word == ".loc":
                self.location()
            elif word in (".alias", ".pragma"):
                self.skip_until(";")
            elif word == "@@DWARF":
                self.skip_line()
            else:
                raise self.error(f"unknown directive {word!r}")
            linkage = ""
        self.module.point_to_functions()
        return self.module

    def parameters(self) -> list[Variable]:
        """A parenthesised parameter list."""
        out: list[Variable] = []
        self.expect("(")
        while not self.accept(")"):
            space = self.next()
            if space not in (".param", ".reg"):
                raise self.error(f"expected a parameter, found {space!r}")
            out += self.variable("param")
            self.accept(",")
        return out

    def function(self, *, entry: bool) -> None:
        """An entry or device function with its body."""
        returns = self.parameters() if self.peek() == "(" else []
        function = Function(self.next(), entry, returns=returns)
        if self.peek() == "(":
            function.params = self.parameters()
        while self.peek() not in ("{", ";"):
            word = self.next()
            values = []
            while self.kind() == "int":
                values.append(self.integer())
                self.accept(",")
            function.directives[word.lstrip(".")] = tuple(values)
        if self.accept(";"):
            self.module.functions.setdefault(function.name, function)
            return
        self.expect("{")
        self.scopes, self.labels = [{}], [{}]
        self.loc = Loc(0, 0)  # library code may come without lines
        self.block(function)
        self.module.functions[function.name] = function

    # --- bodies

    def variable(self, space: str, *, extern: bool = False) -> list[Variable]:
        """Everything after the state space, through the semicolon (or , or ) of parameters)."""
        align, element, vector, opaque = 0, 0, 1, False
        while self.peek().startswith("."):
            word = self.next()[1:]
            if word == "align":
                align = self.integer()
            elif word in ("v2", "v4", "v8"):
                vector = int(word[1:])
            elif word == "attribute":
                self.skip_until(")")
            elif word == "ptr":
                if self.peek() in (".global", ".const", ".shared", ".local"):
                    self.next()
            elif word in SIZES:
                element = SIZES[word]
            elif word in ("texref", "surfref", "samplerref"):
                element, opaque = 8, True
        out = []
        while True:
            name = self.next()
            count, extent_known = vector, True
            while self.accept("["):
                if self.accept("]"):
                    extent_known = False
                else:
                    count *= self.integer()
                    self.expect("]")
            init: bytes = b""
            symbols: tuple[tuple[int, str], ...] = ()
            if opaque and self.accept("="):
                self.skip_braces()  # how it filters and wraps: instructions on it are refused
            elif self.accept("="):
                init, symbols = self.initializer(element)
                if not extent_known:
                    count = len(init) // max(element, 1)
                    extent_known = True
            size = element * count if extent_known else 0
            if extern and space != "shared" and not init:
                raise self.error(f"{name} is defined in another module", _ONE_MODULE)
            out.append(Variable(name, space, size, align or element, init, symbols))
            if self.peek() != "," or space == "param":
                break
            self.next()
        if space != "param":
            self.expect(";")
        return out

    def initializer(self, element: int) -> tuple[bytes, tuple[tuple[int, str], ...]]:
        """The bytes of a variable's initial value, and the symbols whose addresses are in it."""
        data = bytearray()
        symbols: list[tuple[int, str]] = []
        depth = 0
        while True:
            if self.accept("{"):
                depth += 1
            elif self.accept("}"):
                depth -= 1
            elif self.accept(","):
                pass
            elif self.kind() == "float":
                data += self.number_bytes(float_of(self.next()), element)
            elif self.kind() == "int" or self.peek() == "-":
                data += (self.integer() % (1 << (8 * element))).to_bytes(element, "little")
            elif self.kind() == "word":
                name = self.next()
                if name == "generic":
                    self.expect("(")
                    name = self.next()
                    self.expect(")")
                symbols.append((len(data), name))
                data += bytes(element)
            else:
                raise self.error(f"cannot read the initializer at {self.peek()!r}")
            if depth == 0:
                return bytes(data), tuple(symbols)

    @staticmethod
    def number_bytes(value: Imm, element: int) -> bytes:
        """A float literal as the bytes of one element."""
        if value.width == element:
            return value.bits.to_bytes(element, "little")
        number = struct.unpack("<d", value.bits.to_bytes(8, "little"))[0]
        return struct.pack("<f" if element == 4 else "<d", number)

    def location(self) -> None:
        """``.loc``: where the instructions that follow come from."""
        line_of = self.tokens[self.at - 1].line
        file, line = self.integer(), self.integer()
        inlined = None
        rest = []
        while self.at < len(self.tokens) and self.tokens[self.at].line == line_of:
            rest.append(self.next())
        if "inlined_at" in rest:
            at = rest.index("inlined_at")
            inlined = (int(rest[at + 1]), int(rest[at + 2]))
        # Line 0 means "compiler-made": such code stays on the line before it.
        if line:
            home = self.callers.home((file, line), inlined)
            self.loc = Loc(file, line, inlined, None if home == (file, line) else home)

    def declare(self, function: Function, name: str, kind: str) -> None:
        """A register; in a nested scope under a name of its own."""
        scope = self.scopes[-1]
        unique = name
        if len(self.scopes) > 1:
            self.counter += 1
            unique = f"{name}@{self.counter}"
        scope[name] = unique
        function.registers[unique] = kind

    def block(self, function: Function) -> None:
        """A body, through its closing brace."""
        while True:
            if self.accept("}"):
                self.scopes.pop()
                self.labels.pop()
                if not self.scopes:
                    return
                continue
            if self.accept("{"):
                self.open_scope()
                continue
            if self.accept(";"):
                continue
            word = self.peek()
            if word.startswith("."):
                self.next()
                self.body_directive(function, word)
            elif self.peek(1) == ":" and self.kind() == "word":
                self.label(function)
            else:
                self.instruction(function)

    def label(self, function: Function) -> None:
        """A label, or the table or prototype behind it."""
        name = self.next()
        self.expect(":")
        if self.peek() == ".branchtargets":
            self.next()
            targets = []
            while not self.accept(";"):
                word = self.next()
                if word != ",":
                    targets.append(self.resolve(word))
            function.branch_tables[self.resolve(name)] = tuple(targets)
        elif self.peek() == ".callprototype":
            self.next()
            returns = self.parameters() if self.peek() == "(" else []
            self.next()  # its name, which is nobody's
            params = self.parameters() if self.peek() == "(" else []
            self.skip_until(";")
            function.prototypes[self.resolve(name)] = signature_of(returns, params)
        else:
            function.body.append(Label(self.resolve(name)))

    def body_directive(self, function: Function, word: str) -> None:
        """A directive inside of a body."""
        if word == ".reg":
            kind = self.next()[1:]
            while True:
                name = self.next()
                if self.accept("<"):
                    count = self.integer()
                    self.expect(">")
                    for index in range(count):
                        self.declare(function, f"{name}{index}", kind)
                else:
                    self.declare(function, name, kind)
                if self.accept(";"):
                    return
                self.expect(",")
        elif word in (".shared", ".local", ".const", ".global"):
            for variable in self.variable(word[1:]):
                function.variables.append(variable)
        elif word == ".param":
            for variable in self.variable("param"):
                self.declare(function, variable.name, "param")
            self.expect(";")
        elif word == ".loc":
            self.location()
        elif word == ".pragma":
            text = self.next()
            self.skip_until(";")
            line = self.tokens[self.at - 1].line
            function.body.append(Instr(("pragma",), (), None, self.loc, line, text))
        else:
            raise self.error(f"unknown directive {word!r} in {function.name}")

    def instruction(self, function: Function) -> None:
        """One instruction with its guard and operands."""
        start = self.tokens[self.at].line
        guard = None
        if self.accept("@"):
            negated = self.accept("!")
            guard = Reg(self.resolve(self.next()), negated)
        opcode = self.next()
        selected = self.selected(opcode)
        operands: list[Operand] = []
        while not self.accept(";"):
            operands.append(self.operand())
            if not self.accept(","):
                self.expect(";")
                break
        text = self.lines[start - 1].strip()
        parts = (*opcode.split("."), *selected)
        function.body.append(Instr(parts, tuple(operands), guard, self.loc, start, text))

    def operand(self) -> Operand:
        """An operand, or a pair ``d|p``."""
        first = self.single()
        if self.accept("|"):
            return Pair(first, self.single())
        return first

    def single(self) -> Operand:
        """One operand."""
        token, kind = self.peek(), self.kind()
        if token in ("{", "("):
            self.next()
            close = "}" if token == "{" else ")"
            items: list[Operand] = []
            while not self.accept(close):
                items.append(self.operand())
                self.accept(",")
            return Vec(tuple(items))
        if token == "[":
            return self.address()
        if token == "!":
            self.next()
            return Reg(self.resolve(self.next()), True)
        if token == "-":
            self.next()
            if self.kind() == "float":
                value = float_of(self.next())
                return Imm(value.bits ^ (1 << (8 * value.width - 1)), value.width)
            return Imm(-integer_of(self.next()))
        if kind == "int":
            return Imm(integer_of(self.next()))
        if kind == "float":
            return float_of(self.next())
        if kind == "word":
            name = self.resolve(self.next())
            if self.peek() == "+" and not name.startswith("%"):
                self.next()
                return Sym(name, self.integer())
            return self.named(name)
        raise self.error(f"cannot read operand {token!r}")

    def named(self, name: str) -> Reg | Sym:
        """A name as a register or as a symbol."""
        is_register = name.startswith("%") or name == "_" or "@" in name
        if not is_register and any(name in scope.values() for scope in self.scopes):
            is_register = True
        return Reg(name) if is_register else Sym(name)

    def address(self) -> Addr | Vec:
        """``[base + offset]``, or ``[texture, sampler, {coordinates}]`` as a vector of all."""
        self.expect("[")
        base: Reg | Sym | None = None
        offset = 0
        if self.kind() == "int":
            offset = self.integer()
        else:
            base = self.named(self.resolve(self.next()))
            if self.accept("+") or self.peek() == "-":
                offset = self.integer()
        items: list[Operand] = [Addr(base, offset)]
        while self.accept(","):
            items.append(self.single())
        self.expect("]")
        return Vec(tuple(items)) if items[1:] else Addr(base, offset)


def parse(text: str, functions: Functions | None = None, foreign: Foreign = shipped) -> Module:
    """Parse a PTX module.

    Args:
        text: As a compiler wrote it.
        functions: What ptxas made of this text, line by line.
        foreign: Whether a path is that of a header, whose cost is its caller's.

    Raises:
        PtxError: the text is not PTX as nvcc or NVRTC write it; names the PTX line.
    """
    return _Parser(text, Assembled(functions, foreign), foreign).parse()
