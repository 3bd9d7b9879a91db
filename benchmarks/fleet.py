"""How a sweep over several GPUs of a host spends its time.

The command is the real one, in a project made for it; it and its workers note what they do when.
On stand-ins its workers find the tests' PyCUDA, whose devices sleep and take no processor: what
is seen is what does not halve with two GPUs. With ``--real`` it is the sweep of
docs/measurements.md on the GPUs that are here, once to fill the caches and then as asked for; and
the times of several GPUs at work are held against those of each alone.

    python -m benchmarks.fleet [--gpus 0 0,1] [--compiler SECONDS] [--library SECONDS]
    python -m benchmarks.fleet --real [--gpus 0 all 1 all]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from tests.engines.stand_ins import BASELINE, HERE, STUDY, VERSION
from workbench.model import Estimate
from workbench.project import require_project
from workbench.store import Store

ROOT = Path(__file__).resolve().parent.parent
UUIDS = ("GPU-aaaa-0", "GPU-bbbb-1", "GPU-cccc-2", "GPU-dddd-3")
#: How often the time of the fastest the versions take.
VERSIONS = (8.0, 4.0, 2.0, 1.5, 1.0)
SIZES = (1000, 1600, 2400, 3200, 4800)
#: The sweep of docs/measurements.md.
REAL = (
    "sgemm:n128,n256,n512,n1024,n2048,n4096",
    *(f"v{number}" for number in range(1, 11)),
    "cublas",
    *("--limit", "1"),
)
#: What both programs write down.
_NOTE = """
import json, os, sys, time

def note(event, **row):
    row |= {"event": event, "gpu": os.environ.get("CUDA_VISIBLE_DEVICES", ""), "at": time.time()}
    with open(os.environ["FLEET_LOG"], "a") as file:
        file.write(json.dumps(row) + "\\n")

def noted(place, name, event, **facts):
    call = getattr(place, name)
    def noting(*given, **more):
        begin = time.time()
        try:
            return call(*given, **more)
        finally:
            note(event, begin=begin, **{key: fact(*given) for key, fact in facts.items()})
    setattr(place, name, noting)
"""
#: The worker, which is otherwise `python -m workbench.engines.worker`.
_WORKER = f"""{_NOTE}
note("python")
import workbench.engines.worker as worker
note("imports")
noted(worker, "open_device", "device")
noted(worker, "load_library", "library")
noted(worker.Session, "__enter__", "session")
noted(worker.Benches, "of", "inputs")
noted(worker, "_time", "timed")
noted(
    worker, "_one", "job",
    task=lambda _session, _benches, job, *_: job.task,
    version=lambda _session, _benches, job, *_: job.executable.version,
    problem=lambda _session, _benches, job, *_: job.problem,
)
code = worker.main(sys.argv[1:])
note("done")
if code:
    os._exit(code)
"""
#: The command.
_PROGRAM = f"""{_NOTE}
import subprocess

class Noted(subprocess.Popen):
    def __init__(self, argv, *args, **kwargs):
        self.gpu = None
        if "workbench.engines.worker" in argv:
            at = argv.index("workbench.engines.worker")
            argv = [*argv[: at - 1], os.environ["FLEET_WORKER"], *argv[at + 1 :]]
            self.gpu = kwargs["env"].get("CUDA_VISIBLE_DEVICES", "")
            note("started", of=self.gpu, cpu=time.process_time())
        super().__init__(argv, *args, **kwargs)

    def wait(self, *args, **kwargs):
        code = super().wait(*args, **kwargs)
        if self.gpu is not None:
            note("ended", of=self.gpu)
        return code

subprocess.Popen = Noted
%s
from workbench.cli import main
try:
    main(sys.argv[1:])
finally:
    note("end", cpu=time.process_time())
"""
#: Stand-ins for what asks the machine: GPUs, and the compiler, which sleeps.
_STAND_INS = """
import re
from pathlib import Path

def build(project, version, arch):
    from workbench.compile.build import BuildResult
    from workbench.model import Build, SourceFile
    takes = re.search(r"// takes ([\\d.]+)", version.text)[1]
    time.sleep(float(os.environ["FLEET_COMPILER"]))
    note("built")
    cubin = Path(f"../{version.id}.cubin").resolve()
    cubin.write_text(f"stand-in cubin, taking {takes} of {version.id}")
    sources = (SourceFile(path=version.path, text=version.text),)
    made = Build(compiler="none", arch=arch)
    return BuildResult(cubin=cubin, build=made, sources=sources, cached=False)

class WithoutCompiler:
    def find_spec(self, name, path, target=None):
        if name == "workbench.engines.ncu.engine":
            sys.meta_path.remove(self)
            import workbench.compile.build
            workbench.compile.build.build = build

