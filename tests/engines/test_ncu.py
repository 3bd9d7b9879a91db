"""ncu's failures, each as recorded on a real machine, and what becomes of them.

The worker runs for real under a stand-in for ncu (`fake_ncu.py`). After every failure:
no process is left, no half profile, and an earlier profile is byte for byte as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engines.stand_ins import experiment_on, time_one
from workbench.engines import ProfileOptions, Subject
from workbench.engines.host.job import TimeOptions, nvtx_range
from workbench.engines.ncu import report as rawreport
from workbench.engines.ncu.collection import Collection
from workbench.engines.ncu.engine import Command
from workbench.engines.ncu.report import library_notices
from workbench.errors import (
    CountersDeniedError,
    DataError,
    KernelError,
    MissingError,
    UsageError,
    WorkbenchError,
)
from workbench.measure.experiment import Experiment
from workbench.model import Notice, Profile
from workbench.ncurep.container import MAGIC, parse
from workbench.store.codec import unpack

Manner = Callable[[str], None]


@pytest.fixture
def subject(experiment: Experiment) -> Subject:
    study = experiment.study
    return experiment.subject(study.version("v0"), study.problem("n1000"))


@pytest.fixture
def profile(experiment: Experiment, subject: Subject) -> Callable[..., tuple[Profile, Path]]:
    def run(**asked: Any) -> tuple[Profile, Path]:
        return experiment.profile(subject, ProfileOptions(**asked))

    return run


def snapshot(experiment: Experiment) -> dict[str, bytes]:
    root = experiment.project.profiles
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.suffix == ".zst"
    }


def left_over(experiment: Experiment) -> list[Path]:
    runs = experiment.project.root / "build" / "runs"
    return [
        path
        for path in runs.rglob("*")
        if path.is_file() and path.name not in (".lock", ".gitignore")
    ]


CASES: list[tuple[str, type[WorkbenchError], str, str]] = [
    ("nomatch", KernelError, "launched no kernel on n1000", "current stream"),
    ("oob", KernelError, "crashed on n1000 while it was profiled", "--sanitize"),
    ("badsection", UsageError, "did not match any section", "--list-sections"),
    ("badopt", UsageError, "unrecognized option", "ncu --help"),
    ("range", UsageError, "cannot be profiled as a range", "--replay-mode application"),
    ("perm", CountersDeniedError, "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
    ("noprog", MissingError, "cannot start the worker", "--launcher"),
    ("nowrite", MissingError, "could not write its report", "Free some space"),
    ("fulldisk", MissingError, "Failed to save the report", "Free some space"),
    ("dcgm", MissingError, "another program is using the GPU's counters", "dcgmi"),
    ("wrapper", MissingError, "ended with exit code 127", "workbench doctor"),
    ("killed-app", KernelError, "ended with exit code 11 under ncu", "workbench verify"),
    ("silent", DataError, "left no report", "--dry-run"),
    ("cut", DataError, "report.ncu-rep", ""),
]


def test_every_failure_is_named_and_loses_nothing(
    experiment: Experiment,
    subject: Subject,
    profile: Callable[..., tuple[Profile, Path]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time_one(experiment, subject, TimeOptions(limit_s=0.2, max_samples=40))
    profile(keep_raw="always")
    before = snapshot(experiment)
    assert len(before) == 3  # the time, the profile and its raw report
    for case, kind, message, hint in CASES:
        monkeypatch.setenv("FAKE_NCU", case)
        with pytest.raises(kind) as caught:
            profile(keep_raw="always")
        assert type(caught.value) is kind, case
        assert message in caught.value.message
        assert hint in caught.value.hint and caught.value.hint, case
        assert snapshot(experiment) == before, case
        assert left_over(experiment) == [], case


def test_a_hang_leaves_no_process_of_any_kind(
    experiment: Experiment,
    subject: Subject,
    fake_ncu: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pids = tmp_path / "pids"
    monkeypatch.setenv("FAKE_NCU", "hang")
    monkeypatch.setenv("FAKE_NCU_PIDS", str(pids))
    monkeypatch.setattr("workbench.processes.ending.GRACE_S", 1.0)
    hasty = experiment_on(experiment.project, experiment.study, timeout_s=3.0, ncu=str(fake_ncu))
    begin = time.monotonic()
    with pytest.raises(KernelError, match="did not end within 3 s"):
        hasty.profile(subject)
    assert time.monotonic() - begin < 100
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 4
    assert [pid for pid in started if _runs(pid)] == []
    assert snapshot(experiment) == {} and left_over(experiment) == []


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


def test_a_crash_within_the_range_alone_is_a_crash(
    experiment: Experiment, profile: Callable[..., tuple[Profile, Path]], stand_in: Manner
) -> None:
    # The first launch is the verified one, the second stands in the range.
    stand_in("crash-later")
    profile()
    stand_in("crash")
    with pytest.raises(KernelError, match="v0 crashed on n1000"):
        profile()


def test_a_command_passes_every_option_through() -> None:
    command = Command(
        ncu="/opt/x/ncu",
        version="v3",
        output="build/runs/a/report.ncu-rep",
        worker=("/home/me/bin/python3", "-m", "workbench.engines.worker", "j", "--result", "r"),
        collection=Collection(
            sets=("full",),
            sections=("PmSampling",),
            metrics=("a.sum", "b.avg", "a.sum"),
            clock_control="base",
            cache_control="none",
            replay_mode="application",
        ),
        launcher=("srun", "--gres=gpu:1"),
    )
    text = command.shell
    assert text.startswith("srun --gres=gpu:1 /opt/x/ncu --nvtx --nvtx-include workbench@v3/ ")
    for part in (
        "--clock-control base",
        "--cache-control none",
        "--replay-mode application",
        "--set full --section PmSampling --metrics a.sum,b.avg",
        "--force-overwrite --export build/runs/a/report.ncu-rep /home/me/bin/python3 -m",
    ):
        assert part in text
    assert "/home/me" not in " ".join(command.neutral) and "/opt/x" not in " ".join(command.neutral)


def test_the_default_collection_covers_the_catalog() -> None:
    from workbench.counters import catalog
    from workbench.engines.ncu import collection

    options = Collection()
    assert options.chosen_sections == collection.default_collection()[0]
    asked = set(options.chosen_metrics)
    _, delivered = collection.default_collection()
    for counter in catalog():
        if counter.names:
            assert asked & set(counter.names) or delivered & set(counter.names), counter.id
    # Nothing is asked for twice: every such name would cost passes for nothing.
    assert not asked & delivered
    chosen = Collection(metrics=("x.sum",))
    assert chosen.chosen_metrics == (*options.chosen_metrics, "x.sum")


def test_a_launchers_options_are_not_kept() -> None:
    command = Command(
        ncu="ncu",
        version="v3",
        output="r.ncu-rep",
        worker=("python3", "-m", "workbench.engines.worker"),
        launcher=("/opt/slurm/bin/srun", "--nodelist=secret-host", "--account=me"),
    )
    assert command.neutral[:3] == ("srun", "…", "ncu")
    assert "--nodelist=secret-host" in command.argv


@pytest.fixture
def neutral_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the stand-in's report, which was captured below /tmp/wb, came from elsewhere."""
    monkeypatch.setattr(
        "workbench.engines.ncu.engine.machine_words",
        lambda root: tuple(w for w in rawreport.machine_words(root) if w != "/tmp/"),
    )


