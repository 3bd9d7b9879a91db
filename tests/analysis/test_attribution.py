"""Attribution: hand-written pairs; parts add up whatever the sources and the counters are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.analysis.attribution_pairs import DEVICE, NAMES, assert_adds_up, pair, parts_of
from tests.attacks.book import WHOLE
from workbench.analysis.attribution import attribute
from workbench.model import Column, InstructionTable, Launch, Metric, Number, Profile, SourceFile
from workbench.ncurep.read import read_report, select_kernels

LINES = [
    "#define T 32",
    "#define T 16",
    "__device__ float f(float x) { return x * T; }",
    "extern __shared__ float pool[];",
    'extern "C" __global__ void k(const float* A, float* C, int n) {',
    'extern "C" __global__ void __launch_bounds__(256) k(const float* A, float* C) {',
    "  __shared__ float As[T][T];",
    "  __shared__ float As[T][T + 1];",
    "  int row = threadIdx.x, col = threadIdx.y;",
    "  int row = threadIdx.y;",
    "  for (int i = 0; i < n; ++i) {",
    "#pragma unroll 4",
    "  while (row < 4) row += f(col);",
    "  if (row > n) return;",
    "    As[row][col] = A[row * n + col];",
    "    float4 v = *(const float4*)&A[row]; // load",
    "  __syncthreads();",
    "  C[row] = As[col][row]; /* store",
    "  */ }",
    "}",
    "",
    "  ((((",
    '  auto g = [&](int q) { return q + row; }; const char* s = "{";',
    "\t\x0c\x00\u00e9\u4e2d",
]

texts = st.lists(st.sampled_from(LINES), max_size=25).map("\n".join) | st.text(max_size=200)
numbers = st.integers(0, 10**15) | st.floats(0, 1e9, allow_nan=False)


@st.composite
def launches(draw: st.DrawFn, files: int) -> Launch:
    size = draw(st.integers(0, 12))
    rows = list(range(size))
    columns = {
        name: Column(
            rows=tuple(rows), values=tuple(draw(st.lists(kind, min_size=size, max_size=size)))
        )
        for name, kind in (("inst_executed", st.integers(0, 10**15)), ("made_up", numbers))
    }
    return Launch(
        kernel=draw(st.sampled_from(["k", "other", "ns::k<(int)3>"])),
        index=0,
        block=(draw(st.sampled_from([32, 64])), 1, 1),
        instructions=InstructionTable(
            address=tuple(16 * row for row in rows),
            text=("NOP",) * size,
            file=tuple(draw(st.integers(-1, files - 1)) for _ in rows),
            line=tuple(draw(st.integers(0, 30)) for _ in rows),
            columns=columns,
        ),
    )


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    sources = tuple(
        SourceFile(path=path, text=draw(st.none() | texts))
        for path in draw(st.sampled_from([(), ("a.cu",), ("b.cu", "x/h.cuh"), ("a.cu", "a.py")]))
    )
    return Profile(
        engine="ncu",
        device=DEVICE,
        captured="",
        launches=tuple(draw(st.lists(launches(len(sources)), max_size=3))),
        sources=sources,
    )


@given(old=profiles(), new=profiles())
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
def test_parts_add_up_for_any_sources_and_counters(old: Profile, new: Profile) -> None:
    result = attribute(old, new)
    assert_adds_up(result)
    assert attribute(old, new) == result  # the same again: nothing depends on set order


def _one(text: str | None, *, path: str = "k.cu", line: int = 2, value: Number = 7) -> Profile:
    return Profile(
        engine="ncu",
        device=DEVICE,
        captured="",
        launches=(
            Launch(
                kernel="k",
                index=0,
                instructions=InstructionTable(
                    address=(0,),
                    text=(f"MOV R0, {value}",),
                    file=(0,),
                    line=(line,),
                    columns={"inst_executed": Column(rows=(0,), values=(value,))},
                ),
            ),
        ),
        sources=(SourceFile(path=path, text=text),),
    )


KERNEL = '__global__ void k(float* x) {\n  x[0] = 1.0f; // "值"\n}\n'
HOSTILE = {
    "gbk": KERNEL.encode("gbk").decode("utf-8", "replace"),
    "surrogates": KERNEL.encode("gbk").decode("utf-8", "surrogateescape"),
    "crlf": KERNEL.replace("\n", "\r\n"),
    "tabs": "".join("\t" + c for c in KERNEL),
    "long line": KERNEL + "int a = " + "+".join(["1"] * 50_000) + ";\n",
    "long word": KERNEL + "x" * 100_000,
    "deep": KERNEL + "(" * 20_000,
    "deep braces": KERNEL + "{" * 5_000,
    "nul": KERNEL.replace("1.0f", "\0"),
    "open comment": "/* " + KERNEL,
    "open string": '"' + KERNEL,
    "empty": "",
    "blank lines": "\n" * 1000,
    "binary": "".join(map(chr, range(256))) * 20,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_source_can_crash_it(name: str) -> None:
    for old, new in ((KERNEL, HOSTILE[name]), (HOSTILE[name], KERNEL), (HOSTILE[name],) * 2):
        result = attribute(_one(old), _one(new, value=9))
        assert_adds_up(result)
        assert result["inst_executed"].delta == 2


def test_line_ends_are_white_space() -> None:
    result = attribute(_one(KERNEL), _one(HOSTILE["crlf"]))
    assert result.hunks == ()


def test_a_source_without_text_is_unknown_and_not_unchanged() -> None:
    result = attribute(_one(None), _one(None, value=8))
    assert parts_of(result, "inst_executed") == [["unknown", 0, "", 1]]
    assert (result.sources.old, result.sources.new) == ("unknown", "unknown")
    assert not result.sources.same
    (words,) = result.words
    assert words.startswith(
        "source unknown: neither side holds the text of k.cu, so the changes there"
    )


@pytest.mark.parametrize("text", [KERNEL, None])
def test_what_one_side_holds_no_text_of_is_no_edit(text: str | None) -> None:
    """The other side's text was neither added nor removed, and its lines did not stay the same."""
    sides = [_one(text), _one(None if text else KERNEL, value=8)]
    result = attribute(sides[0], sides[1])
    assert result.hunks == ()
    assert parts_of(result, "inst_executed") == [["unknown", 0, "", 1]]
    (words,) = result.words
    assert words.startswith(f"source unknown: the {'new' if text else 'old'} side does not hold")
    # Nor where the report does not even name the file.
    dark = [side if side.sources[0].text else replace(side, sources=()) for side in sides]
    assert attribute(dark[0], dark[1]).hunks == ()


