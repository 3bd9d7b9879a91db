"""``constraints.txt`` from what pip resolved: ``pip install --dry-run --report FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

HEAD = "# The versions that are tested; `make lock` writes them, pyproject.toml has the bounds."


def main() -> None:
    """Print a line a package, by name: no address and no hash of what came from where."""
    resolved = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = (each["metadata"] for each in resolved["install"])
    pins = {each["name"]: each["version"] for each in found if each["name"] != "workbench"}
    print(HEAD)  # noqa: T201
    for name in sorted(pins, key=str.lower):
        print(f"{name}=={pins[name]}")  # noqa: T201


if __name__ == "__main__":
    main()