import workbench.engines.gpu.nvml as nvml
nvml.gpus = lambda: [
    nvml.Gpu(i, "NVIDIA Stand-In 1", uuid, "1", (9, 0), 1 << 30)
    for i, uuid in enumerate(json.loads(os.environ["FLEET_UUIDS"]))
]
sys.meta_path.insert(0, WithoutCompiler())
"""
#: A library is loaded once a process, by whoever asks for it first.
_LOADED = """import sys, time
    if "loaded" not in sys.modules:
        time.sleep(%s)
        sys.modules["loaded"] = sys
    return \"\""""

Row = dict[str, Any]


class Sweep(NamedTuple):
    """One sweep.

    Attributes:
        gpus: As they were asked for.
        wall: Seconds from the program's start to its end.
        rows: What was noted, in seconds from the program's start.
        times: Of every version and problem.
    """

    gpus: str
    wall: float
    rows: list[Row]
    times: dict[tuple[str, str], Estimate]

    def of(self, event: str, gpu: str | None = None) -> list[Row]:
        """The rows of an event, on one GPU or on all."""
        return [each for each in self.rows if each["event"] == event and gpu in (None, each["gpu"])]

    @property
    def measured(self) -> list[Row]:
        """Jobs that were done."""
        return [each for each in self.of("job") if each["task"] == "time"]

    @property
    def places(self) -> dict[tuple[str, str], str]:
        """On which GPU each version and problem was measured."""
        return {(row["version"], row["problem"]): row["gpu"] for row in self.measured}


def make_stand_ins(root: Path, library_s: float) -> None:
    """A project with a study of five versions and a library at five sizes."""
    kernels = root / "kernels/double"
    kernels.mkdir(parents=True)
    (root / "workbench.toml").write_text('default_study = "double"\n')
    sizes = "".join(f'"n{n}": {{"n": {n}, "uses": ("sweep",)}}, ' for n in SIZES)
    (kernels / "study.py").write_text(STUDY.replace('"n7":', f'{sizes}"n7":'))
    for number, takes in enumerate(VERSIONS):
        text = VERSION.replace("--- */", f"--- */\n// takes {takes}")
        (kernels / f"v{number}_one.cu").write_text(text)
    library = BASELINE.replace('return ""', _LOADED % library_s)
    library = library.replace(
        "np.multiply(x,", "driver._ahead += driver._pace[0]\n        np.multiply(x,"
    )
    library = library.replace(
        "import numpy as np", "import numpy as np\nimport pycuda.driver as driver", 1
    )
    (kernels / "library.py").write_text(library)


def make_real(root: Path) -> None:
    """A project with our kernels, and nothing recorded."""
    root.mkdir()
    shutil.copytree(ROOT / "kernels", root / "kernels")
    (root / "workbench.toml").write_text('default_study = "sgemm"\n')


