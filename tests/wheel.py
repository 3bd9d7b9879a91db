"""What people install is tried as they have it: the wheel alone, far from the checkout.

``make dist`` builds a source distribution and a wheel into ``dist/`` and calls ``python -m
tests.wheel dist``. That holds the wheel's files against those that git has, installs it with
the extra `emulator` into an empty environment in a temporary folder, and does there what a
first hour consists of, with no nvcc in sight: a project, a study, a verified and counted
version, somebody's report, a site.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from workbench import __version__

REPO = Path(__file__).resolve().parent.parent
REPORT = REPO / "tests" / "data" / "ncurep" / "ladder_focus.ncu-rep.zst"
#: A source distribution holds the recordings of one small study.
MOST_BYTES = 8 << 20

#: Somebody's kernel, tested with the emulator alone.
DOUBLED = """
import sys
import numpy as np
import ptxemu
kernel = ptxemu.load('''
.version 8.0
.target sm_90
.address_size 64
.visible .entry doubled(.param .u64 values)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [values];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.s32 %r3, %r2, %r2;
    st.global.u32 [%rd3], %r3;
    ret;
}
''').kernel("doubled")
result = kernel.run(1, 64, {"values": np.arange(64, dtype=np.int32)})
print(*result.outputs["values"][-2:], result.counts.total("sectors"), "workbench" in sys.modules)
"""


class WheelError(Exception):
    """What is built is not what was meant."""


def expect(found: object, wanted: object, what: str) -> None:
    """Fail where two things differ."""
    if found != wanted:
        raise WheelError(f"{what}: {found!r} instead of {wanted!r}")


def tell(text: str) -> None:
    """A line on the terminal, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# --- what is in them -----------------------------------------------------------------------


PACKAGES = ["workbench", "ptxemu"]


def beside() -> list[str]:
    """What else of the checkout the wheel holds, as pyproject.toml has it."""
    settings = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[str] = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    return [name for name in found if name not in PACKAGES]


def in_git(folders: list[str]) -> set[str]:
    """Files below folders that git has, or would have, but no tests of features."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True).stdout
    return {x for x in listed.splitlines() if "/tests/" not in x and (REPO / x).is_file()}


def check_wheel(wheel: Path) -> None:
    """The wheel holds every file of the packages, what pip needs, and nothing else."""
    expect(wheel.name, f"workbench-{__version__}-py3-none-any.whl", "name of the wheel")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    meta = {name for name in names if name.startswith(f"workbench-{__version__}.dist-info/")}
    given = {
        name
        for name in in_git(beside())
        if name.endswith((".md", ".cu", "study.py", "pytorch.py", ".json", ".json.zst"))
    }
    wanted = in_git(PACKAGES) | {f"workbench/data/shipped/{name}" for name in given}
    expect(sorted(names - meta - wanted), [], "in the wheel and in no package")
    expect(sorted(wanted - names), [], "in a package and not in the wheel")
    for package in PACKAGES:
        expect(f"{package}/py.typed" in names, True, f"{package} says that it has types")


def check_sdist(sdist: Path) -> None:
    """The source distribution is small, and holds what is needed to build and to read."""
    expect(sdist.stat().st_size < MOST_BYTES, True, f"{sdist.name} below {MOST_BYTES:,} bytes")
    with tarfile.open(sdist) as archive:
        names = [name for name in archive.getnames() if name.count("/") > 0]
    tops = {name.split("/")[1] for name in names}
    wanted = {
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "docs",
        "kernels",
        "examples",
    }
    expect(sorted({*wanted, *PACKAGES} - tops), [], "not in the source distribution")
    expect(sorted({"tests"} & tops), [], "in the source distribution")
    recorded = {name.split("/")[3] for name in names if "/profiles/h" in name}
    expect(recorded, {"scale_add"}, "recordings in the source distribution")


# --- what it does --------------------------------------------------------------------------


class Installed:
    """The wheel in an environment of its own, and a folder to work in."""

    def __init__(self, wheel: Path, home: Path) -> None:
        self.bin = home / "env" / "bin"
        self.work = home / "work"
        self.work.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "env"], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python")]
        quiet = ["--quiet", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "install", *quiet, f"{wheel}[emulator]"], check=True)
        subprocess.run([*pip, "--disable-pip-version-check", "check"], check=True)
        # Nothing of this process leads back: not its modules, its environment, its compiler.
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV", "CUDA", "WORKBENCH"))
        }
        self.env = {**kept, "PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(home)}

    def run(self, *words: str | Path) -> str:
        """What a command prints; it has to end well."""
        began = time.monotonic()
        done = subprocess.run(
            words, cwd=self.work, env=self.env, capture_output=True, text=True, check=False
        )
        line = " ".join([Path(words[0]).name, *(str(word) for word in words[1:])])
        line = line.partition("\n")[0]
        if done.returncode:
            raise WheelError(f"{line}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        tell(f"  {time.monotonic() - began:4.1f} s  {line}")
        return done.stdout

    def workbench(self, *words: str | Path) -> str:
        """What a command of workbench prints."""
        return self.run(self.bin / "workbench", *words)

    def document(self, *words: str | Path) -> Any:
        """A command's JSON."""
        return json.loads(self.workbench(*words, "--format", "json"))

    def read(self, name: str | Path) -> str:
        """A file that a command wrote."""
        return (self.work / name).read_text(encoding="utf-8")


