"""A launch that is repeated over the same memory gives what running it again would give."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench.programs.standin.memo import Memo, Region

SIZE, REGIONS = 64, 3
#: What may happen to memory: a launch, by its number, or a call of the host.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("launch"), st.integers(0, 2), st.integers(0, 2)),
        st.tuples(st.just("host"), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("shared"), st.just(2), st.integers(0, 3)),
    ),
    max_size=40,
)


def apply(data: np.ndarray, launch: int, to: int) -> None:
    """A kernel: it reads a region, and writes another one."""
    of = data[launch * SIZE : (launch + 1) * SIZE]
    data[to * SIZE : (to + 1) * SIZE] = (of + launch + 1) % 5


def test_memory_that_is_allocated_anew_counts_as_written_after_a_repeated_launch() -> None:
    data, written = np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint8)
    memo: Memo[str] = Memo(data, written)
    for _ in range(5):
        memo.regions[0] = Region(0, SIZE)  # freed and allocated again: the content is still there
        written[:] = 0
        key = memo.key("launch")
        if key is None or memo.again(key) is None:
            data[:], written[:] = 7, 1
            memo.ran("launch", key, 1.0, "told")
        assert written.all()


@given(STEPS)
def test_what_is_remembered_is_what_running_gives(steps: list[tuple[str, int, int]]) -> None:
    data, twin = (np.zeros(SIZE * REGIONS, np.uint8) for _ in range(2))
    memo: Memo[str] = Memo(data, None)
    for place in range(REGIONS):
        memo.regions[place * SIZE] = Region(place * SIZE, SIZE, shared=place == 2)
    for kind, one, two in steps:
        if kind == "launch":
            apply(twin, one, two)
            key = memo.key((one, two))
            if key is None or memo.again(key) is None:
                apply(data, one, two)
                memo.ran((one, two), key, 1.0, "told")
        else:  # the host writes: by a call, or at any time into memory that it shares
            for each in (data, twin):
                each[one * SIZE : (one + 1) * SIZE] = two
            if kind == "host":
                memo.touched(one * SIZE, SIZE)
        assert (data == twin).all()


def test_the_third_of_equal_launches_is_remembered() -> None:
    memo: Memo[str] = Memo(np.zeros(SIZE, np.uint8), None)
    memo.regions[0] = Region(0, SIZE)
    for expected in (None, None, "told"):
        key = memo.key("launch")
        found = memo.again(key) if key is not None else None
        assert found == expected
        if found is None:
            memo.ran("launch", key, 1.0, "told")


def test_what_is_cheaper_than_a_look_at_memory_is_run_again() -> None:
    memo: Memo[str] = Memo(np.zeros(SIZE, np.uint8), None)
    memo.regions[0] = Region(0, SIZE)
    memo.ran("launch", None, 0.0, "told")
    assert memo.key("launch") is None


def test_what_the_host_changed_while_a_launch_ran_is_not_remembered() -> None:
    """By a copy, of which the memo is told, or by a write to memory that it shares."""
    for shared in (False, True):
        data = np.zeros(SIZE, np.uint8)
        memo: Memo[str] = Memo(data, None)
        memo.regions[0] = Region(0, SIZE, shared=shared)
        for _ in range(6):
            data[:] = 0
            memo.touched(0, SIZE)
            key = memo.key("launch")
            assert key is None or memo.again(key) is None
            data[:] = 7
            memo.ran("launch", key, 1.0, "told")
            if not shared:
                memo.forget()
