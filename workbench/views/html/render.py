"""Templates to HTML: one environment, strict about names, everything escaped."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import jinja2

from workbench import __version__
from workbench.measure.ladder import ENGINES, Ladder, Rung

_HERE = Path(__file__).parent
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")
#: A link to the glossary; escaping leaves neither quotes in its title nor tags in its text.
_TERM = re.compile(r'(<a href="[./]*glossary\.html#[^"]*")( title="[^"]*")(>[^<]*</a>)')


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The template environment, made once per process.

    `StrictUndefined`: a name that a view model does not have is an error in a
    test, not a hole in a page. ``tojson`` (Jinja's own) escapes ``<``, ``>``,
    ``&`` and ``'``, so JSON inside a script element cannot end it.
    """
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": False}
    env.globals["tool_version"] = __version__
    return env


def render(template: str, path: str, **context: object) -> str:
    """Render one page.

    Args:
        template: File name in ``templates/``.
        path: Where the page will lie, relative to the site, with forward slashes;
            links to the site's root are made relative to it.
        context: The view model.
    """
    return said_once(environment().get_template(template).render(root=to_root(path), **context))


def said_once(html: str) -> str:
    """A page that says each counter's meaning at its first mention alone.

    The page's script shows it at the others too. A page of four launches names every
    counter four times, and would be a third longer.
    """
    said: set[tuple[str, str]] = set()

    def once(found: re.Match[str]) -> str:
        link, title, rest = found.groups()
        if (title, rest) in said:
            return link + rest
        said.add((title, rest))
        return found[0]

    return _TERM.sub(once, html)


def to_root(path: str) -> str:
    """``studies/sgemm/index.html`` -> ``../../``, so that pages open from a disk."""
    return "../" * path.count("/")


def page_part(name: str) -> str:
    """A name as one safe component of a page's path and address.

    Odd characters become ``-``; a short hash then keeps two such names apart.
    """
    safe = _UNSAFE.sub("-", name)[:80]
    if safe == name and not safe.startswith("."):
        return safe
    return f"{safe.lstrip('.')}-{blake2b(name.encode(), digest_size=4).hexdigest()}"


def ladder_folder(ladder: Ladder) -> str:
    """Where a ladder's pages lie, relative to the site."""
    parts = (ladder.name, ladder.device, ladder.problem)
    return "studies/" + "/".join(page_part(part) for part in parts)


def version_page(version: str, engine: str) -> str:
    """File name of the page of a version: ``v3.html``."""
    name = page_part(version)
    return f"{name}.html" if engine == "ncu" else f"{name}.{page_part(engine)}.html"


def rung_page(rung: Rung) -> str:
    """The page that speaks for a version, from a page of the same ladder; "" without one."""
    engine = next((engine for engine in ENGINES if engine in rung.entries), "")
    return version_page(rung.id, engine) if engine else ""


def step_page(old: str, new: str, engine: str) -> str:
    """File name of the page of a step: ``v2..v3.html``."""
    name = f"{page_part(old)}..{page_part(new)}"
    return f"{name}.html" if engine == "ncu" else f"{name}.{page_part(engine)}.html"