def sweep(root: Path, gpus: str, words: Sequence[str], env: Mapping[str, str], setup: str) -> Sweep:
    """Run one sweep in a project; `setup` is put before the command's own imports."""
    log, program, worker = (root.parent / name for name in ("log", "program.py", "worker.py"))
    log.unlink(missing_ok=True)
    program.write_text(_PROGRAM % setup)
    worker.write_text(_WORKER)
    begin = time.time()
    done = subprocess.run(
        [
            *(sys.executable, str(program), "time", *words, "--all-problems", "--again"),
            *("--seed", "1", "--gpus", gpus),
        ],
        cwd=root,
        env={**os.environ, **env, "FLEET_LOG": str(log), "FLEET_WORKER": str(worker)},
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.time() - begin
    if done.returncode:
        raise SystemExit(done.stderr)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        row |= {key: row[key] - begin for key in ("at", "begin") if key in row}
    found = Store(require_project(root).profiles).timings()
    times = {(each.version, each.problem): each.time for each in found}
    return Sweep(gpus, wall, rows, times)


def show(found: Sweep) -> None:
    """Print where the time went."""
    say = sys.stdout.write
    started, end = found.of("started"), found.of("end")[0]
    say(f"--gpus {found.gpus}: {found.wall:.2f} s; the program took {end['cpu']:.2f} s of a core, ")
    say(f"{started[0]['cpu']:.2f} s of it up to its first worker at {started[0]['at']:.2f} s\n")
    if built := [row["at"] for row in found.of("built")]:
        say(f"  built from {min(built):.2f} to {max(built):.2f} s\n")
    last = max(row["at"] for row in found.measured)
    for gpu in dict.fromkeys(row["of"] for row in started):
        phases = [
            f"{name} {row.get('begin', row['at']):.2f}-{row['at']:.2f}"
            for name in ("python", "imports", "device", "library", "session", "inputs", "timed")
            for row in found.of(name, gpu)[:1]
        ]
        say(f"  {gpu}: {', '.join(phases)} s\n")
        jobs = [row for row in found.measured if row["gpu"] == gpu]
        if not jobs:
            continue
        busy = sum(row["at"] - row["begin"] for row in jobs)
        timed = found.of("timed", gpu)
        order = list(dict.fromkeys(row["problem"] for row in jobs))
        ended = [row["at"] for row in found.of("ended") if row["of"] == gpu]
        say(
            f"    {len(jobs)} jobs from {jobs[0]['begin']:.2f} to {jobs[-1]['at']:.2f} s, busy "
            f"{busy:.2f} s, {sum(row['at'] - row['begin'] for row in timed):.2f} s of it measuring"
            f"\n    idle at the end {last - jobs[-1]['at']:.2f} s; the worker's work done at "
            f"{found.of('done', gpu)[-1]['at']:.2f} s, its process ended at {ended[-1]:.2f} s; "
            f"{' '.join(order)}\n"
        )
    say(f"  up to the first measurement {min(row['begin'] for row in found.of('timed')):.2f} s, ")
    say(f"after the last {found.wall - last:.2f} s, {found.wall - end['at']:.2f} s of it for the ")
    say("program's own end\n")


def compare(sweeps: Sequence[Sweep]) -> None:
    """Print wall times in parts of one GPU's, and times beside others against those alone."""
    say = sys.stdout.write
    counts = [len(set(each.places.values())) for each in sweeps]
    alone = [each for each, count in zip(sweeps, counts, strict=True) if count == 1]
    beside = [each for each, count in zip(sweeps, counts, strict=True) if count > 1]
    if not alone or not beside:
        return
    one, more = fmean(each.wall for each in alone), fmean(each.wall for each in beside)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    say(f"{more:.2f} s of {one:.2f} s: {more / one:.3f} of one GPU; load {load:.1f} a core\n")
    for each in beside:
        parts = ", ".join(f"{each.wall / other.wall:.3f}" for other in alone)
        say(f"  {each.wall:.2f} s: {parts} of {', '.join(f'{o.wall:.2f} s' for o in alone)}\n")
    found = {next(iter(each.places.values())): each for each in alone}
    for each in beside:
        pairs = [
            (each.times[key], found[gpu].times[key])
            for key, gpu in each.places.items()
            if gpu in found
        ]
        agreement(f"--gpus {each.gpus} against the same GPU alone", pairs)
    for a, b in itertools.combinations(found.values(), 2):
        pairs = [(a.times[key], b.times[key]) for key in a.times.keys() & b.times.keys()]
        agreement(f"--gpus {a.gpus} against --gpus {b.gpus}, each alone", pairs)


def agreement(what: str, pairs: Iterable[tuple[Estimate, Estimate]]) -> None:
    """Print how far medians are apart, and how many of their 95% intervals overlap."""
    pairs = list(pairs)
    if not pairs:
        return
    apart = [a.value / b.value - 1 for a, b in pairs]
    meet = sum(a.low <= b.high and b.low <= a.high for a, b in pairs)
    # As wide as the 1% that sampling aims for.
    wide = sum(abs(a.value - b.value) <= 0.005 * (a.value + b.value) for a, b in pairs)
    sys.stdout.write(
        f"{what}: {len(pairs)} medians differ by {100 * median(map(abs, apart)):.2f}% in the "
        f"median, {100 * max(map(abs, apart)):.2f}% at most, {100 * fmean(apart):+.2f}% on the "
        f"average; {meet} of the 95% intervals overlap, {wide} of intervals of 1%\n"
    )


def main() -> None:
    """Print the timelines, and each wall time in parts of one GPU's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", action="store_true", help="on the GPUs that are here")
    parser.add_argument("--gpus", nargs="+")
    parser.add_argument("--compiler", type=float, default=0.0, help="seconds a version")
    parser.add_argument("--library", type=float, default=2.5, help="seconds to load it")
    parser.add_argument("--launch", type=float, default=0.004, help="seconds of the fastest")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "project"
        path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {}
        if asked.real:
            make_real(root)
            words, setup, gpus = REAL, "", asked.gpus or ["0", "all", "1", "all"]
        else:
            make_stand_ins(root, asked.library)
            words, setup, gpus = ("--limit", "0.3"), _STAND_INS, asked.gpus or ["0", "0,1"]
            path.insert(0, str(HERE / "fake_pycuda"))
            env = {
                "FAKE_CLOCK": f"{asked.launch} 0.002",
                "FAKE_SEED": "1",
                "FAKE_WAITS": "1",
                "FLEET_COMPILER": str(asked.compiler),
                "FLEET_UUIDS": json.dumps(UUIDS),
            }
        env["PYTHONPATH"] = os.pathsep.join(path)
        if asked.real:
            first = sweep(root, gpus[-1], words, env, setup)
            sys.stdout.write(f"first, which fills the caches: {first.wall:.2f} s\n")
        sweeps = []
        for each in gpus:
            sweeps.append(sweep(root, each, words, env, setup))
            show(sweeps[-1])
            sys.stdout.flush()
        compare(sweeps)


if __name__ == "__main__":
    main()
