"""How long an editor waits for `serve lsp`: for the first hints, and for an edit's counters.

    python -m workbench.editing.tests.benchmark [--rounds 5]

first hints
    ``sgemm/v3`` is opened and its hints are asked for: seconds from the start of the server, and
    from the opening of the file in a server that has just begun.
new wavefronts
    the padding of its tile is taken away and the file is saved: seconds until the line that
    stores to the tile has the emulator's wavefronts. The compiled edit is in no cache.

The project is a copy of the study and of its records, in a temporary folder. The least of all
rounds stands beside their median, since other work on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from workbench.editing.tests.client import connected

REPO = Path(__file__).resolve().parents[3]
PATH, LINE = "kernels/sgemm/v3_padded.cu", 47


async def one(root: Path) -> tuple[float, float, float]:
    """Seconds of a round: from the start to the hints, from opening to them, from saving on."""
    text = (REPO / PATH).read_text(encoding="utf-8")
    (root / PATH).write_text(text, encoding="utf-8")
    begin = time.monotonic()
    async with connected(root, {"verify": "onSave", "timeout": 120}) as client:
        ready = time.monotonic()
        client.open(PATH)
        assert await client.hints(PATH)
        shown = time.monotonic()
        edited = text.replace("As[T][T + 1]", "As[T][T]") + f"// {begin}\n"
        client.save(PATH, edited)
        while "32.0 a request" not in (await client.hints(PATH)).get(LINE, ""):
            await client.told("workspace/inlayHint/refresh")
        counted = time.monotonic()
        await client.told("window/showMessage")
    return shown - begin, shown - ready, counted - shown


def main() -> None:
    """Print a line for each wait."""
    parser = argparse.ArgumentParser(description="How long an editor waits.")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary).resolve()
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        (root / "pyproject.toml").write_text("[tool.workbench]\n")
        shutil.copytree(REPO / "kernels" / "sgemm", root / "kernels" / "sgemm")
        shutil.copytree(REPO / "profiles" / "h200" / "sgemm", root / "profiles" / "h200" / "sgemm")
        shutil.copytree(REPO / "profiles" / ".studies", root / "profiles" / ".studies")
        found = [asyncio.run(one(root)) for _ in range(rounds)]
    names = ("start to first hints", "opening to first hints", "save to new wavefronts")
    for name, seconds in zip(names, zip(*found, strict=True), strict=True):
        print(f"{name:24} {min(seconds):5.2f} s least, {median(seconds):5.2f} s median")  # noqa: T201


if __name__ == "__main__":
    main()