def test_a_file_without_text_that_has_the_same_hash_is_the_same() -> None:
    def hashed(value: int) -> Profile:
        source = SourceFile(path="k.cu", sha256="ab")
        return replace(_one(None, value=value), sources=(source,))

    result = attribute(hashed(7), hashed(8))
    assert parts_of(result, "inst_executed") == [["elsewhere", 0, "", 1]]
    assert result.sources.same and result.words == ("the sources are the same",)


def test_a_header_without_text_beside_a_known_file_is_known_in_part() -> None:
    def two(value: int) -> Profile:
        made = _one(KERNEL)
        table = InstructionTable(
            address=(0, 16),
            text=("NOP", f"MOV R0, {value}"),
            file=(0, 1),
            line=(2, 9),
            columns={"inst_executed": Column(rows=(0, 1), values=(value, value))},
        )
        return replace(
            made,
            launches=(replace(made.launches[0], instructions=table),),
            sources=(*made.sources, SourceFile(path="lib/h.cuh")),
        )

    result = attribute(two(7), two(8))
    assert parts_of(result, "inst_executed") == [["unknown", 0, "", 1], ["elsewhere", 0, "", 1]]
    assert result.sources.old == "partly"
    assert result.words[0].startswith("source known in part: neither side holds the text of h.cuh")


