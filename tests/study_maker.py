"""A small study that the tests of studies write, break and load."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.errors import UsageError
from workbench.project import Project
from workbench.study.folder import Study, load_study

STUDY = """
title = "Scale"
input_names = ("x",)
problems = {
    "n1000": {"N": 1000, "uses": ("profile",)},
    "n7": {"N": 7, "uses": ["verify", "sweep"]},
}
tolerance = 1e-6
tolerance_why = "one rounding"

def derive(problem):
    return {"N2": problem["N"] * 2}

def inputs(problem, rng):
    return {"x": rng.random(problem["N"], dtype="float32")}

def outputs(problem):
    return {"y": ((problem["N"],), "float32")}

def reference(problem, inputs):
    return {"y": inputs["x"].astype("float64") * 2}

def flops(problem):
    return problem["N"]

def bytes(problem):
    return 8 * problem["N"]
"""

VERSION = """/* ---
title = "Scale"
parent = ""
change = "c"
requires = "N > 1"
requires_why = "it needs two"
flags = []
[defines]
TILE = 64
[[scratch]]
name = "tmp"
dtype = "float16"
shape = ["N2", "TILE"]
[[launch]]
kernel = "scale"
grid = ["cdiv(N, TILE)"]
block = ["TILE", 2]
args = ["x", "y", "tmp", "N", "long(N*N)", 1.5, "double(N)", "float(2)"]
dynamic_shared = "4*TILE"
cluster = [1]
[[expect]]
counter = "duration"
change = "down"
--- */
extern "C" __global__ void scale(const float* x, float* y) { y[0] = x[0]; }
"""

BASELINE = '"""Lib.\n\n---\ntitle = "Lib"\nbaseline = true\n---\n"""\n'


class Maker:
    """Writes a study into a folder and loads it."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root=root, default_study="s")
        self.folder = root / "kernels" / "s"
        self.folder.mkdir(parents=True)
        self.write("study.py", STUDY)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def load(self) -> Study:
        return load_study(self.project, "s")

    def fails(self, message: str, hint: str = "") -> UsageError:
        """What is wrong with the study, or else with the one version that is broken."""
        with pytest.raises(UsageError) as caught:
            for error in self.load().broken.values():
                raise error
        assert message in caught.value.message
        assert hint in caught.value.hint
        assert caught.value.hint
        return caught.value


def line_of(text: str, start: str) -> int:
    return next(i for i, row in enumerate(text.split("\n"), 1) if row.startswith(start))
