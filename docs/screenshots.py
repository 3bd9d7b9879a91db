"""Pictures of the report's five kinds of page, from the recorded profiles: `make screenshots`.

Each kind is taken wide and narrow, light and dark, as WebP, into ``docs/images/``. The site
is written to a folder that is removed again; no network is used.

    python docs/screenshots.py [--study sgemm] [--step v2..v3] [--version v4] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from workbench.project import find_project, require_project
from workbench.views.html.build import build_report

ROOT = Path(__file__).resolve().parent.parent
#: A picture in a README is looked at over slow lines too.
MOST_BYTES = 150_000
WIDTHS = {"wide": 1280, "narrow": 390}
#: Kind -> height of the picture, wide and narrow: as much as shows what the page is about.
HEIGHTS = {
    "index": (640, 844),
    "ladder": (1000, 844),
    "diff": (1340, 1200),
    "version": (1100, 1000),
    "glossary": (640, 844),
}


def pages(site: Path, study: str, step: str, version: str) -> dict[str, Path]:
    """One page of each kind; the ladder is the first one on the own device that has the step."""
    device = require_project(ROOT).default_device
    found = sorted(site.glob(f"studies/{study}/{device}*/*/{step}.html"))
    if not found:
        raise SystemExit(f"no recorded step {step} of {study}: name another with --step")
    folder = found[0].parent
    return {
        "index": site / "index.html",
        "ladder": folder / "index.html",
        "diff": folder / f"{step}.html",
        "version": folder / f"{version}.html",
        "glossary": site / "glossary.html",
    }


def picture(context: Any, path: Path, width: int, height: int) -> bytes:
    """The top of a page as WebP, at the best quality that is small enough."""
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.goto(path.as_uri())
    page.wait_for_function(
        """() => [...document.querySelectorAll("[data-figure]")]
            .filter((node) => !node.closest("details:not([open]), [hidden]"))
            .every((node) => node.dataset.drawn)"""
    )
    devtools = context.new_cdp_session(page)
    data = b""
    for quality in (90, 80, 70, 55, 40):
        taken = devtools.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
        data = base64.b64decode(taken["data"])
        if len(data) < MOST_BYTES:
            break
    page.close()
    return data


def main() -> None:
    """Write the pictures and say how large they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", default="sgemm")
    parser.add_argument("--step", default="v2..v3")
    parser.add_argument("--version", default="v4")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images")
    asked = parser.parse_args()
    chromium = os.environ.get("WORKBENCH_CHROMIUM") or shutil.which("chromium")
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        site = Path(name) / "site"
        build_report(site, project=find_project(ROOT))
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for kind, path in pages(site, asked.study, asked.step, asked.version).items():
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    color_scheme=scheme, offline=True, reduced_motion="reduce"
                )
                for (size, width), height in zip(WIDTHS.items(), HEIGHTS[kind], strict=True):
                    data = picture(context, path, width, height)
                    target = asked.out / f"{kind}-{size}-{scheme}.webp"
                    target.write_bytes(data)
                    sys.stdout.write(f"{target.name:28} {len(data):>7,} B\n")
                    if len(data) >= MOST_BYTES:
                        raise SystemExit(f"{target.name} is too large; make its height smaller")
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
