"""What `workbench serve` costs a reader: pages that are asked for, and a change until it is shown.

A site is served, and every page of it asked for once, and once more. Or the shipped studies are
copied and served, and files are edited while a page that shows them is open; the time is the
clock's, from the moment the file is another one until the page is told to reload, and the
processor's, of the server alone, which a busy machine disturbs less. What is to be written is made
before: decoding and compressing a profile is the recorder's work, and takes 0.1 to 0.3 s.

    python benchmarks/serving.py pages SITE
    python benchmarks/serving.py changes [--studies sgemm conv2d_half]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE_S = 60.0
#: Makes what is to be written, and gives what writes it.
Edit = Callable[[], Callable[[], None]]
_TITLE = re.compile(r'title *= "')
#: What is edited of each study: the newest profile's version and problem, and a source.
_CHANGED = {"sgemm": ("v10", "n4096"), "conv2d_half": ("v12", "n32_c128")}


def say(text: str) -> None:
    """A line of a table, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def processor_seconds(process: int) -> float:
    """What a process has used so far, its children that ended among it."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS


class Reader:
    """One browser, which keeps its connection."""

    def __init__(self, url: str) -> None:
        self._server = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_PATIENCE_S)

    def get(self, path: str) -> tuple[bytes, float]:
        """A page and how long it took, in seconds."""
        start = time.perf_counter()
        self._server.request("GET", quote(path))
        answer = self._server.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"{path}: {answer.status}")
        return body, time.perf_counter() - start


@contextmanager
def served(root: Path, study: str) -> Iterator[tuple[str, int]]:
    """The address of a report that is being served, once it is written, and the process."""
    argv = [sys.executable, "-m", "workbench.cli", "serve", "--port", "0", study]
    process = subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = next(line for line in process.stdout if line.startswith("http")).strip()
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


def copy_project(root: Path) -> None:
    """The shipped studies and what is recorded of them, for edits that nobody keeps."""
    for name in ("kernels", "profiles"):
        shutil.copytree(ROOT / name, root / name)
    (root / "workbench.toml").write_text('default_study = "sgemm"\n', encoding="utf-8")


def pages(site: Path) -> None:
    """Ask for every page of a site twice; of each kind the slowest is told."""
    from workbench.serve.server import listening as serving

    kinds: dict[str, list[tuple[float, float, float, int, str]]] = {}
    with serving(site, "127.0.0.1", 0) as server:
        reader = Reader(server.url)
        for file in sorted(site.rglob("*.html")):
            path = "/" + file.relative_to(site).as_posix()
            start = time.process_time()
            body, first = reader.get(path)
            busy = time.process_time() - start
            _, second = reader.get(path)
            kinds.setdefault(kind_of(path), []).append((first, second, busy, len(body), path))
    say("kind      pages   slowest     again  processor    largest  which")
    for kind, found in kinds.items():
        slowest = max(found)
        say(
            f"{kind:<9} {len(found):>5} {slowest[0] * 1e3:>6.1f} ms"
            f" {max(row[1] for row in found) * 1e3:>6.1f} ms"
            f" {max(row[2] for row in found) * 1e3:>7.1f} ms"
            f" {max(row[3] for row in found):>8,} B  {slowest[4]}"
        )


def kind_of(path: str) -> str:
    """``version``, ``step``, ``ladder``, ``index`` or ``glossary``, from a page's address."""
    name = path.rpartition("/")[2]
    if path.startswith(("/files/", "/programs/")):
        return path.split("/")[1]
    if path.startswith("/studies/"):
        return "ladder" if name == "index.html" else "step" if ".." in name else "version"
    return name.removesuffix(".html")