def test_instructions_without_a_line_are_labelled() -> None:
    result = attribute(_one(KERNEL, line=0), _one(KERNEL, line=0, value=8))
    (part,) = result["inst_executed"].parts
    assert (part.link, part.note, part.delta) == ("elsewhere", "no-line", 1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_counter_that_is_no_number_is_left_out(bad: float) -> None:
    result = attribute(_one(KERNEL, value=bad), _one(KERNEL))
    assert result.counters == ()
    assert result.missing == {"inst_executed": "not a number on the old side"}
    assert result.words[-1] == "no counter is known per line on both sides"
    profile = _with_column(name := "memory_l2_theoretical_sectors_global")
    counted = {f"l1tex__t_sectors_pipe_lsu_mem_global_op_{x}.sum": Metric(9) for x in ("ld", "st")}
    counted[name] = Metric(7)
    launch = replace(profile.launches[0], metrics=counted)
    denied = attribute(profile, replace(profile, launches=(launch,))).missing
    assert denied == {name: "denied by counters of the new side"}


def test_a_counter_of_one_side_only_is_named() -> None:
    other = attribute(_one(KERNEL), _with_column("made_up"))
    assert other.missing == {
        "inst_executed": "not recorded per line on the new side",
        "made_up": "not recorded per line on the old side",
    }


def test_a_total_of_zero_stands_for_a_column_that_is_not_there() -> None:
    def without(total: int) -> Profile:
        metrics = {"memory_l1_wavefronts_shared": Metric(value=total)}
        launch = Launch(kernel="k", index=0, metrics=metrics)
        profile = _one(KERNEL)
        return Profile(
            engine="ncu", device=DEVICE, captured="", launches=(launch,), sources=profile.sources
        )

    known = _with_column("memory_l1_wavefronts_shared")
    found = attribute(known, without(0))
    assert found["shared_wavefronts"].delta == -7 and not found.missing
    missing = attribute(known, without(7)).missing
    assert missing == {"memory_l1_wavefronts_shared": "not recorded per line on the new side"}


def test_the_lines_of_a_part_come_by_weight_whatever_their_sign() -> None:
    def lines(*values: int) -> Profile:
        rows = tuple(range(len(values)))
        table = InstructionTable(
            address=rows,
            text=("NOP",) * len(rows),
            file=(0,) * len(rows),
            line=tuple(row + 1 for row in rows),
            columns={"inst_executed": Column(rows=rows, values=values)},
        )
        launch = Launch(kernel="k", index=0, instructions=table)
        return Profile(
            engine="ncu",
            device=DEVICE,
            captured="",
            launches=(launch,),
            sources=(SourceFile(path="k.cu", text="a();\nb();\nc();\nd();\n"),),
        )

    (part,) = attribute(lines(5, 5, 5, 5), lines(6, 1, 14, 4))["inst_executed"].parts
    assert [(line.new, line.delta) for line in part.lines] == [(3, 9), (2, -4), (1, 1), (4, -1)]


def test_a_launch_that_was_only_listed_does_not_hide_the_chips_total() -> None:
    metrics = {"smsp__inst_executed.sum": Metric(value=7.0), "inst_executed": Metric(value=7.0)}
    one = _one(KERNEL)
    launch = Launch(kernel="k", index=0, metrics=metrics, instructions=one.launches[0].instructions)
    listed = Launch(kernel="other", index=1, profiled=False)
    both, alone = (
        Profile(engine="ncu", device=DEVICE, captured="", launches=held, sources=one.sources)
        for held in ((launch, listed), (launch,))
    )
    split = attribute(both, alone)["inst_executed"]
    assert (split.chip_old, split.chip_new) == (7, 7)


def test_another_instance_of_a_template_is_another_launch() -> None:
    def instance(name: str, value: int) -> Profile:
        profile = _one(KERNEL, value=value)
        launch = profile.launches[0]
        table = Launch(kernel=name, index=0, instructions=launch.instructions)
        return Profile(
            engine="ncu", device=DEVICE, captured="", launches=(table,), sources=profile.sources
        )

    result = attribute(instance("(anonymous namespace)::k<(int)16>", 7), instance("k<(int)32>", 9))
    assert parts_of(result, "inst_executed") == [["launch", 0, "", 2]]
    (match,) = result.launches
    assert match.changes == ("template arguments <(int)16> → <(int)32>",)


def test_old_names_of_ncu_meet_the_new_ones() -> None:
    result = attribute(
        _with_column("memory_l1_sectors_shared"), _with_column("memory_l1_wavefronts_shared")
    )
    assert result["memory_l1_wavefronts_shared"].delta == 0
    assert result["shared_wavefronts"].old == 7


def _with_column(name: str) -> Profile:
    profile = _one(KERNEL)
    table = profile.launches[0].instructions
    columns = {name: table.columns["inst_executed"]}
    instructions = InstructionTable(
        address=table.address, text=table.text, file=table.file, line=table.line, columns=columns
    )
    launch = Launch(kernel="k", index=0, instructions=instructions)
    return Profile(
        engine="ncu", device=DEVICE, captured="", launches=(launch,), sources=profile.sources
    )


def test_padding_of_a_shared_array(report: Callable[[str], Path]) -> None:
    ladder = read_report(report("ladder_full"))
    result = attribute(select_kernels(ladder, "sgemm_v2"), select_kernels(ladder, "sgemm_v3"))
    changed = [hunk for hunk in result.hunks if hunk.kind == "code"]
    assert [(h.old, h.new, h.symbols) for h in changed] == [((22, 22), (38, 38), ("As",))]
    assert parts_of(result, "memory_l1_wavefronts_shared") == [
        ["symbol", changed[0].id, "As", -32_505_856]
    ]
    assert {h.kind for h in result.hunks} == {"code", "comment"}


def test_swapped_row_and_column(report: Callable[[str], Path]) -> None:
    ladder = read_report(report("ladder_full"))
    result = attribute(select_kernels(ladder, "sgemm_v0"), select_kernels(ladder, "sgemm_v1"))
    (part,) = result["memory_l2_theoretical_sectors_global"].parts
    assert (part.link, part.symbols, part.shared) == ("symbol", ("col", "row"), True)
    assert (part.hunk, part.symbol, part.delta) == (1, None, -940_441_600)


@pytest.mark.parametrize("name", ["ladder_full", "rtx4090-ncu2023.1-transpose-source-no-rules"])
def test_any_two_kernels_of_one_report_add_up(name: str, report: Callable[[str], Path]) -> None:
    profile = read_report(report(name))
    kernels = [launch.kernel for launch in profile.launches]
    sides = {kernel: select_kernels(profile, kernel) for kernel in kernels}
    for a, b in permutations(kernels, 2):
        result = attribute(sides[a], sides[b])
        assert result.counters
        assert_adds_up(result)
        for split in result.counters:
            old, new = split.chip_old, split.chip_new
            if old is not None and new is not None and split.counter == "inst_executed":
                assert new - old == split.delta


def recorded_ladders(repo: Path) -> list[list[Profile]]:
    """The shipped profiles: those of one study, problem, device and engine together."""
    from workbench.store import Store

    store = Store(repo / "profiles")
    groups: dict[tuple[str, str, str, str], list[Path]] = {}
    for entry in store.find(device="h200"):
        key = (entry.study, entry.problem, entry.device, entry.engine)
        groups.setdefault(key, []).append(entry.path)
    assert ("sgemm", "n1024", "h200", "ncu") in groups  # else this would check nothing
    return [[store.load(path) for path in paths] for paths in groups.values()]


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(3, marks=pytest.mark.slow, id="every third"),
        pytest.param(1, marks=pytest.mark.long, id="all"),
    ],
)
def test_every_recorded_step_adds_up(repo: Path, step: int) -> None:
    for ladder in recorded_ladders(repo):
        for old, new in list(pairwise(ladder))[::step]:
            assert_adds_up(attribute(old, new))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(600, id="one of each ladder"),
        pytest.param(60, marks=pytest.mark.slow, id="every sixtieth"),
        pytest.param(1, marks=WHOLE, id="all"),
    ],
)
def test_every_recorded_pair_adds_up(repo: Path, step: int) -> None:
    for ladder in recorded_ladders(repo):
        for old, new in list(permutations(ladder, 2))[::step]:
            assert_adds_up(attribute(old, new))


@pytest.mark.parametrize("name", NAMES)
def test_hand_written_pair(name: str) -> None:
    old, new, expected = pair(name)
    result = attribute(old, new)
    hunks = [
        {
            "old": list(hunk.old),
            "new": list(hunk.new),
            "kind": hunk.kind,
            "old_file": hunk.old_file,
            "new_file": hunk.new_file,
        }
        for hunk in result.hunks
    ]
    main = old.sources[0].path
    for hunk in expected["hunks"]:
        hunk.setdefault("old_file", main)
        hunk.setdefault("new_file", main)
    assert hunks == expected["hunks"]
    for entry in expected["attribution"]:
        assert parts_of(result, entry["counter"]) == entry["parts"], entry["counter"]
    if "matches" in expected:
        matches = [{"old": m.old, "new": m.new, "how": m.how} for m in result.launches]
        assert matches == expected["matches"]
    assert_adds_up(result)
