"""The worker as a real child process, on a stand-in for PyCUDA that uses host memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.stand_ins import BASELINE, experiment_on, time_one
from workbench.engines import Subject
from workbench.engines.host.job import TimeOptions
from workbench.errors import KernelError, MissingError, UsageError
from workbench.measure.experiment import Experiment
from workbench.project import Project
from workbench.study.folder import load_study

Manner = Callable[[str], None]
Edit = Callable[[str, str, str], None]


def subjects(experiment: Experiment, *problems: str) -> list[Subject]:
    study = experiment.study
    return [
        experiment.subject(study.version("v0"), study.problem(name))
        for name in problems or ("n1000", "n7")
    ]


def test_a_wrong_result_names_element_error_and_the_way_to_repeat_it(
    experiment: Experiment, stand_in: Manner
) -> None:
    stand_in("wrong")
    first, second = experiment.verify(subjects(experiment))
    assert isinstance(first.error, KernelError)
    assert "wrong result on n1000" in first.error.message
    assert "tolerance 1e−06" in first.error.message
    assert "worst element: y[7]" in first.error.message
    assert "--seed 1" in first.error.hint
    # One wrong problem does not hide the others.
    assert second.problem.name == "n7" and second.error is None


@pytest.mark.parametrize(
    ("manner", "word"),
    [
        ("half", "500 elements were never written"),
        ("stray", "outside a buffer: y"),
        ("overwrite", "wrote into an input, or outside a buffer: x"),
        ("nan", "1 of 1,000 elements are NaN"),
    ],
)
def test_what_a_norm_alone_would_not_say(
    experiment: Experiment, stand_in: Manner, manner: str, word: str
) -> None:
    stand_in(manner)
    (verdict,) = experiment.verify(subjects(experiment, "n1000"))
    assert verdict.error is not None and word in verdict.error.message


@pytest.mark.parametrize("rows", ['problem["n"]', "rng.integers(1001, 9999)"])
@pytest.mark.parametrize("task", ["verify", "time", "race"])
def test_a_result_that_is_kept_is_wrong_on_other_inputs(
    project: Project, project_file: Edit, stand_in: Manner, task: str, rows: str
) -> None:
    project_file("study.py", 'normal(problem["n"]', f"normal({rows}")
    project_file("study.py", '["x"].', '["x"][: problem["n"]].')
    experiment = experiment_on(project, load_study(project, "double"))
    stand_in("kept")
    (subject,) = subjects(experiment, "n1000")
    options, errors = TimeOptions(limit_s=0.2, max_samples=40), list[str]()
    if task == "verify":
        errors += [str(verdict.error) for verdict in experiment.verify([subject])]
    elif task == "race":
        experiment.gpu.race([[subject]], options, lambda _, end: errors.append(str(end.error)))
    else:
        with pytest.raises(KernelError) as caught:
            time_one(experiment, subject, options)
        errors.append(caught.value.message)
    assert "gives a wrong result on n1000" in errors[0]
    assert task == "race" or "a second run of the loaded code, on inputs with seed" in errors[0]


def test_a_crash_says_where_and_leaves_the_others_their_turn(
    experiment: Experiment, stand_in: Manner
) -> None:
    stand_in("crash")
    verdicts = experiment.verify(subjects(experiment))
    error = verdicts[0].error
    # The second problem had a context of its own, and so an error of its own.
    assert "crashed on n7 while running" in str(verdicts[1].error)
    assert isinstance(error, KernelError)
    assert "v0 crashed on n1000 while running scale of v0" in error.message
    assert "illegal memory access" in error.message
    assert "--sanitize" in error.hint


def test_a_hang_is_ended_with_all_its_processes(experiment: Experiment, stand_in: Manner) -> None:
    stand_in("hang")
    experiment = experiment_on(experiment.project, experiment.study, timeout_s=3.0)
    begin = time.monotonic()
    (verdict, *_rest) = experiment.verify(subjects(experiment))
    assert isinstance(verdict.error, KernelError)
    assert "did not end within 3 s" in verdict.error.message
    assert time.monotonic() - begin < 100
    assert not _workers(experiment.project.root)


FILL = "[[fill]]\nname = "


@pytest.mark.parametrize(
    ("manner", "fill"),
    [
        ("add", '"y"\nvalue = 0'),  # bytes alike: a memset
        ("table", '"table"\ndtype = "float32"\nvalue = 1.0'),  # one word
        ("table", '"table"\ndtype = "float32"\nvalue = [0.5, 1.5]'),  # copied
        ("table", '"table"\ndtype = "int64"\nvalue = "0x3F800000 + 2**32 * 0x3F800000"'),
    ],
)
def test_fills_stand_before_the_launches(
    project: Project, stand_in: Manner, manner: str, fill: str
) -> None:
    stand_in(manner)
    path = project.kernels / "double" / "v0_plain.cu"
    text = path.read_text()
    path.write_text(text.replace("[[launch]]", f"{FILL}{fill}\n[[launch]]"))
    experiment = experiment_on(project, load_study(project, "double"))
    (verdict,) = experiment.verify(subjects(experiment, "n1000"))
    assert verdict.error is None


def test_a_fill_is_done_before_every_timed_run(project: Project, stand_in: Manner) -> None:
    stand_in("add")
    path = project.kernels / "double" / "v0_plain.cu"
    path.write_text(path.read_text().replace("[[launch]]", FILL + '"y"\nvalue = 0\n[[launch]]'))
    experiment = experiment_on(project, load_study(project, "double"))
    (subject,) = subjects(experiment, "n1000")
    timing = time_one(experiment, subject, TimeOptions(limit_s=0.2, max_samples=40))
    assert set(timing.launches) == {"fill y", "scale"}


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (
            '"tabel"\ndtype = "float32"\nvalue = 1.0',
            "`tabel` is neither an output nor a scratch buffer",
        ),
        ('"table"\ninput = "x"', "input `x` has 4,000 bytes, `table` has room for 8"),
    ],
)
def test_a_fill_that_cannot_be_is_told_at_its_line(
    project: Project, stand_in: Manner, fill: str, said: str
) -> None:
    stand_in("ok")
    path = project.kernels / "double" / "v0_plain.cu"
    path.write_text(path.read_text().replace("[[launch]]", FILL + fill + "\n[[launch]]"))
    experiment = experiment_on(project, load_study(project, "double"))
    (verdict,) = experiment.verify(subjects(experiment, "n1000"))
    assert isinstance(verdict.error, KernelError) and said in verdict.error.message
    assert "kernels/double/v0_plain.cu:4: " in verdict.error.message


def _workers(root: Path) -> list[str]:
    found = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = cmdline.read_bytes().replace(b"\0", b" ").decode()
            cwd = str((cmdline.parent / "cwd").readlink())
        except OSError:
            continue
        if "workbench.engines.worker" in text and cwd == str(root):
            found.append(text)
    return found


def test_out_of_memory_and_no_device_are_missing_things(
    experiment: Experiment, stand_in: Manner, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in("oom")
    (verdict,) = experiment.verify(subjects(experiment, "n7"))
    assert isinstance(verdict.error, MissingError)
    assert "too little memory for v0 on n7" in verdict.error.message
    stand_in("ok")
    monkeypatch.setenv("FAKE_DEVICES", "0")
    # No GPU is nobody's verdict: it ends the whole run, however many problems there were.
    with pytest.raises(MissingError, match="finds no GPU"):
        experiment.verify(subjects(experiment))


def test_an_infinite_reference_is_a_bad_study(experiment: Experiment, project_file: Edit) -> None:
    project_file("study.py", '"y": 2 *', '"y": float("inf") *')
    (verdict,) = experiment.verify(subjects(experiment, "n7"))
    assert isinstance(verdict.error, UsageError)
    assert "no finite value" in verdict.error.message


def test_time_interleaves_the_baseline_and_keeps_the_timing(experiment: Experiment) -> None:
    (subject,) = subjects(experiment, "n1000")
    # However slow this host is, it counts as a short kernel.
    options = TimeOptions(limit_s=0.5, max_samples=80, graph_below_s=60.0)
    timing = time_one(experiment, subject, options)
    assert timing.time.low <= timing.time.value <= timing.time.high
    assert timing.time.n >= 20
    assert timing.baseline == "library"
    assert timing.ratio is not None and timing.ratio.low <= timing.ratio.value
    assert timing.first_launch > 0
    assert timing.flops == 1000 and timing.bytes == 8000
    assert timing.verification is not None and timing.verification.seed == 1
    codes = {notice.code for notice in timing.notices}
    # No driver library and no NVML here: both are said, and the time stands all the same.
    assert {"no-graph", "no-clocks"} <= codes and timing.method == "events"
    (kept,) = experiment.store.timings(study="double")
    assert kept == timing


def test_a_library_finds_the_device_awake(experiment: Experiment, project_file: Edit) -> None:
    # cuDNN, asked to try its kernels on an idle device, kept one that is a third slower.
    project_file(
        "library.py",
        "x, y = view",
        "import pycuda.driver as cuda; assert cuda.busied > 0, 'the device sleeps'; x, y = view",
    )
    (subject,) = subjects(experiment, "n1000")
    timing = time_one(experiment, subject, TimeOptions(limit_s=0.2, max_samples=40))
    assert timing.baseline == "library", [notice.message for notice in timing.notices]


def test_a_prepare_that_fails_is_named(experiment: Experiment, project_file: Edit) -> None:
    project_file("library.py", "x, y = view", "x, y = undefined")
    study = experiment.study
    subject = experiment.subject(study.version("library"), study.problem("n7"))
    (verdict,) = experiment.verify([subject])
    assert isinstance(verdict.error, KernelError)
    assert "library.py: prepare() failed: NameError" in verdict.error.message


REVERSED = """    def run():
        np.multiply(x[::-1], np.float32(2), out=y)

    def collect():
        y[:] = y[::-1].copy()

    run.collect = collect
    return run
