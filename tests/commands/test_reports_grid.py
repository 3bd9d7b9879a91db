"""Every command that reads a report, every option of it, on reports of all that ncu may collect.

What a command takes is read from the click tree: a new command, or a new option, is tried by
itself, and one of which nobody knows what may stand there fails the test. The reports hold less
than ncu can collect: they are `ladder_full` with sections, sources or machine code taken out
(`tests.ncurep.reduced`), as ncu's sets *basic*, *detailed* and *full* leave them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from tests.factories import make_project
from tests.ncurep.reduced import KINDS, Kind, reduce
from workbench import cli
from workbench.cli import COMMANDS, app

#: What stands behind a command: ``{a}`` and ``{b}`` are reports, ``{out}`` is a folder.
READS: dict[str, tuple[str, ...]] = {
    "show": ("{a}",),
    "diff": ("{a} {b}",),
    "check": ("{a} {b}",),
    "report": ("{a}", "{a} {b}"),
    "import": ("{a} --study demo --version v2 --force", "{b} --study demo --version v3 --force"),
}
#: The same of what was recorded of such reports, once `import` has kept them.
RECORDED: dict[str, tuple[str, ...]] = {
    "list": ("",),
    "show": ("v2",),
    "diff": ("v2 v3",),
    "check": ("v2 v3",),
    "report": ("", "demo", "v2..v3", "v2 --single-file", "v2 v3 --single-file"),
    "export": ("counters", "lines", "launches", "times"),
}
#: Commands that show no report, and why.
OTHERS = {
    "serve": "builds what `report` builds, and ends by Ctrl-C alone",
    "export readme": "writes what `list` shows, and a report has no time",
    "export figure": "draws what `report` draws, of versions alone",
    "serve mcp": "answers with `show`, `diff` and `check`, each a command of its own",
    "serve lsp": "is of the files of versions, and says of them what `show` does",
    **dict.fromkeys(("capture", "run", "profile", "time", "tune", "verify"), "measures"),
    **dict.fromkeys(("list jobs", "doctor", "docs", "new", "init"), "reads no profile"),
}
#: Options that ask for a run or for records of another kind, by their parameter.
_RUNS = {
    *("against", "baseline", "keep", "accept", "run_name"),
    *("launcher", "arch", "timeout_s", "seed", "on"),
}
#: What may stand at an option that takes a value, by its parameter.
VALUES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("source", "source_old", "source_new"), ("{sources}",)),
    "launch": ("1", "9"),
    "study": ("demo",),
    "version": ("v2",),
    "version_name": ("v3",),
    "problem": ("n1024",),
    "device": ("h200",),
    "kernel": ("sgemm",),
    "metrics": ("duration", "no_such"),
    "page": ("1",),
    "out": ("{out}",),
    "also": ("markdown={out}.md",),
    **dict.fromkeys(("claim", "over"), ("v2",)),
    "at_least": ("1.2x",),
}
#: What a command may end with: done, a gate that fails, a value that fits no report, no verdict.
FINE = {0, 1, 2, 3, 5, 6}


class Line(NamedTuple):
    """A command line, and whether it has to end well."""

    words: str
    plain: bool


def lines(name: str, behind: str) -> Iterator[Line]:
    """A command alone, with each option, and with each flag in each format."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    # `check` takes no report, and `export` may find no line and no time; counters of memory may
    # not be there, and a single file holds one page.
    flags: list[str] = [""]
    formats: list[str] = [""]
    valued: list[str] = []
    for option in command.params:
        if not isinstance(option, click.Option) or option.name in _RUNS:
            continue
        if option.is_flag:
            flags += [*option.opts, *option.secondary_opts]
        elif isinstance(option.type, click.Choice):
            some = [f"{option.opts[0]} {choice}" for choice in option.type.choices]
            (formats if option.name == "format_" else valued).extend(some)
        else:
            assert option.name in VALUES, f"what may stand at {option.opts[0]} of {name}?"
            valued += [f"{option.opts[0]} {value}" for value in VALUES[option.name]]
    flags = [flag for flag in flags if flag not in behind.split()]
    out = "" if "--out {out}" not in valued else " --out {out}"
    refused = flags if name in ("check", "export") else ["--memory"]
    if behind in ("", "v2..v3"):
        refused = [*refused, "--single-file"]
    for flag, format_ in product(flags, formats):
        yield Line(f"{name} {behind} {flag} {format_}{out}", flag not in refused)
    for option_ in valued:
        yield Line(f"{name} {behind} {option_}", False)


def every_line(reads: dict[str, tuple[str, ...]]) -> Iterator[Line]:
    """Every line of all commands."""
    for name, all_behind in reads.items():
        for behind in all_behind:
            yield from lines(name, behind)


def test_every_command_is_in_the_grid_or_reads_no_report() -> None:
    assert {*READS, *RECORDED, *OTHERS} >= set(COMMANDS)
    for reads in (READS, RECORDED):
        for name, all_behind in reads.items():
            for behind in all_behind:
                assert len({line.words for line in lines(name, behind)}) > 4, name


