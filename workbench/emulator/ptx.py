"""PTX text -> typed instructions with their source lines.

The grammar is that of the PTX ISA manual
(https://docs.nvidia.com/cuda/parallel-thread-execution/), as far as NVRTC and nvcc
write it: directives, variables of every state space, device functions, nested
scopes (inline assembly), vector operands, predicates, labels, and `.loc` with
``inlined_at``. Debug sections are skipped.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from workbench.errors import DataError

#: Bytes of each fundamental type, by the suffix that instructions carry.
SIZES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loc:
    """A source position: `file` indexes `Module.files`; `inlined_at` is the caller's."""

    file: int
    line: int
    inlined_at: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Reg:
    """A register operand (or predicate); `negated` for ``!%p``."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Imm:
    """A literal. `bits` of a float literal are IEEE bits of `width` bytes; 0: an integer."""

    bits: int
    width: int = 0


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable, label or function name used as a value."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    """``{a, b, …}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``: a result and the predicate beside it."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Addr:
    """``[base + offset]``; base is a register, a variable or None (absolute)."""

    base: Reg | Sym | None
    offset: int = 0


Operand = Reg | Imm | Sym | Vec | Pair | Addr


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction. `parts` are the dot-separated pieces of its opcode."""

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Reg | None
    loc: Loc
    ptx_line: int
    text: str

    @property
    def op(self) -> str:
        """The opcode without modifiers."""
        return self.parts[0]


@dataclass(frozen=True, slots=True)
class Label:
    """A jump target inside a body."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space. `size` in bytes; 0 for ``extern .shared x[]``."""

    name: str
    space: str
    size: int
    align: int
    init: bytes = b""
    symbols: tuple[tuple[int, str], ...] = ()  # offset -> symbol whose address stands there


@dataclass(slots=True)
class Function:
    """An entry or device function."""

    name: str
    entry: bool
    params: list[Variable] = field(default_factory=list)
    returns: list[Variable] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)  # name -> type
    variables: list[Variable] = field(default_factory=list)
    body: list[Instr | Label] = field(default_factory=list)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)  # maxntid, reqntid …
    branch_tables: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Module:
    """A parsed PTX module."""

    version: str = ""
    target: str = ""
    files: dict[int, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)

    def where(self, loc: Loc) -> str:
        """``file:line`` of a position, for messages."""
        return f"{self.files.get(loc.file, '?')}:{loc.line}"


_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|(?P<string>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<word>[%$A-Za-z_.][\w$.%]*(?:::[\w.]+)*)"""
    r"""|(?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?)"""
    r"""|(?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)"""
    r"""|(?P<punct>[{}()\[\],;:@!|+\-<>=])""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


def _tokens(text: str) -> list[_Token]:
    out: list[_Token] = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise DataError(
                f"PTX line {line}: cannot read {text[position : position + 20]!r}",
                "The PTX must be NVRTC's or nvcc's own text.",
            )
        piece = match.group()
        if match.lastgroup:
            out.append(_Token(match.lastgroup, piece, line))
        line += piece.count("\n")
        position = match.end()
    return out


def _integer(text: str) -> int:
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8)
    return int(text)


