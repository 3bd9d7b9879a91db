"""Multiples of 16 that Triton was not told, and that cost accesses, are told with a profile."""

from __future__ import annotations

import importlib.util

import pytest

from tests.study.test_triton_versions import TRITON
from tests.study_maker import STUDY, Maker
from workbench.engines import RunOptions
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.measure.experiment import Experiment

pytestmark = pytest.mark.skipif(
    not importlib.util.find_spec("triton"), reason="Triton is not installed"
)
PLAIN = "at = tl.program_id(0) * TILE + tl.arange(0, TILE)"
#: A stride of rows, of which there is one; and a number that no address depends on.
STRIDED = f"{PLAIN} + tl.program_id(1) * M"
SCALAR = f"{PLAIN} + (M < 0)"


@pytest.mark.parametrize(
    ("place", "arguments", "known", "size", "tile", "told"),
    [
        (PLAIN, '"N"', "", 1024, 2048, '(N = 1024)|divisible_by_16 = ["N"]'),
        (STRIDED, '"N", "N2"', '"N"', 1024, 2048, '(N2 = 2048)|divisible_by_16 = ["N", "N2"]'),
        (STRIDED, '"N", "N2"', "", 1024, 2048, '(N = 1024, N2 = 2048)|["N", "N2"]'),
        (STRIDED, '"N", "16"', "", 48, 2048, '(N = 48, 16 = 16)|["N", "16"]'),
        (SCALAR, '"N", "N2"', "", 1024, 2048, ""),
        (PLAIN, '"N"', '"N"', 1024, 2048, ""),
        (PLAIN, '"N"', "", 1000, 2048, ""),
        (PLAIN, '"N"', "", 1024, 256, ""),
    ],
)
def test_a_multiple_of_16_that_costs_accesses_is_told(
    maker: Maker, place: str, arguments: str, known: str, size: int, tile: int, told: str
) -> None:
    maker.write("study.py", STUDY.replace('"n1000": {"N": 1000', f'"n1000": {{"N": {size}'))
    text = TRITON.replace(PLAIN, place).replace("TILE = 256", f"TILE = {tile}")
    text = text.replace('"x", "y", "N"]', f'"x", "y", {arguments}]').replace('["N"]', f"[{known}]")
    if "," in arguments:
        text = text.replace('N: "i32", TILE', 'N: "i32", M: "i32", TILE')
    maker.write("v0.py", text)
    study = maker.load()
    runner = Experiment(maker.project, study, EmulatorEngine(maker.project, RunOptions(seed=1)))
    profile, _ = runner.profile(runner.subject(study.version("v0"), study.problem("n1000")))
    found = [each.message for each in profile.notices if each.code == "not-divisible"]
    assert len(found) == bool(told), found
    assert all(part in found[0] for part in told.split("|") if part), found
