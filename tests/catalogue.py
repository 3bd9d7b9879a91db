"""The catalogue of translations: texts that are marked in the sources, with their Chinese.

``python -m tests.catalogue`` (``make catalogue``) adds newly marked texts to the parts, takes out
those that no source has any more, and compiles all parts into one file. ``--list`` prints all
messages with their places, ``--missing`` those without a translation.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po
from jinja2.ext import babel_extract

from tests.told import Known, Nodes, is_said, name_of, nodes_of, pieces, rows_of, sentences
from workbench import cli
from workbench.engines.emulated.emulation import in_our_words
from workbench.features import FEATURES
from workbench.language import LOCALE, TOLD
from workbench.units import beside, plural
from workbench.views.html.site import script_texts

PACKAGE = Path(__file__).resolve().parent.parent / "workbench"
EMULATOR = PACKAGE.parent / "ptxemu"
FOLDER = LOCALE / "zh_CN"
COMPILED = FOLDER / "LC_MESSAGES" / "texts.mo"
#: Part -> where its strings are, the first that fits: so that two can translate at a time.
PARTS = {
    "analysis": ("analysis", "units", "counters"),
    "data": ("data",),
    "terminal": ("views/terminal", "views/sheets", "views/text", "views/shapes", "commands", "cli"),
    "html": ("views/html",),
    "emulator": ("ptxemu",),
    "errors": ("",),
    # What click, msgspec and a system say, and what is put together of words: no source has them.
    "kept": (),
}
#: File of `data/` -> its tables (or lists of tables) -> the keys whose texts people read; a table
#: without keys is a table of texts, or of lists of them.
_SHOWN: dict[str, dict[str, tuple[str, ...]]] = {
    "counters.toml": {"groups": (), "counter": ("title", "meaning")},
    "glossary.toml": {"limit": (), "stall": (), "unit": ()},
    "machine.toml": {"resource": ("named",), "flow": ("title",)},
    "ncu_faults.toml": {"fault": ("what", "hint")},
}
_HEADER = """\
msgid ""
msgstr ""
"Language: zh_CN\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=1; plural=0;\\n"

"""

#: A text, or the text for one and the text for many.
Marked = str | tuple[str, str]


class Place(NamedTuple):
    """Where a text is marked: a file below the package, and the line where there is one."""

    file: str
    line: int = 0


def part_of(place: Place) -> str:
    """The part of the catalogue in which a text of that place is translated."""
    return next(
        part
        for part, rooms in PARTS.items()
        if any(f"{place.file.removesuffix('.py')}/".startswith(f"{r}/" if r else "") for r in rooms)
    )


def home_of(text: Marked, places: Iterable[Place]) -> str:
    """The part that a new text belongs to; templates are all in one, but for the emulator's."""
    if isinstance(text, str) and (text.startswith(TOLD) or "faults" in next(iter(places)).file):
        return "emulator" if all(each.file.startswith("ptxemu/") for each in places) else "errors"
    return min(map(part_of, places), key=list(PARTS).index)


class StrangeError(Exception):
    """A call of `_` whose text cannot be collected, or is none."""


def calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Calls of the three functions that mark texts."""
    for node in nodes:
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            name = node.func.id if isinstance(node.func, ast.Name) else name
            if name in ("_", "N_", "ngettext"):
                yield node


def marked(call: ast.Call) -> Marked | None:
    """The text that a call marks; None where it passes one that is marked elsewhere.

    Raises:
        StrangeError: It is put together, so that no translation can be found.
    """
    texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
    if call.args and isinstance(call.args[0], ast.JoinedStr | ast.BinOp | ast.IfExp):
        raise StrangeError(ast.unparse(call))
    if isinstance(call.func, ast.Name) and call.func.id == "ngettext":
        if len(texts) < 2 or not all(isinstance(each, str) for each in texts[:2]):
            raise StrangeError(ast.unparse(call))
        return str(texts[0]), str(texts[1])
    if texts and isinstance(texts[0], str):
        return texts[0]
    if isinstance(call.func, ast.Name) and call.func.id == "N_":
        raise StrangeError(ast.unparse(call))
    return None


@cache
def found() -> dict[Marked, list[Place]]:
    """Every text that is marked, and where."""
    texts: dict[Marked, list[Place]] = {}
    for text, place in (
        *_of_python(),
        *_of_help(),
        *_of_templates(),
        *_of_scripts(),
        *_of_data(),
        *_of_sentences(),
    ):
        texts.setdefault(text, []).append(place)
    return texts


def _of_python() -> Iterator[tuple[Marked, Place]]:
    for file, nodes in sources().items():
        for call in calls(nodes):
            if (text := marked(call)) is not None:
                yield text, Place(file, call.lineno)
        for text in _of_helpers(nodes):
            yield text, Place(file)


def _of_sentences() -> Iterator[tuple[Marked, Place]]:
    """The templates of sentences that a source says, and sentences that have no template yet."""
    every = sources() | _emulator()
    said = {words for nodes in every.values() for words in pieces(nodes, in_our_words)}
    rows = {row for words in said for row in rows_of(words)}
    done, kept = together(), texts(part("kept"))
    # Templates that differ in the names of their fields alone are one.
    once = {re.sub(r"{\w+", "{", text): text for text in done if isinstance(text, str)}
    for text in once.values():
        if TOLD in text and (text in kept or is_said(_bare(text), said, rows)):
            yield text, Place("")
    known = Known(
        _bare(each) for text in done for each in ([text] if isinstance(text, str) else text)
    )
    for file, nodes in every.items():
        # Programs are answered in English.
        for sentence, line in sentences(nodes) if not file.startswith("agents/") else ():
            ours = in_our_words(sentence) if file.startswith("ptxemu/") else sentence
            if not known.covers(ours):
                yield f"{TOLD}{ours}", Place(file, line)


def _bare(text: str) -> str:
    return text.removeprefix(TOLD)


class _Listener(cli.ToldHelp):
    """Help that nobody reads, of which each text is kept; of examples there is nothing to tell."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def said(self, text: str) -> str:
        if not text.startswith("workbench "):
            self.heard.append(text)
        return text


def _of_help() -> Iterator[tuple[Marked, Place]]:
    """What ``--help`` says: the commands are walked, since they mark nothing."""
    for command in commands():
        listener = _Listener()
        command.command.format_help(command, listener)
        yield from ((text, Place("cli.py")) for text in listener.heard)


def commands() -> Iterator[click.Context]:
    """The group and each of its commands, as if help of them were asked for."""
    group = cli.app.make_context("workbench", ["list"], resilient_parsing=True)
    yield group
    for name in cli.COMMANDS:
        command = cli.app.get_command(group, name)
        assert command is not None, name
        yield command.make_context(name, [], group, resilient_parsing=True)


