"""The file beside a page: all instructions of its launches, read when they are looked at.

It is a script that assigns one value, because that is what a page opened from a disk may
load; a page of fetched JSON would need a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

import msgspec

from workbench.views.html.pages.version import VersionView
from workbench.views.html.render import render
from workbench.views.html.site import Rendered

_NAME = b"window.workbenchCode="


def code_name(path: str) -> str:
    """The file's name, from the page's path: ``v3.html`` -> ``v3.code.js``."""
    return PurePosixPath(path).name.removesuffix(".html") + ".code.js"


def code_script(launches: Mapping[str, Mapping[str, object]]) -> bytes:
    """The file's content.

    Args:
        launches: Prefix of a launch's ids on the page -> its columns.
    """
    data = msgspec.json.encode(launches)
    # Only strings hold `<`; as an escape it can neither end a script nor start a comment
    # where a page is packed into one file.
    return _NAME + data.replace(b"<", b"\\u003c") + b";\n"


def version_page(path: str, view: VersionView) -> Rendered:
    """A version's (or launch's) page, and the file beside it where there are instructions."""
    code = {
        launch.code.prefix: launch.code.beside()
        for launch in view.launches
        if launch.code.sass.count or launch.code.ptx.count
    }
    name = code_name(path) if code else ""
    html = render("version.html", path, view=view, code_file=name)
    return Rendered(html=html, beside={name: code_script(code)} if code else {})
