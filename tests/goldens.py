"""Golden files: what the program said when somebody last read it and found it right."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "golden"


def same(name: str, text: str) -> None:
    """Hold `text` against ``tests/golden/<name>``; ``make goldens`` rewrites the file."""
    path = FOLDER / name
    if os.environ.get("WORKBENCH_UPDATE_GOLDENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path} is missing: read the text, then run make goldens"
    assert text == path.read_text(encoding="utf-8"), (
        f"read the difference, then run make goldens ({name})"
    )
