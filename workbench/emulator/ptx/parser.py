"""PTX text -> typed instructions with their source lines.

The grammar is that of the PTX ISA manual
(https://docs.nvidia.com/cuda/parallel-thread-execution/), as far as NVRTC and nvcc
write it: directives, variables of every state space, device functions, nested
scopes (inline assembly), vector operands, predicates, labels, and `.loc` with
``inlined_at``. Debug sections are skipped.
"""

from __future__ import annotations

from workbench.emulator.ptx.body import BodyParser
from workbench.emulator.ptx.instructions import Function, Loc, Module, Variable


class _Parser(BodyParser):
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
        self.scopes = [{}]
        self.loc = Loc(0, 0)  # library code may come without lines
        self.block(function)
        self.module.functions[function.name] = function


def parse(text: str) -> Module:
    """Parse a PTX module.

    Raises:
        DataError: the text is not PTX as nvcc or NVRTC write it; names the PTX line.
    """
    return _Parser(text).parse()
