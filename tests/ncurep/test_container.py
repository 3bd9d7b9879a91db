"""Telling a whole report from a damaged one, and what its frame says."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ncurep.report_builder import (
    OPENING,
    SESSION,
    block,
    data,
    number,
    result,
    sized,
    source,
    whole,
)
from tests.ncurep.report_builder import report as assemble
from workbench.engines.ncu.report import scrub
from workbench.errors import DataError
from workbench.ncurep import container as c
from workbench.ncurep import wire
from workbench.ncurep.container import parse, read_container

NAME = Path("x.ncu-rep")
WHOLE = whole("second", "third")
REFERENCES = [
    "ladder_focus",
    "ladder_full",
    "a10g-ncu2023.1-nan-action",
    "gh200-ncu2025.2-no-instruction-metrics",
    "gtx1660s-ncu2021.1-unprofiled-action",
    "rtx4090-ncu2023.1-transpose-source-no-rules",
    "v100-ncu2022.2-source-rules",
]


def told(raw: bytes) -> str:
    """How a cut is told: as an error, as "no kernel", as a doubt, or not at all."""
    try:
        container = parse(raw, NAME)
    except DataError:
        return "error"
    if not container.results:
        return "no kernel"
    return "doubt" if container.doubts else "silent"


def test_frame_of_a_whole_report() -> None:
    container = parse(assemble(*WHOLE), NAME)
    assert container.results == 3
    assert container.session.ncu_version == "2025.3.1.0"
    assert container.session.tools["CUDA Version"] == "13.0"
    assert container.session.command == "/opt/ncu/ncu -o x ./app"
    assert container.session.processes == ["/usr/bin/app"]
    assert container.session.created == 1_763_683_200
    assert container.doubts == []
    assert container.blocks[-1][1] == container.size


def test_a_cut_at_any_byte_inside_a_block_is_an_error_that_names_both_sizes() -> None:
    raw = assemble(*WHOLE)
    ends = {len(assemble())} | {end for _, end in parse(raw, NAME).blocks}
    for size in set(range(len(raw))) - ends:
        with pytest.raises(DataError) as caught:
            parse(raw[:size], NAME)
        if size >= 4:
            assert f"cut short: {size:,} bytes found, at least" in caught.value.message


@pytest.mark.parametrize(
    ("blocks", "how"),
    [
        (0, "no kernel"),
        (1, "no kernel"),
        (2, "no kernel"),
        (3, "error"),  # a first result and no session record
        (4, "error"),
        (5, "error"),
        (6, "error"),  # all tools, but not the machine
        (7, "doubt"),  # no command line
        (8, "silent"),  # the very bytes of a report of one kernel
        (9, "doubt"),  # a source that no result follows
        (10, "silent"),  # the bytes of a report whose last kernel was filtered out
        (11, "silent"),  # whole
    ],
)
def test_a_cut_between_blocks(blocks: int, how: str) -> None:
    assert told(assemble(*WHOLE[:blocks])) == how


def test_what_most_whole_reports_show_is_no_doubt() -> None:
    # A program may launch less than it was allowed, and load what it never launches.
    assert parse(assemble(*whole(options="--launch-count 3")), NAME).doubts == []
    first = [OPENING, block(sources=(source("first", "helper"),)), *whole()[2:]]
    assert parse(assemble(*first), NAME).doubts == []
    later = [*whole(), block(sources=(source("second", "third"),), results=(result("third"),))]
    assert parse(assemble(*later), NAME).doubts == []


def test_kernels_that_were_built_for_debugging() -> None:
    marked = source("second", "helper") + data(4, c.DEBUG_SECTION)
    blocks = [*whole(), block(sources=(marked,)), block(results=(result("second"),))]
    assert parse(assemble(*blocks), NAME).debug == ["second"]
    assert parse(assemble(*WHOLE), NAME).debug == []


def test_old_reports_have_no_command_line() -> None:
    old = [b.replace(b"2025.3.1.0", b"2021.1.0.0") for b in SESSION]
    blocks = [OPENING, block(results=(result("first"),)), *old]
    assert parse(assemble(*blocks), NAME).doubts == []


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "empty"),
        (b"NV", "cut short"),
        (b"NVR\0", "cut short"),
        (b"hello world, no report", "not an Nsight Compute report"),
        (b'"ID","Kernel Name","Section Name","Metric Name"\n', "printed as text"),
        (b"[1] a@127.0.0.1\n  k (1, 1, 1)\n    Section: Occupancy\n", "printed as text"),
        (assemble(OPENING)[4:], "not an Nsight Compute report"),
        (assemble(b"\x03\0\0\0\x00\x01\x02"), "damaged: field number 0"),
    ],
)
def test_what_is_no_report(raw: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        parse(raw, NAME)
    assert "x.ncu-rep" in caught.value.message
    assert caught.value.hint


def test_a_block_that_contradicts_its_size_is_damage() -> None:
    raw = bytearray(assemble(OPENING, block(results=(result("first"),))))
    raw[-len(result("first")) - 4] += 1  # the entry's size word
    with pytest.raises(DataError, match=r"damaged|cut short"):
        parse(bytes(raw), NAME)


def test_an_entry_that_reaches_into_the_next_block_is_damage() -> None:
    first = bytearray(block(results=(result("first"),)))
    first[-len(result("first")) - 4] += 1
    with pytest.raises(DataError, match=r"block 1 at byte .* does not fit"):
        parse(assemble(OPENING, bytes(first), *SESSION), NAME)


def test_a_source_and_its_result_may_share_the_last_block() -> None:
    last = block(sources=(source("second"),), results=(result("second"),))
    container = parse(assemble(*whole(), last), NAME)
    assert (container.results, container.doubts) == (2, [])


def test_a_report_was_created_when_its_first_session_was() -> None:
    later = block(number(c.SESSION_CREATED, 1_999_999_999))
    assert parse(assemble(*whole(), later), NAME).session.created == 1_763_683_200


def test_entries_of_unknown_kinds_behind_the_results_are_passed_over() -> None:
    first = block(results=(result("first"),))
    size = c.SIZE.unpack(first[:4])[0]
    fields = list(wire.fields(first[4 : 4 + size]))
    extra = sized(b"something new")
    header = b"".join(
        number(key, value + len(extra) if key == c.PAYLOAD_SIZE else value)
        for key, value in fields
        if isinstance(value, int)
    )
    blocks = whole()
    blocks[2] = sized(header) + first[4 + size :] + extra
    container = parse(assemble(*blocks), NAME)
    assert (container.results, container.doubts) == (1, [])
    raw = assemble(*blocks, blocks[2])
    for missing in range(1, len(extra)):
        with pytest.raises(DataError, match="bytes found, at least"):
            parse(raw[:-missing], NAME)


def test_a_folder_and_an_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="folder"):
        read_container(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        read_container(tmp_path / "none.ncu-rep")


@given(st.data())
@settings(max_examples=150)
def test_flipped_bytes_give_a_container_or_a_data_error(data: st.DataObject) -> None:
    raw = bytearray(assemble(*WHOLE))
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        assert parse(bytes(raw), NAME).results >= 0
    except DataError as error:
        assert error.hint


@pytest.mark.parametrize("name", REFERENCES)
def test_real_reports_are_whole_and_every_cut_is_told(
    report: Callable[[str], Path], name: str
) -> None:
    path = report(name)
    raw = path.read_bytes()
    container = parse(raw, path)
    assert container.results
    assert container.session.ncu_version.startswith("20")
    inside = random.Random(7)
    ends = {end for _, end in container.blocks}
    for size in [inside.randrange(len(raw)) for _ in range(150)]:
        if size not in ends:
            assert told(raw[:size]) in ("error", "no kernel") or size == 10
    how = [told(raw[:start]) for start, _ in container.blocks]
    # Behind the session records the bytes can be those of a report with fewer kernels.
    session = how.count("no kernel") + how.count("error")
    assert "silent" not in how[:session]
    assert (container.doubts, container.debug) == ([], [])


def test_scrub_takes_the_machine_out_and_nothing_else() -> None:
    raw = assemble(*WHOLE)
    clean = scrub(raw, NAME)
    assert b"secret-host" in raw
    assert b"10.1.2.3" in raw
    assert b"secret-host" not in clean
    assert b"10.1.2.3" not in clean
    before, after = parse(raw, NAME), parse(clean, NAME)
    assert (before.session.tools, before.session.command, before.results) == (
        after.session.tools,
        after.session.command,
        after.results,
    )
    assert scrub(clean, NAME) == clean


def test_scrubbed_bytes_of_a_real_report_read_the_same(report: Callable[[str], Path]) -> None:
    path = report("a10g-ncu2023.1-nan-action")
    raw = path.read_bytes()
    clean = scrub(raw, path)
    assert b"compute.internal" in raw
    assert b"compute.internal" not in clean
    assert parse(clean, path).results == parse(raw, path).results


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (sized(b"\x08\x01" * (wire.MOST + 1)), "a message of more than"),
        (bytes(4 * (wire.MOST + 2)), "more than .* blocks"),
        (sized(number(c.NUM_RESULTS, 1 << 40)), "announces 1,099,511,627,776 entries"),
    ],
)
def test_more_parts_than_any_report_has_are_damage(raw: bytes, why: str) -> None:
    """Two bytes of a field take a hundred in memory: a whole file of them, gigabytes."""
    with pytest.raises(DataError, match=why):
        parse(assemble() + raw, Path("x.ncu-rep"))


def test_a_report_is_not_looked_through_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c, "_TIMEOUT_S", 1e-9)
    report = assemble(*whole("second"))
    with pytest.raises(DataError, match="not checked within") as caught:
        parse(report, Path("x.ncu-rep"))
    assert "WORKBENCH_LIMIT_S=N" in caught.value.hint
    monkeypatch.setenv("WORKBENCH_LIMIT_S", "60")
    assert parse(report, Path("x.ncu-rep")).results == 2
