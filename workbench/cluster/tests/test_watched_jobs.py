"""Settings, and what a watcher does about all that can befall jobs: on a queue that we script."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.attacks import test_settings as attacks
from tests.engines.stand_ins import Cli
from workbench.cluster import dispatch as files
from workbench.cluster.dispatch import Dispatch, JobOrder, PieceOutcome
from workbench.cluster.fleet import Watch
from workbench.cluster.slurm import (
    Element,
    JobWork,
    Phase,
    Slot,
    SlurmQueue,
    SlurmSettings,
    read_settings,
)
from workbench.engines import RunOptions
from workbench.errors import KernelError, MissingError, UsageError, WorkbenchError
from workbench.measure.experiment import Silent
from workbench.project import Project, require_project
from workbench.session.measuring import Verifying

TASK = Verifying(run=RunOptions(seed=1))
ORDER = JobOrder.of(TASK, "double", "workbench verify", "2026-11-22T10:00:00Z")
Act = Callable[["Scripted", Slot, tuple[int, ...]], Element | None]


class Scripted(SlurmQueue):
    """A queue in which each array's elements do what its act says."""

    def __init__(self, dispatch: Dispatch, *acts: Act) -> None:
        self.dispatch = dispatch
        self.acts = list(acts)
        self.sent: list[tuple[list[tuple[int, ...]], list[str]]] = []
        self.ended: list[Slot] = []
        self.nodes: dict[str, str] = {}
        self.deaf = 0

    def submit(
        self,
        name: str,
        works: Sequence[Callable[[], None]],
        folder: Path,
        *,
        exclusive: bool,
        minutes: int | None,
        avoid: Sequence[str],
    ) -> str:
        if len(self.sent) >= len(self.acts):
            raise MissingError("Slurm refused the jobs: no node is left", "")
        assert folder == self.dispatch.folder and not exclusive and minutes is None
        numbers = [work.numbers for work in works if isinstance(work, JobWork)]
        self.sent.append((numbers, list(avoid)))
        return str(len(self.sent))

    def elements(self, names: Sequence[str]) -> dict[Slot, Element] | None:
        if self.deaf:
            self.deaf -= 1
            return None
        found = {}
        for number, name in enumerate(names):
            for at, work in enumerate(self.sent[number][0]):
                place = Slot(name, at)
                element = self.acts[number](self, place, work)
                if element is not None:
                    found[place] = element
        return found

    def cancel(self, names: Sequence[str]) -> None:
        raise AssertionError("nobody asked for that")

    def end(self, place: Slot) -> None:
        self.ended.append(place)

    def troubled(self) -> Mapping[str, str]:
        return self.nodes


