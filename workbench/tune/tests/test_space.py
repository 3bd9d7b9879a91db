"""A space and its searches: which choices there are, what each makes, what is proposed next."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.study_maker import VERSION, Maker
from workbench.errors import MissingError, UsageError
from workbench.ladder.tunings import Values, key_of
from workbench.study.launches import resolve_launches
from workbench.tune.search import Everything, Sampled
from workbench.tune.space import Space

TABLE = """[tune]
TILE = [16, 32, 64, 128]
UNROLL = [1, 2, 4, 8]
WORD = ["float", "int"]
requires = "TILE * UNROLL <= 256 and block_x * block_y <= 1024 and TILE < N"
"""


def space(folder: Path, table: str = TABLE) -> Space:
    maker = Maker(folder)
    text = VERSION.replace("[[expect]]", f"{table}[[expect]]").replace("y[0] =", "UNROLL WORD")
    maker.write("v0.cu", text)
    study = maker.load()
    return Space(study, study.version("v0"), study.problem("n1000"))


def test_the_space_holds_what_its_rule_allows(tmp_path: Path) -> None:
    found = space(tmp_path)
    every = list(found.every())
    assert found.size == 32
    assert every == [each for each in every if int(each["TILE"]) * int(each["UNROLL"]) <= 256]
    assert len(every) == 26 and found.default in every
    assert found.default == {"TILE": 64, "UNROLL": 1, "WORD": "float"}


def test_a_choice_makes_a_version_of_its_own(tmp_path: Path) -> None:
    found = space(tmp_path)
    version = found.candidate({"TILE": 32, "UNROLL": 4, "WORD": "int"})
    assert version.id == "v0@32-4-int"
    assert version.defines == {"TILE": "32", "UNROLL": "4", "WORD": "int"}
    (launch,) = resolve_launches(found._study, version, found.problem)
    assert launch.block == (32, 2, 1)


def test_a_long_choice_is_named_by_its_checksum(tmp_path: Path) -> None:
    words = ", ".join(f'"{letter * 70}"' for letter in "ab")
    found = space(tmp_path, f"[tune]\nWORD = [{words}]\n")
    names = {found.candidate(values).id for values in found.every()}
    assert len(names) == 2 and all(len(name) < 20 for name in names)


def test_a_version_without_a_space_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"v0 has no \[tune\]") as caught:
        space(tmp_path, "")
    assert "TILE = [16, 32, 64]" in caught.value.hint


def test_everything_comes_once(tmp_path: Path) -> None:
    every = list(space(tmp_path).every())
    search = Everything(every)
    assert search.ask(20) + search.ask(20) == every and search.ask(1) == []


def test_a_sampler_proposes_each_once_and_only_what_the_space_holds(tmp_path: Path) -> None:
    found = space(tmp_path)
    search = Sampled(found, 1, [found.default])
    seen: list[str] = []
    for _ in range(20):
        for values in search.ask(4):
            assert found.holds(values)
            seen.append(key_of(values))
            search.tell(values, 1.0 / int(values["TILE"]))
    assert seen[0] == key_of(found.default)
    assert len(seen) == len(set(seen)) == 26


def test_a_sampler_learns_of_earlier_trials(tmp_path: Path) -> None:
    found = space(tmp_path)
    told = [each for each in found.every() if each["WORD"] == "int"]
    search = Sampled(found, 1)
    for values in told:
        search.tell(values, 1.0 if values["TILE"] == 128 else 9.0)
    asked = search.ask(4)
    assert all(each["WORD"] == "float" for each in asked)
    assert asked[0]["TILE"] in (64, 128)
    search.tell(asked[0], None)


def test_what_differs_from_the_best_in_one_value_comes_next(tmp_path: Path) -> None:
    found = space(tmp_path)
    search = Sampled(found, 1)
    (best, other) = search.ask(2)
    search.tell(other, 2.0)
    search.tell(best, 1.0)

    def apart(values: Values) -> int:
        return sum(values[name] != best[name] for name in best)

    near = [each for each in found.every() if apart(each) == 1 and each != other]
    asked = search.ask(len(near) + 1)
    assert sorted(map(key_of, asked[:-1])) == sorted(map(key_of, near))
    assert apart(asked[-1]) > 1  # and then whatever Optuna says


def test_the_same_seed_proposes_the_same(tmp_path: Path) -> None:
    found = space(tmp_path)
    assert Sampled(found, 7).ask(8) == Sampled(found, 7).ask(8)


def test_without_optuna_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingError, match="Optuna is not installed") as caught:
        Sampled(space(tmp_path), 1)
    assert "pip install 'workbench[tune]'" in caught.value.hint
