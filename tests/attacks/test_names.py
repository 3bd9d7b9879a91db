"""Names that steer a terminal, forge lines or commands, or are formulas, through every output."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import shutil
import unicodedata
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from markdown_it import MarkdownIt

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.factories import RULE, make_launch, make_profile
from workbench.cli import COMMANDS, app
from workbench.model import Device, Notice, Profile, Rule, SourceFile
from workbench.store import Store

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

TIMES = 1000
PARTS = 6
NAMES = (
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J\x90q", "\r\x1b[2Kgone", "a\x08\x7f\x0c\x00b",
    "x\nerror: forged\n  hint: run it", "x\n::error file=a,line=1::forged", "::warning::forged",
    "  ::add-mask::x", "a ##[error]forged", "a%0A::error::b", "\u061cرقم", "\u202egpj.exe\u202c",
    "\u2066a\u2069\u200e\u200f", "a\u2028::error::b\u2029c", "\u200ba\u200db\ufeff\u00ad",
    "a\U000e0041\U000e007f\ufff9", "=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1",
    "\r=1", "a|b|c", "`a` ``b`` ```", "<script>window.pwned=1</script>", "[a](javascript:b)",
    "'\"&<>{{7*7}}", "x" * 10_000, "\x1b[5m" * 2_500, "a\n::error::b\n" * 800, "\udcff\udc80",
    "half \udced\udca0",
)  # fmt: skip
#: Lines that come to something; of a command without any only what its options say is made.
LINES: dict[str, tuple[str, ...]] = {
    "list": ("", "--study demo --all", "--counts"),
    "show": ("v2", "v2 --all", "v2 --memory", "@before", "@before --all", "@before::k",
             "NAME.ncu-rep"),
    "diff": ("v2 v3", "v2 v3 --all", "v2 v3 --memory", "v2 v3 --sass --force", "@before @after",
             "@before @after --all --force", "v2 @before::k --force"),
    "check": ("v2 v3", "--all", "@before @after", "--baseline=NAME --keep", "--against NAME"),
    "report": ("demo", "--force", "v2 --single-file page.html", "@before @after"),
    "export": ("counters", "lines", "launches", "times", "counters --metric NAME"),
    "export readme": ("demo", "demo --chart x.svg", "NAME"),
    "export figure": ("ladder demo --out x.svg", "step v2 v3 --out x.svg", "ladder NAME"),
    "import": ("NAME.ncu-rep --study double --version v0 --force", "NAME.ncu-rep --version NAME"),
    "verify": ("double/v0 --engine emulator", "NAME/v0"),
    "profile": ("double/v0 --dry-run --engine ncu", "v2 --engine emulator", "NAME"),
    "time": ("v2", "NAME", "demo --recorded", "demo@NAME --recorded"),
    "capture": ("before -- ./NAME", "before -- /bin/false NAME", "NAME -- /bin/true",
                "x NAME -- a"),
    "new": ("v30 --from v2", "NAME", "--study NAME", "v31 --title NAME"),
    "init": ("NAME", "out --study NAME"),
    "list jobs": ("", "NAME"),
    "docs": ("ci", "NAME"),
}  # fmt: skip
#: Ends with Ctrl-C or with its client alone; what they say is said by commands of this list.
_LASTING = ("serve", "serve mcp", "serve lsp")
_SGR = re.compile(r"\x1b\[[\d;]*m")
_OURS = re.compile(r"::(error|warning) (file=[^,:]*,line=\d+,)?title=[^,:]*::")
_HTML = re.compile(r"</?(details|summary|sub)>|&#\d+;|\s+")
_MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


def record(root: Path, name: str, rng: random.Random) -> None:
    """Put a name wherever a project, a profile or a capture has one.

    A file that is no version refuses its study, so there is one only now and then.
    """
    from workbench.programs.capture import capture_store, records

    text = name.encode("utf-8", "replace").decode()
    device = Device(name=text, slug="h200", compute_capability=(9, 0), sms=132)
    rule = msgspec.structs.replace(RULE, name=text, title=text, message=f"{text}\n{text}")
    store, shelf = Store(root / "profiles"), capture_store.Shelf(root)
    for version in ("v2", "v3"):
        store.save(profile(version, text, device, rule))
    work = records.Work(
        symbol=text, name=text, signature=text, launches=(3,), total_ns=(900,),
        quantiles_ns=tuple(range(33)), ranges=(records.RangeShare(text, 3, 900),), range_count=1,
    )  # fmt: skip
    kernel = msgspec.structs.replace(work, symbol="k", name="k", signature="")
    for at, label in enumerate(("before", "after")):
        more = msgspec.structs.replace(work, symbol=f"{text}{at}", total_ns=(800 + at,))
        shelf.save(
            records.ProgramCapture(
                name=label,
                command=("python", text, text),
                captured="2026-11-22T06:00:00Z",
                survey=records.Survey(
                    "trace", (work, more, kernel), (records.ProgramRun(0.1, 900, 1000),)
                ),
                device=device,
                detail=(0,),
                notices=(Notice(code="x", message=text),),
            ),
            profile("", text, device, rule),
        )
    path = next((root / "kernels/demo").glob("v3*.cu"))
    told = json.dumps(text)
    path.write_text(
        re.sub(r'title = ".*"', lambda _: f"title = {told}\nchange = {told}", path.read_text())
        .replace('change = "One float of padding a row."\n', "")
    )  # fmt: skip
    if len(os.fsencode(name)) < 200 and "\0" not in name:
        file = name.replace("/", "∕")
        if rng.random() < 0.2:
            shutil.copytree(root / "kernels/double", root / "kernels" / file)
        if rng.random() < 0.1:
            shutil.copy(root / "kernels/demo/v2_tile.cu", root / f"kernels/demo/v8_{file}.cu")
        shutil.copy(root / "sgemm_v3.ncu-rep", root / f"{file}.ncu-rep")
    if rng.random() < 0.1:
        broken = root / "kernels/demo/v9_broken.cu"
        broken.write_text(f'/*---\ntitle = "x"\n{told} = 1\nparent = {told}\n---*/\n')


def profile(version: str, text: str, device: Device, rule: Rule) -> Profile:
    launch = make_launch(kernel=text, signature=text, nvtx=(text,), rules=(rule,))
    plain = make_profile(version=version, launches=(launch,))
    source = SourceFile(path=text, text=f"{plain.sources[0].text}\n{text}")
    return msgspec.structs.replace(
        plain,
        study=plain.study if version else "",
        tools={"ncu": text, text: text},
        parameters={"N": 1024},
        sources=(msgspec.structs.replace(plain.sources[0]), source),
        notices=(Notice(code="x", message=text),),
    )


def line(rng: random.Random, command: str, name: str) -> list[str]:
    """Words of a command line: one that comes to something, or of the command's own options."""
    known = app.get_command(click.Context(app), command)
    assert known is not None
    file = name.replace("\0", "").replace("/", "∕")
    words = [
        word.replace("NAME", file) for word in rng.choice(LINES.get(command, ("",))).split(" ")
    ]
    out = [command, *filter(None, words)]
    options: list[list[str]] = []
    for each in known.params:
        kind: Any = each.type
        if not isinstance(each, click.Option) or {"--host", "--launcher"} & set(each.opts):
            continue
        if each.name == "format_" and isinstance(kind, click.Choice) and rng.random() < 0.8:
            options.append([each.opts[-1], str(rng.choice(kind.choices))])
        elif rng.random() < 0.015:
            options.append([each.opts[-1]] if each.is_flag else [each.opts[-1], file])
    added = [word for option in options for word in option]
    at = out.index("--") if "--" in out else len(out)
    return [*(("--json-errors",) * (rng.random() < 0.2)), *out[:at], *added, *out[at:]]


