"""PTX text -> tokens -> typed instructions with their source lines.

The grammar is that of the PTX ISA manual
(https://docs.nvidia.com/cuda/parallel-thread-execution/), as far as NVRTC and nvcc write it:
directives, variables of every state space, device functions, nested scopes (inline assembly),
vector operands, predicates, labels, and `.loc` with ``inlined_at``. Debug sections are skipped. It
is one module because all rules share one cursor, and a limit stands beside the rule that it bounds.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Container, Iterator
from functools import partial
from typing import NamedTuple

from ptxemu.callers import LOC, Callers, Foreign, shipped
from ptxemu.errors import DAMAGE, PtxError
from ptxemu.ptx.instructions import (
    SIZES,
    Addr,
    Function,
    Imm,
    Instr,
    Label,
    Loc,
    Operand,
    Pair,
    Ptx,
    Reg,
    Sym,
    Variable,
    Vec,
    signature_of,
)
from ptxemu.sass import Assembled, Functions

# --- PTX text -> tokens, and a cursor over them ---

_TOKEN = re.compile(
    r"""\s+|//.*"""
    r"""|(?P<string>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<word>[%$A-Za-z_.][\w$.%]*(?:::[\w.]+)*)"""
    r"""|(?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?)"""
    r"""|(?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)"""
    r"""|(?P<punct>[{}()\[\],;:@!|+\-<>=])""",
    re.VERBOSE,
)
_ASIDE = r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\]|\\.)*"?"""
_COMMENT = re.compile(_ASIDE, re.DOTALL)
_BRACE = re.compile(_ASIDE + "|[{}]", re.DOTALL)
_HEAD = re.compile(_ASIDE + r"|\.(?:entry|func|section)\b|[{;]", re.DOTALL)


class Token(NamedTuple):
    """A word, string, number, punctuation, line of ``.loc`` or body, and the line it is on."""

    kind: str
    text: str
    line: int


_END = Token("", "", 0)


def tokens_of(text: str) -> list[Token]:
    """All tokens of a module; a function's body is one token."""
    out: list[Token] = []
    begin, line, heads = 0, 1, False
    position = 0
    while found := _HEAD.search(text, position):
        position = found.end()
        heads = (heads or found[0][0] == ".") and found[0] != ";"
        if heads and found[0] == "{":
            position = _closing(text, found.start())
            for piece, body in ((text[begin : found.start()], False),
                                (text[found.end() : position], True)):  # fmt: skip
                out += [Token("body", piece, line)] if body else tokens(piece, line)
                line += piece.count("\n")
            begin, heads = position, False
    return out + tokens(text[begin:], line)


def tokens(text: str, line: int) -> list[Token]:
    """All tokens of a text that begins at a given line; comments and white space are dropped."""
    if "/*" in text:
        text = _COMMENT.sub(
            lambda m: "\n" * m[0].count("\n") if m[0].startswith("/*") else m[0], text
        )
    out: list[Token] = []
    for number, row in enumerate(text.split("\n"), line):
        if row.lstrip()[:5] in (".loc ", ".loc\t"):
            out.append(Token("loc", row, number))
            continue
        end = 0
        while match := _TOKEN.match(row, end):
            end, kind, piece = match.end(), match.lastgroup, match[0]
            if kind == "word" and piece[0] == ".":
                # Directives may follow each other without a space: .reg.b32
                out += [Token("word", f".{part}", number) for part in piece[1:].split(".")]
            elif kind:
                out.append(Token(kind, piece, number))
        if end < len(row):
            raise PtxError(
                f"PTX line {number}: cannot read {row[end : end + 20]!r}",
                "The PTX must be as nvcc or NVRTC wrote it.",
            )
    return out


def _closing(text: str, start: int) -> int:
    """The end of a section that begins with a brace."""
    depth = 0
    for found in _BRACE.finditer(text, start):
        depth += (found[0] == "{") - (found[0] == "}")
        if not depth and found[0] == "}":
            return found.end()
    line = 1 + text.count("\n", 0, start)
    raise PtxError(f"PTX line {line}: unclosed block or comment", "It may be truncated.")


