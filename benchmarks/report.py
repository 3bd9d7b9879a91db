"""What the report costs: writing it, writing it again unchanged, and opening its pages.

Recorded profiles are stored again under other names until there are as many as asked
for: studies of ten versions on five problems, with sources and machine code that differ from
study to study. Times are those of whole commands, on the clock and of all processors together,
which a busy machine disturbs less; the memory is that of the largest process.

    python benchmarks/report.py site [--profiles 100 200 1000]
    python benchmarks/report.py pages SITE          # in Chromium, from the disk
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from workbench.model import Launch

ROOT = Path(__file__).resolve().parent.parent
RUN = [sys.executable, "-m", "workbench.cli"]
VERSIONS, PROBLEMS = 10, 5


def store_many(root: Path, count: int) -> None:
    """A project in `root` with `count` profiles made of the recorded ones."""
    from workbench.store import Store

    recorded = Store(ROOT / "profiles")
    # One and the same ladder for every study, so that twice the profiles are twice the work.
    entries = recorded.find(study="sgemm", engine="ncu", problem="n1024")
    models = [recorded.load(entry.path) for entry in entries]
    models = [m for m in models if any(source.text for source in m.sources)]
    (root / "workbench.toml").write_text('default_study = "study0"\n', encoding="utf-8")
    store = Store(root / "profiles")
    for number in range(count):
        study, rest = divmod(number, VERSIONS * PROBLEMS)
        problem, version = divmod(rest, VERSIONS)
        model = models[version % len(models)]
        sources = tuple(
            msgspec.structs.replace(
                source, text=source.text and source.text.replace("sum", f"sum{study}_{version % 3}")
            )
            for source in model.sources
        )
        store.save(
            msgspec.structs.replace(
                model,
                launches=tuple(_recoded(launch, study) for launch in model.launches),
                study=f"study{study}",
                version=f"v{version}",
                problem=f"n{128 << problem}",
                parameters={"n": 128 << problem},
                sources=sources,
            )
        )


def _recoded(launch: Launch, study: int) -> Launch:
    """A launch of other machine code in each study: what a run knows of code helps within one."""
    table = launch.instructions
    texts = tuple(text.replace("UR4", f"UR{20 + study % 40}") for text in table.text)
    return msgspec.structs.replace(launch, instructions=msgspec.structs.replace(table, text=texts))


def say(text: str) -> None:
    """A line of a table, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(argv: list[str], cwd: Path) -> tuple[float, float]:
    """Wall and processor seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(argv, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def site(counts: list[int]) -> None:
    """Times over numbers of profiles, as a table."""
    say("profiles  pages    first  processors   again start-up  memory  largest page")
    for count in sorted(counts):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            store_many(root, count)
            first, busy = run([*RUN, "report"], root)
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            again = min(run([*RUN, "report"], root)[0] for _ in range(5))
            start = min(run([*RUN, "--version"], root)[0] for _ in range(5))
            pages = list((root / "reports").rglob("*.html"))
            largest = max(page.stat().st_size for page in pages)
            say(
                f"{count:>8} {len(pages):>6} {first:>6.1f} s {busy:>9.1f} s {again:>5.2f} s"
                f" {start:>6.2f} s {memory:>4.0f} MB {largest:>11,} B"
            )


#: Installed before anything of the page runs. A page answers once its last long task of the
#: start is over; a task is long from 50 ms on (W3C Long Tasks).
_OBSERVE = """
window.tasks = [];
new PerformanceObserver((list) => {
    for (const e of list.getEntries()) window.tasks.push([e.startTime, e.duration]);
}).observe({ type: "longtask", buffered: true });
"""
_READ = """() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    ready: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
    tasks: window.tasks,
    charts: document.querySelectorAll("[data-drawn]").length,
})"""


def pages(folder: Path) -> None:
    """Open the largest page of each kind as a reader does, and say when it answers."""
    from playwright.sync_api import sync_playwright

    every = sorted(folder.rglob("*.html"), key=lambda page: -page.stat().st_size)
    kinds = {
        "diff": [p for p in every if ".." in p.name],
        "ladder": [p for p in every if p.name == "index.html" and p.parent != folder],
        "version": [
            p
            for p in every
            if ".." not in p.name
            and p.parent.parent != folder.parent
            and p.stem not in ("index", "glossary")
        ],
        "index": [folder / "index.html"],
        "glossary": [folder / "glossary.html"],
    }
    browser = os.environ.get("WORKBENCH_CHROMIUM") or shutil.which("chromium")
    say("     page     bytes   paint   ready  answers longest charts  long tasks (start, ms)")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
        )
        for kind, found in kinds.items():
            if not found:
                continue
            best: dict[str, float] = {}
            for _ in range(5):
                page = chromium.new_page(viewport={"width": 1440, "height": 900})
                page.add_init_script(_OBSERVE)
                page.goto(found[0].as_uri())
                page.wait_for_timeout(4_000)
                seen = page.evaluate(_READ)
                page.close()
                tasks = seen["tasks"]
                row = {
                    "paint": seen["paint"],
                    "ready": seen["ready"],
                    "answers": max([seen["ready"], *(a + b for a, b in tasks)]),
                    "longest": max([0.0, *(b for _, b in tasks)]),
                    "charts": seen["charts"],
                }
                if not best or row["answers"] < best["answers"]:
                    best, slow = row, tasks
            say(
                f"{kind:>9} {found[0].stat().st_size:>9,} {best['paint']:>4.0f} ms"
                f" {best['ready']:>4.0f} ms {best['answers']:>5.0f} ms {best['longest']:>4.0f} ms"
                f" {best['charts']:>6}  {json.dumps([[round(a), round(b)] for a, b in slow])}"
            )
        chromium.close()


def main() -> None:
    """Read the arguments and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    first = what.add_parser("site")
    first.add_argument("--profiles", type=int, nargs="+", default=[100, 200, 1000])
    second = what.add_parser("pages")
    second.add_argument("site", type=Path)
    asked = parser.parse_args()
    if asked.what == "site":
        site(asked.profiles)
    else:
        pages(asked.site.resolve())


if __name__ == "__main__":
    main()
