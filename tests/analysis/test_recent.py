"""What was found of a record is remembered, and no longer than it is of use."""

from __future__ import annotations

import gc
import weakref

from tests.factories import make_launch
from workbench.analysis.aggregate import Recent
from workbench.model import Launch


class Counting:
    """A function of a launch that counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, launch: Launch) -> str:
        self.asked += 1
        return f"{launch.kernel} {self.asked}"


def test_a_result_lives_as_long_as_its_record() -> None:
    count = Counting()
    found = Recent(count)
    launches = [make_launch(kernel=name) for name in "abc"]
    assert [found(each) for each in launches] == ["a 1", "b 2", "c 3"]
    assert [found(each) for each in launches] == ["a 1", "b 2", "c 3"]
    gone = weakref.ref(launches.pop())
    gc.collect()
    assert gone() is None
    assert len(found._known) == 2
    # Equal by value, and another record all the same.
    assert found(make_launch(kernel="a")) == "a 4"


def test_large_results_are_kept_of_the_last_records_alone() -> None:
    count = Counting()
    found = Recent(count, most=2)
    launches = [make_launch(kernel=name) for name in "abc"]
    held = [weakref.ref(each) for each in launches]
    for each in launches:
        found(each)
    assert found(launches[2]) == "c 3" and found(launches[1]) == "b 2"
    assert found(launches[0]) == "a 4"
    launches.clear()
    del each
    gc.collect()
    assert [one() is None for one in held] == [False, True, False]
    found.forget()
    gc.collect()
    assert [one() is None for one in held] == [True, True, True]
