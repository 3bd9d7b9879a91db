"""Records as bytes: exact round trips, and damage that is always named."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.factories import make_instructions, make_launch, make_profile, make_timing
from tests.told import english
from workbench.disk.limits import ByteLimit
from workbench.errors import DataError, MissingError
from workbench.model import (
    SCHEMA_VERSION,
    ByTiming,
    Column,
    Estimate,
    InstructionTable,
    Launch,
    Metric,
    Notice,
    Profile,
    Rule,
    RuleFocus,
    SourceFile,
    Timing,
)
from workbench.store import codec as packed
from workbench.store.codec import contradiction, decode, decode_totals, encode, pack, unpack

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(-1e30, 1e30))
names = st.dictionaries(text, st.builds(Metric, value=numbers | text, unit=text), max_size=5)


@st.composite
def tables(draw: st.DrawFn) -> InstructionTable:
    n = draw(st.integers(0, 6))

    def column(strategy: st.SearchStrategy[Any]) -> tuple[Any, ...]:
        return tuple(draw(st.lists(strategy, min_size=n, max_size=n)))

    columns = {}
    for name in draw(st.lists(text, max_size=3, unique=True)):
        rows = draw(st.lists(st.integers(0, n - 1), unique=True)) if n else []
        values = draw(st.lists(numbers, min_size=len(rows), max_size=len(rows)))
        columns[name] = Column(rows=tuple(rows), values=tuple(values), unit=draw(text))
    return InstructionTable(
        address=column(st.integers(0, 2**40)),
        text=column(text),
        file=column(st.just(-1)),
        line=column(st.integers(0, 10**6)),
        ptx=column(text) if draw(st.booleans()) else (),
        columns=columns,
    )


rules = st.builds(
    Rule,
    id=text,
    section=text,
    name=text,
    kind=st.sampled_from(["ok", "note", "optimization", "warning", "error"]),
    message=text,
    speedup=st.none() | st.floats(0, 100),
    focus=st.builds(
        RuleFocus, metric=text, value=st.floats(allow_nan=False, allow_infinity=False)
    ).map(lambda f: (f,)),
)
launches = st.builds(
    Launch,
    kernel=text,
    index=st.integers(0, 99),
    signature=text,
    grid=st.tuples(*[st.integers(0, 2**31)] * 3),
    metrics=names,
    absent=st.dictionaries(text, text, max_size=3),
    instructions=tables(),
    rules=st.lists(rules, max_size=2).map(tuple),
    nvtx=st.lists(text, max_size=2).map(tuple),
    profiled=st.booleans(),
)
profiles = st.builds(
    make_profile,
    captured=text,
    launches=st.lists(launches, max_size=3).map(tuple),
    parameters=st.dictionaries(text, st.integers(-(2**63), 2**63 - 1), max_size=3),
    tools=st.dictionaries(text, text, max_size=3),
    sources=st.lists(st.builds(SourceFile, path=text, text=st.none() | text), max_size=2).map(
        tuple
    ),
    notices=st.lists(st.builds(Notice, code=text, message=text), max_size=2).map(tuple),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "n1024.ncu.json.zst"


@given(profiles)
# A busy machine must not fail the test: building the records is what takes the time.
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_a_profile_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, profile: Profile
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.json.zst"
    path.write_bytes(encode(profile, path))
    assert decode(path, Profile) == profile


def without_details(profile: Profile) -> Profile:
    parts = {"instructions": InstructionTable(), "timeline": None, "rules": ()}
    launches = tuple(msgspec.structs.replace(each, **parts) for each in profile.launches)
    passed = {"sources": (), "build": None, "verification": None, "notices": ()}
    return msgspec.structs.replace(profile, launches=launches, **passed)


@given(profiles)
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_totals_are_the_profile_without_its_details(
    tmp_path_factory: pytest.TempPathFactory, profile: Profile
) -> None:
    path = tmp_path_factory.getbasetemp() / "totals.json.zst"
    path.write_bytes(encode(profile, path))
    assert decode_totals(path) == without_details(profile)


@given(profiles, st.frozensets(text, max_size=3))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_totals_of_some_metrics_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, profile: Profile, others: frozenset[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "some.json.zst"
    path.write_bytes(encode(profile, path))
    held = sorted({name for launch in profile.launches for name in launch.metrics})
    wanted = others | frozenset(held[::2])
    assert only(decode_totals(path, metrics=wanted), wanted) == only(
        without_details(profile), wanted
    )


def only(profile: Profile, wanted: frozenset[str]) -> Profile:
    launches = tuple(
        msgspec.structs.replace(
            each, metrics={name: x for name, x in each.metrics.items() if name in wanted}
        )
        for each in profile.launches
    )
    return msgspec.structs.replace(profile, launches=launches)


def test_metrics_that_are_not_wanted_are_not_decoded(path: Path) -> None:
    path.write_bytes(encode(make_profile(), path))
    name = "gpu__time_duration.sum"
    assert list(decode_totals(path, metrics=frozenset({name})).launches[0].metrics) == [name]
    assert not decode_totals(path, metrics=frozenset({"none"})).launches[0].metrics


def test_totals_know_what_is_damaged_foreign_or_newer(path: Path) -> None:
    whole = encode(make_profile(), path)
    launch = make_launch(metrics={"x": Metric(value=1e300)})
    plain = unpack(whole)
    for data in (
        whole[:-9],
        b"no frame",
        encode(make_timing(), path),
        pack(plain.replace(b'"captured"', b'"captures"')),
        pack(plain.replace(b'"schema_version":', b'"schema_version":9')),
        pack(plain[:-2]),
        pack(plain.replace(msgspec.json.encode(make_launch()), msgspec.json.encode(launch))),
    ):
        path.write_bytes(data)
        with pytest.raises(DataError) as full:
            decode(path, Profile)
        with pytest.raises(DataError) as totals:
            decode_totals(path)
        assert totals.value.message == full.value.message
    path.unlink()
    with pytest.raises(MissingError):
        decode_totals(path)


def test_integers_stay_integers_and_floats_floats(path: Path) -> None:
    metrics = {"i": Metric(value=2**60 + 1), "f": Metric(value=3.0)}
    path.write_bytes(encode(make_profile(launches=(make_launch(metrics=metrics),)), path))
    back = decode(path, Profile).launches[0].metrics
    assert back["i"].value == 2**60 + 1
    assert isinstance(back["f"].value, float)


def test_a_timing_comes_back_and_is_no_profile(path: Path) -> None:
    path.write_bytes(encode(make_timing(), path))
    assert decode(path, Timing) == make_timing()
    with pytest.raises(DataError, match="holds a 'workbench-timing'"):
        decode(path, Profile)


def test_a_cut_at_any_byte_is_damage(path: Path) -> None:
    data = encode(make_profile(), path)
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(DataError, match="is damaged") as caught:
            decode(path, Profile)
        assert str(path) in caught.value.message
        assert "record it again" in caught.value.hint
        # What is in parentheses are the library's own words.
        own = re.sub(r"\(.*\)", "(x)", caught.value.message)
        assert not english(DataError(own, caught.value.hint))


def test_a_flipped_bit_never_gives_another_profile(path: Path) -> None:
    profile = make_profile()
    data = encode(profile, path)
    damaged = 0
    for bit in random.Random(3).sample(range(8 * len(data)), 400):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            # A few bits say nothing (reserved ones, padding of a bit stream).
            assert decode(path, Profile) == profile
        except DataError:
            damaged += 1
    assert damaged > 380


def test_bytes_behind_the_frame_are_damage(path: Path) -> None:
    path.write_bytes(encode(make_profile(), path) + b"x")
    with pytest.raises(DataError, match="other bytes follow"):
        decode(path, Profile)


def test_a_frame_that_announces_too_much_is_not_unpacked() -> None:
    with pytest.raises(DataError, match="announces"):
        unpack(pack(b"x" * 1000), limit=ByteLimit("ten bytes", 10))


def test_a_frame_without_a_size_is_read_up_to_the_limit() -> None:
    stream = zstandard.ZstdCompressor().compressobj(size=-1)
    data = stream.compress(b"\0" * 100_000) + stream.flush()
    assert unpack(data) == b"\0" * 100_000
    with pytest.raises(DataError, match="the limit for a thousand"):
        unpack(data, limit=ByteLimit("a thousand", 1000))
    with pytest.raises(ValueError, match="cut short"):
        unpack(data[:-1])


@pytest.mark.parametrize("plain", [b"", b"[]", b"null", b'{"format": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_envelope_is_damage(path: Path, plain: bytes) -> None:
    path.write_bytes(pack(plain))
    with pytest.raises(DataError, match="is damaged"):
        decode(path, Profile)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("launches", {}),
        ("launches", [{"kernel": "k"}]),
        ("device", None),
        ("engine", "magic"),
        ("captured", 7),
        ("tools", [1]),
    ],
)
def test_json_of_the_wrong_shape_is_damage(path: Path, field: str, value: object) -> None:
    record = json.loads(msgspec.json.encode(make_profile())) | {field: value}
    write(path, record, SCHEMA_VERSION)
    with pytest.raises(DataError, match="is damaged"):
        decode(path, Profile)


def write(path: Path, record: object, version: int) -> None:
    envelope = {"format": "workbench-profile", "schema_version": version, "record": record}
    path.write_bytes(pack(json.dumps(envelope).encode()))


TABLE = InstructionTable(address=(0, 16), text=("A", "B"), file=(0, -1), line=(1, 0))
BAD_TABLES = {
    "columns differ in length": msgspec.structs.replace(TABLE, text=("A",)),
    "PTX for 1 of 2": msgspec.structs.replace(TABLE, ptx=("x",)),
    "source file that is not there": msgspec.structs.replace(TABLE, file=(9, 0)),
    "has 1 rows and 2 values": msgspec.structs.replace(
        TABLE, columns={"m": Column(rows=(0,), values=(1, 2))}
    ),
    "the table does not have": msgspec.structs.replace(
        TABLE, columns={"m": Column(rows=(2,), values=(1,))}
    ),
}


def test_a_time_of_nothing_is_damage(path: Path) -> None:
    with pytest.raises(DataError, match=r"0\.0 is not a time"):
        encode(msgspec.structs.replace(make_timing(), time=Estimate(0.0, 0.0, 0.0)), path)


@pytest.mark.parametrize("why", BAD_TABLES)
def test_a_table_that_contradicts_itself_is_neither_read_nor_written(path: Path, why: str) -> None:
    profile = make_profile(launches=(make_launch(instructions=BAD_TABLES[why]),))
    assert why in contradiction(profile)
    with pytest.raises(DataError, match="cannot keep"):
        encode(profile, path)
    write(path, json.loads(msgspec.json.encode(profile)), SCHEMA_VERSION)
    with pytest.raises(DataError, match=why):
        decode(path, Profile)


@pytest.mark.parametrize(
    ("marked", "why"),
    [
        (ByTiming(rows=(0, 5)), "depend on timing that the table does not have"),
        (ByTiming(rows=(-1,)), "depend on timing that the table does not have"),
        (ByTiming(rows=(0,), without={"m": 1e300}), "impossible values"),
    ],
)
def test_marks_of_what_is_not_there_are_neither_read_nor_written(
    path: Path, marked: ByTiming, why: str
) -> None:
    launch = make_launch(instructions=make_instructions())
    profile = make_profile(launches=(msgspec.structs.replace(launch, by_timing=marked),))
    with pytest.raises(DataError, match=why):
        encode(profile, path)
    write(path, json.loads(msgspec.json.encode(profile)), SCHEMA_VERSION)
    with pytest.raises(DataError, match=why):
        decode(path, Profile)


def test_what_depends_on_timing_is_kept_and_passed_over_where_totals_are_wanted(path: Path) -> None:
    marked = ByTiming(rows=(1, 3), without={"memory_l1_wavefronts_shared": 7, "gone": None})
    launch = msgspec.structs.replace(make_launch(), by_timing=marked)
    profile = make_profile(launches=(launch,))
    path.write_bytes(encode(profile, path))
    assert decode(path, Profile).launches[0].by_timing == marked
    assert decode_totals(path).launches[0].by_timing is None


def test_nan_is_refused_before_anything_is_written(path: Path) -> None:
    profile = make_profile(launches=(make_launch(metrics={"m": Metric(value=float("nan"))}),))
    with pytest.raises(DataError, match="cannot keep"):
        encode(profile, path)


def test_a_newer_schema_says_so(path: Path) -> None:
    write(path, {"anything": "else"}, SCHEMA_VERSION + 1)
    with pytest.raises(DataError, match="newer workbench") as caught:
        decode(path, Profile)
    assert "pull its repository" in caught.value.hint


def test_an_older_schema_is_migrated_step_by_step(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schemas 0 and -1 never existed; their shapes stand for what may come."""

    def rename(record: dict[str, Any]) -> dict[str, Any]:
        record["launches"] = record.pop("kernels")
        return record

    def wrap_device(record: dict[str, Any]) -> dict[str, Any]:
        record["device"] = {"name": record["device"], "slug": "h200"}
        return record

    monkeypatch.setitem(packed.MIGRATIONS, -1, rename)
    monkeypatch.setitem(packed.MIGRATIONS, 0, wrap_device)
    old = {
        "engine": "ncu",
        "device": "NVIDIA H200",
        "captured": "2020-01-01T00:00:00Z",
        "kernels": [{"kernel": "k", "index": 0}],
    }
    write(path, old, -1)
    profile = decode(path, Profile)
    assert profile.launches == (Launch(kernel="k", index=0),)
    assert profile.device.name == "NVIDIA H200"
    assert profile.schema_version == SCHEMA_VERSION


