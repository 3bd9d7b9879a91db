"""A report in two languages: a site each, the second one whole below the first.

Each has its own manifest, so what is out of date is known of each language by itself. Which
languages a report has is remembered by the folder: it keeps both until one is asked for alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from msgspec.structs import replace

from workbench.disk.writing import remove_file
from workbench.language import current, using
from workbench.views.html.build import BuiltReport
from workbench.views.html.page import LADDERS, PROGRAMS, REPORTS, SHARED
from workbench.views.html.site import MANIFEST, Site, beside_twin

#: The second language, and the folder of its pages.
_BELOW = "zh"

#: Writes a site in the language that is spoken: its folder, and the pages that come first.
Write = Callable[[Path, Collection[str]], BuiltReport]


def build_in(
    out: Path, languages: Sequence[str], first_pages: Collection[str], write: Write
) -> BuiltReport:
    """Write a report in the languages that are asked for.

    `languages` are one or two; none: those that the report has, or the one that is spoken. `write`
    writes the pages of one language, `first_pages` (paths below `out`) before the others.

    Returns:
        What was done in all; paths and remarks are those of the first language.
    """
    below = out / _BELOW
    had = (below / MANIFEST).exists()
    first, *second = languages or (("en", _BELOW) if had else (current(),))
    with using(first), beside_twin(f"{_BELOW}/" if second else ""):
        done = write(out, first_pages)
    for language in second:
        with using(language), beside_twin("../"):
            other = write(below, [page.removeprefix(f"{_BELOW}/") for page in first_pages])
        done = replace(done, pages=done.pages.plus(other.pages))
    if had and not second:
        with Site(below) as site:
            kinds = (LADDERS, PROGRAMS, REPORTS, SHARED)
            every = {kept.owner for kind in kinds for kept in site.pages(kind).values()}
            gone = site.write((), owners=every)
            site.forget_assets(())
        remove_file(below, MANIFEST)
        done = replace(done, pages=done.pages.plus(gone))
    return done
