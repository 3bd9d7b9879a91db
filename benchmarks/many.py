"""What a store of thousands of profiles costs: listing it, frames of it, exporting it.

Recorded profiles of one study are stored again under other names: studies of ten versions on
five problems. Each figure is one process's: processor time, which a busy machine disturbs
less than the clock, and the most memory that it held.

    python benchmarks/many.py [--profiles 100 1000 10000] [--only "3 counters"]

The user's cache is empty at the beginning, and is used from command to command.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import zstandard

ROOT = Path(__file__).resolve().parent.parent
RUN = [sys.executable, "-m", "workbench.cli"]
VERSIONS, PROBLEMS = 10, 5
_START = "from pathlib import Path; from workbench import frames; from workbench.store import Store"
_FRAME = f"{_START}; print(len(frames.%s))"
_THREE = [
    sys.executable,
    "-c",
    f"{_START}; wanted = ['duration', 'registers', 'dram_throughput']; "
    "print(sum(map(len, frames.stored(Store(Path('profiles')), 'counters', wanted))))",
]
COMMANDS = {
    "list": [*RUN, "list"],
    "list --format csv": [*RUN, "list", "--format", "csv"],
    "frames: import pandas": [sys.executable, "-c", "import pandas"],
    "frames: 3 counters": _THREE,
    "frames: 3 counters, again": _THREE,
    "frames: launches": [
        sys.executable,
        "-c",
        _FRAME % "launches(Store(Path('profiles')).profiles(whole=False))",
    ],
    "frames: all counters": [
        sys.executable,
        "-c",
        f"{_START}; print(sum(map(len, frames.stored(Store(Path('profiles')), 'counters'))))",
    ],
    "export counters, Parquet": [*RUN, "export", "counters", "--out", "x.parquet"],
    "export lines, Parquet": [*RUN, "export", "lines", "--out", "x.parquet"],
}


def store_many(root: Path, count: int) -> None:
    """A project in `root` with `count` profiles made of the recorded ones of `sgemm`."""
    from workbench.store import Store
    from workbench.store.codec import unpack

    entries = [
        entry
        for entry in Store(ROOT / "profiles").find(study="sgemm", engine="ncu", problem="n1024")
        if entry.version[0] == "v"
    ]
    models = [unpack(entry.path.read_bytes()) for entry in entries[:VERSIONS]]
    (root / "workbench.toml").write_text('default_study = "study0"\n', encoding="utf-8")
    # As quick as it gets: what is measured is reading, which does not depend on the level.
    packer = zstandard.ZstdCompressor(level=1, write_checksum=True)
    for number in range(count):
        study, rest = divmod(number, VERSIONS * PROBLEMS)
        problem, version = divmod(rest, VERSIONS)
        if rest == 0:
            shutil.copytree(ROOT / "kernels/sgemm", root / f"kernels/study{study}")
            (root / "profiles/.studies").mkdir(parents=True, exist_ok=True)
            facts = ROOT / "profiles/.studies/sgemm.json"
            shutil.copy(facts, root / f"profiles/.studies/study{study}.json")
        old = entries[version].version
        data = models[version]
        for name, before, after in (
            ("study", "sgemm", f"study{study}"),
            ("problem", "n1024", f"n{128 << problem}"),
        ):
            old_word, new_word = (f'"{name}":"{each}"'.encode() for each in (before, after))
            data = data.replace(old_word, new_word)
        path = root / f"profiles/h200/study{study}/{old}/n{128 << problem}.ncu.json.zst"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packer.compress(data))


def measured(argv: list[str], root: Path) -> tuple[float, float]:
    """Processor seconds of a command, and its most memory in MB."""
    environment = os.environ | {"XDG_CACHE_HOME": str(root / "cache")}
    process = subprocess.Popen(argv, cwd=root, stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), argv)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--only", default="", help="the commands whose titles hold this")
    options = parser.parse_args()
    counts = options.profiles
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            store_many(Path(name), count)
            for title, argv in COMMANDS.items():
                if options.only not in title:
                    continue
                seconds, memory = measured(argv, Path(name))
                sys.stdout.write(f"{count:>7,}  {title:<26} {seconds:>8.2f} s {memory:>6.0f} MB\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