"""


def test_a_library_collects_its_outputs_untimed(experiment: Experiment, project_file: Edit) -> None:
    project_file("library.py", BASELINE[BASELINE.index("    def run") :], REVERSED)
    study = experiment.study
    library = experiment.subject(study.version("library"), study.problem("n1000"))
    (verdict,) = experiment.verify([library])
    assert verdict.error is None and verdict.check is not None and verdict.check.error == 0.0
    # Timed against it, it stands as a right baseline; its collect() is not run again.
    (subject,) = subjects(experiment, "n1000")
    timing = time_one(experiment, subject, TimeOptions(limit_s=0.2, max_samples=40))
    assert timing.baseline == "library" and timing.ratio is not None
    project_file("library.py", "    run.collect = collect\n", "")
    (verdict,) = experiment.verify([library])
    assert isinstance(verdict.error, KernelError)


def test_a_versions_own_tolerance_judges_it(experiment: Experiment, project_file: Edit) -> None:
    # One per mille off: beyond the study's 1e-6, within the version's own 1e-2.
    project_file("library.py", "np.float32(2)", "np.float32(2.002)")
    study = experiment.study
    library = experiment.subject(study.version("library"), study.problem("n1000"))
    (verdict,) = experiment.verify([library])
    assert isinstance(verdict.error, KernelError)
    assert "tolerance 1e−06" in verdict.error.message
    project_file(
        "library.py",
        "baseline = true",
        'baseline = true\ntolerance = 1e-2\ntolerance_why = "it rounds"',
    )
    (verdict,) = experiment.verify([library])
    assert verdict.error is None and verdict.check is not None
    assert verdict.check.tolerance == 1e-2
