"""PTX text -> tokens, and a cursor over them."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from ptxemu.callers import Callers, Foreign, files_of
from ptxemu.errors import PtxError
from ptxemu.ptx.instructions import Imm, Loc, Module
from ptxemu.sass.accesses import Assembled

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
class Token:
    """A word, string, number or punctuation, and the line it stands on."""

    kind: str
    text: str
    line: int


def tokens_of(text: str) -> list[Token]:
    """All tokens of a text; comments and white space are dropped."""
    out: list[Token] = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise PtxError(
                f"PTX line {line}: cannot read {text[position : position + 20]!r}",
                "The PTX must be as nvcc or NVRTC wrote it.",
            )
        piece = match.group()
        if match.lastgroup == "word" and piece.startswith("."):
            # Directives may stand without a space between: .reg.b32
            out += [Token("word", f".{part}", line) for part in piece[1:].split(".")]
        elif match.lastgroup:
            out.append(Token(match.lastgroup, piece, line))
        line += piece.count("\n")
        position = match.end()
    return out


def integer_of(text: str) -> int:
    """A decimal, hexadecimal, octal or binary literal."""
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8)
    return int(text)


def float_of(text: str) -> Imm:
    """A float literal, as its IEEE bits."""
    if text[:2] in ("0f", "0F"):
        return Imm(int(text[2:], 16), 4)
    if text[:2] in ("0d", "0D"):
        return Imm(int(text[2:], 16), 8)
    return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 8)


#: Opcodes whose operands may be parts of registers (``%r1.b2``) or negated.
_OF_PARTS = re.compile(r"v(add|sub|absdiff|min|max|shl|shr|mad|set|avrg)[24]?\.")
_PART = re.compile(r"(.+)\.([bh]\d{1,4})\Z")


class Cursor:
    """A place in the tokens, with what parsing needs to know there."""

    def __init__(self, text: str, assembled: Assembled, foreign: Foreign) -> None:
        self.tokens = tokens_of(text)
        self.at = 0
        self.lines = text.split("\n")
        self.module = Module(foreign, assembled=assembled)
        self.loc = Loc(0, 0)
        self.callers = Callers(files_of(self.lines), foreign)
        self.scopes: list[dict[str, str]] = []  # registers of nested scopes
        self.labels: list[dict[str, str]] = []  # and their labels
        self.counter = 0

    def peek(self, ahead: int = 0) -> str:
        """The token `ahead` of the next one; empty at the end."""
        index = self.at + ahead
        return self.tokens[index].text if index < len(self.tokens) else ""

    def kind(self) -> str:
        """What sort of token comes next."""
        return self.tokens[self.at].kind if self.at < len(self.tokens) else ""

    def next(self) -> str:
        """Take the next token."""
        if self.at >= len(self.tokens):
            raise PtxError("the PTX ends in the middle of a statement", "It may be truncated.")
        self.at += 1
        return self.tokens[self.at - 1].text

    def accept(self, text: str) -> bool:
        """Take the next token if it is this one."""
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Take the next token, which must be this one."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.peek()!r}")

    def error(self, what: str, hint: str = "The PTX may be damaged.") -> PtxError:
        """An error that names the PTX line."""
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        return PtxError(f"PTX line {token.line}: {what}", hint)

    def selected(self, opcode: str) -> tuple[str, ...]:
        """Take parts and signs off the operands that come, as modifiers ``place:part``."""
        out: list[str] = []
        if not _OF_PARTS.match(opcode):
            return ()
        place, at = 0, self.at
        while at < len(self.tokens) and self.tokens[at].text != ";":
            token = self.tokens[at]
            found = _PART.match(token.text) if token.kind == "word" else None
            if found:
                self.tokens[at] = replace(token, text=found[1])
                out.append(f"{place}:{found[2]}")
            if token.text == "-" and self.tokens[at + 1].kind == "word":
                del self.tokens[at]
                out.append(f"{place}:-")
                continue
            place += token.text == ","
            at += 1
        return tuple(out)

    def skip_until(self, stop: str) -> None:
        """Skip through a token."""
        while self.next() != stop:
            pass

    def skip_line(self) -> None:
        """Skip the rest of the line."""
        line = self.tokens[self.at - 1].line
        while self.at < len(self.tokens) and self.tokens[self.at].line == line:
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
        value = integer_of(self.next())
        return -value if negative else value

    # --- scopes

    def open_scope(self) -> None:
        """Enter braces: labels in them are known ahead, and are nobody else's."""
        self.scopes.append({})
        labels: dict[str, str] = {}
        depth = 1
        for token, after in pairwise(islice(self.tokens, self.at, None)):
            depth += (token.text == "{") - (token.text == "}")
            if not depth:
                break
            if depth == 1 and token.kind == "word" and after.text == ":":
                self.counter += 1
                labels[token.text] = f"{token.text}${self.counter}"
        self.labels.append(labels)

    def resolve(self, name: str) -> str:
        """The unique name of what a name means here."""
        for scope in (*reversed(self.scopes), *reversed(self.labels)):
            if name in scope:
                return scope[name]
        return name
