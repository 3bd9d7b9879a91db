"""How a sweep over several GPUs of a host spends its time, on stand-ins that sleep.

The command is the real one, in a project made for it; its workers find the tests' stand-in for
PyCUDA, whose devices take time and no processor. So what is seen is what does not halve with two
GPUs: the start, the compiler, the library that the baseline loads, the tail.

    python -m benchmarks.fleet [--gpus 0 0,1] [--compiler SECONDS] [--library SECONDS]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.engines.stand_ins import BASELINE, HERE, STUDY, VERSION

UUIDS = ("GPU-aaaa-0", "GPU-bbbb-1", "GPU-cccc-2", "GPU-dddd-3")
#: How often the time of the fastest the versions take.
VERSIONS = (8.0, 4.0, 2.0, 1.5, 1.0)
SIZES = (1000, 1600, 2400, 3200, 4800)
#: The command with stand-ins for what asks the machine: GPUs, and the compiler, which sleeps.
_PROGRAM = """
import json, os, re, subprocess, sys, time
from pathlib import Path

def note(**row):
    with open(os.environ["FAKE_LOG"], "a") as file:
        file.write(json.dumps({**row, "at": time.time()}) + "\\n")

class Noted(subprocess.Popen):
    def __init__(self, argv, *args, **kwargs):
        if "workbench.engines.worker" in argv:
            gpu = kwargs["env"].get("CUDA_VISIBLE_DEVICES", "")
            note(event="worker", gpu=gpu, cpu=time.process_time())
        super().__init__(argv, *args, **kwargs)

def build(project, version, arch):
    from workbench.compile.build import BuildResult
    from workbench.model import Build, SourceFile
    takes = re.search(r"// takes ([\\d.]+)", version.text)[1]
    time.sleep(float(os.environ["FLEET_COMPILER"]))
    note(event="built", version=version.id)
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
subprocess.Popen = Noted
sys.meta_path.insert(0, WithoutCompiler())
from workbench.cli import main
try:
    main(sys.argv[1:])
finally:
    note(event="end", cpu=time.process_time())
"""
#: A library is loaded once a process, by whoever asks for it first.
_LOADED = """import sys, time
    if "loaded" not in sys.modules:
        time.sleep(%s)
        sys.modules["loaded"] = sys
    return \"\""""


def make_project(root: Path, library_s: float) -> None:
    """A study of five versions and a library at five sizes."""
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


def sweep(gpus: str, compiler_s: float, library_s: float, launch_s: float) -> list[dict[str, Any]]:
    """One sweep; what happened when, in seconds from the program's start."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_project(folder / "project", library_s)
        log = folder / "log"
        (folder / "program.py").write_text(_PROGRAM)
        path = os.pathsep.join((str(HERE / "fake_pycuda"), str(HERE.parent.parent)))
        env = os.environ | {
            "PYTHONPATH": path,
            "FAKE_LOG": str(log),
            "FAKE_CLOCK": f"{launch_s} 0.002",
            "FAKE_SEED": "1",
            "FAKE_WAITS": "1",
            "FLEET_COMPILER": str(compiler_s),
            "FLEET_UUIDS": json.dumps(UUIDS),
        }
        words = ["sweep", "--again", "--limit", "0.3", "--seed", "1", "--gpus", gpus]
        begin = time.time()
        done = subprocess.run(
            [sys.executable, str(folder / "program.py"), *words],
            cwd=folder / "project",
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        return [{**row, "at": row["at"] - begin} for row in rows] + [
            {"event": "over", "at": time.time() - begin}
        ]


def show(gpus: str, rows: list[dict[str, Any]]) -> float:
    """Print where the time went; the wall time in seconds."""
    say = sys.stdout.write
    first = [row for row in rows if row.get("event") == "worker"]
    end = next(row for row in rows if row.get("event") == "end")
    wall = float(rows[-1]["at"])
    say(f"--gpus {gpus}: {wall:.2f} s, of which the program {end['cpu']:.2f} s of a processor\n")
    say(f"  first worker at {first[0]['at']:.2f} s ({first[0]['cpu']:.2f} s of a processor)\n")
    built = [row["at"] for row in rows if row.get("event") == "built"]
    say(f"  built from {min(built):.2f} to {max(built):.2f} s\n")
    last = max(row["at"] for row in rows if "n" in row)
    for gpu in dict.fromkeys(row["gpu"] for row in first):
        launches = [row for row in rows if row.get("gpu") == gpu and "n" in row]
        if not launches:
            continue
        begin, over = launches[0]["at"], launches[-1]["at"]
        order = list(dict.fromkeys(row["n"] for row in launches))
        say(
            f"  {gpu}: launches from {begin:.2f} to {over:.2f} s, idle at the end "
            f"{last - over:.2f} s, then {wall - last:.2f} s; sizes {order}\n"
        )
    return wall


def main() -> None:
    """Print the timelines, and each wall time in parts of the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", nargs="+", default=["0", "0,1"])
    parser.add_argument("--compiler", type=float, default=0.0, help="seconds a version")
    parser.add_argument("--library", type=float, default=2.5, help="seconds to load it")
    parser.add_argument("--launch", type=float, default=0.004, help="seconds of the fastest")
    asked = parser.parse_args()
    walls = []
    for gpus in asked.gpus:
        rows = sweep(gpus, asked.compiler, asked.library, asked.launch)
        walls.append(show(gpus, rows))
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    sys.stdout.write(f"{walls[-1] / walls[0]:.3f} of the first; load {load:.1f} a core\n")


if __name__ == "__main__":
    main()
