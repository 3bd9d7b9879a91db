"""From a ``.cu`` to what to try first, on the CPU: what an engineer sees in the addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.engines.stand_ins import Cli
from tests.ladders import needs_compiler
from workbench.analysis.aggregate import main_launch, value_of
from workbench.analysis.limits.headroom import line_at, panel_of
from workbench.project import Project

DATA = Path(__file__).resolve().parents[3] / "tests" / "data"
SOURCE = DATA / "bring/accesses.cu"
TRUTH: list[dict[str, Any]] = tomllib.loads(
    (DATA / "truth/accesses.toml").read_text(encoding="utf-8")
)["kernel"]

pytestmark = needs_compiler


def with_only(*kernels: str) -> None:
    """The program, launching some of its kernels: those that follow one another are one job."""
    others = rf"    (?!(?:{'|'.join(kernels)})<)\w+<<<.*\n"
    text = re.sub(others, "", SOURCE.read_text(encoding="utf-8"))
    Path("accesses.cu").write_text(text, encoding="utf-8")


#: One step leads from the one to the other.
STEP = ("transpose_writes", "transpose_tiled")
LABELS = {str(label["kernel"]): label for label in TRUTH}


def judged(project: Project, version: str, label: dict[str, Any]) -> None:
    """What is said of a version is what its label says."""
    profile = wb.open(project.root).show(f"accesses/{version}").profile
    launch, panel = main_launch(profile), panel_of(profile)
    assert launch is not None and panel is not None
    excess, whole = (value_of(launch, f"global_sectors{end}") for end in ("_excess", ""))
    assert 100 * (excess or 0) / (whole or 1) == pytest.approx(label["sectors"], abs=0.1)
    ways = [way for way in panel.ways if way.kind == label["way"]]
    if not label["way"]:
        assert panel.ways == ()
        return
    assert panel.ways[:1] == tuple(ways[:1])
    (way,) = ways
    assert way.line is not None and label["line"] in line_at(profile, way.line)[1]


@pytest.mark.parametrize("kernel", [each for each in LABELS if each not in STEP])
def test_what_an_engineer_sees_in_the_addresses_is_said_without_a_gpu(
    kernel: str, cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    with_only(kernel)
    code, _, err = cli("new", "--from-cu", "accesses.cu", "--kernel", kernel)
    assert code == 0, err
    code, _, err = cli("profile", "--engine", "emulator", "accesses/v0")
    assert code == 0, err
    judged(project, "v0", LABELS[kernel])


def test_a_step_to_a_tile_names_the_sectors_of_its_store_first(
    cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the wavefronts of the tile, which are new, and weigh little."""
    monkeypatch.chdir(project.root)
    with_only(*STEP)
    for words in (("new", "--from-cu", "accesses.cu"), ("profile", "accesses/v0", "accesses/v1")):
        code, _, err = cli(*words)
        assert code == 0, err
    for version, kernel in zip(("v0", "v1"), STEP, strict=True):
        judged(project, version, LABELS[kernel])
    step = wb.open(project.root).diff("accesses/v0", "accesses/v1")
    assert step.sentence.startswith("Sectors per global store fell 32.0 → 4.00 (−87.5%), linked")
    told = [tie for chapter in step.story.chapters for tie in chapter.ties if tie.link == "hunk"]
    (tie,) = told
    first, *_ = (fact.split.id for fact in tie.facts)
    assert first == "global_sectors" and "l1_tag_requests" in {x.split.id for x in tie.facts}
    assert tie.facts[-1].split.id == "shared_wavefronts"
    moved = max(tie.facts[0].part.lines, key=lambda line: abs(line.delta))
    source = step.old.sources[0].text or ""
    assert moved.old and "out[x * n + y]" in source.splitlines()[moved.old - 1]
