"""Programs of other people, as they were captured on an H200: a model eager and compiled, a sample
of CUDA's, a pytest, and kernels written in Python."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.engines.stand_ins import Cli
from workbench.capture.shelf import Shelf
from workbench.model import line_counters

CAPTURES = Path(__file__).resolve().parent.parent / "data" / "captures"
SECTORS = "memory_l2_theoretical_sectors_global"


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CAPTURES)
    monkeypatch.setenv("COLUMNS", "120")


def document(cli: Cli, *words: str) -> dict[str, Any]:
    code, out, said = cli(*words, "--format", "json")
    assert code == 0, said
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("before", "after", "went", "words"),
    [
        ("eager", "eager-fused", "softmax_warp_backward", "1.06× faster"),
        ("compile", "compile-fused", "triton_per_fused__softmax_", "no measurable change"),
    ],
)
def test_one_change_of_a_model_eager_and_compiled(
    cli: Cli, before: str, after: str, went: str, words: str
) -> None:
    found = document(cli, "diff", f"@{before}", f"@{after}")
    fates = {row["kernel"]: row["fate"] for row in found["kernels"]}
    assert fates["fmha_cutlassB_f32_aligned_64x64_k64_sm80"] == "came"
    assert any(fate == "went" and name.startswith(went) for name, fate in fates.items())
    change = found["change"]["seconds"]
    assert sum(row["change_s"] for row in found["kernels"]) == pytest.approx(change, rel=1e-9)
    said = cli("diff", f"@{before}", f"@{after}")[1]
    assert words in said and re.search(r"in forward \d kernels \(3.\d+ ms\) gave way to 1 \(", said)


def test_compiled_kernels_have_the_names_of_the_compiler_and_their_range(cli: Cli) -> None:
    found = document(cli, "show", "@compile")
    assert found["runs"][0]["processes"] == 2  # the compiler's own one launches nothing
    rows = {row["kernel"]: row for row in found["kernels"]}
    ranges = rows["triton_per_fused__softmax_amax_mul_sub_view_3"]["ranges"]
    assert [(x["range"], x["launches"]) for x in ranges] == [("forward", 10)]
    # PyTorch launches what goes backward from a thread of its own, which is inside of no range.
    assert rows["triton_per_fused__softmax_backward_data_mul_view_7"]["ranges"] == []
    csv = cli("show", "@compile", "--format", "csv")[1].splitlines()
    assert any(",forward,1," in line for line in csv) and not any("{" in line for line in csv)
    assert "NVTX range" in cli("show", "@compile", "--format", "markdown")[1]


def test_a_sample_of_cuda_s_line_by_line(cli: Cli) -> None:
    rows = {row["kernel"]: row for row in document(cli, "show", "@transpose")["kernels"]}
    assert rows["transposeNaive"]["launches"] == 101
    assert rows["[copy DtoH]"]["share"] == pytest.approx(0.507, abs=1e-3)
    (launch,) = document(cli, "show", "@transpose::transposeNaive")["launches"]
    lines = {line["line"]: line for line in launch["lines"]}
    assert {n for n, line in lines.items() if SECTORS in line["counters"]} == {133}
    assert "odata[index_out + i] = idata" in lines[133]["text"]
    assert lines[133]["counters"][SECTORS] == 4718592  # 4 sectors a load, 32 a store


def test_a_triton_kernel_has_its_name_and_its_lines_of_python() -> None:
    shelf = Shelf(CAPTURES)
    detail = shelf.detail(shelf.load("triton"))
    assert detail is not None
    (launch,) = (x for x in detail.launches if x.kernel == "scale_rows")
    found = {
        (detail.sources[file].path, line): values
        for (file, line), values in line_counters(launch).items()
        if file >= 0 and line
    }
    own = {line for path, line in found if path == "triton_kernel.py"}
    assert own >= {7, 8, 9, 10, 12, 13} and own <= set(range(6, 14))
    moved = {line for (path, line), values in found.items() if values.get(SECTORS)}
    assert moved == {10, 13}  # the load and the store
    assert any(path.endswith("triton/language/standard.py") for path, _ in found)  # tl.sum, tl.max


def test_kernels_of_cupy_have_the_names_that_python_gave_them(cli: Cli) -> None:
    rows = {row["kernel"]: row for row in document(cli, "show", "@cupy")["kernels"]}
    assert rows["scaled"]["launches"] == rows["doubled"]["launches"] == 5
    (raw,) = document(cli, "show", "@cupy::scaled")["launches"]
    assert {line["line"] for line in raw["lines"]} == {2, 3, 4, 5, 6}  # of the string, by -lineinfo
    (jit,) = document(cli, "show", "@cupy::doubled")["launches"]
    assert not any(line["line"] for line in jit["lines"])  # its compiler gives none


def test_a_pytest_is_a_program_like_any_other(cli: Cli) -> None:
    found = document(cli, "show", "@pytest")
    assert found["command"][1:4] == ["-m", "pytest", "-q"] and found["time"]["runs"] == 2
    assert {"softmax_rows", "softmax_warp_forward"} <= {row["kernel"] for row in found["kernels"]}


def test_a_numba_kernel_has_its_name_and_its_line_of_python(cli: Cli) -> None:
    (launch,) = document(cli, "show", "@numba-plain::transpose")["launches"]
    assert launch["kernel"] == "transpose"
    said = cli("show", "@numba-plain::transpose")[1]
    assert "line 24 of tile_numba.py" in said and "Pad or swizzle shared memory" in said
    told = cli("diff", "@numba-plain::transpose", "@numba-padded::transpose")[1]
    # What changed is an argument of the program: no line may be named for it.
    assert "1.72× faster" in told and "the sources are the same" in told


def test_busy_time_says_of_how_many_gpus_it_is(cli: Cli) -> None:
    assert "busy 7.25 ms of 2 GPUs in" in cli("show", "@two-gpus")[1]
    assert " GPUs" not in cli("show", "@eager")[1]
