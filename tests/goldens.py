"""Golden files: what the program said when somebody last read it and found it right.

``make goldens`` (or WORKBENCH_UPDATE_GOLDENS in the environment) writes them anew; read
the difference before committing it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from rich.cells import cell_len
from rich.console import RenderableType

from workbench.views.terminal.console import render

FOLDER = Path(__file__).resolve().parent / "golden"


def updating() -> bool:
    """Whether golden files are being written and not compared."""
    return bool(os.environ.get("WORKBENCH_UPDATE_GOLDENS"))


def same(name: str, text: str) -> None:
    """Hold `text` against ``tests/golden/<name>``, whatever version of workbench made it.

    Where `name` begins with a feature's folder, the golden lies in that feature's tests.
    """
    feature, __, rest = name.partition("/")
    own = FOLDER.parents[1] / "workbench" / feature / "tests" / "golden"
    path = own / rest if rest and own.is_dir() else FOLDER / name
    text = re.sub(r"\bworkbench \d+(\.\w+)+", "workbench VERSION", text)
    if updating():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path} is missing: read the text, then run make goldens"
    assert text == path.read_text(encoding="utf-8"), (
        f"read the difference, then run make goldens ({name})"
    )


def no_others(folder: str, names: Collection[str]) -> None:
    """Fail where a folder of golden files holds one that nothing is held against."""
    for path in sorted((FOLDER / folder).rglob("*")):
        if path.is_file() and path.relative_to(FOLDER / folder).as_posix() not in names:
            if updating():
                path.unlink()
            assert not path.exists(), f"nothing makes {path}: run make goldens, or delete it"


def same_view(name: str, view: RenderableType, width: int) -> str:
    """Hold a terminal's view against its golden file for a width; returns its text."""
    text = render(view, width)
    same(f"{name}.{width}.txt", text)
    assert all(cell_len(line) <= width for line in text.splitlines())
    return text