class Said(Silent):
    """A display that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def ends(word: str, node: str = "node1") -> Act:
    """Elements that end without a result."""
    return lambda *_: Element(phase="ended", word=word, node=node)


def does(node: str = "node2", error: WorkbenchError | None = None) -> Act:
    """Elements that do their pieces."""

    def act(queue: Scripted, _place: Slot, work: tuple[int, ...]) -> Element:
        for number in work:
            version, problem = queue.dispatch.pieces[number]
            outcome = PieceOutcome(version=version, problem=problem, node=node, error=error)
            queue.dispatch.finish(number, outcome)
        return Element(phase="ended", word="COMPLETED", node=node)

    return act


@pytest.fixture
def dispatch(tmp_path: Path) -> Dispatch:
    made = files.begin(tmp_path, ORDER)
    made.add([("v1", "a"), ("v2", "a")])
    return made


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])


def watch(queue: Scripted) -> tuple[dict[str, PieceOutcome], list[str]]:
    """Outcomes by version, each told once, and what was said."""
    told: dict[str, PieceOutcome] = {}

    def tell(outcome: PieceOutcome) -> None:
        assert outcome.version not in told, "told twice"
        told[outcome.version] = outcome

    said = Said()
    Watch(queue.dispatch, TASK, queue, SlurmSettings(patience=3), said, tell).run()
    return told, said.lines


def test_what_goes_well_is_told_once(dispatch: Dispatch) -> None:
    queue = Scripted(dispatch, does())
    told, said = watch(queue)
    assert set(told) == {"v1", "v2"} and not any(each.error for each in told.values())
    assert queue.sent == [([(0,), (1,)], [])]
    assert said[0] == "sent 2 jobs for 2 combinations: Slurm's array 1"
    assert said[-1] == "0 queued, 0 running, 2 done, 0 failed"


@pytest.mark.parametrize("word", ["FAILED", "OUT_OF_MEMORY", "TIMEOUT", "NODE_FAIL", "COMPLETED"])
def test_lost_pieces_are_sent_again(dispatch: Dispatch, word: str) -> None:
    queue = Scripted(dispatch, ends(word), does())
    told, said = watch(queue)
    assert len(told) == 2 and len(queue.sent) == 2
    failed = word == "NODE_FAIL"
    assert queue.sent[1][1] == (["node1"] if failed else [])
    line = "node node1 failed: NODE_FAIL; its work goes to other nodes"
    assert said.count(line) == failed


def test_an_element_that_nobody_knows_any_more_is_lost_after_a_while(dispatch: Dispatch) -> None:
    told, _ = watch(Scripted(dispatch, lambda *_: None, does()))
    assert len(told) == 2


def test_three_times_is_enough(dispatch: Dispatch) -> None:
    told, _ = watch(Scripted(dispatch, *[ends("FAILED")] * 3))
    error = told["v1"].error
    assert isinstance(error, MissingError)
    assert error.message == "v1 has no result on a after 3 tries (FAILED on node1)"
    assert f".workbench/jobs/{dispatch.name}/log" in error.hint


def test_what_a_user_cancels_is_not_sent_again(dispatch: Dispatch) -> None:
    queue = Scripted(dispatch, ends("CANCELLED"), does())
    told, _ = watch(queue)
    assert len(queue.sent) == 1 and all(each.error for each in told.values())


def test_a_node_on_which_nothing_runs_is_avoided_and_the_next_one_believed(
    dispatch: Dispatch,
) -> None:
    gone = MissingError("no NVIDIA GPU can be used here")
    queue = Scripted(dispatch, does("node1", gone), does("node2", gone))
    told, said = watch(queue)
    assert queue.sent[1][1] == ["node1"]
    assert said.count(
        "node node1 failed: no NVIDIA GPU can be used here; its work goes to other nodes"
    )
    errors = [each.error for each in told.values()]
    assert [error.message for error in errors if error] == [gone.message] * 2


def test_where_no_other_node_is_left_the_queue_s_words_are_told(dispatch: Dispatch) -> None:
    told, _ = watch(Scripted(dispatch, ends("NODE_FAIL")))
    error = told["v2"].error
    assert error is not None and "NODE_FAIL on node1; Slurm refused the jobs" in error.message


def test_a_wrong_kernel_is_final(dispatch: Dispatch) -> None:
    queue = Scripted(dispatch, does("node1", KernelError("wrong")), does())
    told, _ = watch(queue)
    assert len(queue.sent) == 1 and isinstance(told["v1"].error, KernelError)


def test_what_is_held_after_a_failed_start_is_ended_and_sent_again(dispatch: Dispatch) -> None:
    looks: list[int] = []

    def held(queue: Scripted, place: Slot, work: tuple[int, ...]) -> Element:
        looks.append(0)
        if len(looks) <= 2:
            return Element(phase="running", word="RUNNING", node="node1")
        reason = "launch failed requeued held"
        return Element(phase="queued", word="PENDING", reason=reason, restarts=1)

    queue = Scripted(dispatch, held, does())
    told, said = watch(queue)
    assert len(told) == 2 and len(queue.ended) == 2 and queue.sent[1][1] == ["node1"]
    assert any("was requeued (it had run on node1)" in line for line in said)


def test_what_began_again_between_two_looks_was_put_back_all_the_same(dispatch: Dispatch) -> None:
    looks: Counter[Slot] = Counter()

    def again(queue: Scripted, place: Slot, work: tuple[int, ...]) -> Element:
        looks[place] += 1
        if looks[place] <= 2:
            return Element(phase="running", word="RUNNING", node=f"node{looks[place]}", restarts=1)
        return does()(queue, place, work) or Element(phase="ended", word="COMPLETED")

    _, said = watch(Scripted(dispatch, again))
    # Nobody saw where it had been.
    told = [line for line in said if "requeued" in line]
    assert told == [f"{name} a: was requeued" for name in ("v1", "v2")], told


def test_a_job_above_a_limit_of_the_cluster_is_told_once(dispatch: Dispatch) -> None:
    looks: Counter[Slot] = Counter()

    def waits(queue: Scripted, place: Slot, work: tuple[int, ...]) -> Element:
        looks[place] += 1
        if looks[place] <= 20:
            reason = "PartitionTimeLimit" if place.number else "Resources"
            return Element(phase="queued", word="PENDING", reason=reason)
        return does()(queue, place, work) or Element(phase="ended", word="COMPLETED")

    _, said = watch(Scripted(dispatch, waits))
    told = [line for line in said if "waits" in line]
    assert told == ["v2 a: waits; Slurm's reason: PartitionTimeLimit"]


def test_nodes_that_take_no_work_are_named_once_if_they_did_work_of_ours(
    dispatch: Dispatch,
) -> None:
    looks: list[int] = []

    def slow(queue: Scripted, place: Slot, work: tuple[int, ...]) -> Element:
        looks.append(0)
        if len(looks) > 40:
            return does()(queue, place, work) or Element(phase="ended", word="COMPLETED")
        return Element(phase="running", word="RUNNING", node="node1")

    queue = Scripted(dispatch, slow)
    queue.nodes = {"node1": "draining (fan broken)", "node9": "down"}
    queue.deaf = 2
    _, said = watch(queue)
    assert said.count("node node1 is draining (fan broken): waiting work goes to other nodes") == 1
    assert said.count("Slurm does not answer; waiting for it") == 1
    assert not any("node9" in line for line in said)


def test_who_comes_back_sends_only_what_was_not_sent(dispatch: Dispatch) -> None:
    array = dispatch.plan_array([(0,)])
    dispatch.sent(array, "7")
    queue = Scripted(dispatch, does(), does())
    queue.sent.append(([(0,)], []))
    told, _ = watch(queue)
    assert len(told) == 2 and queue.sent[1][0] == [(1,)]


def test_files_that_are_damaged_are_named(dispatch: Dispatch) -> None:
    (dispatch.folder / "pieces.json").write_text("half")
    with pytest.raises(Exception, match=r"pieces\.json cannot be read"):
        _ = dispatch.pieces


# --- settings -------------------------------------------------------------------------------


def project(folder: Path, text: str, name: str = "workbench.toml") -> Project:
    (folder / name).write_text(text)
    return require_project(folder)


def test_settings_have_defaults_and_are_read_from_both_files(tmp_path: Path) -> None:
    assert read_settings(project(tmp_path, "")) == SlurmSettings()
    text = '[tool.workbench.cluster.slurm]\npartition = "gpu"\ntime = "1:30:00"\nsetup = ["a"]\n'
    (tmp_path / "other").mkdir()
    found = read_settings(project(tmp_path / "other", text, "pyproject.toml"))
    assert (found.partition, found.minutes, found.setup) == ("gpu", 90, ("a",))


@pytest.mark.parametrize(
    ("written", "minutes"),
    [(5, 5), ("5", 5), ("5:30", 6), ("1:00:00", 60), ("1-0", 1440), ("1-2:30:01", 1591)],
)
def test_times_as_sbatch_reads_them(written: int | str, minutes: int) -> None:
    assert SlurmSettings(time=written).minutes == minutes


@pytest.mark.parametrize(
    ("line", "what", "hint"),
    [
        ("partitoin = 1", "2: unknown key `partitoin`", "`partition`"),
        ("partition = 1", "2: `partition`: expected `str`", 'partition = "…"'),
        ("per_job = 0", "2: `per_job`: expected `int` >= 1", "per_job = 4"),
        ('time = "soon"', "2: `time` must be minutes", 'time = "1:00:00"'),
        ("setup = 'x'", "2: `setup`: expected `array`", "module load"),
    ],
)
def test_wrong_settings_name_file_and_line(tmp_path: Path, line: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_settings(project(tmp_path, f"[cluster.slurm]\n{line}\n"))
    assert caught.value.message.startswith(f"workbench.toml:{what}")
    assert hint in caught.value.hint
    text = f"[project]\n\n[tool.workbench.cluster.slurm]\n{line}\n"
    (tmp_path / "workbench.toml").unlink()
    with pytest.raises(UsageError, match=r"^pyproject\.toml:4: "):
        read_settings(project(tmp_path, text, "pyproject.toml"))


def test_all_settings_are_attacked() -> None:
    names = SlurmSettings.__struct_fields__
    assert {f"cluster.slurm.{name}" for name in names} <= set(attacks.SETTINGS)


def test_another_cluster_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"workbench\.toml:1: unknown cluster `pbs`"):
        read_settings(project(tmp_path, "[cluster.pbs]\n"))


# --- the command line ------------------------------------------------------------------------


def test_no_program_of_the_working_folder_is_slurms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "here").mkdir()
    for name in ("sbatch", "squeue", "sacct", "scancel", "srun", "sinfo"):
        for folder, text in (("real", "exit 1"), ("here", "touch ran; exit 1")):
            (tmp_path / folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / folder / name).chmod(0o755)
    sends = "#!/bin/sh\nsrun\necho Submitted batch job 7\n"
    (tmp_path / "real" / "sbatch").write_text(sends)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", f":.:{tmp_path}/real:/usr/bin:/bin")
    queue = SlurmQueue(SlurmSettings())
    sent = queue.submit("x", [lambda: None], tmp_path, exclusive=False, minutes=1, avoid=())
    queue.elements(["x"])
    queue.cancel(["x"])
    assert sent == "7" and not queue.troubled() and not (tmp_path / "here" / "ran").exists()


@pytest.mark.usefixtures("project_here")
def test_where_there_is_no_slurm(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.cluster.slurm.program", lambda _name: None)
    for words in (
        ("time", "--all", "--problem", "n1000"),
        ("time", "v0"),
        ("verify", "v0"),
        ("profile", "v0"),
    ):
        code, _, err = cli(*words, "--on", "slurm")
        assert code == 3 and "sbatch is not on PATH" in err, words
    code, _, err = cli("time", "v0", "--on", "slurm", "--launcher", "srun")
    assert code == 2 and "--launcher and --on cannot be used together" in err
    code, _, err = cli("verify", "v0", "--on", "slurm", "--sanitize")
    assert code == 2 and "--sanitize does not run on a cluster" in err
    code, _, err = cli("list", "jobs", "nothing")
    assert code == 2 and "there are no jobs named nothing" in err and "None have been sent" in err
    code, out, err = cli("list", "jobs")
    assert code == 0 and "no jobs have been sent" in err and not out
    code, out, err = cli("list", "jobs", "--format", "json")
    assert code == 0 and json.loads(out) == {"jobs": []} and "no jobs have been sent" in err
    assert (
        cli("list", "jobs", "--format", "csv")[0]
        == cli("list", "jobs", "--format", "markdown")[0]
        == 0
    )


@pytest.fixture
def project_here(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("project")


def test_phases_are_what_the_queue_s_words_mean() -> None:
    from workbench.cluster.slurm import _element

    words: dict[str, Phase] = {
        **dict.fromkeys(("PENDING", "REQUEUED", "CONFIGURING"), "queued"),
        **dict.fromkeys(("RUNNING", "COMPLETING"), "running"),
        **dict.fromkeys(("FAILED", "NODE_FAIL", "TIMEOUT", "COMPLETED", "PREEMPTED"), "ended"),
    }
    assert {word: _element(word, "n1", "").phase for word in words} == words
    assert _element("PENDING", "(null)", "").node == ""


@pytest.mark.usefixtures("project_here", "no_gpu")
def test_without_it_nothing_is_different(cli: Cli) -> None:
    for words in (
        ("time", "v0"),
        ("verify", "v0", "--engine", "gpu"),
        ("time", "v0", "--gpus", "0"),
    ):
        code, _, err = cli(*words)
        assert code == 3 and "no NVIDIA GPU can be used here" in err, words