def hidden(text: str) -> set[str]:
    """Characters that nobody sees, or that a terminal obeys."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {f"{ord(c):04x}" for c in set(text) - {"\n", "\t"} if unicodedata.category(c) in kinds}


def wrong(out: str, err: str, format_: str, code: int, *, plain: bool) -> list[str]:
    """What is wrong with what a command printed."""
    found = [f"{sorted(chars)} come out" for chars in (hidden(out), hidden(err)) if chars]
    ours = _OURS if format_ == "github" else re.compile(r"(?!)")
    lines = [each for text in (out, err) for each in text.split("\n")]
    found += [each for each in lines if each.strip().startswith("::") and not ours.match(each)]
    found += [each for each in lines if "##[" in each and not ours.match(each)]
    forged = re.compile("(error: forged|  hint: run it)")
    found += [f"forged: {each}" for each in lines if forged.match(each)]
    if plain and err and code:
        json.loads(err.rstrip("\n").split("\n")[-1])
    if code not in (0, 1, 6) or not out:
        return found
    if format_ == "json":
        json.loads(out)
    elif format_ == "csv":
        cells = {cell for row in csv.reader(io.StringIO(out)) for cell in row}
        found += [
            cell for cell in cells if cell.startswith(("=", "+", "-", "@")) and not number(cell)
        ]
    elif format_ == "markdown":
        every = [token for each in _MARKDOWN.parse(out) for token in (each, *(each.children or ()))]
        html = [token.content for token in every if token.type.startswith("html_")]
        found += [each for each in html if _HTML.sub("", each).startswith("<")]
        found += [str(token.attrs) for token in every if token.type == "link_open"]
    return found


def number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("portion", dealt("names", TIMES, PARTS))
def test_names(root: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command, every format: each command's turn comes once in as many as there are."""
    monkeypatch.setattr("workbench.compile.compilers.available", list)
    whole, errors = root.parent / "whole", root.parent / "errors"
    shutil.copytree(root, whole)
    commands = [each for each in COMMANDS if each not in _LASTING]
    for turn in book.turns(portion):
        rng = turn.rng
        shutil.rmtree(root)
        shutil.copytree(whole, root)
        name = rng.choice(NAMES)
        with book.watched(turn.kind, "other answers"):
            record(root, name, rng)
            words = line(rng, commands[turn.number % len(commands)], name)
            color = rng.random() < 0.3
            # Sentences are told again by their templates, which a name may hold pieces of.
            monkeypatch.setenv("WORKBENCH_LANG", rng.choice(("en", "zh")))
            monkeypatch.setenv("FORCE_COLOR" if color else "NO_COLOR", "1")
            monkeypatch.delenv("NO_COLOR" if color else "FORCE_COLOR", raising=False)
            ended = harness.run(words, root, turn.kind, partial(_apart, errors))
            log = root.parent / f"{root.name}.log"
            out, err = (each.read_bytes().decode() for each in (log, errors))
            if color:
                out, err = _SGR.sub("", out), _SGR.sub("", err)
            at = words.index("--format") if "--format" in words else -2
            format_ = words[at + 1] if at >= 0 else "csv" * (words[0] == "export")
            told = wrong(out, err, format_, ended.code, plain=words[0] == "--json-errors")
            pages = {path.name for path in root.rglob("*.html") if hidden(path.read_text("utf-8"))}
            book.must(not told and not pages, turn.kind, (words, told, pages, ended.code))
            book.must(ended.code in range(7), turn.kind, (words, ended.code, err))


def _apart(path: Path) -> None:
    """Standard error into a file of its own."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(handle, 2)
    os.close(handle)
