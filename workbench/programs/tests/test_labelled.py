"""The labelled programs: that each is there and compiles, and that the script tries them all."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from benchmarks.truth.programs import Program, load_programs, tell, totals
from workbench.programs.capture.capture_store import Shelf

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "benchmarks" / "programs"
LABELS = ROOT / "tests" / "data" / "truth" / "programs.toml"


ALL = load_programs(LABELS)
SIDES = ("before", "after")


def files(program: Program, side: str) -> list[Path]:
    folder = PROGRAMS / (program.sources or program.name)
    return sorted((folder / side if (folder / side).is_dir() else folder).iterdir())


def made_by(program: Program, side: str) -> str:
    return (side == "after" and program.build_after) or program.build


EACH = [pytest.param(each, side, id=f"{each.name}-{side}") for each in ALL for side in SIDES]
#: Of Thrust's headers nvcc takes half a minute.
HEAVY = {"quantiles"}
COMPILED = [
    pytest.param(
        each,
        side,
        id=f"{each.name}-{side}",
        marks=pytest.mark.long if each.name in HEAVY else pytest.mark.slow,
    )
    for each in ALL
    if each.needs == "cuda"
    for side in SIDES
]


def test_each_program_has_one_label_and_each_label_a_program() -> None:
    names = [each.name for each in ALL]
    assert len(set(names)) == len(names) >= 14
    folders = {path.name for path in PROGRAMS.iterdir() if path.is_dir()}
    assert folders == {each.sources or each.name for each in ALL}


@pytest.mark.parametrize("program", [pytest.param(each, id=each.name) for each in ALL])
def test_a_label_says_what_is_true_and_what_is_not(program: Program) -> None:
    for text in (program.cause, program.expected, program.headline, program.work):
        assert text.strip() == text != ""
    assert program.kernels and program.must and program.must_not
    sides = [
        (
            getattr(program, side),
            made_by(program, side),
            [path.read_bytes() for path in files(program, side)],
        )
        for side in SIDES
    ]
    assert sides[0] != sides[1], "nothing was edited"
    if program.clock is not None:
        old, new = (float(text.split()[0]) for text in (program.clock.before, program.clock.after))
        assert program.clock.factor == pytest.approx(old / new, rel=1e-3)
    assert (program.judged is None) == (program.clock is None) == (not program.why)


def test_what_is_told_of_a_program_goes_the_way_of_its_clock() -> None:
    told = list(tell(ALL, Shelf(ROOT / "tests" / "data" / "programs")))
    assert {each.program.name for each in told} == {each.name for each in ALL if each.clock}
    against = {each.program.name for each in told if each.contradicts}
    assert not against, against
    words, _ = totals(told)
    assert f"{len(told)} programs" in words and f"clock: {len(against)} " in words


@pytest.mark.parametrize(("program", "side"), EACH)
def test_what_a_command_runs_is_built_or_there(program: Program, side: str) -> None:
    found = files(program, side)
    assert found and all(path.is_file() for path in found)
    words = shlex.split(getattr(program, side))
    if program.needs == "cuda":
        build = shlex.split(made_by(program, side))
        assert words[0] == f"./{build[build.index('-o') + 1]}"
        assert {path.name for path in found} == {word for word in build if word.endswith(".cu")}
    else:
        scripts = {word for word in words if word.endswith(".py")}
        assert scripts == {path.name for path in found}
        for path in found:
            ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc on PATH")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("program", "side"), COMPILED)
def test_it_compiles(program: Program, side: str, tmp_path: Path) -> None:
    for path in files(program, side):
        shutil.copy(path, tmp_path)
    done = subprocess.run(
        made_by(program, side),
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == ""
    assert os.access(tmp_path / shlex.split(getattr(program, side))[0], os.X_OK)


@pytest.fixture
def script(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine whose compiler writes scripts, and where captures fail."""
    tools = tmp_path / "tools"
    tools.mkdir()
    stand_ins = {
        "nvcc": 'while [ $1 != -o ]; do shift; done; echo "echo took" >$2; chmod +x $2',
        "workbench": "mkdir -p ../.workbench/captures/$2; case $2 in *-after) exit 4;; esac",
        "nvidia-smi": "echo GPU 0",
    }
    for name, text in stand_ins.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "FOLDER": str(tmp_path / "wb"),
    }


def run(script: dict[str, str], results: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAMS / "capture.sh"), str(results), *names]
    return subprocess.run(command, env=script, capture_output=True, text=True, check=False)


def test_the_script_goes_on_where_a_capture_fails(script: dict[str, str], tmp_path: Path) -> None:
    results = tmp_path / "results"
    done = run(script, results, "reduce", "heat_tidy", "ddp_straggler")
    assert done.returncode == 0, done.stderr
    table = [line.split()[:3] for line in (results / "table.txt").read_text().splitlines()[1:]]
    assert table == [
        [name, side, code]
        for name, code in (("reduce", "0"), ("heat_tidy", "0"), ("ddp_straggler", "-"))
        for side in ("before", "after")
    ]
    said = (results / "table.txt").read_text()
    assert said in done.stdout and said.count("1 GPU") == 2
    codes = [line.split()[4] for line in said.splitlines()[1:5]]
    assert codes == ["0", "4", "0", "4"]
    assert (results / "stdout.txt").read_text().count("took") == 4
    with tarfile.open(results / "captures.tgz") as tar:
        kept = {Path(name).name for name in tar.getnames()}
    assert {"reduce-before", "reduce-after", "heat_tidy-before", "heat_tidy-after"} <= kept


def test_the_script_names_what_does_not_exist_or_has_no_time(
    script: dict[str, str], tmp_path: Path
) -> None:
    done = run(script, tmp_path / "results", "reduec")
    assert done.returncode == 2 and "no such program: reduec" in done.stderr
    done = run({**script, "LIMIT": "0"}, tmp_path / "results", "asian")
    assert done.returncode == 0 and done.stdout.count("no time") == 2