def _integer_of(text: str) -> int:
    """Parse a hexadecimal, octal, binary or decimal literal; ValueError: none, or over 64 bits."""
    if len(text) > _LONGEST:
        raise ValueError(text[:_LONGEST])
    octal = text[0] == "0" and text[1:2].isdigit()
    value = int(text.rstrip("U"), 8 if octal else 0)
    if value >> 64:
        raise ValueError(text)
    return value


def float_of(text: str) -> Imm:
    """A float literal, as its IEEE bits."""
    if text[:2] in ("0f", "0F"):
        return Imm(int(text[2:], 16), 4)
    if text[:2] in ("0d", "0D"):
        return Imm(int(text[2:], 16), 8)
    return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 8)


#: Characters of an integer: 64 binary digits with ``0b`` and ``U``.
_LONGEST = 67
#: Opcodes whose operands may be parts of registers (``%r1.b2``) or negated.
_OF_PARTS = re.compile(r"v(add|sub|absdiff|min|max|shl|shr|mad|set|avrg)[24]?\.")
_PART = re.compile(r"(.+)\.(b[0-7]{1,4}|h[0-3]{1,2})\Z")


class Cursor:
    """A place in the tokens, with the state for parsing there."""

    def __init__(self, text: str, module: Ptx, body: Token | None = None) -> None:
        self.begin = body.line if body else 1
        self.tokens = tokens(text, body.line) if body else tokens_of(text)
        self.at, self.end = 0, len(self.tokens)
        self.tokens += [_END] * 2  # for looking ahead
        self.lines = text.split("\n") if body else []
        self.module = module
        self.loc = Loc(0, 0)  # library code may have no lines
        self.callers = Callers(module.files, module.foreign)
        self.scopes: list[dict[str, str]] = []  # registers of nested scopes
        self.labels: list[dict[str, str]] = []  # and their labels
        self.registers: Container[str] = ()  # names that the body has declared
        self.counter = 0

    def peek(self, ahead: int = 0) -> str:
        """The token `ahead` of the next one; empty at the end."""
        return self.tokens[self.at + ahead].text

    def kind(self) -> str:
        """The kind of the next token."""
        return self.tokens[self.at].kind

    def next(self) -> str:
        """Take the next token."""
        if self.at >= self.end:
            raise PtxError("the PTX ends in the middle of a statement", "It may be truncated.")
        self.at += 1
        return self.tokens[self.at - 1].text

    def accept(self, text: str) -> bool:
        """Take the next token if it is this one."""
        found = self.tokens[self.at].text == text
        self.at += found
        return found

    def expect(self, text: str) -> None:
        """Take the next token, which must be this one."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.peek()!r}")

    def error(self, what: str, hint: str = "The PTX may be damaged.") -> PtxError:
        """An error that names the PTX line."""
        line = self.tokens[min(self.at, self.end - 1)].line if self.end else self.begin
        return PtxError(f"PTX line {line}: {what}", hint)

    @contextlib.contextmanager
    def damaged(self) -> Iterator[None]:
        """Raise PtxError for text that is not PTX."""
        try:
            yield
        except DAMAGE as error:
            raise self.error(f"cannot read this ({type(error).__name__}: {error})") from error

    def selected(self, opcode: str) -> tuple[str, ...]:
        """Remove parts and signs from the next operands, as modifiers ``place:part``."""
        out: list[str] = []
        if not _OF_PARTS.match(opcode):
            return ()
        place, at = 0, self.at
        kept: list[Token] = []
        while at < self.end and self.tokens[at].text != ";":
            token = self.tokens[at]
            at += 1
            if token.text == "-" and self.tokens[at].kind == "word":
                out.append(f"{place}:-")
                continue
            found = _PART.match(token.text) if token.kind == "word" else None
            if found:
                out.append(f"{place}:{found[2]}")
            kept.append(token._replace(text=found[1]) if found else token)
            place += token.text == ","
        self.end -= at - self.at - len(kept)
        self.tokens[self.at : at] = kept
        return tuple(out)

    def skip_until(self, stop: str) -> None:
        """Skip through a token."""
        while self.next() != stop:
            pass

    def skip_line(self) -> None:
        """Skip the rest of the line."""
        line = self.tokens[self.at - 1].line
        while self.at < self.end and self.tokens[self.at].line == line:
            self.at += 1

    def skip_braces(self) -> None:
        """Skip a braced section."""
        depth = 0
        while True:
            token = self.next()
            depth += (token == "{") - (token == "}")
            if depth == 0 and token == "}":
                return

    def integer(self) -> int:
        """Take an integer with its sign."""
        negative = self.accept("-")
        value = self.literal()
        return -value if negative else value

    def literal(self) -> int:
        """Take an integer without a sign."""
        text = self.next()
        try:
            return _integer_of(text)
        except ValueError:
            self.at -= 1
            raise self.error(f"{text[:_LONGEST]!r} is not an integer of 64 bits") from None

    def name(self) -> str:
        """Take a name."""
        if self.kind() != "word":
            raise self.error(f"expected a name, found {self.peek()[:_LONGEST]!r}")
        return self.next()

    # --- scopes

    def open_scope(self) -> None:
        """Enter braces: their labels are known in advance, and are private."""
        if len(self.scopes) > _MOST_SCOPES:
            raise self.error(f"more than {_MOST_SCOPES} nested braces")
        self.scopes.append({})
        labels: dict[str, str] = {}
        depth, at = 1, self.at
        while depth and at < self.end:
            token = self.tokens[at]
            at += 1
            depth += (token.text == "{") - (token.text == "}")
            if depth == 1 and token.kind == "word" and self.tokens[at].text == ":":
                self.counter += 1
                labels[token.text] = f"{token.text}${self.counter}"
        self.labels.append(labels)

    def resolve(self, name: str) -> str:
        """The unique name for a name used here."""
        for scope in (*reversed(self.scopes), *reversed(self.labels)):
            if name in scope:
                return scope[name]
        return name


# Limits of PTX. Each comment gives the most that nvcc 13 wrote for the ladders' kernels and for
# CUB's sorts, scans, reductions and histograms. Bytes are bounded by us: ptxas takes 2^60 as well.

#: Nested scopes; nvcc: one in a body, around a call or inline assembly.
_MOST_SCOPES = 32
#: Bytes of a variable; alignment and threads of an axis: ptxas refuses 2^60, 0 and less.
_MOST_BYTES, _MOST_ALIGN, _MOST_THREADS = 1 << 49, 1 << 31, (1 << 32) - 1
#: The most registers in a short text; a longer one may have one more for each of its bytes. nvcc:
#: up to 15,549 in a function, and one in 11 bytes.
_FEW = 1 << 16
_BOUNDS = ("maxntid", "reqntid", "reqnctapercluster")
_ONE_MODULE = "Only the kernel's own file is compiled: define it there."


class _Parser(Cursor):
    def parse(self) -> None:
        linkage = ""
        while self.at < self.end:
            word = self.next()
            if self.tokens[self.at - 1].kind == "loc":
                continue
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
                while self.kind() != "body":
                    self.next()
                self.next()
            elif word in (".visible", ".weak", ".common", ".extern"):
                linkage = word
                continue
            elif word in (".entry", ".func"):
                self.function(entry=word == ".entry")
            elif word in (".global", ".const", ".shared", ".tex"):
                space = "global" if word == ".tex" else word[1:]
                for variable in self.variable(space, extern=linkage == ".extern"):
                    self.module.variables[variable.name] = variable
            elif word in (".alias", ".pragma"):
                self.skip_until(";")
            elif word == "@@DWARF":
                self.skip_line()
            else:
                raise self.error(f"unknown directive {word!r}")
            linkage = ""
        self.module.point_to_functions()

    def parameters(self) -> list[Variable]:
        out: list[Variable] = []
        self.expect("(")
        while not self.accept(")"):
            word = self.next()
            if word not in (".param", ".reg"):
                raise self.error(f"expected a parameter, found {word!r}")
            out += self.variable("param")
            self.accept(",")
        return out

    def function(self, *, entry: bool) -> None:
        """An entry or device function with its body."""
        returns = self.parameters() if self.peek() == "(" else []
        function = Function(self.name(), entry, returns=returns)
        if self.peek() == "(":
            function.params = self.parameters()
        while self.kind() != "body" and self.peek() != ";":
            word = self.next()
            values = []
            while self.kind() == "int":
                values.append(self.integer())
                self.accept(",")
            known = word.lstrip(".")
            if known in _BOUNDS and not (
                1 <= len(values) <= 3 and all(0 < each <= _MOST_THREADS for each in values)
            ):
                raise self.error(f"{word} takes one to three numbers from 1 to {_MOST_THREADS}")
            function.directives[known] = tuple(values)
        if self.accept(";"):
            self.module.functions.setdefault(function.name, function)
            return
        body = self.tokens[self.at]
        self.at += 1
        function.leave(body.text, partial(_read_body, self.module, body))
        self.module.functions[function.name] = function

    # --- bodies

    def body(self, function: Function) -> None:
        self.scopes, self.labels, self.registers = [{}], [{}], function.registers
        self.block(function)

    def variable(self, space: str, *, extern: bool = False) -> list[Variable]:
        """Everything after the state space, through the semicolon (for parameters: , or ) )."""
        align, element, vector, opaque, kind = 0, 0, 1, False, ""
        while self.peek().startswith("."):
            word = self.next()[1:]
            if word == "align":
                align = self.integer()
                if align < 1 or align & (align - 1) or align > _MOST_ALIGN:
                    raise self.error(f"the alignment {align} is not a power of two up to 2^31")
            elif word in ("v2", "v4", "v8"):
                vector = int(word[1:])
            elif word == "attribute":
                self.skip_until(")")
            elif word == "ptr":
                if self.peek() in (".global", ".const", ".shared", ".local"):
                    self.next()
            elif word in SIZES:
                element, kind = SIZES[word], word
            elif word in ("texref", "surfref", "samplerref"):
                element, opaque = 8, True
        out = []
        while True:
            name = self.name()
            if not element:
                raise self.error(f"{name} has no type")
            count, extent_known = vector, True
            while self.accept("["):
                if self.accept("]"):
                    extent_known = False
                else:
                    count *= self.literal()
                    if element * count > _MOST_BYTES:
                        raise self.error(f"{name} exceeds what a GPU can address: 2^49 bytes")
                    self.expect("]")
            init: bytes = b""
            symbols: tuple[tuple[int, str], ...] = ()
            if opaque and self.accept("="):
                self.skip_braces()  # its filter and wrap modes: instructions on it are refused
            elif self.accept("="):
                init, symbols = self.initializer(element)
                if not extent_known:
                    count = len(init) // element
                    extent_known = True
            size = element * count if extent_known else 0
            if len(init) > size:
                raise self.error(
                    f"{name} has {len(init)} bytes of initial values, but holds {size}"
                )
            if extern and space != "shared" and not init:
                raise self.error(f"{name} is defined in another module", _ONE_MODULE)
            out.append(Variable(name, space, size, align or element, init, symbols, kind))
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
                offset = self.integer() if self.accept("+") else 0
                data += (offset % (1 << (8 * element))).to_bytes(element, "little")
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

    def location(self, text: str) -> None:
        """``.loc``: the position of the instructions that follow."""
        self.at += 1
        found = LOC.match(f"{text}\n")
        if found is None:
            raise self.error("a damaged .loc")
        file, line = int(found[1]), int(found[2])
        inlined = (int(found[3]), int(found[4])) if found[3] else None
        # Line 0 means "compiler-made": such code stays on the line before it.
        if line:
            home = self.callers.home((file, line), inlined)
            self.loc = Loc(file, line, None if home == (file, line) else home)

    def declare(self, function: Function, name: str, kind: str) -> None:
        """Declare a register; in a nested scope under a unique name."""
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
            if self.kind() == "loc":
                self.location(word)
            elif word.startswith("."):
                self.next()
                self.body_directive(function, word)
            elif self.peek(1) == ":" and self.kind() == "word":
                self.label(function)
            else:
                self.instruction(function)

    def label(self, function: Function) -> None:
        """A label, or the table or prototype after it."""
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
            self.next()  # its unused name
            params = self.parameters() if self.peek() == "(" else []
            self.skip_until(";")
            function.prototypes[self.resolve(name)] = signature_of(returns, params)
        else:
            function.body.append(Label(self.resolve(name)))

    def body_directive(self, function: Function, word: str) -> None:
        if word == ".reg":
            kind = self.next()[1:]
            if kind not in SIZES:
                raise self.error(f"unknown type {kind!r}")
            while True:
                name = self.next()
                if self.accept("<"):
                    count = self.literal()
                    self.module.room -= count
                    if self.module.room < 0:
                        raise self.error(
                            f"{count:,} registers {name}, in so short a PTX",
                            "Compiler output has at least one byte of text for each register.",
                        )
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
        opcode = self.name()
        if ".." in opcode or opcode[-1] == ".":
            raise self.error(f"{opcode!r} is not an opcode")
        selected = self.selected(opcode)
        operands: list[Operand] = []
        while not self.accept(";"):
            operands.append(self.operand())
            if not self.accept(","):
                self.expect(";")
                break
        text = self.lines[start - self.begin].strip()
        parts = (*opcode.split("."), *selected)
        function.body.append(Instr(parts, tuple(operands), guard, self.loc, start, text))

    def operand(self) -> Operand:
        """An operand, or a pair ``d|p``."""
        first = self.single()
        if self.accept("|"):
            return Pair(first, self.single())
        return first

    def single(self) -> Operand:
        kind, token, _ = self.tokens[self.at]
        if kind == "word" and token[0] == "%":
            self.at += 1
            return Reg(self.resolve(token))
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
            return Imm(-self.literal())
        if kind == "int":
            return Imm(self.literal())
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
        is_register = name.startswith("%") or name == "_" or name in self.registers
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
        # An address has 64 bits: a large offset may also mean a subtraction.
        offset = (offset + (1 << 63)) % (1 << 64) - (1 << 63)
        items: list[Operand] = [Addr(base, offset)]
        while self.accept(","):
            items.append(self.single())
        self.expect("]")
        return Vec(tuple(items)) if items[1:] else Addr(base, offset)


def _read_body(module: Ptx, body: Token, function: Function) -> None:
    """Parse the body of a function; PtxError: it is damaged."""
    parser = _Parser(body.text, module, body)
    with parser.damaged():
        parser.body(function)


def parse(
    text: str, functions: Functions | None = None, foreign: Foreign = shipped, *, lazy: bool = False
) -> Ptx:
    """Parse a PTX module; the body of a function is read when it is first needed, if `lazy`.

    `functions` are ptxas's machine code for this text, line by line. `foreign` says whether a path
    is that of a header, whose cost is its caller's. Raises PtxError: the text is not PTX as nvcc or
    NVRTC write it; it names the PTX line.
    """
    module = Ptx(foreign, assembled=Assembled(functions, foreign), room=_FEW + len(text))
    parser = _Parser(text, module)
    with parser.damaged():
        parser.parse()
    if not lazy:
        for each in module.functions.values():
            each.read()
    return module