def changes(root: Path, studies: list[str]) -> None:
    """Edit, and wait until the page is another one."""
    say("study        change                        page                   wall  processor")
    for study in studies:
        version, problem = _CHANGED[study]
        folder = f"/studies/{study}/h200/{problem}"
        source = next((root / "kernels" / study).glob(f"{version}_*.cu"))
        profile = root / f"profiles/h200/{study}/{version}/{problem}.ncu.json.zst"
        edits: list[tuple[str, str, Edit]] = [
            ("a source, for the first time", f"{folder}/{version}.html", appended(source, "\n//")),
            ("a title", f"{folder}/{version}.html", retitled(source)),
            ("a title", f"{folder}/index.html", retitled(source)),
            ("a profile recorded anew", f"{folder}/{version}.html", again(profile)),
            ("a profile recorded anew", f"{folder}/index.html", again(profile)),
            ("study.py, run", f"{folder}/index.html", run_study(root, study)),
        ]
        with served(root, study) as (url, process):
            for title, page, edit in edits:
                wall, busy = shown(url, process, page, edit)
                name = page.rpartition("/")[2]
                say(f"{study:<12} {title:<29} {name:<18} {wall:>6.2f} s {busy:>6.2f} s")


def shown(url: str, process: int, page: str, edit: Edit) -> tuple[float, float]:
    """Seconds until the page's reader is told of an edit, and the server's processor seconds."""
    save = edit()
    rest(process)
    before = state(url, page)
    start, busy = time.perf_counter(), processor_seconds(process)
    save()
    while state(url, page) == before:
        time.sleep(0.02)
    return time.perf_counter() - start, processor_seconds(process) - busy


def state(url: str, page: str) -> str:
    """The state of a page that is open, as its script asks for it."""
    with urlopen(f"{url}-/news{quote(page)}", timeout=_PATIENCE_S) as answer:
        return str(json.load(answer)["state"])


def rest(process: int) -> None:
    """Wait until nothing is written any more: looking for changes alone is quick."""
    used = -1.0
    while processor_seconds(process) - used > 0.2:
        used = processor_seconds(process)
        time.sleep(2)


def appended(path: Path, text: str) -> Edit:
    """An edit that writes at a file's end."""
    return lambda: partial(replace, path, path.read_text(encoding="utf-8") + text)


def retitled(path: Path) -> Edit:
    """An edit of a version's title."""

    def edit() -> Callable[[], None]:
        text = _TITLE.sub('title = "Again: ', path.read_text(encoding="utf-8"), count=1)
        return partial(replace, path, text)

    return edit


def again(path: Path) -> Edit:
    """A profile with one counter a little higher, stored as `workbench profile` does."""

    def edit() -> Callable[[], None]:
        from msgspec import structs

        from workbench.store.codec import decode, encode

        profile = decode(path, _profile())
        launch = profile.launches[0]
        name = "gpu__time_duration.sum"
        metric = launch.metrics[name]
        slower = structs.replace(metric, value=float(metric.value) * 1.01)
        launch = structs.replace(launch, metrics={**launch.metrics, name: slower})
        new = structs.replace(profile, launches=(launch, *profile.launches[1:]))
        temporary = path.with_name(f".{path.name}")
        temporary.write_bytes(encode(new, path))

        def save() -> None:
            temporary.replace(path)

        return save

    return edit


def _profile() -> type:
    from workbench.model import Profile

    return Profile


def run_study(root: Path, study: str) -> Edit:
    """Another title of a study, and its file run, as `workbench verify` does."""

    def edit() -> Callable[[], None]:
        from workbench.project import find_project
        from workbench.study import folder

        retitle = retitled(root / "kernels" / study / "study.py")()
        project = find_project(root)
        assert project is not None

        def save() -> None:
            retitle()
            folder.run_study(project, study)

        return save

    return edit


def replace(path: Path, text: str) -> None:
    """As an editor saves."""
    path.write_text(text, encoding="utf-8")


def main() -> None:
    """Read the arguments and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    first = what.add_parser("pages")
    first.add_argument("site", type=Path)
    second = what.add_parser("changes")
    second.add_argument("--studies", nargs="+", default=list(_CHANGED), choices=list(_CHANGED))
    asked = parser.parse_args()
    if asked.what == "pages":
        pages(asked.site.resolve())
        return
    with tempfile.TemporaryDirectory() as name:
        copy_project(Path(name))
        changes(Path(name), asked.studies)


if __name__ == "__main__":
    main()
