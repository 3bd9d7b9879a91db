"""Many files, each within its limit, that are too much together: every command ends, and soon."""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import signal
import string
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, book, dealt
from tests.factories import make_profile
from workbench.cli import COMMANDS
from workbench.model import Build
from workbench.store import Store
from workbench.store.codec import encode

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1800)]

#: What a command may take beyond what it begins with, here; and what it may ask for.
MOST_BYTES, MOST_ADDRESSES = 1 << 30, 3 << 30
TOO_MUCH = 99
#: `serve` ends when somebody ends it.
_SERVED_S = 20.0

#: How a command is called so that it reads; those that are not here are called as they are.
LINES = {
    "show": "show v2",
    "diff": "diff v2 v3",
    "check": "check --all",
    "serve": "serve --port 0",
    "capture": "capture --name x -- true",
    "profile": "profile v2 --engine emulator",
    "time": "time --all --recorded",
    "verify": "verify v2 --engine emulator",
    "export": "export counters --out x.csv",
    "import": "import sgemm_v3.ncu-rep --study double --version v0 --force",
    "export readme": "export readme --chart x.svg",
    "export figure": "export figure ladder --out x.svg",
    "new": "new v900",
    "init": "init other",
}


def _include(demo: Path, names: list[str]) -> None:
    version = next(demo.glob("v3*.cu"))
    with version.open("a") as file:
        file.writelines(f'#include "{name}"\n' for name in names)


def _big(path: Path) -> None:
    path.write_text(("// " + "x" * 76 + "\n") * ((8 << 20) // 80 - 1))


def links(demo: Path) -> None:
    """One large file under many names, all included."""
    _big(demo / "big.cuh")
    for number in range(400):
        (demo / f"h{number}.cuh").symlink_to("big.cuh")
    _include(demo, [f"h{number}.cuh" for number in range(400)])


def linked_versions(demo: Path) -> None:
    """The same as versions."""
    front = next(demo.glob("v3*.cu")).read_text()
    _big(demo / "big.cuh")
    (demo / "v100.cu").write_text(front + (demo / "big.cuh").read_text()[: -len(front.encode())])
    for number in range(101, 400):
        (demo / f"v{number}.cu").symlink_to("v100.cu")


def names(demo: Path) -> None:
    """A file that includes hundreds of thousands of others."""
    words = itertools.islice(itertools.product(string.ascii_letters, repeat=4), 400_000)
    (demo / "lines.cuh").write_text("".join(f'#include "{"".join(word)}"\n' for word in words))
    _include(demo, ["lines.cuh"])


def lines(demo: Path) -> None:
    """One that includes the same file again and again."""
    (demo / "lines.cuh").write_text('#include "x"\n' * 615_000)
    _include(demo, ["lines.cuh"])


def one_line(demo: Path) -> None:
    """All of it on one line."""
    (demo / "lines.cuh").write_text('#include "x" ' * 615_000)
    _include(demo, ["lines.cuh"])


def circle(demo: Path) -> None:
    """Files that include each other, a thousand deep."""
    for number in range(2000):
        (demo / f"c{number}.cuh").write_text(f'#include "c{(number + 1) % 2000}.cuh"\n')
    _include(demo, ["c0.cuh"])


def _record(demo: Path) -> tuple[Path, bytes]:
    """A profile of a few kilobytes that holds 15.8 MB of PTX."""
    profile = make_profile(study="demo", version="v2", problem="n0")
    line = "    // a line of PTX that says nothing at all, over and over again\n"
    build = profile.build or Build(compiler="nvcc", arch="sm_90")
    build = msgspec.structs.replace(build, ptx=line * (15_800_000 // len(line)))
    path = Store(demo.parents[1] / "profiles").save(make_profile(study="demo", version="v2"))
    return path, encode(msgspec.structs.replace(profile, build=build), path)


def problems(demo: Path) -> None:
    """Records of one version on many problems."""
    path, data = _record(demo)
    for number in range(300):
        path.with_name(f"n{number + 10_000}.ncu.json.zst").write_bytes(data)


def versions(demo: Path) -> None:
    """Records of many versions on one problem."""
    path, data = _record(demo)
    text = next(demo.glob("v3*.cu")).read_text()
    for number in range(100, 400):
        folder = path.parent.parent / f"v{number}"
        folder.mkdir()
        (folder / path.name).write_bytes(data)
        (demo / f"v{number}.cu").write_text(text)


HEAVY: tuple[Callable[[Path], None], ...] = (
    *(links, linked_versions, names, lines, one_line, circle, problems, versions),
)
EVERY = [(heavy, command) for heavy in HEAVY for command in COMMANDS]


def _asked(root: Path) -> None:
    from workbench.agents.tests.client import Client, talk  # only where the feature is

    async def job(client: Client) -> None:
        for tool, given in (
            ("list", {}),
            ("show", {"target": "v2"}),
            ("source", {"version": "v3"}),
        ):
            await client.call(tool, **given)

    talk(root, job)


def limited(root: Path, command: str) -> object:
    """Run a command where memory is short; `TOO_MUCH` where it takes more than it may."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MOST_ADDRESSES,) * 2)
    code: object = 0
    try:
        if command == "serve mcp":
            _asked(root)
        else:
            if command == "serve":
                stop = threading.Timer(_SERVED_S, os.kill, (os.getpid(), signal.SIGINT))
                stop.daemon = True
                stop.start()
            code = harness.command(LINES.get(command, command))()
    except SystemExit as end:
        code = end.code
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    peak = max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) << 10
    return TOO_MUCH if peak > MOST_BYTES else code


@pytest.mark.parametrize("portion", dealt("totals", len(EVERY), 6))
def test_totals(root: Path, portion: Portion, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = root.parent / "outside"
    whole = root.parent / "whole"
    shutil.copytree(root, whole)
    for turn in book.turns(portion):
        heavy, command = EVERY[turn.number]
        shutil.rmtree(root)
        shutil.copytree(whole, root)
        monkeypatch.setenv("XDG_CACHE_HOME", str(root.parent / f"cache{turn.number}"))
        heavy(root / "kernels" / "demo")
        before = harness.records(root)
        with harness.untouched(outside, turn.kind):
            ended = harness.run(lambda: limited(root, command), root, turn.kind)  # noqa: B023
        fine = ended.code in (*range(7), 130)
        book.must(fine, turn.kind, (heavy.__name__, command, ended.code, ended.text[-600:]))
        lost = before - harness.records(root)
        if lost:
            book.found(turn.kind, "lost or half", f"{heavy.__name__}, {command}: {lost}")
