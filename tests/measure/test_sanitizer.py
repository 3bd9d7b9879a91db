"""compute-sanitizer's output, as recorded, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import KernelError, MissingError
from workbench.measure import sanitizer
from workbench.measure.sanitizer import (
    Finding,
    Place,
    arguments,
    describe,
    judge,
    own,
    parse,
    reported,
)

DATA = Path(__file__).resolve().parents[1] / "data" / "sanitizer"
SOURCE = "\n".join(f"line {number};" for number in range(1, 21))


def text(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def test_memcheck_names_the_line_once_and_counts_the_threads() -> None:
    (finding,) = parse("memcheck", text("memcheck"))
    assert finding.message == "Invalid __global__ write of size 4 bytes"
    assert finding.places == (Place(kernel="small_oob", file="fail.cu", line=13),)
    assert finding.count == 64
    assert finding.thread == (0, 0, 0) and finding.block == (0, 0, 0)
    assert finding.details[0] == "Access to 0x7f9b76800100 is out of bounds"
    # The driver call that fails afterwards is counted by the sanitizer, and no finding.
    assert reported(text("memcheck")) == 65


def test_racecheck_names_both_accesses() -> None:
    (finding,) = parse("racecheck", text("racecheck"))
    assert finding.message == "Race reported"
    assert finding.places == (
        Place(kernel="race", file="fail.cu", line=9, access="Write"),
        Place(kernel="race", file="fail.cu", line=10, access="Read"),
    )
    assert finding.count == 256
    assert reported(text("racecheck")) == 1


def test_initcheck_names_the_read() -> None:
    (finding,) = parse("initcheck", text("initcheck"))
    assert finding.message == "Uninitialized __global__ memory read of size 4 bytes"
    assert finding.places == (Place(kernel="uninit", file="fail.cu", line=16),)
    assert finding.count == 64


def test_a_clean_run_has_no_finding() -> None:
    assert parse("memcheck", text("clean")) == []
    assert reported(text("clean")) == 0
    assert judge("memcheck", text("clean"), 0, {"race"}) == []


def test_a_templated_kernel_without_line_information() -> None:
    block = (
        "========= Invalid __shared__ read of size 16 bytes\n"
        "=========     at void ns::tile<float, (int)4>(float *, int)+0x1a0\n"
        "=========     by thread (3,1,0) in block (7,0,2)\n"
        "========= ERROR SUMMARY: 1 error\n"
    )
    (finding,) = parse("memcheck", block)
    assert finding.places[0].line == 0 and finding.places[0].file == ""
    assert finding.thread == (3, 1, 0) and finding.block == (7, 0, 2)
    assert own([finding], {"tile"}) == [finding]
    assert own([finding], {"other"}) == []
    assert "at an unknown line in tile" in "\n".join(describe(finding, {}))


def test_a_finding_is_shown_with_its_source_line() -> None:
    (finding,) = parse("memcheck", text("memcheck"))
    lines = describe(finding, {"kernels/x/fail.cu": SOURCE})
    assert lines[0] == "memcheck: Invalid __global__ write of size 4 bytes (64 times)"
    assert lines[1] == "  at kernels/x/fail.cu:13 in small_oob"
    assert lines[2] == "    line 13;"
    assert lines[3] == "  first by thread (0, 0, 0) of block (0, 0, 0)"


def test_a_line_beyond_the_source_is_still_named() -> None:
    finding = Finding(
        tool="memcheck", message="m", places=(Place(kernel="k", file="a.cu", line=99),)
    )
    assert describe(finding, {"a.cu": "one line"})[1] == "  at a.cu:99 in k"


def test_findings_of_a_library_are_not_the_versions() -> None:
    assert judge("memcheck", text("memcheck"), 86, {"sgemm"}) == []
    assert len(judge("memcheck", text("memcheck"), 86, {"small_oob"})) == 1


def test_a_run_without_a_summary_is_a_missing_sanitizer() -> None:
    with pytest.raises(MissingError, match="exit code 1 and without a summary") as caught:
        judge("memcheck", "Error: no driver\n", 1, {"k"})
    assert "no driver" in caught.value.message and "--version" in caught.value.hint


def test_errors_that_name_no_kernel_are_not_swallowed() -> None:
    said = (
        "========= COMPUTE-SANITIZER\n"
        "========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) on cuCtxSynchronize.\n"
        "========= ERROR SUMMARY: 1 error\n"
    )
    with pytest.raises(KernelError, match="counted 1 errors without naming a kernel"):
        judge("memcheck", said, 86, {"k"})


@pytest.mark.parametrize("tool", sanitizer.TOOLS)
def test_every_tool_is_asked_for_all_findings_and_an_exit_code(tool: sanitizer.Tool) -> None:
    words = arguments("/x/compute-sanitizer", tool)
    assert words[:3] == ("/x/compute-sanitizer", "--tool", tool)
    assert words[words.index("--error-exitcode") + 1] == str(sanitizer.FOUND)
    assert words[words.index("--print-limit") + 1] == "0"


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=400))
def test_what_the_program_prints_itself_is_never_a_finding(noise: str) -> None:
    lines = [line for line in noise.splitlines() if not line.startswith("=========")]
    for tool in sanitizer.TOOLS:
        assert parse(tool, "\n".join(lines)) == []


@given(st.integers(0, 400))
def test_output_that_was_cut_off_does_not_break_the_parser(end: int) -> None:
    for tool, name in (("memcheck", "memcheck"), ("racecheck", "racecheck")):
        for finding in parse(tool, text(name)[:end]):  # type: ignore[arg-type]
            assert finding.places and finding.count >= 1
