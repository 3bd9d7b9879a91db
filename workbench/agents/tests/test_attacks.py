"""A program that asks (``mcp``) and writes versions that would read what is not theirs.

A word stands in files outside of what a client may have read. It asks with every tool, over
standard input and output, and the word may be in no answer, and in nothing that is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.attacks.book import Portion, Turn, book, dealt
from tests.attacks.conftest import cache, ready, root  # noqa: F401 - fixtures
from workbench.agents.tests.client import Client, connected
from workbench.agents.tools import TOOLS

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

WORD = "Xq7SecretCanary"
#: How a file is included: PATH is its path. Each is a whole source before the kernel.
SPELLINGS = {
    "plain": '#include "PATH"',
    "angle": "#include <PATH>",
    "comment before": '/**/ #include "PATH"',
    "comment within": '# /* a */ include /* b */ "PATH"',
    "digraph": '%:include "PATH"',
    "trigraph": '??=include "PATH"',
    "import": '#import "PATH"',
    "next": '#include_next "PATH"',
    "splice": '#inc\\\nlude "PATH"',
    "splice with blanks": '#inc\\ \nlude "PATH"',
    "macro": '#define P "PATH"\n#include P',
    "macro of angles": "#define P <PATH>\n#include P",
    "macro that makes a directive": '#define H #\nH include "PATH"',
    "macro of two": "#define S(x) #x\n#define T(x) S(x)\n#include T(PATH)",
    "asked for": '#if __has_include("PATH")\n#include "PATH"\n#endif',
    "embedded": 'const char all[] = {\n#embed "PATH"\n};',
    "assembler": 'asm(".incbin \\"PATH\\"");',
    "PTX": '__device__ void f() { asm volatile("\\n#include \\"PATH\\"\\n"); }',
    "PTX file": '__device__ void f() { asm volatile(".include \\"PATH\\""); }',
    "line": '#line 1 "PATH"\n#error here',
    "line of the kernel": '#line 1 "PATH"',
    "dependency": '#pragma GCC dependency "PATH"',
    "vertical tab": '#\vinclude "PATH"'.replace("\v", "\t"),
    "raw string": 'const char* r = R"(\n)"; /*\n*/#include "PATH"',
}
#: Where the word stands, as a version in kernels/double names it; "flag": one of these as well.
PLACES: dict[str, dict[str, str]] = {
    "outside": {"path": "{outside}/secret"},
    "above": {"path": "../../../outside/secret"},
    "git": {"path": "../../.git/config"},
    "git by a folder": {"path": "config", "flag": "-I.git"},
    "link": {"path": "../../data_link/secret"},
    "link by a folder": {"path": "secret", "flag": "-Idata_link"},
    "root by a folder": {"path": ".git/config", "flag": "-I."},
    "folder within another": {"path": "config", "flag": "-Ikernels/../.git"},
}
EVERY = [(spelling, place) for spelling in SPELLINGS for place in PLACES]


def planted(root: Path) -> None:
    outside = root.parent / "outside"
    (outside / "secret").write_text(f"int {WORD} = {WORD}1;\n{WORD} other;\n")
    (root / ".git").mkdir(exist_ok=True)
    (root / ".git" / "config").write_text(f"[remote]\n url = {WORD}\n")
    (root / ".env").write_text(f"{WORD}=1\n")
    (root / "data_link").symlink_to(outside)


def leaked(root: Path, cache: Path, answers: list[str]) -> list[str]:
    """Where the word came out."""
    found = [answer for answer in answers if WORD in answer]
    kept = [path for top in (root / "profiles", root / "kernels", cache) for path in top.rglob("*")]
    for path in kept:
        if path.is_file() and not path.is_symlink() and WORD.encode() in path.read_bytes():
            found.append(str(path))
    return found


def talk(root: Path, turn: Turn, calls: Callable[[Client, list[str]], Any], *words: str) -> None:
    answers: list[str] = []

    async def run() -> None:
        with anyio.fail_after(300):
            async with connected(root, *words) as client:
                await calls(client, answers)

    with book.watched(turn.kind, "hangs"):
        anyio.run(run)
    book.tried(turn.kind)


async def told(client: Client, answers: list[str], tool: str, **given: Any) -> bool:
    answer, failed = await client.call(tool, **given)
    answers.append(json.dumps(answer))
    return not failed


@pytest.mark.parametrize("portion", dealt("spelled includes", len(EVERY), 12))
def test_includes(root: Path, cache: Path, portion: Portion) -> None:
    planted(root)
    plain = (root / "kernels" / "double" / "v0_plain.cu").read_text()
    for turn in book.turns(portion):
        spelling, place = EVERY[turn.number]
        path = PLACES[place]["path"].format(outside=root.parent / "outside")
        flag = PLACES[place].get("flag", "")
        text = SPELLINGS[spelling].replace("PATH", path)
        head, mark, code = plain.partition("--- */")
        if flag:
            head = head.replace("\n", f'\nflags = ["{flag}"]\n', 1)
        text = f"{head}{mark}\n{text}\n{code}"
        answers: list[str] = []

        async def calls(client: Client, answers: list[str] = answers, text: str = text) -> None:
            name = {"version": "v9", "study": "double"}
            await told(client, answers, "new_version", **name, parent="v0")
            await told(client, answers, "edit_version", **name, text=text)
            await told(client, answers, "new_version", version="v10", study="double", text=text)
            for version in ("double/v9", "double/v10"):
                await told(client, answers, "verify", versions=[version], engine="emulator")
                await told(client, answers, "source", version=version)
            given = {"versions": ["double/v9"], "engine": "emulator"}
            await told(client, answers, "profile", **given)
            await told(client, answers, "show", target="double/v9")
            await told(client, answers, "diff", old="double/v0", new="double/v9")

        talk(root, turn, lambda c, _: calls(c), "--allow", "verify,profile,write")
        found = leaked(root, cache, answers)
        if found:
            book.found(turn.kind, "touched outside", f"{spelling}, {place}: {found[0][:600]}")
        for started in (root / "kernels" / "double").glob("v[19]*"):
            started.unlink()


PERMITS = ("", "verify", "profile", "time", "write", "write,python", "verify,profile,time,write")
#: What may stand for a name or a path.
NAMES = (
    *("data_link/secret", "../outside/secret", "{outside}/secret", ".git/config", ".env"),
    *("data_link/x.ncu-rep", "data_link", "double/../../.git", "@../../outside/secret"),
    *("data_link/secret::k", "v0@data_link", "double/v0@../outside", "--source=data_link"),
)
TRIES = [(tool.name, permit, name) for tool in TOOLS for permit in PERMITS for name in NAMES]


@pytest.mark.parametrize("portion", dealt("names of tools", len(TRIES), 48))
def test_names(root: Path, cache: Path, portion: Portion) -> None:
    planted(root)
    by_name = {tool.name: tool for tool in TOOLS}
    for turn in book.turns(portion):
        tool, permit, name = TRIES[turn.number]
        name = name.format(outside=root.parent / "outside")
        answers: list[str] = []

        async def calls(
            client: Client, answers: list[str] = answers, tool: str = tool, name: str = name
        ) -> None:
            fields = by_name[tool].takes.__struct_fields__
            own: dict[str, Any] = {"old": "v1", "new": "v2", "target": "v2", "version": "v2"}
            own |= {"versions": ["v2"], "words": ["duration"], "text": f"// {name}\n"}
            base = {key: value for key, value in own.items() if key in fields}
            base["timeout_s"] = 20
            base = {key: value for key, value in base.items() if key in fields}
            for field in fields:
                if field in ("force", "memory", "sass", "time", "offset", "max_bytes", "first"):
                    continue
                value = [name] if field in ("versions", "words") else name
                await told(client, answers, tool, **{**base, field: value})

        words = ("--allow", permit) if permit else ()
        talk(root, turn, lambda c, _: calls(c), *words)
        found = leaked(root, cache, answers)
        if found:
            book.found(turn.kind, "touched outside", f"{tool} {permit} {name}: {found[0][:600]}")
