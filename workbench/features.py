"""The features outside the core, each a folder of the package that can be deleted.

A feature's folder holds its commands, its methods of a session (``session.py``), its documentation
(``docs/``) and its tests (``tests/``). To take one out, delete the folder, its row here, its import
and its base in `workbench.face`, its names in `workbench`, its extra in pyproject.toml, and the
lines of Markdown that name it (`tests.without` does so in a copy). The core imports no feature; it
learns from this list which commands, pages and documents there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import NamedTuple


class Feature(NamedTuple):
    """One feature.

    Attributes:
        name: Its folder in the package.
        commands: Name of a command (``tune``) or subcommand (``serve mcp``) -> its module in the
            folder, and one line for ``--help``.
        moved: A command of the last release -> what it is now.
        heading: The heading of its commands in ``--help``.
        first: The command that ``--help`` lists before all others.
        extra: The extra in pyproject.toml that only it needs.
        documents: Module of its JSON documents (`workbench.views.shapes.schema.Documents`).
        tunings: Module of a tuned version's page (`workbench.views.html.ladders.TunedPages`).
        captures: Module that resolves ``@NAME`` (`workbench.session.captures.Captures`).
        programs: Module of the pages of programs (`workbench.views.html.build.ProgramPages`).
        gates: Module whose `targets` reads ``--also``, and `write_verdicts` writes such results.
        starts: Module whose `start_tuned` writes the next version of a tuned one.
        begins: Module with `OPTIONS` for ``new`` of programs, and `from_program` for them.
        runners: A word for ``--on`` -> its module in the folder, whose `runner` makes a
            `workbench.session.runners.Runner` of project, study and display.
    """

    name: str
    commands: Mapping[str, tuple[str, str]]
    heading: str = "Measure"
    first: str = ""
    moved: Mapping[str, str] = MappingProxyType({})
    extra: str = ""
    documents: str = ""
    tunings: str = ""
    captures: str = ""
    programs: str = ""
    gates: str = ""
    starts: str = ""
    begins: str = ""
    runners: Mapping[str, str] = MappingProxyType({})

    @property
    def folder(self) -> Path:
        """The feature's folder."""
        return Path(__file__).resolve().parent / self.name

    def load(self, module: str) -> ModuleType:
        """Import a module of the folder."""
        return import_module(f"workbench.{self.name}.{module}")


FEATURES: tuple[Feature, ...] = (
    Feature(
        "programs",
        {
            "run": ("cli.run", "Run a CUDA program without a GPU: its faults, and counters."),
            "capture": (
                "cli.capture",
                "Capture any program: its kernels, and counters for the slowest.",
            ),
        },
        first="run",
        moved={"lift": "new --from-launch"},
        begins="cli.new",
        documents="documents",
        captures="targets",
        programs="shown.captured",
    ),
    Feature(
        "gate",
        {"check": ("command", "Check expectations, regressions and limits, as in CI.")},
        documents="documents",
        gates="command",
        heading="Look",
    ),
    Feature(
        "tune",
        {"tune": ("command", "Find the values of a version's parameters that make it fastest.")},
        extra="tune",
        documents="documents",
        tunings="page",
        starts="starting",
    ),
    Feature(
        "exchange",
        {"export": ("command", "Export the records as CSV or Parquet, for other programs.")},
        extra="parquet",
        heading="Share",
    ),
    Feature(
        "pictures",
        {
            "export figure": ("figure", "Draw a figure of the report as SVG, PNG or PDF."),
            "export readme": (
                "readme",
                "Write a ladder's table into a README, in place.",
            ),
        },
        moved={"plot": "export figure", "publish": "export readme"},
        extra="plot",
        heading="Share",
    ),
    Feature(
        "adopt",
        {"import": ("command", "Keep a report captured elsewhere as a version's profile.")},
    ),
    Feature(
        "agents",
        {"serve mcp": ("command", "Serve the project over the Model Context Protocol.")},
        moved={"mcp": "serve mcp"},
        extra="mcp",
        heading="Serve",
    ),
    Feature(
        "cluster",
        {"list jobs": ("command", "List the work sent to a cluster with --on, and its progress.")},
        moved={"jobs": "list jobs"},
        extra="cluster",
        documents="documents",
        runners={"slurm": "fleet"},
    ),
    Feature(
        "editing",
        {"serve lsp": ("command", "Serve the project to an editor: counters beside the code.")},
        moved={"lsp": "serve lsp"},
        extra="lsp",
        heading="Serve",
    ),
)

#: A word for ``--on`` -> the module that has its `runner`.
PLACES: Mapping[str, str] = {
    word: f"workbench.{feature.name}.{module}"
    for feature in FEATURES
    for word, module in feature.runners.items()
}
