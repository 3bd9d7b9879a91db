"""The hand-made labels: that their numbers are the profiles', and that they judge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from benchmarks.truth import public
from benchmarks.truth.__main__ import FIRST, TOP, judged, published, recorded, summary
from benchmarks.truth.judge import Verdict, judge
from benchmarks.truth.labels import Label, load_labels
from benchmarks.truth.shown import rows, shown
from workbench.analysis.story import Step
from workbench.counters import Reading, catalog, read
from workbench.model import Launch, Profile
from workbench.store import Store

ROOT = Path(__file__).parents[2]
LABELS = load_labels(ROOT / "tests/data/truth/steps.toml")
OWN = [label for label in LABELS if label.study != "pairs"]
#: Steps of the recordings that the emulator was measured on.
UNSEEN = load_labels(ROOT / "tests/data/truth/unseen.toml")
#: Pairs that are no neighbours on a ladder, of both.
APART = load_labels(ROOT / "tests/data/truth/apart.toml")
APART_UNSEEN = load_labels(ROOT / "tests/data/truth/apart_unseen.toml")
#: ncu rounds what it prints of a counter to six digits.
PRINTED = 1e-5
TENSOR = "tensor_utilization"


def label_of(pair: str) -> Label:
    return next(label for label in LABELS if label.pair == pair)


def store_of(label: Label) -> Store:
    return Store(
        ROOT / ("tests/data/unseen/profiles" if label in UNSEEN + APART_UNSEEN else "profiles")
    )


def profiles(label: Label) -> Iterator[Profile]:
    store = store_of(label)
    for version in label.sides:
        yield store.get(
            study=label.study, version=version, problem=label.problem, engine="ncu", device="h200"
        )


def candidates(profile: Profile, kernel: str, counter: str) -> list[float]:
    """What a label may mean: the value of the kernel named, or of the whole run."""

    def values(launches: list[Launch]) -> list[float]:
        readings = [read(launch, counter) for launch in launches]
        return [float(r.value) for r in readings if isinstance(r, Reading)]

    named = values([launch for launch in profile.launches if launch.kernel == kernel])
    return [*named, sum(values(list(profile.launches)))]


#: Labelled before what is said of them was seen, and after all thresholds were set: what is said
#: must not be false. How much of it names the edit is in docs/accuracy.md.
BLIND = {f"conv2d_half/v{number}..v{number + 1}" for number in range(12, 18)} | {
    f"sgemm/{step}"
    for step in ("v10..v11", "v11..v12", "v11..v13", "v9..v14", "v10..v15", "v13..v16")
}
BLIND |= {"conv2d/v11..v13", "conv2d/v13..v14", "conv2d/v14..v15", "conv2d_tile/v7..v9"}
BLIND |= {"conv2d_direct/v5..v7", "conv2d_direct/v7..v8", "scale_add/v2..v4"}
BLIND |= {"conv2d_tile/v7..v10", "conv2d_tile/v10..v11", "conv2d/v10..v16"}
BLIND |= {f"sgemm/{step}" for step in ("v8..v17", "v17..v18", "v18..v19", "v19..v22", "v9..v23")}

#: Labelled blind as well, and told worse at first: it must not get worse again.
BLIND_WORSE = {f"conv2d_int8/v{number}..v{number + 1}" for number in range(15, 22)} | {
    "conv2d_half/v18..v19",
    "conv2d_half/v19..v22",
}


def test_every_step_of_every_ladder_is_labelled_once() -> None:
    pairs = [label.pair for label in LABELS]
    assert len(set(pairs)) == len(pairs)
    versions = {(label.study, label.sides[1]) for label in OWN}
    entries = Store(ROOT / "profiles").find(engine="ncu", device="h200")
    recorded_versions = {(entry.study, entry.version) for entry in entries}
    steps = {(s, v) for s, v in recorded_versions if v.startswith("v") and v != "v0"}
    assert versions == steps


@pytest.mark.slow
@pytest.mark.parametrize(
    "label", [*OWN, *UNSEEN, *APART, *APART_UNSEEN], ids=lambda label: label.pair
)
def test_the_numbers_of_a_label_are_the_profiles(label: Label) -> None:
    for moved in label.counter:
        assert moved.id in catalog()
        kernels = (label.kernel_old, label.kernel_new)
        for profile, kernel, said in zip(
            profiles(label), kernels, (moved.old, moved.new), strict=True
        ):
            found = candidates(profile, kernel, moved.id)
            near = [value for value in found if abs(value - said) <= PRINTED * abs(value) + 5e-5]
            assert near or (not found and not said), f"{label.pair} {moved.id}: {said}, {found}"


def assert_documented(verdicts: list[Verdict]) -> None:
    """docs/accuracy.md has these sums as those of now."""
    told = ("top", "first", "limit", "contradictions")
    top, first, limit, false = (sum(bool(getattr(v, name)) for v in verdicts) for name in told)
    row = f"| now | {top} of {len(verdicts)} | {first} | {limit} | {false} |"
    missed = ", ".join(each.pair for each in verdicts if not each.top)
    page = (ROOT / "docs/accuracy.md").read_text(encoding="utf-8")
    assert row in page, f"docs/accuracy.md lacks {row}; not named first: {missed}"


def test_the_unseen_ladders_are_told_as_the_documentation_says() -> None:
    """Labelled blind; told blind, 34 were named first and 44 among the first three."""
    verdicts = list(judged(UNSEEN, store_of(UNSEEN[0]), None))
    assert_documented(verdicts)
    assert not [each.pair for each in verdicts if each.contradictions]
    assert not rows(each.shown for each in verdicts)


@pytest.mark.slow
def test_pairs_that_are_no_neighbours_are_told_as_the_documentation_says() -> None:
    """Labelled blind; told blind, 29 were named first, one contradicted its label."""
    verdicts = [
        each for some in (APART, APART_UNSEEN) for each in judged(some, store_of(some[0]), None)
    ]
    assert_documented(verdicts)
    assert not [each.pair for each in verdicts if each.contradictions]


def step_of(pair: str, problem: str = "") -> Step:
    label = label_of(pair)
    return recorded(
        structs.replace(label, problem=problem or label.problem), Store(ROOT / "profiles")
    )


@pytest.mark.parametrize("problem", ["n1024", "n4096"])
def test_half_of_the_products_is_told_of_the_unit_that_multiplies(problem: str) -> None:
    step = step_of("sgemm/v11..v13", problem)
    proof = step.story.cause.proofs[0]
    assert (proof.way, proof.counter.id, proof.counter.derived) == ("work", TENSOR, True)
    assert proof.counter.old and proof.counter.new
    assert proof.counter.new / proof.counter.old == pytest.approx(0.5, rel=0.01)
    assert "hared wavefronts" not in step.story.sentence
    assert not shown(problem, step).against


def test_registers_that_let_fewer_blocks_fit_are_not_told_as_the_blocks_size() -> None:
    step = step_of("sgemm/v7..v8", "n4096")
    assert [delta.id for delta in step.story.cause.room] == ["registers"]
    assert "registers per thread 127 → 235" in step.story.sentence
    # A grid that leaves SMs half empty fits twice as many blocks, and has as few.
    step = step_of("sgemm/v7..v8", "n1024")
    assert [delta.id for delta in step.story.cause.room] == ["threads_per_block"]
    assert "in a grid that does not fill the SMs (0.242 waves)" in step.story.sentence


def test_hunks_that_cancel_and_stalls_that_take_turns_are_told_as_such() -> None:
    story = step_of("conv2d_half/v2..v3").story
    place = story.cause.proofs[0].place
    assert (place.hunks, place.lost, place.gained) == ((9,), (5,), (2,))
    assert "hunk 2 gained the part that hunk 5 lost" in story.sentence
    assert re.search(r"less in short scoreboard stalls, .* more in MIO throttle", story.sentence)


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("conv2d_int8/v2..v3", r"linked to hunk 7 \(.*\); with BN 64 → 32 \(hunk 1\) there are 2×"),
        ("conv2d_tile/v7..v8", r"; with KT 6 → 2 and TR 2 → 3 \(hunk 20\) there are 1.99× as many"),
        ("conv2d/v11..v13", r"hunk 3 \(lines 87–134\), in functions that hunk 7 \(.*\) calls\."),
    ],
)
def test_who_decides_how_often_the_lines_of_a_count_run_is_told(pair: str, words: str) -> None:
    step = step_of(pair)
    assert re.search(words, step.story.sentence)
    assert judge(label_of(pair), step).top


def test_half_a_percent_that_two_measures_agree_on_is_told_where_a_pipe_was_held_up() -> None:
    step = step_of("sgemm/v8..v17")
    assert "rose by an estimated 79.4 µs, 89% of it linked to hunks 7 and 10" in step.story.sentence
    assert "With the same work, the FMA pipe was busy 66.4%" in step.story.sentence
    assert judge(label_of("sgemm/v8..v17"), step).top
    # L2 sectors, which fell by 44%, explain half a percent as well, and were not its cause.
    assert not step_of("conv2d_int8/v1..v2").story.cause.proofs


def test_loads_that_are_issued_first_are_told_before_the_occupancy_that_hides_as_much() -> None:
    step = step_of("conv2d_direct/v3..v5")
    first, second = step.story.cause.proofs[:2]
    assert (first.counter.id, first.place.link) == ("long_scoreboard", "hunk")
    assert first.beside is not None and first.beside.id == "dram_throughput"
    assert second.counter.id == "achieved_occupancy"
    assert "With the same bytes, device memory was busy" in step.story.sentence
    assert "Achieved occupancy rose" in step.story.sentence


@pytest.mark.slow
def test_the_ladders_are_told_as_the_labels_have_it() -> None:
    verdicts = list(judged(tuple(OWN), Store(ROOT / "profiles"), None))
    words, reached = summary([each for each in verdicts if each.pair not in BLIND | BLIND_WORSE])
    assert reached, f"{words} (goals {TOP:.0%}, {FIRST:.0%})"
    assert_documented(verdicts)
    assert not rows(each.shown for each in verdicts)
    blind = [each for each in verdicts if each.pair in BLIND]
    assert len(blind) == len(BLIND)
    assert all(each.limit and not each.contradictions for each in blind)
    worse = [each for each in verdicts if each.pair in BLIND_WORSE]
    assert len(worse) == len(BLIND_WORSE)
    assert sum(each.top for each in worse) >= 7 and sum(each.limit for each in worse) >= 8
    assert not any(each.contradictions for each in worse)


def test_public_labels_and_manifest_agree_and_absent_reports_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = public.load_public(ROOT / public.LABELS)
    rows = public.load_sides(ROOT / public.MANIFEST)
    sides = {(f"public/{side.pair}", side.side) for side in rows}
    assert len(sides) == len(rows) == 2 * len(labels) == 380
    assert sides == {(label.pair, side) for label in labels for side in ("before", "after")}
    assert all(len(bytes.fromhex(side.sha256)) == 32 and side.bytes > 0 for side in rows)
    monkeypatch.chdir(ROOT)
    table, words, reached = published(tmp_path)
    assert (table, reached) == ("", True) and words.startswith(f"skipped: {tmp_path} holds none")
