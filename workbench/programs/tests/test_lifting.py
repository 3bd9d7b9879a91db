"""`new --from-launch` around a program that stands in: what is kept, refused and left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engines.stand_ins import Cli
from tests.processes import runs, until
from workbench.compile.image import kernel_facts
from workbench.disk.writing import new_folder
from workbench.errors import MissingError, UsageError, WorkbenchError
from workbench.programs.capture import tracer
from workbench.programs.capture.lifting import Wanted, described, find_ptx, plain_parameters
from workbench.programs.capture.records import Work
from workbench.programs.fatbin import packed_ptx
from workbench.programs.tests.fake_lifted import DATA, KERNEL, OUT, report, word, write
from workbench.study.lifted import LiftedPointer, lifted_bytes, read_lifted, write_lifted

HERE = Path(__file__).resolve().parent
PROGRAM = (sys.executable, str(HERE / "fake_lifted.py"))
LIFT = ("new", "--from-launch", "@before::gather", "--", *PROGRAM)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Path:
    """A project in which the program is captured, and libraries that it stands for."""
    folder = tmp_path / "work"
    (folder / "kernels").mkdir(parents=True)
    (folder / "workbench.toml").touch()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parents[2]), str(HERE)]))
    monkeypatch.setenv("FAKE_PIDS", str(tmp_path / "pids"))
    monkeypatch.setenv("FAKE_ASKED", str(tmp_path / "asked"))
    monkeypatch.setenv("FAKE_LAUNCHES", f"{KERNEL}*5@900 ncclDevKernel_AllReduce*2@5000")
    monkeypatch.setattr("workbench.programs.capture.survey.tracer", lambda: tmp_path / "tracer.so")
    monkeypatch.setattr("workbench.programs.cli.capture.find_gpus", lambda: ([None], ""))
    monkeypatch.setattr("workbench.programs.capture.lifting.lifter", lambda: tmp_path / "lifter.so")
    code, _, said = cli("capture", "before", "--no-detail", "--", *PROGRAM)
    assert code == 0, said
    return folder


def test_a_launch_is_kept_with_all_that_it_reads(place: Path, cli: Cli) -> None:
    code, _, said = cli(*LIFT)
    assert code == 0, said
    assert "kept launch 3 of gather(Job, float, int const*)" in said
    assert "addresses were searched for only in the first MiB of arg0_2" in said
    folder = place / "kernels" / "gather" / "captured"
    one = read_lifted(folder)
    assert one.grid == (32, 32, 1) and one.block == (32, 32, 1) and one.cluster == (2, 1, 1)
    assert (one.device, one.capability) == ("NVIDIA H100 80GB HBM3", "9.0")
    assert one.repeats_equal is False and one.duration_ns == 902
    symbol, parts, out = one.buffers
    assert (symbol.symbol, symbol.kind) == ("launches", "symbol") and parts.after is None
    assert lifted_bytes(folder, symbol.after or "") == word(3)
    assert lifted_bytes(folder, parts.before) == word(OUT + 256) + word(0)
    assert lifted_bytes(folder, out.after or "") == bytes(range(256)) * 16
    assert one.pointers[-1] == LiftedPointer(
        buffer=parts.name, offset=0, target=out.name, target_offset=256
    )
    assert lifted_bytes(folder, one.image or "")[:4] == b"\x7fELF"
    assert b".entry " + KERNEL.encode() in lifted_bytes(folder, one.ptx or "")
    assert (folder / ".gitignore").read_text() == "*\n"
    assert [each.name for each in (place / "kernels").iterdir()] == ["gather"]
    code, _, said = cli(*LIFT)
    assert code == 2 and "already exists" in said and "`new gather_lifted --from-launch …`" in said


def test_the_library_is_told_which_launch(place: Path, cli: Cli) -> None:
    assert cli(*LIFT)[0] == 0
    asked = place.parent / "asked"
    assert asked.read_text() == f"['{KERNEL}', '32 32 1 32 32 1 0', '0', '2'] 2147483648"
    words = ("b", "--from-launch", "@before::gather#3", "--limit", "0.5")
    assert cli("new", *words, "--", *PROGRAM)[0] == 0
    assert asked.read_text() == f"['{KERNEL}', '', '2', '2'] 536870912"
    old = "lift @before::gather --launch 3 --as c --limit 0.5 --"
    code, _, said = cli(*old.split(), *PROGRAM)  # the spelling of the last release
    assert code == 0 and said.startswith("note: `workbench lift` is `workbench new --from-launch`")
    assert asked.read_text() == f"['{KERNEL}', '', '2', '2'] 536870912"
    assert (place / "kernels" / "c" / "study.py").is_file()


@pytest.mark.parametrize(
    ("case", "code", "words"),
    [
        ("large", 2, "6291456000 bytes"),
        ("refused", 4, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("child", 4, "is not lifted: it is a node of a graph inside of a CUDA graph"),
        ("seldom", 2, "was launched 2 times in this run"),
        ("no-cuda", 3, "never initialized CUDA"),
        ("fails", 3, "exit code 3"),
        ("foreign", 4, "99 registers"),
        ("cut", 5, "cannot be read"),
    ],
)
def test_what_cannot_be_kept_leaves_nothing(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, case: str, code: int, words: str
) -> None:
    monkeypatch.setenv("FAKE_LIFT", case)
    got, _, said = cli(*LIFT)
    assert (got, words in said) == (code, True), said
    assert list((place / "kernels").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("@before::gather#0",), "#0 is not a launch"),
        (("@before::gather#6",), "was launched 5 times, not 6"),
        (("@before::gathr",), "Did you mean `gather`?"),
        (("@before",), "names no kernel of a capture"),
        (("v3",), "names no kernel of a capture"),
        (("@none::gather",), "neither a capture"),
        (("@before::nccl",), "waits for the other ranks (NCCL)"),
        (("@before::gather", "--as", "../x"), "cannot be a study"),
        (("@before::gather", "a/v1"), "makes a study of one launch"),
        (("@before::gather", "--flags=-O3"), "makes a study of one launch"),
    ],
)
def test_what_cannot_be_meant_runs_nothing(
    place: Path, cli: Cli, words: tuple[str, ...], said: str
) -> None:
    code, _, told = cli("new", "--from-launch", *words, "--", *PROGRAM)
    assert code == 2 and said in told, told
    assert not (place.parent / "asked").exists() and list((place / "kernels").iterdir()) == []


def test_a_killed_lift_leaves_no_study_and_the_next_one_removes_its_rest(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_LIFT", "hang")
    script = (
        "import workbench.programs.capture.lifting as lifting, sys; from pathlib import Path;"
        "lifting.lifter = lambda: Path('lifter.so'); from workbench.cli import main;"
        "main(sys.argv[1:])"
    )
    pids = tmp_path / "pids"
    with subprocess.Popen([sys.executable, "-c", script, *LIFT], cwd=place) as lifting:
        until(lambda: pids.is_file() and pids.read_text() != "")
        lifting.send_signal(signal.SIGKILL)
    until(lambda: not runs(int(pids.read_text())))
    assert cli("list")[0] == 0
    (rest,) = (place / "kernels").iterdir()
    assert rest.name.startswith(".workbench-")
    monkeypatch.setenv("FAKE_LIFT", "ok")
    assert cli(*LIFT)[0] == 0
    assert [each.name for each in (place / "kernels").iterdir()] == ["gather"]


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path, "a") as made:
        (made / "b").mkdir()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path, "a") as made:
        (made / "b").mkdir()
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a" / "b").is_dir() and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(UsageError, match="already exists"), new_folder(tmp_path, "a"):
        pass
    with pytest.raises(UsageError, match="already exists"), new_folder(tmp_path, "c"):
        (tmp_path / "c").write_text("somebody else's")
    assert (tmp_path / "c").read_text() == "somebody else's"


@pytest.mark.parametrize(
    ("signature", "plain"),
    [
        ("gather(Job, float, int const*)", [2]),
        ("void f<int, (unsigned)2>(float const*, S<float*>, int*)", [0, 2]),
        ("f(float const* const*, float**, void*, unsigned char*)", [3]),
        ("f(float4 const* __restrict__, c10::Half*, Node*, double)", [0, 1]),
        ("void at::f<void (*)(int)>(at::T<4>, std::array<char*, 3>)", []),
        ("matmul_kernel", []),
        ("f()", []),
    ],
)
def test_what_a_plain_pointer_leads_to_holds_no_address(signature: str, plain: list[int]) -> None:
    assert plain_parameters(signature) == plain


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, len(report(18)) - 1), other=st.text("0123456789 -\nabx", max_size=6))
def test_a_report_that_anybody_wrote_is_kept_whole_or_an_error(
    tmp_path: Path, place: int, other: str
) -> None:
    with new_folder(tmp_path, "raw") as raw:
        write(raw, "ok")
    text = report(18)
    (tmp_path / "raw" / "report").write_text(text[:place] + other + text[place + len(other) :])
    wanted = Wanted(work=Work(symbol=KERNEL, name="gather"))
    try:
        recorded = described(tmp_path / "raw", wanted)
        write_lifted(tmp_path / "kept", recorded)
        assert read_lifted(tmp_path / "kept") == recorded.launch
    except WorkbenchError as error:
        assert error.message and error.hint
    finally:
        for each in ("raw", "kept"):
            shutil.rmtree(tmp_path / each, ignore_errors=True)


CUBIN = zstandard.ZstdDecompressor().decompress((DATA / "gather.cubin.zst").read_bytes())
PACKED = (DATA / "packed.ptx").read_bytes()


def test_an_image_says_its_registers_and_parameters() -> None:
    assert kernel_facts(CUBIN, KERNEL) == (18, 40)
    assert kernel_facts(CUBIN, "other") == (None, 0)


@given(st.integers(0, len(CUBIN) - 1), st.integers(0, 255))
def test_a_damaged_image_is_an_error_or_read(place: int, byte: int) -> None:
    try:
        kernel_facts(CUBIN[:place] + bytes([byte]) + CUBIN[place + 1 :], KERNEL)
    except ValueError as error:
        assert "no cubin" in str(error)


def test_ptx_is_unpacked_whichever_way_it_was_packed() -> None:
    first, second = packed_ptx(PACKED)
    assert first == second and len(first) == 2076
    assert b".entry " + KERNEL.encode() in find_ptx(DATA, KERNEL, b"")
    assert find_ptx(DATA, "gather", b"") == b""


@given(st.integers(0, len(PACKED) - 1), st.binary(min_size=1, max_size=8))
def test_damaged_ptx_ends_nothing(place: int, other: bytes) -> None:
    whole = len(PACKED)
    for text in packed_ptx(PACKED[:place] + other + PACKED[place + len(other) :]):
        assert len(text) <= 500 * whole


def test_triton_keeps_its_ptx_beside_the_cubin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for key, cubin in (("A", b"other"), ("B", b"image")):
        (tmp_path / key).mkdir()
        (tmp_path / key / "matmul.cubin").write_bytes(cubin)
        (tmp_path / key / "matmul.ptx").write_bytes(b"of " + cubin)
    assert find_ptx(tmp_path / "none", "matmul", b"image") == b"of image"
    assert find_ptx(tmp_path / "none", "matmul", b"third") == b""


def test_the_library_is_built_where_its_parts_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tracer.find_cupti() is None or not (shutil.which("cc") or shutil.which("gcc")):
        pytest.skip("no CUPTI or no C compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        library = tracer.lifter()
    except MissingError as error:
        pytest.fail(f"{error.message}\n{error.hint}")
    assert library.parent.name == "lifter" and library.stat().st_size > 10_000