@pytest.mark.usefixtures("neutral_folder")
def test_a_profile_says_how_it_was_made_and_its_report_names_no_machine(
    experiment: Experiment, profile: Callable[..., tuple[Profile, Path]], fake_ncu: Path
) -> None:
    made, path = profile()
    assert (made.study, made.version, made.problem) == ("double", "v0", "n1000")
    assert made.engine == "ncu" and made.launches[0].metrics
    assert made.parameters == {"n": 1000}
    assert made.verification is not None and made.verification.error == 0.0
    assert made.verification.seed == experiment.engine.seed == 1
    assert made.capture.clock_control == "none" and made.capture.wall_s > 0
    assert made.capture.sections[0] == "SourceCounters"
    assert made.source_hash and made.tools["workbench"]
    command = " ".join(made.capture.command)
    assert command.startswith("ncu --nvtx --nvtx-include workbench@v0/")
    assert (
        "build/runs/double-v0-n1000/report.ncu-rep python -P -m workbench.engines.worker" in command
    )
    for private in (str(experiment.project.root), str(fake_ncu.parent), str(Path.home())):
        assert private not in command
    assert experiment.store.load(path) == made
    # The version's own text stands in the profile under the project's path.
    texts = {source.path: source.text for source in made.sources}
    assert "2 * x[i]" in (texts["kernels/double/v0_plain.cu"] or "")
    (entry,) = experiment.store.find()
    raw = experiment.store.raw_report(entry)
    assert raw is not None and raw.stat().st_size < rawreport.LIMIT
    plain = unpack(raw.read_bytes())
    assert plain.startswith(MAGIC) and parse(plain, raw).results == 1
    for word in (str(experiment.project.root), str(Path.home())):
        assert word.encode() not in plain, word
    assert [n for n in made.notices if n.code.startswith("raw-")] == []
    assert path == entry.path


