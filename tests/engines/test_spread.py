"""Several GPUs of one host: real workers on stand-ins that write down who did what when."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engines.stand_ins import Cli
from tests.processes import until
from workbench.compile.build import BuildResult
from workbench.engines import RunOptions
from workbench.engines.gpu.nvml import Gpu
from workbench.engines.host import client, presence
from workbench.engines.host.job import Result, read_results
from workbench.engines.host.process import Halt, HaltedError, run_group
from workbench.engines.ncu import engine
from workbench.errors import UsageError
from workbench.project import Project
from workbench.session.targets import Named
from workbench.specs import Version
from workbench.store import Store
from workbench.study.folder import run_study

Manner = Callable[[str], None]
Edit = Callable[[str, str, str], None]
QUICK = ("--limit", "0.1")
SIZES = ("time", "--resume", ":n?00,n4000")
UUIDS = ("GPU-aaaa-0", "GPU-bbbb-1", "GPU-cccc-2")


def gpu(index: int, name: str = "NVIDIA Stand-In 1", major: int = 9) -> Gpu:
    return Gpu(
        index=index,
        name=name,
        uuid=UUIDS[index],
        driver="1",
        compute_capability=(major, 0),
        memory_bytes=1 << 30,
    )


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``gpus(gpu(0), gpu(1))`` are here from then on."""

    def put(*found: Gpu) -> None:
        monkeypatch.setattr(presence, "find_gpus", lambda: (list(found), ""))
        monkeypatch.setattr(presence, "need_pycuda", lambda: None)

    return put


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """What the stand-in's launches wrote down: GPU, version, when."""
    path = tmp_path / "launches.jsonl"
    monkeypatch.setenv("FAKE_LOG", str(path))
    path.touch()
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def sizes(project: Project, project_file: Edit, add_version: Callable[[str, str], None]) -> None:
    add_version("v1", "more")
    sweep = ", ".join(f'"n{n}": {{"n": {n}, "uses": ("sweep",)}}' for n in (300, 500, 4000))
    project_file("study.py", '"n7":', f'{sweep}, "n7":')
    run_study(project, "double")


@pytest.mark.usefixtures("sizes", "stand_in")
def test_two_gpus_do_each_combination_once_and_keep_what_one_would(
    cli: Cli, project: Project, gpus: Callable[..., None], log: Callable[[], list[dict[str, Any]]]
) -> None:
    gpus(gpu(0), gpu(1))
    code, out, err = cli(*SIZES, "v0", "v1", "--gpus", "all", *QUICK)
    assert code == 0, err
    assert f"2 GPUs: NVIDIA Stand-In 1 ({UUIDS[0]}, {UUIDS[1]})" in err
    times = {(t.version, t.problem) for t in Store.of(project).timings()}
    assert len(times) == 6 and err.count("[6/6]") == 1
    assert {row["gpu"] for row in log()} == set(UUIDS[:2])
    done = {(row["gpu"], row["version"], row["n"]) for row in log() if row["version"] != "library"}
    assert len({each[1:] for each in done}) == len(done) == 6, "some was done on both"
    assert out.splitlines()[0].startswith("study double on NVIDIA Stand-In 1")
    _, _, err = cli(*SIZES, "v0", "v1", "--gpus", "all", *QUICK)
    assert "6 of 6 are taken from the store" in err
    assert not list((project.root / "build" / "runs").glob("*-shared/[0-9]*")), "claims are left"