def first_hour(here: Installed) -> None:
    """What somebody does who has just installed it, and what has to come of it."""
    place = here.run(here.bin / "python", "-c", "import workbench as wb; print(wb.__file__)")
    expect(Path(place).is_relative_to(here.bin.parent), True, f"{place.strip()} is installed")
    expect(here.workbench("--version"), f"workbench, version {__version__}\n", "--version")

    told = here.run(here.bin / "python", "-c", DOUBLED)
    # Two warps load and store 128 bytes each: eight sectors either way.
    expect(told, "124 126 16 False\n", "ptxemu alone")

    here.workbench("init")
    here.workbench("new", "--study", "blur")
    listed = here.document("list")
    versions = [version["id"] for version in listed["studies"][0]["versions"]]
    expect((listed["default_study"], versions), ("blur", ["v0"]), "list")

    checked = here.document("verify", "v0")["results"]
    expect([each["ok"] for each in checked], [True] * 3, "verify v0")
    here.workbench("profile", "v0")
    (launch,) = here.document("show", "v0")["launches"]
    # c = a + b of 2²⁴ floats: two sectors of 32 bytes are read for each that is written.
    counters = launch["counters"]
    sectors = [counters[f"global_{name}_sectors"]["value"] for name in ("load", "store")]
    expect(sectors, [2 << 21, 1 << 21], "sectors of v0")

    here.workbench("new", "--example")
    expect("faster" in here.workbench("diff", "scale_add/v0", "scale_add/v1"), True, "the example")
    expect(here.workbench("docs", "ci").startswith("# A gate"), True, "docs ci")

    kernels = [each["kernel"] for each in here.document("show", REPORT)["launches"]]
    expect(kernels, [f"sgemm_v{number}" for number in range(5)], f"show {REPORT.name}")

    face = f"import workbench as wb; print(len(wb.read_report({str(REPORT)!r}).profile.launches))"
    expect(here.run(here.bin / "python", "-c", face), "5\n", "read_report")

    here.workbench("report")
    expect("blur" in here.read("reports/index.html"), True, "the site names the study")
    page = here.read("reports/studies/blur/emulator-sm90/n16m/v0.emulator.html")
    expect("c[i] = " in page, True, "the page of v0 shows its source")
    for asset in ("workbench.css", "workbench.js", "plotly-basic.min.js"):
        expect((here.work / "reports" / "assets" / asset).stat().st_size > 10_000, True, asset)
    here.workbench("report", REPORT, "--out", "foreign")
    (found,) = (here.work / "foreign").glob("files/*/launch4.html")
    expect("sgemm_v4" in here.read(found), True, f"report {REPORT.name}")


def main(folder: Path) -> int:
    """Check the newest wheel and source distribution of a folder; the exit code."""
    wheel = folder / f"workbench-{__version__}-py3-none-any.whl"
    sdist = folder / f"workbench-{__version__}.tar.gz"
    try:
        for path in (wheel, sdist):
            expect(path.is_file(), True, f"{path} is there")
            tell(f"{path.stat().st_size / 1e6:5.1f} MB  {path.name}")
        check_wheel(wheel)
        check_sdist(sdist)
        with tempfile.TemporaryDirectory() as home:
            first_hour(Installed(wheel.resolve(), Path(home)))
    except WheelError as error:
        tell(f"broken: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