class Grid:
    """A folder with reports in it, and commands that are run there."""

    def __init__(self, root: Path, whole: bytes, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self._whole, self._capsys = root, whole, capsys
        self._made: dict[tuple[Kind, tuple[int, ...]], Path] = {}
        self.tried = 0

    def report(self, kind: Kind, kernels: tuple[int, ...]) -> str:
        """The name of a report that holds this of these kernels."""
        name = f"{kind}-{''.join(map(str, kernels))}.ncu-rep"
        if (kind, kernels) not in self._made:
            self._made[kind, kernels] = reduce(self._whole, kind, kernels, self.root / name)
        return name

    def run(self, line: Line, **names: str) -> str:
        """What a line prints; it ends neither by a fault of our own nor with numbers that are none.

        Args:
            line: What is run.
            names: What stands for its fields.
        """
        self.tried += 1
        out = f"out{self.tried}"
        if "--single-file" in line.words:
            out += ".html"
        words = line.words.format(out=out, sources=self.root / "kernels", **names).split()
        try:
            code: object = cli.main(words)
        except SystemExit as end:
            code = end.code
        printed, said = self._capsys.readouterr()
        told = f"workbench {' '.join(words)} ends with {code}:\n{said[-2000:]}"
        assert code in FINE, told
        assert code in (0, 1, 6) or not line.plain, told
        assert code in (0, 1, 6) or "hint: " in said, told
        assert "internal error" not in said, told
        if code == 0:
            self._readable(words, printed)
            self._whole_pages(out)
        return printed + said

    @staticmethod
    def _readable(words: list[str], printed: str) -> None:
        if "json" in words:
            json.loads(printed, parse_constant=lambda name: pytest.fail(f"{name}: {words}"))
        elif "csv" in words and "--out" not in words and printed:
            assert len({len(row) for row in csv.reader(io.StringIO(printed))}) == 1, words

    def _whole_pages(self, out: str) -> None:
        path = self.root / out
        for page in path.rglob("*.html") if path.is_dir() else [path] if path.is_file() else []:
            if page.suffix == ".html":
                text = page.read_text()
                assert text.rstrip().endswith("</html>"), page
                assert ">nan<" not in text.lower(), page

    def pair(self, old: str, new: str, some: slice) -> None:
        """These of all lines on two reports."""
        for line in list(every_line(READS))[some]:
            self.run(line, a=old, b=new)

    def recorded(self, old: str, new: str, some: slice) -> None:
        """These of all lines on what is recorded of two reports."""
        for side, version in ((old, "v2"), (new, "v3")):
            self.run(Line(f"import {side} --study demo --version {version} --force", True))
        for line in list(every_line(RECORDED))[some]:
            self.run(line)


@pytest.fixture
def grid(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    report: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
) -> Grid:
    make_project(tmp_path, recorded=False)
    monkeypatch.chdir(tmp_path)
    return Grid(tmp_path, report("ladder_full").read_bytes(), capsys)


BASIC = Kind("basic", False, "none")
FULL = Kind("full", True, "whole")


def test_a_pair(grid: Grid) -> None:
    old, new = grid.report(FULL, (2,)), grid.report(BASIC, (3,))
    grid.pair(old, new, slice(None, None, 3))
    grid.recorded(old, new, slice(1, None, 4))


#: Which of the five kernels two reports hold: other ones, some of both, another number of them.
KERNELS = (((2,), (3,)), ((1, 2), (2, 3)), ((2,), (3, 4)))


@pytest.mark.parametrize("number", range(len(KINDS)))
@pytest.mark.parametrize(
    ("new", "share"),
    [
        pytest.param(Kind("full", False, "whole"), len(KINDS), marks=pytest.mark.slow),
        *(pytest.param(kind, 1, marks=pytest.mark.long) for kind in KINDS),
    ],
    ids=str,
)
def test_all_pairs(new: Kind, share: int, number: int, grid: Grid) -> None:
    """Of `share` lines each pair has one, and the next pair others: a row has all lines."""
    before, after = KERNELS[number % len(KERNELS)]
    old, other = grid.report(KINDS[number], before), grid.report(new, after)
    grid.pair(old, other, slice(number % share, None, share))
    if KINDS[number] == new:
        grid.recorded(old, other, slice(None, None, min(share, 2)))


def test_without_machine_code_sass_says_so(grid: Grid) -> None:
    a, b = grid.report(BASIC, (2,)), grid.report(FULL, (3,))
    for sides, bare in ((f"{a} {b}", 1), (f"{b} {a}", 1), (f"{a} {a}", 2)):
        document = json.loads(grid.run(Line(f"diff {sides} --sass --format json", True)))
        (note,) = (each for each in document["warnings"] if each.startswith("--sass"))
        assert note.startswith("--sass: no machine code was recorded for ")
        assert note.count("basic-nosource-none") == bare
    assert "no machine code" not in grid.run(Line(f"diff {b} {b} --sass", True))
