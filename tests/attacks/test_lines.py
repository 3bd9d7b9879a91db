"""Command lines that nobody would type, made from what each command says that it takes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import click
import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from workbench.cli import COMMANDS, app

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

LINES = 500
PARTS = 4
#: What may stand where a version, a study or a file is named.
TARGETS = (
    "v0", "v2", "v3", "v9", "library", "demo", "double", "double/v0", "demo/v2", "v0..v3", "v3..v0",
    "demo/v0..v3", "@before", "@HEAD~1", "@", "v2@h200", "v2@", "sgemm_v3.ncu-rep", "no.ncu-rep",
    "sgemm_v3.ncu-rep::sgemm", "sgemm_v3.ncu-rep::#2", "sgemm_v3.ncu-rep::sgemm#9", "::", "#1",
    "workbench.toml", "kernels", ".", "..", "../outside", "/", "", " ", "-", "--", "v2/", "/v2",
    "demo//v2", "v-1", "v99999999999999999999", "ｖ２", "v2\n", "\x1b[2J", "a" * 5000, "%s", "{}",
    "$(id)", "../../etc/passwd", "kernels/demo/v2_tile.cu", "profiles/h200/demo/v2", "\udcff",
)  # fmt: skip
#: Where something is written: below the project, or nowhere.
FOLDERS = ("out", "reports", "a/b", "workbench.toml", "kernels/demo", "/dev/null/x", "")
TEXTS = (
    "", "n1024", "n64", "n1000", "demo", "double", "h200", "H200", "ncu", "emulator", "sm_90",
    "sm_1", "json", "v2", "a b", "é", "\u202e", "=", "--all", "2026-11-21", "2026-13-41",
    "x" * 3000, "0.1x", "time<1.02", "registers<=32", "1e309", "\udcff", "None", "[]",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "-1", "1.5", "1e400", "nan", "inf", "٣", "0x10", "", "9" * 30, "n")
#: What would run for longer than anybody waits, or run something of this machine.
_LEFT_OUT = {"--launcher", "--host", "--port"}


def value(parameter: click.Parameter, rng: random.Random) -> str:
    kind: Any = parameter.type
    if isinstance(kind, click.Choice) and rng.random() < 0.8:
        return str(rng.choice(kind.choices))
    if isinstance(kind, (click.IntRange, click.FloatRange)) or kind in (click.INT, click.FLOAT):
        return rng.choice(NUMBERS)
    if parameter.name in ("out", "folder"):
        return rng.choice(FOLDERS)
    return rng.choice(TARGETS if rng.random() < 0.4 else TEXTS)


def words(rng: random.Random) -> list[str]:
    """A command line: of its grammar, but for a few words that are not."""
    name = rng.choice([each for each in COMMANDS if each.split()[0] != "serve"])
    command = app.get_command(click.Context(app), name)
    assert command is not None
    out = name.split()
    parts: list[list[str]] = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            most = 4 if parameter.nargs == -1 else 1
            parts += [[target(parameter, rng)] for _ in range(rng.randint(0, most))]
        elif rng.random() < 0.15 and not _LEFT_OUT & set(parameter.opts):
            option = rng.choice([*parameter.opts, *parameter.secondary_opts])
            flag = isinstance(parameter, click.Option) and parameter.is_flag
            parts.append([option] if flag else [option, value(parameter, rng)])
    rng.shuffle(parts)
    out += [word for part in parts for word in part]
    if rng.random() < 0.1:
        out.insert(rng.randrange(len(out) + 1), rng.choice((*TEXTS, "--no-such", "-h", "-x", "--")))
    return out


def target(parameter: click.Parameter, rng: random.Random) -> str:
    return rng.choice(FOLDERS) if parameter.name == "folder" else rng.choice(TARGETS)


@pytest.mark.parametrize("portion", dealt("command lines", LINES, PARTS))
def test_lines(root: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch) -> None:
    # No compiler: what is compiled is attacked elsewhere, and takes seconds.
    monkeypatch.setattr("workbench.compile.compilers.available", list)
    for turn in book.turns(portion):
        line = words(turn.rng)
        before = harness.records(root)
        with harness.untouched(root.parent / "outside", turn.kind):
            ended = harness.run(line, root, turn.kind)
        replaces = line[0] in ("import", "profile")
        harness.check_whole(root, turn.kind, frozenset() if replaces else before)
        book.must(ended.code in (*range(7), harness.INTERNAL), turn.kind, (line, ended))