@pytest.mark.usefixtures("neutral_folder")
def test_a_large_raw_report_is_kept_on_request_alone(
    experiment: Experiment,
    profile: Callable[..., tuple[Profile, Path]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rawreport.pack_report, "__defaults__", (10_000,))
    made, _ = profile()
    (notice,) = [n for n in made.notices if n.code == "raw-too-large"]
    assert "10.0 kB is the limit; --raw keeps it" in notice.message
    (entry,) = experiment.store.find()
    assert experiment.store.raw_report(entry) is None
    made, _ = profile(keep_raw="always")
    assert experiment.store.raw_report(entry) is not None
    assert [n for n in made.notices if n.code == "raw-too-large"] == []


def test_a_report_that_names_a_folder_of_the_user_is_not_kept(
    profile: Callable[..., tuple[Profile, Path]],
    experiment: Experiment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The stand-in's report was captured below /tmp/wb.
    monkeypatch.setattr("workbench.engines.ncu.engine.machine_words", lambda root: ("/tmp/wb",))
    made, _ = profile()
    (notice,) = [n for n in made.notices if n.code == "raw-not-kept"]
    assert "it names /tmp/wb" in notice.message
    (entry,) = experiment.store.find()
    assert experiment.store.raw_report(entry) is None


def test_a_library_kernel_gets_no_advice_on_compiling_it() -> None:
    given = (
        Notice(code="no-line-info", message="compile with -lineinfo"),
        Notice(code="no-rules", message="no rules"),
        Notice(code="no-source", message="--import-source yes"),
    )
    kept = library_notices(given, "cublas")
    assert [notice.code for notice in kept] == ["no-rules", "library-kernel"]
    assert "cublas are a library's" in kept[1].message
    assert library_notices(given[1:2], "cublas") == given[1:2]


def test_a_range_is_named_without_what_means_something_in_a_filter() -> None:
    """A choice of a tuning has an @ in its name, which ncu takes for a domain's."""
    assert (nvtx_range("v3"), nvtx_range("v0@64-8,1"), nvtx_range("v1_a.b")) == (
        "v3",
        "v0_64-8_1",
        "v1_a.b",
    )
    command = Command(ncu="ncu", version="v0@64-8", output="o", worker=())
    assert "workbench@v0_64-8/" in command.argv
