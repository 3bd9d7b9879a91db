"""A version's space: the choices that its ``[tune]`` allows, and the version that each makes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import cached_property

from msgspec.structs import replace

from workbench.errors import UsageError
from workbench.ladder.tunings import Value, Values, choice_name
from workbench.model import Problem
from workbench.specs import LaunchSpec, Version
from workbench.study.expressions import Key
from workbench.study.folder import Study
from workbench.study.frontmatter import define_text
from workbench.study.launches import BLOCK_NAMES

#: Up to this many choices, those that meet `requires` are counted.
_COUNTED = 2048


class Space:
    """The choices for a version on a problem; UsageError: it has no ``[tune]``."""

    def __init__(self, study: Study, version: Version, problem: Problem) -> None:
        if version.tune is None:
            raise UsageError(
                f"{version.id} has no [tune] table, so nothing can be tuned",
                f"Add to the front matter of {version.path}, for example: [tune] and "
                "TILE = [16, 32, 64]. `workbench docs front-matter` shows the rest.",
            )
        self.version, self.problem = version, problem
        self.parameters: Mapping[str, tuple[Value, ...]] = version.tune.parameters
        self.default: Values = version.tune.default
        self.requires = version.tune.requires
        self._study = study

    @property
    def size(self) -> int:
        """The number of choices, before `requires`."""
        return math.prod(len(values) for values in self.parameters.values())

    @cached_property
    def many(self) -> int:
        """The number of choices; before `requires` if counting them takes long."""
        return self.size if self.size > _COUNTED else sum(1 for _ in self.every())

    def holds(self, values: Values) -> bool:
        """True if a choice belongs to the space: it meets `requires`.

        Raises UsageError: the expression has no value, at its line.
        """
        if not self.requires:
            return True
        candidate = self.candidate(values)
        names = self._study.names(candidate, self.problem)
        if len(candidate.launches) == 1:
            block = candidate.launches[0].block
            plain = [Key(candidate, "launch[0].block").value(text, names) for text in block]
            names = dict(zip(BLOCK_NAMES, (*plain, 1, 1), strict=False)) | names
        return bool(Key(candidate, "tune.requires").value(self.requires, names))

    def every(self) -> Iterator[Values]:
        """All choices of the space, in the order of its values."""
        names = list(self.parameters)
        for chosen in itertools.product(*self.parameters.values()):
            values = dict(zip(names, chosen, strict=True))
            if self.holds(values):
                yield values

    @property
    def words(self) -> str:
        """``TILE (3) × UNROLL (4)``."""
        return " × ".join(f"{name} ({len(values)})" for name, values in self.parameters.items())

    def candidate(self, values: Values) -> Version:
        """The version that a choice makes; the default makes one as any other does."""
        name = choice_name(self.version.id, self.parameters, values)
        return replace(with_values(self.version, values), id=name)


def with_values(version: Version, values: Values) -> Version:
    """A version with other values of its parameters."""
    own = {name: define_text(each) for name, each in values.items() if name in version.defines}
    return replace(
        version,
        defines=version.defines | own,
        launches=tuple(_launch(each, values) for each in version.launches),
    )


def _launch(launch: LaunchSpec, values: Values) -> LaunchSpec:
    if "block" in values:
        launch = replace(launch, block=tuple(str(values["block"]).split("x")))
    if "num_warps" in values:
        launch = replace(launch, block=(str(32 * int(values["num_warps"])),))
    if "num_stages" in values:
        launch = replace(launch, num_stages=int(values["num_stages"]))
    return launch
