"""Launches kept on a GPU; launched again from their records alone, they write the same bytes."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.conftest import REPO
from workbench.disk.writing import new_folder
from workbench.engines.host import presence
from workbench.engines.host.process import Input
from workbench.errors import MissingError
from workbench.study.lifted import LiftedLaunch, read_lifted

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
HERE = Path(__file__).resolve().parent / "lifted"
PROGRAMS = REPO / "benchmarks" / "programs"
WORKBENCH = (sys.executable, "-m", "workbench.cli")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project to work in, on a machine with a GPU."""
    try:
        presence.need_gpu()
    except MissingError as error:
        pytest.skip(error.message)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPO), prepend=":")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "workbench.toml").touch()
    return tmp_path


def built(source: Path) -> tuple[str, ...]:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on PATH")
    arch = presence.arch_of(presence.need_gpu())  # unlike "native" it embeds PTX as well
    run("nvcc", "-O3", "-lineinfo", f"-arch={arch}", str(source), "-o", "program")
    return ("./program",)


def python(script: Path) -> tuple[str, ...]:
    for needed in ("torch", "triton"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"no {needed}")
    return sys.executable, str(script)


def run(*words: str, code: int = 0) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def lifted(program: tuple[str, ...], kernel: str, number: int | None = None) -> LiftedLaunch:
    if not Path(".workbench").is_dir():
        run(*WORKBENCH, "capture", "it", "--no-detail", "--survey", "trace", "--", *program)
    from workbench.programs.capture.capture_store import find_shelf
    from workbench.programs.capture.lifting import choose, lift
    from workbench.programs.capture.survey import Invocation

    wanted = choose(find_shelf().load("it").survey, kernel, number)
    with new_folder(Path.cwd(), "kept") as place, Input() as given:
        invocation = Invocation(command=program, folder=Path.cwd())
        lift(invocation, given, wanted, place, lambda _: None)
    said = run(sys.executable, str(HERE / "replay.py"), "kept/captured")
    assert said.startswith("same"), said
    return read_lifted(Path("kept/captured"))


@pytest.mark.usefixtures("place")
def test_a_binarys_kernel() -> None:
    program = built(PROGRAMS / "softmax" / "softmax.cu")
    one = lifted((*program, "3"), "softmax_kernel3")
    assert one.ptx is not None and one.repeats_equal


@pytest.mark.usefixtures("place")
def test_tables_a_struct_of_pointers_and_a_pointer_in_memory() -> None:
    one = lifted(built(HERE / "tables.cu"), "gather", 4)
    symbols = {each.symbol: each for each in one.buffers if each.symbol}
    assert {"weights", "launches", "offsets"} <= set(symbols)
    assert symbols["launches"].after and not symbols["weights"].after
    assert one.launch == 4
    # Eight parts by the table in memory, what a symbol points to, the table, order and out.
    assert sum(each.symbol is None for each in one.buffers) == 12


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("kernel", ["accelerate", "listen"])
def test_a_node_of_a_graph(kernel: str) -> None:
    one = lifted(built(PROGRAMS / "string_graph" / "after" / "waves.cu"), kernel)
    assert any("node of a CUDA graph" in note for note in one.notes)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("kernel", ["pinned", "clustered", "together", "tiled"])
def test_launches_of_every_kind(kernel: str) -> None:
    one = lifted(built(HERE / "corners.cu"), kernel)
    assert (one.cluster is not None) == (kernel == "clustered")
    assert one.cooperative == (kernel == "together")
    assert any(each.kind == "host" for each in one.buffers) == (kernel == "pinned")
    if kernel == "tiled":
        assert one.arguments[0].size == 128 and one.pointers[0].argument == 0


@pytest.mark.usefixtures("place")
def test_a_kernel_of_triton_with_its_ptx() -> None:
    one = lifted(python(PROGRAMS / "triton_matmul" / "before" / "matmul.py"), "matmul_kernel")
    assert one.ptx is not None


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("segments", ["False", "True"])
def test_an_extension_of_pytorch(segments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", f"expandable_segments:{segments}")
    shutil.copytree(REPO / "examples" / "softmax_extension", "extension")
    lifted(python(Path("extension") / "bench.py"), "softmax_rows")


@pytest.mark.usefixtures("place")
def test_a_node_of_pytorchs_graph() -> None:
    one = lifted(python(HERE / "graphed.py"), "softmax", 5)
    assert any("node of a CUDA graph" in note for note in one.notes)


@pytest.mark.usefixtures("place")
def test_six_gigabytes_are_refused_before_anything_is_copied() -> None:
    program = built(HERE / "large.cu")
    run(*WORKBENCH, "capture", "it", "--no-detail", "--survey", "trace", "--", *program)
    said = run(*WORKBENCH, "new", "--from-launch", "@it::touch", "--", *program, code=2)
    assert "6291456000 bytes" in said and "--limit" in said
    assert list(Path("kernels").iterdir()) == []
