"""``workbench import``, from the command line to the store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.engines.stand_ins import Cli
from workbench.adopt import importing
from workbench.cli import main
from workbench.ncurep.read import read_report
from workbench.project import require_project
from workbench.store import Store
from workbench.store.codec import unpack
from workbench.study.folder import run_study

DATA = Path(__file__).resolve().parents[3] / "tests" / "data" / "ncurep"
REPORT = str(DATA / "sgemm_v3.ncu-rep.zst")
Reports = Callable[[str], Path]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], repo: Path
) -> Run:
    """Run `workbench import` in a project that has the sgemm study."""
    shutil.copytree(repo / "kernels" / "sgemm", tmp_path / "kernels" / "sgemm")
    (tmp_path / "workbench.toml").write_text('default_study = "sgemm"\n')
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = 0
        try:
            main(["import", *arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_a_report_becomes_a_profile(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(REPORT, "sgemm/v3:n1024")
    assert code == 0
    assert "kept sgemm/v3 n1024 on NVIDIA H200 (ncu 2025.3.1.0, 2026-11-21T08:09:00Z)" in out
    assert "1 launch: sgemm_v3" in out
    assert "profiles/h200/sgemm/v3/n1024.ncu.json.zst" in out
    assert "note: stale: the report's source /tmp/wb/ladder.cu differs" in out
    store = Store(tmp_path / "profiles")
    (entry,) = store.find()
    profile = store.load(entry.path)
    assert profile.parameters["M"] == 1024
    assert profile.launches[0].instructions.address
    raw = store.raw_report(entry)
    assert raw is not None
    assert unpack(raw.read_bytes()) == unpack(Path(REPORT).read_bytes())


def test_it_replaces_nothing_unasked(run: Run) -> None:
    assert run(REPORT, "v3")[0] == 0
    code, _, err = run(REPORT, "v3")
    assert code == 2
    assert "already has a profile of n1024 on h200" in err
    assert "--force" in err
    assert run(REPORT, "v3", "--force")[0] == 0
    assert run(REPORT, "v3@NVIDIA Other")[0] == 0
    assert run(REPORT, "sgemm/v3:n4096")[0] == 0


def test_a_source_that_is_the_version_s_is_not_stale(run: Run, tmp_path: Path) -> None:
    source = unpack(Path(REPORT).read_bytes())
    start = source.index(b"// Probe ladder")
    # The report holds the whole ladder; as a version's file it needs a front matter.
    text = source[start : source.index(b"\n}\n", source.index(b"sgemm_v4(", start)) + 3].decode()
    path = tmp_path / "kernels" / "sgemm" / "v99_ladder.cu"
    path.write_text(
        '/* ---\ntitle = "Ladder"\n[[launch]]\nkernel = "sgemm_v3"\n'
        'grid = ["cdiv(N, 32)", "cdiv(M, 32)"]\nblock = [32, 32]\nargs = ["A", "B", "C", "M"]\n'
        "--- */\n" + text
    )
    code, out, err = run(REPORT, "v99")
    assert code == 0, err
    assert "stale" not in out
    (entry,) = Store(tmp_path / "profiles").find()
    profile = Store(tmp_path / "profiles").load(entry.path)
    assert profile.sources[0].path == "kernels/sgemm/v99_ladder.cu"
    lines = {line for line in profile.launches[0].instructions.line if line}
    first = path.read_text()[: path.read_text().index("sgemm_v3(")].count("\n") + 1
    last = path.read_text()[: path.read_text().index("sgemm_v4(")].count("\n")
    assert first <= min(lines) <= max(lines) <= last


def test_kernels_can_be_chosen(run: Run, report: Reports) -> None:
    path = str(report("ladder_focus"))
    code, out, _ = run(path, "v3", "--kernel", "sgemm_v3")
    assert code == 0
    assert "1 launch: sgemm_v3" in out
    code, out, _ = run(f"{path}::sgemm_v2", "v2")
    assert "1 launch: sgemm_v2" in out
    code, out, _ = run(path, "v1:n4096")
    assert "5 launches: sgemm_v0, sgemm_v1, sgemm_v2, sgemm_v3, sgemm_v4" in out
    assert "note: sgemm_v3 ran with" not in out


def test_a_killed_import_of_a_study_is_made_again(run: Run, tmp_path: Path) -> None:
    rename, left = os.replace, 99

    def killed(*given: Any, **where: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            os._exit(9)
        rename(*given, **where)

    for number in range(1, 9):
        if (pid := os.fork()) == 0:
            os.replace, left = killed, number
            os._exit(run(REPORT, "made")[0])
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert run(REPORT, "made")[0] == (0 if code else 2), number
        if not code:
            break
        for folder in (tmp_path / "kernels" / "made", tmp_path / "profiles"):
            shutil.rmtree(folder)
    assert number > 3


def test_a_launch_that_was_never_measured_is_refused(run: Run, report: Reports) -> None:
    path = str(report("gtx1660s-ncu2021.1-unprofiled-action"))
    code, _, err = run(path, "v0", "--kernel", "trace")
    assert code == 5
    assert "trace is listed, but was never measured" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("none.ncu-rep", "v3"), 2, "no such report"),
        ((REPORT, "v33"), 2, "no version `v33`"),
        ((REPORT, "v3:n1025"), 2, "no problem `n1025`"),
        ((REPORT, "--version", "v3", "--study", "nope"), 2, "no study `nope`"),
        ((REPORT, "--version", "conv/v3", "--study", "sgemm"), 2, "belong to different studies"),
        ((REPORT, "v3", "--kernel", "softmax"), 2, "no kernel matches 'softmax'"),
        ((REPORT, "--study", "sgemm"), 2, "study `sgemm` already exists"),
        ((REPORT, "--study", "9x"), 2, "cannot be a study's name"),
        ((REPORT, "--problem", "a b"), 2, "cannot be a problem's name"),
        (
            (str(DATA / "ladder_full.ncu-rep.zst"),),
            2,
            "holds 5 kernels, but a study is made from one",
        ),
        (("workbench.toml", "v3"), 5, "not an Nsight Compute report"),
        (("kernels", "v3"), 5, "is a folder"),
    ],
)
def test_errors_say_what_and_leave_nothing(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    got, out, err = run(*arguments)
    assert (got, out) == (code, "")
    assert words in err
    assert "Traceback" not in err
    assert not list((tmp_path / "profiles").rglob("*.zst"))
    assert [path.name for path in (tmp_path / "kernels").iterdir()] == ["sgemm"]


def test_outside_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["import", REPORT, "v3"])
    assert caught.value.code == 2
    assert "no workbench project" in capsys.readouterr().err


def test_without_a_version_the_study_is_made_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli("import", REPORT)
    assert code == 0, err
    assert "wrote workbench.toml" in out and "stale" not in out and "note:" not in out
    assert "Not in the report: the arguments" in out
    study = run_study(require_project(), "sgemm_v3")
    version = study.version("v0")
    (launch,) = version.launches
    assert (launch.kernel, launch.grid, launch.block) == ("sgemm_v3", ("32", "32"), ("32", "32"))
    assert launch.args == () and study.input_names == ("A", "B") and study.output_names == ("C",)
    assert '# args   = ["A", "B", "C", "n"]' in version.text and "int n" in version.text
    code, out, err = cli("show", "v0")
    assert (
        code == 0 and "grid 32×32" in out and "v0_sgemm_v3.cu" in out and "stale" not in out + err
    )
    hot = next(line for line in out.splitlines() if "hottest line" in line)
    number = int(hot.split("line ")[2].split()[0])
    assert "acc += As[k][ty]" in version.text.splitlines()[number - 1]
    code, _, err = cli("verify", "v0", "--engine", "emulator")
    assert code == 2 and "takes 4 arguments, not 0" in err and "in `args`" in err
    (tmp_path / version.path).write_text(
        version.text.replace("# args ", "args ").replace('"n"', "8")
    )
    code, _, err = cli("verify", "v0", "--engine", "emulator")
    assert code == 2 and "the report holds no data: write what A, B hold" in err


def test_a_study_can_be_made_of_one_kernel_of_many(
    run: Run, report: Reports, tmp_path: Path
) -> None:
    code, out, err = run(f"{report('ladder_focus')}::sgemm_v4", "fast")
    assert code == 0, err
    assert "wrote kernels/fast/v0_sgemm_v4.cu" in out and "workbench.toml" not in out
    assert "kept fast/v0 captured on" in out and "1 launch: sgemm_v4" in out
    (entry,) = Store(tmp_path / "profiles").find()
    assert (entry.study, entry.version, entry.problem) == ("fast", "v0", "captured")


def test_of_several_launches_the_longest_is_taken(
    run: Run, report: Reports, tmp_path: Path
) -> None:
    path = report("ladder_focus")
    ladder = read_report(path)
    same = tuple(replace(each, kernel="sgemm_v0", signature="") for each in ladder.launches)
    found, told = importing._one_launch(replace(ladder, launches=same), "x.ncu-rep")
    times = [each.metrics["gpu__time_duration.sum"].value for each in same]
    assert found.launches == (same[times.index(max(times))],) and "longest of 5 launches" in told


def test_launches_that_are_not_kept_are_said_and_can_be_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read_report(Path(REPORT))
    twice = tuple(replace(found.launches[0], index=index) for index in range(2))
    monkeypatch.setattr(importing, "read_report", lambda _: replace(found, launches=twice))
    code, out, err = run(REPORT, "one")
    assert code == 0, err
    assert "It is the longest of 2 launches" in out
    assert f"`workbench import {REPORT}::sgemm_v3#1 STUDY` keeps the first" in out
    code, out, err = run(f"{REPORT}::sgemm_v3#2", "two")
    assert code == 0 and "1 launch: sgemm_v3" in out and "Of 2" not in out, err


def test_a_report_without_source_gives_a_declaration(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = read_report(Path(REPORT))
    signature = "void norm<float, (int)4>(const float *, float *, int)"
    launch = replace(bare.launches[0], kernel="norm", signature=signature, dynamic_shared=2048)
    sources = tuple(replace(each, text=None) for each in bare.sources)
    bare = replace(bare, launches=(launch,), sources=sources)
    monkeypatch.setattr(importing, "read_report", lambda _: bare)
    code, out, err = run(REPORT)
    assert code == 0, err
    assert "holds no source" in out
    study = run_study(require_project(), "norm")
    version = study.version("v0")
    assert version.launches[0].kernel == "norm" and version.launches[0].dynamic_shared == "2048"
    assert "__global__ void norm(/* const float *, float *, int */);" in version.text
    assert study.input_names == ()  # types have no names


def test_no_launch_is_called_the_longest_where_one_has_no_duration(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read_report(Path(REPORT))
    (launch,) = found.launches
    metrics = {name: each for name, each in launch.metrics.items() if "duration" not in name}
    untimed = replace(launch, metrics=metrics)
    assert len(metrics) < len(launch.metrics)
    bare = replace(found, launches=(untimed, launch))
    monkeypatch.setattr(importing, "read_report", lambda _: bare)
    code, _, err = run(REPORT, "made")
    assert code == 0, err
    text = (tmp_path / "kernels" / "made" / "study.py").read_text()
    assert "longest" not in text and "It is the first of 2 launches" in " ".join(text.split())


def test_headers_that_a_report_holds_lie_beside_the_version(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read_report(Path(REPORT))
    (main,) = found.sources
    included = ("tile.cuh", "deep/more.h", "../above.h", "/etc/other.h", "study.py", "v1_x.cu")
    lines = "".join(f'#include "{name}"\n' for name in included)
    sources = (
        replace(main, path="/x/ladder.cu", text=lines + (main.text or "")),
        *(replace(main, path=f"/x/{name}", text=f"// {name}\n") for name in included),
        replace(main, path="/x/deep/more.h", text='#include "last.h"\n'),
        replace(main, path="/x/deep/last.h", text="// last\n"),
        replace(main, path="/x/unused.h", text="// unused\n"),
    )
    bare = replace(found, sources=sources)
    monkeypatch.setattr(importing, "read_report", lambda _: bare)
    code, out, err = run(REPORT, "made")
    assert code == 0, err
    made = tmp_path / "kernels" / "made"
    files = {path.relative_to(made).as_posix() for path in made.rglob("*.*")}
    wanted = {"tile.cuh", "deep/more.h", "deep/last.h"}
    assert files == {"study.py", "v0_sgemm_v3.cu", *wanted}
    assert (made / "tile.cuh").read_text() == "// tile.cuh\n"
    assert (
        "made of the report" not in out and "NotImplementedError" in (made / "study.py").read_text()
    )


def test_a_kernel_of_a_capture_becomes_a_study_too(run: Run, tmp_path: Path, cli: Cli) -> None:
    shutil.copytree(DATA.parent / "captures" / ".workbench", tmp_path / ".workbench")
    code, out, err = run("@strided::softmax_rows")
    assert code == 0 and "note:" not in out, err
    version = run_study(require_project(), "softmax_rows").version("v0")
    assert version.title == "softmax_rows, as @strided has it"
    assert '# args   = ["b_in", "out", "columns"]' in version.text  # `in` is a word of Python
    code, out, err = run("@numba-plain")  # whose source is Python, which no report can launch
    assert code == 0 and "stale" not in out, err
    assert "not contain its source" in run_study(require_project(), "transpose").version("v0").text
    code, out, _ = cli("show", "transpose/v0")
    assert code == 0 and "stale" not in out and "tile_numba.py" in out


def test_names_of_a_report_are_text_in_what_is_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    run_it = f"open({str(mark)!r}, 'w')"
    name = f'k"""\n{run_it}\n"""*/ --- */\n[[launch]]\u202e'
    bare = read_report(Path(REPORT))
    launch = replace(bare.launches[0], kernel=name, signature=f"void {name}({name}, \n{name})")
    hostile = tuple(
        replace(
            each, path=f"../../x\n{run_it}/{name}.cu", text=f"__global__ void {name}(int {name})"
        )
        for each in bare.sources
    )
    for sources in (hostile, tuple(replace(each, text=None) for each in bare.sources)):
        profile = replace(bare, launches=(launch,), sources=sources)
        monkeypatch.setattr(importing, "read_report", lambda _, profile=profile: profile)
        for study in ("made", "made_again"):
            code, _, err = run(REPORT, "--study", study)
            assert code in (0, 2) and "internal error" not in err, err
            shutil.rmtree(tmp_path / "profiles", ignore_errors=True)
        assert not mark.exists()
        there = {path.parent.name for path in (tmp_path / "kernels").rglob("*.*")}
        assert there <= {"kernels", "sgemm", "made", "made_again", "__pycache__"}
        for made in ("made", "made_again"):
            shutil.rmtree(tmp_path / "kernels" / made, ignore_errors=True)
