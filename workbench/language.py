"""The words people read, in their language: English as it is written here, or Chinese.

Whatever a person reads is passed to `_` (or `ngettext`) where it is shown, as a whole sentence
with named fields, so that a translation may order them anew. A text made before the language is
known, such as a table of titles, is marked with `N_` and passed to `_` later. What programs read
(JSON, CSV, names, ids, exit codes) is never passed. Where a sentence has no translation, it is
English. Translations are `data/locale/zh_CN/*.po`; `make catalogue` collects and compiles them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gettext import GNUTranslations

#: Language -> the folder of its catalogue; English needs none.
LANGUAGES = {"en": "", "zh": "zh_CN"}
#: What a user sets once; `--lang` goes before it, the system's own settings after it.
VARIABLE = "WORKBENCH_LANG"
LOCALE = Path(__file__).parent / "data" / "locale"

_chosen = "en"
_within: ContextVar[str | None] = ContextVar("language", default=None)


def asked(environment: Mapping[str, str]) -> str:
    """The language that the environment asks for: ``WORKBENCH_LANG``, else the system's."""
    names = (VARIABLE, "LC_ALL", "LC_MESSAGES", "LANG")
    wanted = next(filter(None, map(environment.get, names)), "")
    return "zh" if wanted.lower().startswith("zh") else "en"


def use(lang: str) -> None:
    """Speak a language (a key of `LANGUAGES`) from now on, in every thread."""
    global _chosen
    _chosen = lang


@contextlib.contextmanager
def using(lang: str) -> Iterator[None]:
    """Speak a language for a while, in this thread alone."""
    token = _within.set(lang)
    try:
        yield
    finally:
        _within.reset(token)


def current() -> str:
    """The language that is spoken: a key of `LANGUAGES`."""
    return _within.get() or _chosen


def _(text: str) -> str:
    """`text` in the language that is spoken."""
    lang = _within.get() or _chosen
    return text if lang == "en" or not text else _catalogue(lang).gettext(text)


def ngettext(one: str, many: str, n: float) -> str:
    """The text for `n` things: `one` where it is 1, else `many`, or the translation of both."""
    lang = _within.get() or _chosen
    if lang == "en":
        return one if n == 1 else many
    return _catalogue(lang).ngettext(one, many, 1 if n == 1 else 2)


def N_(text: str) -> str:  # noqa: N802 - what translators and their tools look for
    """`text` as it is, marked for translation: `_` is called where it is shown."""
    return text


@cache
def _catalogue(lang: str) -> GNUTranslations:
    # Here, because English needs none of it.
    from gettext import GNUTranslations

    with (LOCALE / LANGUAGES[lang] / "LC_MESSAGES" / "texts.mo").open("rb") as file:
        return GNUTranslations(file)