@cache
def sources() -> dict[str, Nodes]:
    """The files of the package, by their places in it."""
    return {
        path.relative_to(PACKAGE).as_posix(): nodes_of(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "language.py" and "tests" not in path.relative_to(PACKAGE).parts
    }


@cache
def _emulator() -> dict[str, Nodes]:
    """The emulator, a package that knows of no other language."""
    return {
        f"ptxemu/{path.relative_to(EMULATOR).as_posix()}": nodes_of(path.read_text("utf-8"))
        for path in sorted(EMULATOR.rglob("*.py"))
    }


def _of_helpers(nodes: Iterable[ast.AST]) -> Iterator[Marked]:
    """What `several` counts, and the heads of a `Sheet`."""
    for node in nodes:
        match node:
            case ast.Call(args=[_, ast.Constant(value=str(noun)), *rest]) if (
                name_of(node) == "several"
            ):
                many = [each.value for each in rest if isinstance(each, ast.Constant)]
                yield f"{{n}} {noun}", f"{{n}} {[*many, f'{noun}s'][0]!s}"
            case ast.Call(keywords=keywords) if name_of(node) in ("Sheet", "replace"):
                for each in keywords:
                    for head in ast.walk(each.value) if each.arg == "header" else ():
                        match head:
                            case ast.Constant(value=str(name)) if name:
                                yield name


def _of_templates() -> Iterator[tuple[Marked, Place]]:
    own = (each.folder / "templates" for each in FEATURES)
    for folder in (PACKAGE / "views" / "html" / "templates", *own):
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            texts = babel_extract(
                io.BytesIO(path.read_bytes()), ("_", "gettext", "ngettext", "titles"), [], {}
            )
            for line, function, text, _comments in texts:
                place = Place(path.relative_to(PACKAGE).as_posix(), line)
                several = (text,) if isinstance(text, str) else tuple(filter(None, text or ()))
                if function == "ngettext":
                    yield (several[0], several[1]), place
                else:  # of headings those of numbers have a mark
                    named = (each.removeprefix("#") for each in several)
                    yield from ((each, place) for each in named if each not in ("", "#"))


def _of_scripts() -> Iterator[tuple[Marked, Place]]:
    for text in script_texts():
        yield text, Place("views/html/assets")


def _of_data() -> Iterator[tuple[Marked, Place]]:
    for path in sorted((PACKAGE / "data" / "templates").rglob("*.template")):
        for text in re.findall("«(.+?)»", path.read_text(encoding="utf-8")):
            yield text, Place(f"data/templates/{path.name}")
    for name, tables in _SHOWN.items():
        data = tomllib.loads((PACKAGE / "data" / name).read_text(encoding="utf-8"))
        for table, keys in tables.items():
            rows = data[table] if keys else data[table].values()
            for row in rows:
                said = [row.get(key) for key in keys] if keys else row
                for text in filter(None, [said] if isinstance(said, str) else said):
                    yield text, Place(f"data/{name}")
                if keys and beside(row.get("unit", "")):
                    for word in filter(None, plural(row["unit"]).split("/")):
                        yield word, Place(f"data/{name}")


def part(name: str) -> Catalog:
    """One part of the catalogue, as it is kept."""
    path = FOLDER / f"{name}.po"
    if not path.exists():
        return Catalog("zh_CN")
    with path.open("rb") as file:
        return read_po(file, locale="zh_CN", charset="utf-8")


def texts(catalogue: Catalog) -> dict[Marked, str]:
    """Text -> its translation, which may be empty (Chinese has one form for any number)."""
    return {
        key(each): each.string if isinstance(each.string, str) else str((each.string or ("",))[0])
        for each in catalogue
        if each.id
    }


def key(message: Message) -> Marked:
    """The text of a message as it is marked in the sources."""
    match message.id:
        case str(one):
            # What is compiled comes back with its context as bytes.
            context: str | bytes = message.context or ""
            context = context.decode() if isinstance(context, bytes) else context
            return f"{context}\x04{one}" if context else one
        case (str(one), str(many)):
            return one, many
    raise StrangeError(str(message.id))


def together() -> dict[Marked, str]:
    """All parts as one."""
    return {text: said for name in PARTS for text, said in texts(part(name)).items()}


def compiled() -> dict[Marked, str]:
    """What the compiled catalogue says."""
    with COMPILED.open("rb") as file:
        return texts(read_mo(file))


def _catalogue(of: dict[Marked, str]) -> Catalog:
    made = Catalog("zh_CN")
    for text, said in of.items():
        if isinstance(text, str):
            context, mark, template = text.rpartition("\x04")
            made.add(template, said, context=context if mark else None)
        else:
            made.add(text, (said,))
    return made


def _kept(name: str, wanted: Iterable[Marked], said: dict[Marked, str]) -> None:
    here = {text: said.get(text, "") for text in sorted(wanted, key=str)}
    out = io.BytesIO()
    write_po(out, _catalogue(here), width=100, omit_header=True)
    (FOLDER / f"{name}.po").write_text(_HEADER + out.getvalue().decode(), encoding="utf-8")


def main() -> None:
    """Bring the parts up to date and compile them, or print texts."""
    if {"--missing", "--list"} & set(sys.argv):
        done = together() if "--missing" in sys.argv else {}
        for text, places in found().items():
            if not done.get(text):
                at = f"{places[0].file}:{places[0].line}"
                print(home_of(text, places), at, repr(text), sep="\t")  # noqa: T201
        return
    said: dict[Marked, str] = {}
    home: dict[Marked, str] = {}
    for name in PARTS:
        for text, translation in texts(part(name)).items():
            said[text] = said.get(text) or translation
            home.setdefault(text, name)
    for text, places in found().items():
        home.setdefault(text, home_of(text, places))
    for name in PARTS:
        _kept(name, (text for text in found() if home[text] == name), said)
    now = {text: each for text, each in together().items() if each}
    if not COMPILED.exists() or compiled() != now:
        COMPILED.parent.mkdir(exist_ok=True)
        with COMPILED.open("wb") as file:
            write_mo(file, _catalogue(now))


if __name__ == "__main__":
    main()
