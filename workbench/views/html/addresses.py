"""Where pages lie, relative to the site, and how they name each other.

Planning a site needs its addresses and no template: whether a page is up to date is known
before anything that renders it is loaded.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import PurePosixPath

from workbench.ladder import ENGINES, Ladder, Rung

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")


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


def beside(ladder: Ladder, device: str, page: str) -> str:
    """A page of a ladder's study and problem on a device (its slug), from a page of the ladder."""
    return f"../../{page_part(device)}/{page_part(ladder.problem)}/{page}"


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


def launch_page(index: int) -> str:
    """File name of a launch's page."""
    return f"launch{index}.html"


def code_name(path: str) -> str:
    """Name of the file of a page's code, from the page's path: ``v3.html`` -> ``v3.code.js``."""
    return PurePosixPath(path).name.removesuffix(".html") + ".code.js"
