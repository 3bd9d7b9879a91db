"""What the expressions of front matter are evaluated in, and where each of them stands.

A `Key` is a place in a version's front matter; what is wrong with its expression is said with
that place. A `Scope` is what evaluating needs of a study.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from workbench.errors import UsageError
from workbench.model import Problem
from workbench.specs import Version
from workbench.study.expressions import evaluate, names_in
from workbench.study.frontmatter import place


class Scope(Protocol):
    """What resolving needs of a `workbench.study.folder.Study`, which imports this module."""

    def names(self, version: Version, problem: Problem) -> dict[str, int]:
        """Parameters and integer defines, by name."""
        ...

    def buffer_names(self, version: Version) -> set[str]:
        """Inputs, outputs and the version's scratch buffers."""
        ...


class Key(NamedTuple):
    """A key of a version's front matter, by its path: ``launch[0].grid``."""

    version: Version
    path: str

    @property
    def name(self) -> str:
        """Its last part: ``grid``."""
        return self.path.rpartition(".")[2]

    @property
    def where(self) -> str:
        """``kernels/sgemm/v3_padded.cu:7``: its file and line."""
        return place(self.version, self.path)

    def error(self, what: str, hint: str) -> UsageError:
        """The error for it, at its line."""
        return UsageError(f"{self.where}: {what}", hint)

    def names_in(self, text: str) -> tuple[str, ...]:
        """What an expression of the key uses; a complaint names the key's line."""
        try:
            return names_in(text)
        except UsageError as error:
            raise self.error(f"{self.name}: {error.message}", error.hint) from None

    def value(self, text: str, names: dict[str, int]) -> int:
        """The value of an expression of the key; a complaint names the key's line."""
        try:
            return evaluate(text, names)
        except UsageError as error:
            raise self.error(f"{self.name}: {error.message}", error.hint) from None