def test_a_schema_without_a_migration_and_a_damaged_old_record(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, {}, -7)
    with pytest.raises(DataError, match="schema -7 is unknown"):
        decode(path, Profile)
    monkeypatch.setitem(packed.MIGRATIONS, 0, lambda record: {"x": record["gone"]})
    write(path, {}, 0)
    with pytest.raises(DataError, match="is damaged"):
        decode(path, Profile)


def test_an_unknown_schema_is_refused_before_its_record_is_decoded(path: Path) -> None:
    """A list of nothing takes 64 bytes for three: gigabytes for a file of some kilobytes."""
    plain = b'{"format":"workbench-profile","schema_version":0,"record":[%s[]]}' % (
        b"[]," * 4_000_000
    )
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(plain))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="schema 0 is unknown"):
            decode(path, Profile)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(plain)
    finally:
        tracemalloc.stop()


def test_what_could_not_be_read_back_is_not_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "RECORD", ByteLimit("a record", 100))
    with pytest.raises(DataError, match="the limit for a record"):
        encode(make_profile(), path)


def test_the_schema_is_written_even_though_it_is_a_default(path: Path) -> None:
    envelope = json.loads(unpack(encode(make_profile(), path)))
    assert envelope["schema_version"] == SCHEMA_VERSION
    assert envelope["format"] == "workbench-profile"


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="cannot read"):
        decode(tmp_path / "none.json.zst", Profile)
    with pytest.raises(DataError, match="is a folder, not a file"):
        decode(tmp_path, Profile)


@pytest.mark.parametrize("value", [1e308, -1e31, 1e-320])
def test_a_number_that_nothing_counts_to_is_damage(tmp_path: Path, value: float) -> None:
    """Its square or its sum would overflow somewhere far from the file; a tiny one is a number."""
    profile = make_profile()
    launch = profile.launches[0]
    odd = msgspec.structs.replace(launch, metrics={**launch.metrics, "odd": Metric(value=value)})
    profile = msgspec.structs.replace(profile, launches=(odd,))
    if abs(value) < 1:
        assert encode(profile, tmp_path / "x")
        return
    with pytest.raises(DataError, match=r"odd is .*, impossible for a counter"):
        encode(profile, tmp_path / "x")
