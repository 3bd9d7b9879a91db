"""The features beside the core, each a folder of the package that can be deleted.

A feature's folder holds its commands, its documentation (``docs/``) and its tests (``tests/``). To
take one out, delete the folder, its row here, its extra in pyproject.toml, and the lines of
Markdown that name it (`tests.without` does so in a copy). The core imports no feature; it learns
from this list which commands and pages there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple


class Feature(NamedTuple):
    """One feature.

    Attributes:
        name: Its folder in the package.
        commands: Name of a command -> its module in the folder, and one line for ``--help``.
        extra: The extra of pyproject.toml that it needs alone.
        runners: A word for ``--on`` -> its module in the folder, whose `runner` makes a
            `workbench.session.runners.Runner` of project, study and display.
    """

    name: str
    commands: Mapping[str, tuple[str, str]]
    extra: str = ""
    runners: Mapping[str, str] = MappingProxyType({})

    @property
    def folder(self) -> Path:
        """Where it is."""
        return Path(__file__).resolve().parent / self.name


FEATURES: tuple[Feature, ...] = (
    Feature(
        "pictures",
        {
            "plot": ("plot", "A figure of the report as SVG, PNG or PDF."),
            "publish": ("publish", "Write a ladder's table and chart into a README, in place."),
        },
        extra="plot",
    ),
    Feature(
        "adopt",
        {"import": ("command", "Keep a report captured elsewhere as a version's profile.")},
    ),
    Feature(
        "agents",
        {"mcp": ("command", "Serve the project to programs, by the Model Context Protocol.")},
        extra="mcp",
    ),
    Feature(
        "cluster",
        {"jobs": ("command", "What was sent to a cluster with --on, and its progress.")},
        extra="cluster",
        runners={"slurm": "fleet"},
    ),
    Feature(
        "editing",
        {"lsp": ("command", "Serve the project to an editor: counters where one edits.")},
        extra="lsp",
    ),
)

#: A word for ``--on`` -> the module that has its `runner`.
PLACES: Mapping[str, str] = {
    word: f"workbench.{feature.name}.{module}"
    for feature in FEATURES
    for word, module in feature.runners.items()
}
