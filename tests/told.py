"""Sentences that are shown after they were made: errors, notices, progress, and parts of them.

`workbench.language.told` knows such a sentence again by its template, so no call marks it. Such a
sentence is each text of the sources with three English words in a row, and each text that an error
or a line of progress is given. A template of the catalogue covers a text if it contains it: it may
spell out the choices of a field, and what other texts put before or behind.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from string import Formatter

from workbench.errors import WorkbenchError
from workbench.language import told, using

#: Calls that are given sentences, beside errors.
_CALLS = ("error", "fail", "say", "doing", "slowly", "noted", "Notice", "Missing", "Suspect")
#: Errors that are for the code alone.
_INTERNAL = ("AttributeError", "MemoryError", "OSError", "TypeError", "UnsureError")
#: Letters of a template that are its own, at least: others know nothing again.
_LETTERS = 5
#: Letters of a text that a longer template may contain, at least.
_PART = 12
#: Sentences of a text that a template may begin or end with, at most.
_SENTENCES = 8
#: Three words and more of an English sentence; a name has capitals, digits or underscores.
_ENGLISH = re.compile(r"\b[a-z][a-z'’]+(?: [a-z][a-z'’-]*){2,}")
#: Patterns, code and styles.
_CODE = re.compile(
    r"\\|\||\(\.\*|#include|^\S+ = |^\[\w+\] and \w+ = |^not (bold|dim)|^workbench \S+|<!--"
)

#: The nodes of a source, each with the one above it.
Nodes = Mapping[ast.AST, ast.AST | None]


def nodes_of(text: str) -> Nodes:
    """All nodes of a source."""
    nodes: list[tuple[ast.AST, ast.AST | None]] = [(ast.parse(text), None)]
    for node, _ in nodes:
        nodes += [(child, node) for child in ast.iter_child_nodes(node)]
    return {node: above for node, above in nodes if not isinstance(node, ast.Load)}


def name_of(call: ast.Call) -> str:
    """What a call calls."""
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def sentences(nodes: Nodes) -> Iterator[tuple[str, int]]:
    """Lines of the texts of a source that people read, as templates, and where each is."""
    for node, above in nodes.items():
        if not isinstance(node, ast.JoinedStr | ast.Constant):
            continue
        match above:
            case ast.Expr() | ast.JoinedStr() | ast.Assert():
                continue  # a docstring, a piece of a text, a word to readers of the code
            case ast.Call() if name_of(above) in ("_", "N_", "ngettext", *_INTERNAL):
                continue
        while isinstance(above, ast.IfExp | ast.BinOp | ast.BoolOp):
            above = nodes[above]
        name = name_of(above) if isinstance(above, ast.Call) else ""
        given = name.endswith("Error") or name in _CALLS
        for line in template(node).split("\n"):
            english = _ENGLISH.search(re.sub(r"`[^`]*`", "", line))
            if (english or (given and _own(line) and " " in line)) and not _CODE.search(line):
                yield line, node.lineno


def template(node: ast.JoinedStr | ast.Constant) -> str:
    """A text with named fields; "" of another constant."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    text, used = "", set[str]()
    for piece in node.values:
        if isinstance(piece, ast.FormattedValue):
            words = re.findall(r"[a-z]\w*", ast.unparse(piece.value).lower()) or ["it"]
            name = words[-1 if isinstance(piece.value, ast.Attribute) else 0]
            counted = itertools.chain([name], map(f"{name}{{}}".format, itertools.count(2)))
            name = next(each for each in counted if each not in used)
            used.add(name)
            text += f"{{{name}}}"
        elif isinstance(piece, ast.Constant):
            text += str(piece.value).replace("{", "{{").replace("}", "}}")
    return text


def literals(text: str) -> list[str]:
    """The pieces of a template between its fields."""
    try:
        return [each for each, *__ in Formatter().parse(text) if each]
    except ValueError:  # a brace that is meant as one
        return [text]


def _own(text: str) -> bool:
    return sum(map(str.isalpha, "".join(literals(text)))) >= _LETTERS


class Known:
    """The templates of a catalogue."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._bare = {"\0".join(literals(text)) for text in texts}

    def covers(self, text: str) -> bool:
        """Whether a template is this text, or has all its pieces one behind the other."""
        if "\0".join(literals(text)) in self._bare:
            return True
        pieces = [each.strip() for each in literals(text)]
        longest = max(pieces, key=len)
        form = ".*?".join(map(re.escape, pieces))
        if sum(map(len, pieces)) < _PART:
            form = rf"^\W*{form}\W*$"
        return any(re.search(form, each) for each in self._bare if longest in each)


def pieces(nodes: Nodes, worded: Callable[[str], str]) -> Iterator[tuple[str, ...]]:
    """The words between fields of the texts of a source, and of sentences in a row in them."""
    values = {each.value for each in nodes if isinstance(each, ast.Constant)}
    for text in (each for each in values if isinstance(each, str)):
        for each in {*text.split("\n"), *worded(text).split("\n")}:
            for literal in literals(each):
                parts = re.split(r"(?<=[.:] )", literal)
                for at, end in itertools.combinations(range(len(parts[:_SENTENCES]) + 1), 2):
                    yield tuple(_words("".join(parts[at:end])))


def is_said(text: str, said: Set[tuple[str, ...]], rows: Set[tuple[str, ...]]) -> bool:
    """Whether whole pieces of the sources, few of them short, make up a template or have its rows.

    It may spell out the choices of a field, and what other texts put before or behind.
    """
    literal = [words for each in literals(text) if (words := _words(each))]
    if all(row in rows for words in literal for row in rows_of(words)):
        return True
    for words in literal:
        fewest = [0.0]
        for end in range(1, len(words) + 1):
            starts = (at for at in range(end) if tuple(words[at:end]) in said)
            fewest.append(min((fewest[at] + (end - at < 3) for at in starts), default=math.inf))
        if fewest[-1] > 1 + len(words) / 8:
            return False
    return True


def rows_of(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Three words in a row, of a text that has as many."""
    yield from (tuple(words[at : at + 3]) for at in range(max(len(words) - 2, 1)))


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'’-]+", text)


def english(error: WorkbenchError) -> list[str]:
    """What stays English of an error and its hint in Chinese; code in backticks may."""
    return english_of(error.message, error.hint)


def english_of(*texts: str) -> list[str]:
    """What stays English of texts in Chinese; code in backticks may."""
    with using("zh"):
        heard = "\n".join(told(text) for text in texts)
    return english_words(heard)


def english_words(heard: str) -> list[str]:
    """Three English words and more in a row, outside of backticks."""
    return _ENGLISH.findall(re.sub(r"`[^`]*`", "", heard))
