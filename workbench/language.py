"""The words that people read, in their language: English as it is written here, or Chinese.

All text for people is passed to `_` (or `ngettext`) where it is shown, as a whole sentence with
named fields, so that a translation may reorder them. A text made before the language is known, such
as a table of titles, is marked with `N_` and passed to `_` later. Output for programs (JSON, CSV,
names, ids, exit codes) is never passed. A sentence without a translation stays English.
Translations are `data/locale/zh_CN/*.po`; `make catalogue` collects and compiles them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from gettext import GNUTranslations
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from gettext import GNUTranslations

#: Language -> the folder of its catalogue; English needs none.
LANGUAGES = {"en": "", "zh": "zh_CN"}
#: A user's setting; `--lang` overrides it, and it overrides the system's settings.
VARIABLE = "WORKBENCH_LANG"
#: Precedes the texts of `told` in the catalogue; gettext calls this a context.
TOLD = "told\x04"
#: The most levels of sentences in a sentence, and of places before it; deeper texts are foreign.
_DEPTH = 6
#: The most catalogue searches for one text: a foreign text can have any number of readings as
#: templates within templates.
_LOOKS = 150
#: The most lines and sentences to translate; longer texts are from compilers or other programs.
_MOST = 16
#: Fields that hold one of a few words; each word makes a template of its own.
_WORDS = {
    "verb": ("reads", "writes", "changes", "copies to", "copies from"),
    "was": ("read", "written"),
    "space": ("global", "shared", "local"),
}
#: Within a field, this separates sentences; in a text without a template a full stop does too.
_PLACE = r"\S:\d+: "
_ANOTHER = rf"{_PLACE}|\. [`A-Z]|\.$"
_Literal = TypeVar("_Literal", bound=str)
LOCALE = Path(__file__).parent / "data" / "locale"

_chosen = "en"
_within: ContextVar[str | None] = ContextVar("language", default=None)


def asked(environment: Mapping[str, str]) -> str:
    """The language that the environment requests: ``WORKBENCH_LANG``, else the system's."""
    names = (VARIABLE, "LC_ALL", "LC_MESSAGES", "LANG")
    wanted = next(filter(None, map(environment.get, names)), "")
    return "zh" if wanted.lower().startswith("zh") else "en"


def use(lang: str) -> None:
    """Use a language (a key of `LANGUAGES`) from now on, in every thread."""
    global _chosen
    _chosen = lang


@contextlib.contextmanager
def using(lang: str) -> Iterator[None]:
    """Use a language in the block, in this thread only."""
    token = _within.set(lang)
    try:
        yield
    finally:
        _within.reset(token)


def current() -> str:
    """The current language: a key of `LANGUAGES`."""
    return _within.get() or _chosen


class _Chinese(str):
    """A Chinese text with blanks around Latin fields, and only around those."""

    def format(self, /, *args: object, **fields: object) -> str:
        """Fill in as `str.format` does, with named fields only."""
        out = ""
        for literal, name, spec, conversion in Formatter().parse(self):
            out = _beside(out, literal)
            if name is not None:
                shape = f"{{0{'!' + conversion if conversion else ''}:{spec}}}"
                out = _beside(out, shape.format(fields[name] if name else args[0]))
        return out


def _fillable(text: str) -> str:
    # A text without a field stays a plain one, for writers to files.
    return _Chinese(text) if "{" in text else text


def _beside(text: str, more: str) -> str:
    """Join two pieces, with a blank only between Chinese and a Latin letter or digit."""
    left, right = text[-1:], more[:1]
    if (_is_han(left) and _is_latin(right)) or (_is_latin(left) and _is_han(right)):
        return f"{text} {more}"
    if left == " " and _is_han(text[-2:-1]) and _is_han(right):
        return text[:-1] + more
    if right == " " and _is_han(left) and _is_han(more[1:2]):
        return text + more[1:]
    return text + more


def _is_han(sign: str) -> bool:
    return "\u3400" <= sign <= "\u9fff"


def _is_latin(sign: str) -> bool:
    return sign != "" and ((sign.isascii() and sign.isalnum()) or sign in "%`@×−±≤≥")


def _(text: str) -> str:
    """`text` in the current language."""
    lang = _within.get() or _chosen
    return text if lang == "en" or not text else _fillable(_catalogue(lang).gettext(text))


def ngettext(one: str, many: str, n: float) -> str:
    """The text for `n` things: `one` if it is 1, else `many`, or the translation of both."""
    lang = _within.get() or _chosen
    if lang == "en":
        return one if n == 1 else many
    return _fillable(_catalogue(lang).ngettext(one, many, 1 if n == 1 else 2))


def N_(text: _Literal) -> _Literal:  # noqa: N802 - what translators and their tools look for
    """`text` as it is, marked for translation: `_` is called where it is shown."""
    return text


def told(text: str) -> str:
    """Translate a filled-in English sentence of ours.

    An error, a notice or a line of progress is kept, compared and sent to programs in English. Only
    the display translates it, by its template, which the catalogue has under `TOLD`, and then the
    texts in its fields. The first of several lines is ours, others may be. Without a template for a
    line, each of its sentences is translated, or the text after a place (``study.py:3: …``).
    """
    lang = current()
    return text if lang == "en" else _told(text, lang, _DEPTH, [_LOOKS])