@pytest.mark.usefixtures("sizes", "stand_in")
def test_nothing_is_timed_while_anything_is_compiled(
    cli: Cli,
    project: Project,
    gpus: Callable[..., None],
    log: Callable[[], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpus(gpu(0), gpu(1))
    compiled: Callable[..., BuildResult] = vars(engine)["build"]
    runs = project.root / "build" / "runs"
    launched: list[int] = []

    def build(project: Project, version: Version, arch: str, **how: Any) -> BuildResult:
        made = compiled(project, version, arch, **how)
        if version.id == "v1":  # the workers could have begun with v0 by then
            until(lambda: len(list(runs.glob("*/results.json"))) == 2, 60)
            time.sleep(1)  # in which they would
            launched.append(len(log()))
        return made

    monkeypatch.setattr(engine, "build", build)
    code, _, err = cli(*SIZES, "v0", "v1", "--gpus", "all", *QUICK)
    assert code == 0, err
    assert launched == [0], "compilers on all of the host's cores would disturb a time"
    assert len(Store.of(project).timings()) == 6 and err.count("[6/6]") == 1


@pytest.mark.usefixtures("sizes", "stand_in")
def test_the_most_work_comes_first(
    cli: Cli, gpus: Callable[..., None], log: Callable[[], list[dict[str, Any]]]
) -> None:
    gpus(gpu(0), gpu(1))
    code, _, err = cli(*SIZES, "v0", "--gpus", "all", *QUICK)
    assert code == 0, err
    first = {uuid: next(row["n"] for row in log() if row["gpu"] == uuid) for uuid in UUIDS[:2]}
    assert first == {UUIDS[0]: 4000, UUIDS[1]: 500}
    ours = [row["n"] for row in log() if row["version"] == "v0"]
    assert ours[-1] == 300, "the least is what may be left to one GPU alone"


@pytest.mark.usefixtures("sizes", "stand_in")
def test_workers_load_what_they_need_while_the_plan_is_made(
    cli: Cli, project: Project, gpus: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(gpu(0), gpu(1))
    runs = project.root / "build" / "runs"

    def ready() -> list[Result]:
        return [each for file in runs.glob("*/results.json") for each in read_results(file)]

    def pick(named: Named, *project: Any, **given: Any) -> Any:
        until(lambda: [each.task for each in ready()] == ["prepare"] * 2, 60)
        return picked(named, *project, **given)

    picked = Named.pick
    monkeypatch.setattr(Named, "pick", pick)
    code, _, err = cli(*SIZES, "v0", "--gpus", "all", *QUICK)
    assert code == 0, err
    assert len(Store.of(project).timings()) == 3
    code, _, err = cli(*SIZES, "v9", "--gpus", "all", "--again", *QUICK)
    assert code == 2 and "v9" in err and not ready(), "a worker outlived the plan"

    def none(*_: object, **__: object) -> None:
        raise AssertionError("a worker was started for nothing")

    monkeypatch.setattr(Named, "pick", picked)
    monkeypatch.setattr(client, "run_group", none)
    code, _, err = cli(*SIZES, "v0", "--gpus", "all", *QUICK)
    assert code == 0 and "3 of 3 are taken from the store" in err


#: It comes to an end when inputs and reference are there, and gives up on them after a minute.
LOADING = """
    import time
    from pathlib import Path
    end = time.time() + 60
    while len(list(Path.cwd().glob("made-*"))) < 2 and time.time() < end:
        time.sleep(0.01)
    with Path("loaded").open("a") as file:
        file.write(f"{time.time()} {end}\\n")
    return \"\""""


@pytest.mark.usefixtures("stand_in")
def test_inputs_and_reference_are_made_while_the_library_loads_and_nothing_runs_before(
    cli: Cli,
    project: Project,
    project_file: Edit,
    gpus: Callable[..., None],
    log: Callable[[], list[dict[str, Any]]],
) -> None:
    gpus(gpu(0))
    made = "__import__('pathlib').Path('made-{}').touch()"
    for what, name in (("rng", "inputs"), ("inputs", "reference")):
        head = f"(problem, {what}):"
        project_file("study.py", f"{name}{head}", f"{name}{head}\n    {made.format(name)}")
    project_file("library.py", '\n    return ""', LOADING)
    code, _, err = cli("time", "v0", "--again", *QUICK)
    assert code == 0, err
    loaded, given_up = map(float, (project.root / "loaded").read_text().split()[:2])
    assert loaded < given_up
    assert log()[0]["at"] > loaded


@pytest.mark.slow
@pytest.mark.usefixtures("stand_in")
def test_one_gpu_that_is_named_is_the_one_that_is_used(
    cli: Cli, gpus: Callable[..., None], log: Callable[[], list[dict[str, Any]]]
) -> None:
    gpus(gpu(0), gpu(1))
    code, _, err = cli("time", "v0", "--gpus", "1", *QUICK)
    assert code == 0 and f"1 GPU: NVIDIA Stand-In 1 ({UUIDS[1]})" in err
    assert {row["gpu"] for row in log()} == {UUIDS[1]}
    code, _, err = cli("verify", "v0", "--gpus", UUIDS[0])
    assert code == 0 and log()[-1]["gpu"] == UUIDS[0]


@pytest.mark.slow
@pytest.mark.usefixtures("sizes")
def test_models_are_measured_by_themselves_and_kept_apart(
    cli: Cli, project: Project, gpus: Callable[..., None], stand_in: Manner
) -> None:
    gpus(gpu(0), gpu(1, "NVIDIA Stand-In 2", 8), gpu(2))
    names = dict.fromkeys(UUIDS, "NVIDIA Stand-In 1") | {UUIDS[1]: "NVIDIA Stand-In 2"}
    os.environ["FAKE_NAMES"] = json.dumps(names)
    try:
        code, out, err = cli("time", "v0:n300", "--resume", "--gpus", "all", *QUICK)
        assert code == 0, err
        assert out.count("study double on NVIDIA Stand-In") == 2
        found = {t.device.slug for t in Store.of(project).timings()}
        assert found == {"stand-in-1", "stand-in-2"}
        code, _, err = cli("time", "v0:n300", "--resume", "--gpus", "all", "--format", "json")
        assert code == 2 and "2 models" in err
        code, _, err = cli("verify", "v0", "--gpus", "all")
        assert code == 2 and "NVIDIA Stand-In 1, NVIDIA Stand-In 2" in err
    finally:
        del os.environ["FAKE_NAMES"]


@pytest.mark.slow
@pytest.mark.usefixtures("sizes")
def test_what_breaks_on_one_gpu_is_told_once_and_costs_nothing_else(
    cli: Cli, project: Project, gpus: Callable[..., None], stand_in: Manner
) -> None:
    gpus(gpu(0), gpu(1))
    stand_in("die v1")
    code, _, err = cli(*SIZES, "v0", "v1", "--gpus", "0,1", *QUICK)
    # Which of the six ends last is chance; an error has no place among them.
    assert code == 4 and err.count("/6] v0 ") == 3
    times = {(t.version, t.problem) for t in Store.of(project).timings()}
    assert times == {("v0", name) for name in ("n300", "n500", "n4000")}
    assert {err.count(f"v1 {name}: error") for name in ("n300", "n500", "n4000")} == {1}


@pytest.mark.slow
@pytest.mark.usefixtures("sizes")
def test_a_gpu_that_cannot_be_opened_leaves_its_share_to_the_other(
    cli: Cli, project: Project, gpus: Callable[..., None], stand_in: Manner
) -> None:
    gpus(gpu(0), gpu(1))
    os.environ["FAKE_LOST"] = UUIDS[0]
    try:
        code, _, err = cli(*SIZES, "v0", "v1", "--gpus", "all", *QUICK)
    finally:
        del os.environ["FAKE_LOST"]
    assert code == 0, err
    assert len(Store.of(project).timings()) == 6


@pytest.mark.parametrize("text", ["3", "0,", "GPU-x", "all,7"])
def test_gpus_that_are_not_here(gpus: Callable[..., None], text: str) -> None:
    gpus(gpu(0), gpu(1))
    with pytest.raises(UsageError, match="is here") as caught:
        presence.choose_gpus(text)
    assert f"1 (NVIDIA Stand-In 1, {UUIDS[1]})" in caught.value.hint


def test_gpus_and_a_launcher_are_two_places(gpus: Callable[..., None]) -> None:
    gpus(gpu(0))
    with pytest.raises(UsageError, match="cannot be used together"):
        presence.choose_hosts(RunOptions(gpus="all", launcher="srun"))


@pytest.mark.usefixtures("sizes")
def test_ctrl_c_ends_the_workers_of_all_gpus(
    cli: Cli,
    project: Project,
    gpus: Callable[..., None],
    stand_in: Manner,
    log: Callable[[], list[dict[str, Any]]],
) -> None:
    gpus(gpu(0), gpu(1))
    stand_in("hang v0")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        until(lambda: {row["gpu"] for row in log()} == set(UUIDS[:2]), 60)
        os.kill(os.getpid(), signal.SIGINT)

    both = threading.Thread(target=interrupt)
    both.start()
    try:
        code, _, err = cli(*SIZES, "v0", "--gpus", "all", *QUICK)
    finally:
        both.join()
        signal.signal(signal.SIGINT, before)
    assert code == 130 and "of 3 combinations are measured and kept; continue with" in err
    left = [
        path
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"workbench.engines.worker" in read(path) and str(project.root) in cwd(path)
    ]
    assert not left


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def cwd(path: Path) -> str:
    try:
        return os.readlink(path.parent / "cwd")  # noqa: PTH115
    except OSError:
        return ""


def test_a_program_that_is_stopped_ends_at_once(tmp_path: Path) -> None:
    stop = Halt()
    timer = threading.Timer(0.2, stop.say)
    timer.start()
    with pytest.raises(HaltedError):
        run_group(["sleep", "60"], cwd=tmp_path, stop=stop)
    timer.join()
    with pytest.raises(HaltedError):
        run_group(["sleep", "60"], cwd=tmp_path, stop=stop)
    stop.close()