def _float(text: str) -> Imm:
    if text[:2] in ("0f", "0F"):
        return Imm(int(text[2:], 16), 4)
    if text[:2] in ("0d", "0D"):
        return Imm(int(text[2:], 16), 8)
    return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 8)


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.lines = text.split("\n")
        self.module = Module()
        self.loc = Loc(0, 0)
        self.scopes: list[dict[str, str]] = []
        self.counter = 0

    # --- tokens

    def peek(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.tokens[index].text if index < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at].kind if self.at < len(self.tokens) else ""

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise DataError("the PTX ends in the middle of a statement", "It may be truncated.")
        self.at += 1
        return self.tokens[self.at - 1].text

    def accept(self, text: str) -> bool:
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.peek()!r}")

    def error(self, what: str) -> DataError:
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        return DataError(f"PTX line {token.line}: {what}", "The PTX may be damaged.")

    def skip_until(self, stop: str) -> None:
        while self.next() != stop:
            pass

    def skip_line(self) -> None:
        line = self.tokens[self.at - 1].line
        while self.at < len(self.tokens) and self.tokens[self.at].line == line:
            self.at += 1

    def skip_braces(self) -> None:
        depth = 0
        while True:
            token = self.next()
            depth += (token == "{") - (token == "}")
            if depth == 0 and token == "}":
                return

    def integer(self) -> int:
        negative = self.accept("-")
        value = _integer(self.next())
        return -value if negative else value

    # --- module level

    def parse(self) -> Module:
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
            elif word in (".global", ".const", ".shared"):
                for variable in self.variable(word[1:], extern=linkage == ".extern"):
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
        return self.module

    def variable(self, space: str, *, extern: bool = False) -> list[Variable]:
        """Everything after the state space, through the semicolon (or , or ) of parameters)."""
        align, element, vector = 0, 0, 1
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
                element = 8
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
            init, symbols = b"", ()
            if self.accept("="):
                init, symbols = self.initialiser(element)
                if not extent_known:
                    count = len(init) // max(element, 1)
                    extent_known = True
            size = element * count if extent_known else 0
            if extern and space != "shared" and not init:
                raise self.error(f"{name} is defined in another module")
            out.append(Variable(name, space, size, align or element, init, symbols))
            if self.peek() != "," or space == "param":
                break
            self.next()
        if space != "param":
            self.expect(";")
        return out

    def initialiser(self, element: int) -> tuple[bytes, tuple[tuple[int, str], ...]]:
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
                data += self.number_bytes(_float(self.next()), element)
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
                raise self.error(f"cannot read the initialiser at {self.peek()!r}")
            if depth == 0:
                return bytes(data), tuple(symbols)

    @staticmethod
    def number_bytes(value: Imm, element: int) -> bytes:
        if value.width == element:
            return value.bits.to_bytes(element, "little")
        number = struct.unpack("<d", value.bits.to_bytes(8, "little"))[0]
        return struct.pack("<f" if element == 4 else "<d", number)

    def location(self) -> None:
        line_of = self.tokens[self.at - 1].line
        file, line = self.integer(), self.integer()
        inlined = None
        rest = []
        while self.at < len(self.tokens) and self.tokens[self.at].line == line_of:
            rest.append(self.next())
        if "inlined_at" in rest:
            at = rest.index("inlined_at")
            inlined = (int(rest[at + 1]), int(rest[at + 2]))
        # Line 0 means "compiler-made": ptxas leaves such code on the line before it.
        if line:
            self.loc = Loc(file, line, inlined)

    # --- functions

    def parameters(self) -> list[Variable]:
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
        self.scopes = [{}]
        self.block(function)
        self.module.functions[function.name] = function

    def declare(self, function: Function, name: str, kind: str) -> None:
        scope = self.scopes[-1]
        unique = name
        if len(self.scopes) > 1:
            self.counter += 1
            unique = f"{name}@{self.counter}"
        scope[name] = unique
        function.registers[unique] = kind

    def resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def block(self, function: Function) -> None:
        while True:
            if self.accept("}"):
                self.scopes.pop()
                if not self.scopes:
                    return
                continue
            if self.accept("{"):
                self.scopes.append({})
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
        name = self.next()
        self.expect(":")
        if self.peek() == ".branchtargets":
            self.next()
            targets = []
            while not self.accept(";"):
                word = self.next()
                if word != ",":
                    targets.append(word)
            function.branch_tables[name] = tuple(targets)
        elif self.peek() == ".callprototype":
            self.skip_until(";")
        else:
            # Labels of inline assembly are made unique by their author (%=), or scoped.
            if len(self.scopes) > 1:
                self.scopes[-1].setdefault(name, name)
            function.body.append(Label(name))

    def body_directive(self, function: Function, word: str) -> None:
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
        start = self.tokens[self.at].line
        guard = None
        if self.accept("@"):
            negated = self.accept("!")
            guard = Reg(self.resolve(self.next()), negated)
        opcode = self.next()
        operands: list[Operand] = []
        while not self.accept(";"):
            operands.append(self.operand())
            if not self.accept(","):
                self.expect(";")
                break
        text = self.lines[start - 1].strip()
        parts = tuple(opcode.split("."))
        function.body.append(Instr(parts, tuple(operands), guard, self.loc, start, text))

    def operand(self) -> Operand:
        first = self.single()
        if self.accept("|"):
            return Pair(first, self.single())
        return first

    def single(self) -> Operand:
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
                value = _float(self.next())
                return Imm(value.bits ^ (1 << (8 * value.width - 1)), value.width)
            return Imm(-_integer(self.next()))
        if kind == "int":
            return Imm(_integer(self.next()))
        if kind == "float":
            return _float(self.next())
        if kind == "word":
            name = self.resolve(self.next())
            if self.peek() == "+" and not name.startswith("%"):
                self.next()
                return Sym(name, self.integer())
            return self.named(name)
        raise self.error(f"cannot read operand {token!r}")

    def named(self, name: str) -> Reg | Sym:
        is_register = name.startswith("%") or name == "_" or "@" in name
        if not is_register and any(name in scope.values() for scope in self.scopes):
            is_register = True
        return Reg(name) if is_register else Sym(name)

    def address(self) -> Addr:
        self.expect("[")
        base: Reg | Sym | None = None
        offset = 0
        if self.kind() == "int":
            offset = self.integer()
        else:
            base = self.named(self.resolve(self.next()))
            if self.accept("+"):
                offset = self.integer()
            elif self.peek() == "-":
                offset = self.integer()
        if self.accept(","):
            raise self.error("texture and tensor-map operands are not supported")
        self.expect("]")
        return Addr(base, offset)


def parse(text: str) -> Module:
    """Parse a PTX module.

    Raises:
        DataError: the text is not PTX as nvcc or NVRTC write it; names the PTX line.
    """
    return _Parser(text).parse()