def _told(text: str, lang: str, depth: int, left: list[int]) -> str:
    if not text or not depth:
        return text
    if " " in text and (whole := _(text)) != text:
        return whole
    first, end, rest = text.partition("\n")
    if end:
        lines = rest.split("\n")
        others = [_further(line, lang, depth, left) for line in lines[:_MOST]] + lines[_MOST:]
        return "\n".join((_told(first, lang, depth, left), *others))
    if (said := _sentences(text, lang, depth, left)) is not None:
        return said
    place, what = _placed(text)
    if (rest := _told(what, lang, depth - 1, left)) != what:
        return f"{place}：{rest}"
    return _filled_in(text, lang, depth, left, strict=False) or text


def _further(line: str, lang: str, depth: int, left: list[int]) -> str:
    """Translate a line after the first; it keeps its indent and place, and may be a compiler's."""
    bare = line.lstrip(" ")
    theirs = not bare or re.match(r"\S+\(\d+\): ", bare)
    said = None if theirs else _sentences(bare, lang, depth, left)
    if said is None and (at := re.match(r"(\S+:\d+): ", bare)):
        what = _sentences(bare[at.end() :], lang, depth, left)
        said = what and f"{at[1]}：{what}"
    return line if said is None else line[: len(line) - len(bare)] + said


def _placed(text: str) -> tuple[str, str]:
    """Split a text at a colon into head and rest; a colon in code does not count."""
    at = text.find(": ")
    while at >= 0 and text.count("`", 0, at) % 2:
        at = text.find(": ", at + 1)
    return (text[:at], text[at + 2 :]) if at >= 0 else (text, "")


def _sentences(text: str, lang: str, depth: int, left: list[int]) -> str | None:
    """A text of one or several sentences of ours; None: it does not begin with such a sentence."""
    if (said := _sentence(text, lang, depth, left)) is not None:
        return said
    out, begin, end = "", 0, text.find(". ") + 1
    for _again in range(_MOST):
        if not end:
            break
        if (said := _sentence(text[begin:end], lang, depth, left)) is not None:
            out, begin = out + said, end + 1
        end = text.find(". ", end) + 1
    return out + _told(text[begin:], lang, depth - 1, left) if out else None


def _sentence(text: str, lang: str, depth: int, left: list[int]) -> str | None:
    """Translate a sentence by a template, with or without its full stop; None: no match."""
    if (said := _filled_in(text, lang, depth, left)) is None and text.endswith("."):
        said = _filled_in(text[:-1], lang, depth, left)
        return None if said is None else f"{said}。"
    return said


def _filled_in(
    text: str, lang: str, depth: int, left: list[int], *, strict: bool = True
) -> str | None:
    left[0] -= 1
    if left[0] < 0:
        return None
    for own, longest, form, said in _templates(lang):
        # A short template that begins with a field would match any sentence.
        fits = longest in text and (form[0] != "{" or len(text) <= own**2)
        if fits and (found := _pattern(form).match(text)) is not None:
            filled, inner = found.groupdict(), {}
            for name, x in filled.items():
                inner[name] = _(TOLD + x) if name in _WORDS else x
                if " " in x:  # a single word may be a name
                    inner[name] = _told(x, lang, depth - 1, left)
            took = (re.search(_PLACE if x != inner[n] else _ANOTHER, x) for n, x in filled.items())
            if strict and any(took):
                continue
            return _Chinese(said).format(**inner)
    return None


@cache
def _templates(lang: str) -> list[tuple[int, str, str, str]]:
    """Each template's count of letters, longest piece, text and translation; longest first."""
    # No public method lists a catalogue's entries; Django reads this attribute as well.
    held: dict[str, str] = vars(_catalogue(lang))["_catalog"]
    found = []
    for key, said in held.items():
        if TOLD in key:
            form = key.removeprefix(TOLD)
            pieces = [literal for literal, *__ in Formatter().parse(form)]
            words = sum(len(_WORDS[name][0]) for name in _WORDS if f"{{{name}}}" in form)
            found.append((sum(map(len, pieces)) + words, max(pieces, key=len), form, said))
    return sorted(found, reverse=True)


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """Return a template as a pattern, in which each field is as short as it can be.

    It never backtracks, so the time for a foreign name is linear in its length.
    """
    names, pieces = list[str](), [""]
    for literal, name, *__ in Formatter().parse(form):
        pieces[-1] += re.escape(literal)
        if name in _WORDS:
            pieces[-1] += f"(?P<{name}>{'|'.join(_WORDS[name])})"
        elif name is not None:
            names.append(name)
            pieces.append("")
    *others, last = (
        "",
        *(f"(?P<{n}>.*?){piece}" for n, piece in zip(names, pieces[1:], strict=True)),
    )
    return re.compile(pieces[0] + "".join(map("(?>{})".format, others)) + last + r"\Z", re.DOTALL)


@cache
def _catalogue(lang: str) -> GNUTranslations:
    with (LOCALE / LANGUAGES[lang] / "LC_MESSAGES" / "texts.mo").open("rb") as file:
        return GNUTranslations(file)
