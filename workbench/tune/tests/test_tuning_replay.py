"""A search is replayed over what was recorded of a whole space."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from benchmarks.tune import replay
from benchmarks.tune.__main__ import Case
from tests.engines.stand_ins import VERSION
from workbench.engines import Where
from workbench.engines.ncu.engine import GpuEngine
from workbench.processes.bounds import Deadline
from workbench.project import Project
from workbench.study.folder import load_study

SPACE = "[defines]\nWORK = 4\n\n[tune]\nWORK = [2, 3, 4, 5, 6, 7]\n\n[[launch]]"


@pytest.mark.slow
@pytest.mark.usefixtures("stand_in")
def test_a_search_over_a_record_finds_its_best_for_a_part_of_its_seconds(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CLOCK", "0.0002 0.002")
    monkeypatch.setenv("FAKE_SEED", "1")
    text = VERSION.replace("[[launch]]", SPACE).replace("int n) {", "int n) {  // WORK")
    (project.kernels / "double" / "v1_tuned.cu").write_text(text)
    study = load_study(project, "double")
    where = Where(arch="sm_90", limit=Deadline(60.0), device="stand-in-1")
    engine = GpuEngine(project, where, seed=1, ncu="")
    case = Case(project, study, study.version("v1"), study.problem("n1000"), engine)
    replay.record(case, tmp_path, "double/v1:n1000", 60.0, True)
    with mock.patch.object(replay, "case_of", return_value=case):
        known = replay.Record.read(tmp_path / "double-v1.json", tmp_path, [])
    assert len(known.alone) == len(known.true_s) == 6 and known.whole_s > 0
    assert min(known.true_s, key=known.true_s.__getitem__) == "WORK=2"
    ends = replay.replayed(known, 3)
    assert [each.ratio for each in ends] == [1.0] * 3
    assert all(each.tried == 6 and each.seconds > known.begin_s for each in ends)
