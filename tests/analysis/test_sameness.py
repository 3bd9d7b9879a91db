"""Not the same work: dead code, sizes, debug builds, identical machine code."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.factories import make_launch, make_metrics, make_profile
from workbench.analysis.limits.roofline import amounts_of, stored_bytes
from workbench.analysis.sameness import Doubt, _other_size, doubts, headline, precision_words
from workbench.analysis.story import Step
from workbench.model import (
    Build,
    Column,
    InstructionTable,
    Launch,
    Notice,
    Number,
    Profile,
    SourceFile,
)
from workbench.store import Store

RECORDED = Store(Path(__file__).parents[2] / "profiles")
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
THREADS = 32 * 1024


def launch(*code: tuple[str, Number], ffma: Number | None = None, **fields: Any) -> Launch:
    """A launch of `THREADS` threads: machine instructions with the lanes that ran them."""
    texts = tuple(text for text, _ in code)
    lanes = tuple(lanes for _, lanes in code)
    floats = sum(lanes for text, lanes in code if text.startswith("FFMA"))
    table = InstructionTable(
        address=tuple(range(0, 16 * len(code), 16)),
        text=texts,
        file=(-1,) * len(code),
        line=(0,) * len(code),
        columns={
            "thread_inst_executed_true": Column(rows=tuple(range(len(code))), values=lanes),
            "inst_executed": Column(
                rows=tuple(range(len(code))), values=tuple(n // 32 for n in lanes)
            ),
        },
    )
    metrics = {
        FFMA: floats if ffma is None else ffma,
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 0,
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 0,
        "smsp__inst_executed.sum": sum(lanes) // 32,
        **fields.pop("metrics", {}),
    }
    return make_launch(metrics=make_metrics(**metrics), instructions=table, **fields)


LOAD, STORE = ("LDG.E R4, [R2.64]", THREADS), ("STG.E [R8.64], R5", THREADS)


def product(depth: int, share: float = 1.0) -> Launch:
    """A kernel of `depth` multiply-adds and one stored word a thread."""
    ran = int(share * THREADS)
    return launch(
        ("LDG.E R4, [R2.64]", depth * ran),
        ("FFMA R5, R4, R6, R5", depth * ran),
        ("STG.E [R8.64], R5", ran),
    )


def side(*launches: Launch, **fields: Any) -> Profile:
    return make_profile(launches=launches, build=None, **fields)


def kinds(found: tuple[Doubt, ...]) -> list[tuple[str, bool]]:
    return [(doubt.kind, doubt.certain) for doubt in found]


def test_the_same_work_done_otherwise_is_not_doubted() -> None:
    vectors = launch(
        ("LDG.E.128 R4, [R2.64]", 64 * THREADS // 4),
        ("FFMA R5, R4, R6, R5", 64 * THREADS),
        ("STG.E.128 [R8.64], R5", THREADS // 4),
    )
    assert doubts(side(product(64)), side(vectors)) == ()


@pytest.mark.parametrize(
    "product_instruction",
    [
        ("HMMA.16816.F32 R4, R8, R10, R4", 64 * THREADS * 2 // 4096 * 32),
        ("IDP.4A.S8.S8 R4, R8, R10, R4", 64 * THREADS // 4),
        ("IDP.2A.LO.S16.S8 R4, R8, R10, R4", 64 * THREADS // 2),
        ("IMAD R4, R8, R10, R4", 64 * THREADS),
        ("HFMA2 R4, R8, R10, R4", 64 * THREADS // 2),
    ],
)
def test_another_unit_in_place_of_floats_is_the_same_work(
    product_instruction: tuple[str, Number],
) -> None:
    other = launch(LOAD, product_instruction, STORE)
    both = (side(product(64)), side(other))
    for old, new in (both, both[::-1]):
        found = doubts(old, new)
        assert {doubt.kind for doubt in found} <= {"precision"}
        assert headline(found) == ""


FLOAT, TENSOR = ("FFMA R5, R4, R6, R5", 64 * THREADS), 64 * THREADS * 2 // 2048 * 32
HALVES = ("HMMA.16816.F32.BF16 R4, R8, R10, R4", TENSOR // 2)
FEW_DOUBLES = ("DADD R4, R8, R2", 512), ("I2F.F64 R4, R8", 512)
FEWER = "; with fewer bits, results may be less exact"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            (FLOAT, ("DMUL R4, R8, R10", 2 * THREADS), ("F2F.F32.F64 R4, R8", 2 * THREADS)),
            (FLOAT, ("FMUL R4, R8, R10", 2 * THREADS), *FEW_DOUBLES),
            "float64 operations 65.5 k → 512 and conversions between float64 and float32 "
            f"65.5 k → 0{FEWER}",
        ),
        ((FLOAT,), (("DFMA R4, R8, R10, R4", 64 * THREADS),), "float64 operations 0 → 4.19 M and "
         "float32 operations 4.19 M → 0"),
        (
            (FLOAT,),
            (("HMMA.1688.F32.TF32 R4, R8, R10, R4", TENSOR),),
            f"float32 operations 4.19 M → 0 and TF32 operations on tensor cores 0 → 4.19 M{FEWER}",
        ),
        (  # three products of terms for each one
            (FLOAT,),
            (("HMMA.1688.F32.TF32 R4, R8, R10, R4", 3 * TENSOR),),
            "float32 operations 4.19 M → 0 and TF32 operations on tensor cores 0 → 12.6 M",
        ),
        (
            (("HFMA2 R4, R8, R10, R4", 32 * THREADS),),
            (HALVES,),
            f"half-precision operations 4.19 M → 0 and bfloat16 operations 0 → 4.19 M{FEWER}",
        ),
        (
            (HALVES,),
            (("QGMMA.64x8x32.F32.E4M3.E4M3 R4, R8, R10", TENSOR // 16),),
            f"bfloat16 operations 4.19 M → 0 and 8-bit float operations 0 → 1.05 M{FEWER}",
        ),
    ],
)  # fmt: skip
def test_another_format_of_numbers_is_said_by_name(
    old: tuple[tuple[str, Number], ...], new: tuple[tuple[str, Number], ...], words: str
) -> None:
    found = doubts(side(launch(LOAD, *old, STORE)), side(launch(LOAD, *new, STORE)))
    assert [doubt.words for doubt in found if doubt.kind == "precision"] == [words]
    assert precision_words(found) == f"Different precision: {words}."


@pytest.mark.parametrize(
    "beside",
    [
        ("DADD R4, R8, R10", THREADS // 2),  # a few of them, in one branch
        ("HFMA2.MMA R4, -RZ, RZ, 0, 0", 64 * THREADS),  # a constant
        ("HADD2.F32 R4, -RZ, R4.H0_H0", 64 * THREADS),  # halves in memory alone
        ("IMAD R4, R8, R10, R4", 64 * THREADS),
    ],
)
def test_what_calculates_nothing_is_no_precision(beside: tuple[str, Number]) -> None:
    plain = side(launch(LOAD, FLOAT, ("IADD3 R4, R4, R4, R4", 64 * THREADS), STORE))
    other = side(launch(LOAD, FLOAT, ("IADD3 R4, R4, R4, R4", 64 * THREADS), beside, STORE))
    for old, new in ((plain, other), (other, plain)):
        assert precision_words(doubts(old, new)) == ""


def test_other_kernels_that_do_and_store_less_are_other_work() -> None:
    old = (msgspec.structs.replace(product(64), kernel=name) for name in ("beams", "fill"))
    fewer = launch(("FFMA R5, R4, R6, R5", 16 * THREADS), LOAD, (STORE[0], THREADS // 2))
    other = msgspec.structs.replace(fewer, kernel="search")
    sides = side(*old, study=""), side(other, study="")
    text = "Different kernels: beams and fill → search; the report does not say if they do the same"
    assert Step(*sides, ("a", "b")).story.sentence.startswith(f"{text} work.")


@pytest.mark.parametrize(
    ("part", "sectors", "files", "certain"),
    [
        (0.75, 9216, ("a.cu", "b.cu"), True),
        (0.75, 9216, ("a.cu", "b/a.cu"), False),
        (0.75, 4096, ("a.cu", "b.cu"), False),
        (1.0, 9216, ("a.cu", "b.cu"), False),
        (0.75, 9216, ("a.cu", ""), False),
        (0.02, 999999, ("a.cu", "b.cu"), False),  # two kernels became one
    ],
)
def test_a_kernel_of_another_file_that_stores_another_amount_has_no_speed_up(
    part: float, sectors: int, files: tuple[str, str], certain: bool
) -> None:
    sides: list[Profile] = []
    for name, file, much, moved in zip("ab", files, (1.0, part), (4096, sectors), strict=True):
        metrics = {"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": moved}
        stored = f"STG.E [R8.64], R{len(sides)}", int(much * THREADS)
        ran = launch(FLOAT, LOAD, stored, metrics=metrics, kernel=name)
        ran = msgspec.structs.replace(
            ran, instructions=msgspec.structs.replace(ran.instructions, file=(0, 0, 0))
        )
        own = (ran, launch(LOAD, stored, metrics=metrics, kernel="c"))[
            : 1 + (part < 0.1 and name == "a")
        ]
        sides.append(side(*own, study="", sources=(SourceFile(path=file),) * bool(file)))
    (doubt,) = [each for each in doubts(sides[0], sides[1]) if each.kind == "kernels"]
    assert (doubt.certain, doubt.more) == (certain, "0.750× the data" if certain else "")


def test_a_larger_problem_has_more_of_every_format() -> None:
    dot = "IMMA.16832.S8.S8 R4, R8, R10, R4"
    old, new = (side(launch(LOAD, ("FADD R4, R5, R6", n), (dot, n), STORE)) for n in (512, 51200))
    assert precision_words(doubts(old, new)) == ""


def test_a_float32_epilogue_that_went_into_another_kernel_is_no_precision() -> None:
    tensor = launch(LOAD, HALVES, STORE)
    fused = launch(LOAD, HALVES, ("FADD R4, R4, R5", 8 * THREADS), STORE)
    assert precision_words(doubts(side(tensor), side(fused))) == ""


def test_without_machine_code_tensor_cores_tell_that_products_changed() -> None:
    pipe = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
    old, new = (
        side(make_launch(metrics=make_metrics(**{pipe: share}), instructions=InstructionTable()))
        for share in (0.0, 64.9)
    )
    assert precision_words(doubts(old, new)) == (
        "Different precision: products moved to the tensor cores (0% → 64.9% of their peak)."
    )
    assert "products left" in precision_words(doubts(new, old))


def test_a_step_in_fewer_bits_is_told_with_its_cause_behind_the_precision() -> None:
    dot = "HMMA.1688.F32.TF32 R4, R8, R10, R4", TENSOR
    old = side(launch(LOAD, FLOAT, STORE, metrics={"gpu__time_duration.sum": 2e-3}))
    new = side(launch(LOAD, dot, STORE, metrics={"gpu__time_duration.sum": 1e-3}))
    story = Step(old, new, ("v1", "v2")).story
    assert not story.cause.other_work
    assert story.sentence.startswith("Different precision: float32 operations 4.19 M → 0")
    assert "2.00× faster" in story.sentence and "explains" not in story.sentence
    assert story.strip[0].text == "other precision"


def test_vanished_arithmetic_is_dead_code() -> None:
    dead = launch(LOAD, ("IMAD.MOV.U32 R5, RZ, RZ, R4", THREADS), STORE)
    found = doubts(side(product(64)), side(dead), ("v1", "v2"))
    assert kinds(found) == [("arithmetic", True)]
    assert headline(found) == (
        "Not the same work: v2 does 0 arithmetic operations, v1 4.19 M: the compiler may have "
        "removed code that no result depends on."
    )
    assert kinds(doubts(side(dead), side(product(64)))) == [("arithmetic", True)]


def test_a_better_algorithm_is_not_dead_code() -> None:
    # One multiply-add for every stored word where there were sixty-four.
    once = launch(LOAD, ("FFMA R5, R4, R6, R5", THREADS), ("BAR.SYNC 0x0", THREADS), STORE)
    assert doubts(side(product(64)), side(once)) == ()


def test_constants_and_conversions_of_halves_are_no_arithmetic() -> None:
    constants = launch(
        LOAD, ("HFMA2.MMA R5, -RZ, RZ, 0, 0", 64 * THREADS), ("HADD2.F32 R5, -RZ, R4", 9), STORE
    )
    assert kinds(doubts(side(product(64)), side(constants))) == [("arithmetic", True)]


def test_a_side_that_writes_nothing() -> None:
    found = doubts(side(product(64)), side(launch(LOAD, ("EXIT", THREADS))), ("old", "new"))
    assert kinds(found) == [("output", True)]
    assert "new writes nothing to global memory (old: 131 kB)" in headline(found)
    # Nor does what only adds up in shared memory, where every result was an atomic.
    atomic = launch(LOAD, ("RED.E.ADD.F32 [R8.64], R5", THREADS))
    found = doubts(
        side(atomic), side(launch(LOAD, ("ATOMS.ADD R5, [R8]", THREADS))), ("old", "new")
    )
    assert "new writes nothing to global memory (old: global atomics 32.8 k)" in headline(found)


def test_one_kernel_of_several_that_no_longer_stores_its_result() -> None:
    first = msgspec.structs.replace(product(64), kernel="first")
    dead = msgspec.structs.replace(launch(LOAD, ("EXIT", THREADS)), kernel="first")
    other = launch(LOAD, ("FMUL R5, R4, R4", THREADS), STORE)
    found = doubts(side(first, other), side(dead, other), ("old", "new"))
    assert "new first writes nothing to global memory (old first: 131 kB)" in headline(found)


@pytest.mark.parametrize("writer", ["UTMASTG.2D [UR4], [UR8]", "RED.E.ADD.F32 [R8.64], R5"])
def test_bulk_copies_and_atomics_may_have_written_what_no_store_did(writer: str) -> None:
    other = launch(LOAD, ("FFMA R5, R4, R6, R5", 64 * THREADS), (writer, 32))
    assert doubts(side(product(64)), side(other)) == ()


def test_a_smaller_problem() -> None:
    # A matrix product of half the size: an eighth of the operations, a quarter of the results.
    half = product(32, 0.25)
    code = msgspec.structs.replace(
        half.instructions, text=("LDG.E R4, [R2.64+0x10]", *half.instructions.text[1:])
    )
    half = msgspec.structs.replace(half, instructions=code)
    found = doubts(side(product(64), study=""), side(half, study=""))
    assert kinds(found) == [("size", True)]
    # A recorded version ran the problem that it says: it needs less, at most.
    assert doubts(side(product(64)), side(half)) == ()
    assert "4.19 M → 524 k arithmetic operations, 131 kB → 32.8 kB stored" in headline(found)


def test_a_smaller_copy() -> None:
    half = launch(("LDG.E R4, [R2.64]", THREADS // 2), ("STG.E [R8.64], R4", THREADS // 2))
    whole = side(launch(LOAD, STORE), study="")
    assert kinds(doubts(whole, side(half, study=""))) == [("size", True)]
    # Twice the stores of the same data (a kernel that wrote every word two times).
    twice = launch(LOAD, STORE, STORE)
    assert doubts(side(twice), side(launch(LOAD, STORE))) == ()


def test_accumulating_in_registers_instead_of_memory_is_an_optimization() -> None:
    through_memory = launch(
        ("FFMA R5, R4, R6, R5", 64 * THREADS), ("STG.E [R8.64], R5", 64 * THREADS)
    )
    assert doubts(side(through_memory), side(product(64))) == ()


def test_more_launches_of_one_kernel_are_no_more_work() -> None:
    old = side(*(product(64) for _ in range(3)))
    faster = msgspec.structs.replace(product(64), kernel="scale4")
    vectors = msgspec.structs.replace(
        faster, instructions=launch(STORE, LOAD, ("FFMA R5, R4, R6, R5", 64 * THREADS)).instructions
    )
    assert doubts(old, side(*(vectors for _ in range(4)))) == ()


def test_problem_parameters() -> None:
    found = doubts(side(product(64)), side(product(64), parameters={"N": 512}))
    assert kinds(found)[0] == ("parameters", True)
    assert headline(found) == "Not the same work: the problem differs (N 1024 → 512)."


def test_the_same_machine_code_twice() -> None:
    jump = ("@P0 BRA 0x7d0f85268fe0", THREADS)
    elsewhere = ("@P0 BRA 0x7c953d2617e0", THREADS)
    found = doubts(side(launch(LOAD, jump, STORE)), side(launch(LOAD, elsewhere, STORE)))
    assert kinds(found) == [("same-code", True)]
    assert headline(found).startswith("Identical machine code: ")


def test_two_jumps_to_other_places_are_other_code() -> None:
    def jumps(second: str) -> Launch:
        first = ("BRA 0x7d0f85268f00", THREADS)
        return launch(LOAD, first, (f"@P0 BRA {second}", THREADS), STORE)

    assert doubts(side(jumps("0x7d0f85268fe0")), side(jumps("0x7d0f85268ff0"))) == ()


def test_the_same_code_in_a_grid_that_is_cut_otherwise_is_the_same_work() -> None:
    other = msgspec.structs.replace(product(64), grid=(64, 1, 1), block=(512, 1, 1))
    assert doubts(side(product(64)), side(other)) == ()


def test_the_same_code_over_another_size() -> None:
    found = doubts(side(product(64)), side(product(64, 0.5)))
    assert kinds(found) == [("size", True)]
    assert "same machine code ran on a different size (131 kB → 65.5 kB stored)" in headline(found)
    # In a shorter loop
    found = doubts(side(product(64)), side(product(32)))
    assert kinds(found) == [("input", True)]
    assert "launched alike" in headline(found) and "another input" in headline(found)


def test_a_kernel_beside_unchanged_ones_is_told_with_its_part_of_the_time() -> None:
    plain = msgspec.structs.replace(product(64), kernel="Kernel", signature="Kernel<Gemm<128>>")
    fused = msgspec.structs.replace(product(8), kernel="Kernel", signature="Kernel<B2bGemm<128>>")
    fused = msgspec.structs.replace(fused, instructions=launch(STORE, LOAD).instructions)
    sides = side(fused, plain, plain, study=""), side(plain, plain, study="")
    said = Step(*sides, labels=("before", "after")).story.sentence
    assert "no overall speed-up" in said and "before only: Kernel<B2bGemm<…>> (312 µs)" in said


def test_sixteen_times_the_bytes_are_another_size_without_operations_too() -> None:
    for more, size in ((16, True), (4, False), (1, False)):  # four: bytes may have become words
        sides = [side(launch((LOAD[0], 8 * n), (STORE[0], 8 * n))) for n in (1, more)]
        stored = amounts_of((sides[0], sides[1]), stored_bytes)
        assert (_other_size((sides[0], sides[1]), None, stored) is not None) is size


@pytest.mark.parametrize("flag", ["-G", "--device-debug"])
def test_a_debug_build_by_its_flags(flag: str) -> None:
    old = msgspec.structs.replace(
        side(product(64)), build=Build(compiler="nvcc 13.0.88", arch="sm_90", flags=(flag,))
    )
    found = doubts(old, side(product(64)), ("v1", "v2"))
    assert headline(found) == "Built for debugging: v1 with -G, the other side without."


def test_a_debug_build_by_its_notice() -> None:
    old = side(product(64), notices=(Notice(code="debug-build", message="built with -G"),))
    assert kinds(doubts(old, side(product(64))))[0] == ("debug", True)
    assert [doubt.kind for doubt in doubts(old, old)] == ["same-code"]


@cache
def ladder(study: str) -> list[tuple[str, Profile]]:
    """The versions of a ladder with their recorded profiles, by number."""
    entries = [
        e
        for e in RECORDED.find(study=study, device="h200")
        if e.engine == "ncu" and e.version[1:].isdigit()
    ]
    largest = max(entries, key=lambda e: (sum(x.problem == e.problem for x in entries), e.problem))
    chosen = [entry for entry in entries if entry.problem == largest.problem]
    chosen.sort(key=lambda entry: int(entry.version[1:]))
    return [(entry.version, RECORDED.load(entry.path)) for entry in chosen]


@pytest.mark.parametrize(
    "study",
    [
        *("conv2d_direct", "scale_add"),
        *(
            pytest.param(study, marks=pytest.mark.slow)
            for study in ("conv2d", "conv2d_half", "conv2d_int8", "conv2d_tile", "sgemm")
        ),
    ],
)
def test_no_step_of_the_ladders_is_called_other_work(study: str) -> None:
    versions = ladder(study)
    assert len(versions) >= 4
    told = {
        f"{old_name}..{name}": headline(doubts(old, new))
        for (old_name, old), (name, new) in pairwise(versions)
    }
    # An alignment that the compiler had given the tiles already: the same instructions.
    same = told.pop("v4..v5") if study == "conv2d_int8" else "Identical machine code"
    assert same.startswith("Identical machine code")
    assert not any(told.values()), told


def reduction(loads: int, bytes_moved: float, seconds: float, adds: int = 0) -> Launch:
    """A launch whose threads load so many words each and store one in all."""
    return launch(
        (f"LDG.E R4, [R2.64+{16 * loads:#x}]", loads * THREADS),
        ("FADD R5, R4, R5", adds * THREADS),
        ("STG.E [R8.64], R5", 32),
        metrics={
            "dram__bytes.sum": bytes_moved,
            "gpu__time_duration.sum": seconds,
            "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": adds * THREADS,
        },
    )


@pytest.mark.parametrize("adds", [(0, 0), (64, 32), (64, 38)])
def test_half_of_the_data_is_told_a_byte_before_any_praise(adds: tuple[int, int]) -> None:
    """Also where some of the additions are a block's, whatever it reads."""
    old = side(reduction(64, 8.4e6, 2.66e-3, adds[0]), study="")
    new = side(reduction(32, 4.23e6, 1e-3, adds[1]), study="")
    found = doubts(old, new)
    assert kinds(found)[:1] == [("size", False)]
    text = Step(old, new, ("v4", "v5")).story.sentence
    assert text.startswith(
        "Different amount of data: 8.39 MB → 4.19 MB loaded, 0.500 × as much. Under the profiler "
        "v5 takes 0.376× the time of v4."
    )


def test_as_much_arithmetic_or_memory_traffic_is_as_much_data() -> None:
    def told(old: Launch, new: Launch, **fields: Any) -> list[tuple[str, bool]]:
        found = doubts(side(old, **fields), side(new, **fields))
        return [kind for kind in kinds(found) if kind == ("size", False)]

    less = reduction(32, 4.2e6, 1e-3, 32)
    assert told(reduction(64, 8.4e6, 2e-3, 64), less, study="")
    # Read once instead of twice, or from a cache: the work is the same.
    assert not told(reduction(64, 8.4e6, 2e-3, 32), less, study="")
    assert not told(reduction(64, 4.2e6, 2e-3, 64), less, study="")
    # A recorded version ran the problem that it says.
    assert not told(reduction(64, 8.4e6, 2e-3, 64), less)
