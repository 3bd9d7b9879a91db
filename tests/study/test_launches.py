"""Launches of a version on a problem: numbers, buffers, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from tests.study_maker import VERSION, Maker
from workbench.errors import UsageError
from workbench.model import Problem
from workbench.study.folder import resolve_launches, resolve_scratch
from workbench.study.launches import (
    BufferArg,
    ResolvedLaunch,
    ResolvedScratch,
    ScalarArg,
    StructArg,
)


def test_launches_are_resolved_to_numbers(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    study = maker.load()
    (launch,) = resolve_launches(study, study.version("v0"), study.problem())
    assert launch == ResolvedLaunch(
        kernel="scale",
        grid=(16, 1, 1),
        block=(64, 2, 1),
        args=(
            BufferArg(name="x"),
            BufferArg(name="y"),
            BufferArg(name="tmp"),
            ScalarArg(value=1000),
            ScalarArg(value=1000000, ctype="long"),
            ScalarArg(value=1.5, ctype="float"),
            ScalarArg(value=1000.0, ctype="double"),
            ScalarArg(value=2.0, ctype="float"),
        ),
        dynamic_shared=256,
        cluster=(1, 1, 1),
    )
    assert resolve_scratch(study, study.version("v0"), study.problem()) == (
        ResolvedScratch(name="tmp", dtype="float16", shape=(2000, 64)),
    )
    # It travels to the worker as JSON.
    packed = msgspec.json.encode(launch)
    assert msgspec.json.decode(packed, type=ResolvedLaunch) == launch


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        ("cdiv(N, TILE)", "N - 1000", 16, "grid.x is 0 for problem n1000 (`N - 1000`)"),
        ("cdiv(N, TILE)", "N - 2000", 16, "grid.x is -1000"),
        ('["cdiv(N, TILE)"]', '[1, "N*N"]', 16, "grid.y is 1000000"),
        ('["TILE", 2]', '["TILE", 32]', 17, "2048 threads per block"),
        ('["TILE", 2]', "[1, 1, 65]", 17, "block.z is 65"),
        ('["TILE", 2]', "[0]", 17, "block.x is 0"),
        ("4*TILE", "-4*TILE", 19, "dynamic_shared is -256 bytes"),
        ("cluster = [1]", "cluster = [3]", 20, "cluster (3, 1, 1) is not a divisor of the grid"),
        ("cluster = [1]", "cluster = [17]", 20, "cluster.x is 17"),
        ("long(N*N)", "N*N*N*N", 18, "does not fit into `int`"),
        ("long(N*N)", "uint(-1)", 18, "does not fit into `uint`"),
        ("long(N*N)", "N // (N - 1000)", 18, "division by zero"),
    ],
)
def test_a_launch_that_no_chip_can_do(
    maker: Maker, right: str, wrong: str, line: int, message: str
) -> None:
    assert right in VERSION
    maker.write("v0.cu", VERSION.replace(right, wrong))
    study = maker.load()
    with pytest.raises(UsageError) as caught:
        resolve_launches(study, study.version("v0"), study.problem())
    assert caught.value.message.startswith(f"kernels/s/v0.cu:{line}: ")
    assert message in caught.value.message
    assert caught.value.hint


def test_launches_are_chosen_by_size(maker: Maker) -> None:
    launch = VERSION[VERSION.index("[[launch]]") : VERSION.index("cluster = [1]")]
    small = launch.replace('["TILE", 2]', "[32]") + 'when = "N <= 7"\n'
    maker.write(
        "v0.cu", VERSION.replace("cluster = [1]", f'cluster = [1]\nwhen = "N > 7"\n{small}')
    )
    study = maker.load()
    for name, block in (("n1000", (64, 2, 1)), ("n7", (32, 1, 1))):
        (chosen,) = resolve_launches(study, study.version("v0"), study.problem(name))
        assert chosen.block == block


def test_a_version_that_launches_nothing_for_a_size_is_refused(maker: Maker) -> None:
    maker.write("v0.cu", VERSION.replace("cluster = [1]", 'cluster = [1]\nwhen = "N > 7"'))
    study = maker.load()
    with pytest.raises(UsageError, match=r"v0\.cu:21: every `when` is 0 for problem n7"):
        resolve_launches(study, study.version("v0"), study.problem("n7"))


def test_a_name_in_when_that_nobody_knows_is_refused(maker: Maker) -> None:
    maker.write("v0.cu", VERSION.replace("cluster = [1]", 'cluster = [1]\nwhen = "NN > 7"'))
    with pytest.raises(UsageError, match=r"v0\.cu:21: unknown name `NN` in when"):
        maker.load().version("v0")


def test_scratch_without_an_element(maker: Maker) -> None:
    maker.write("v0.cu", VERSION.replace('"N2", "TILE"', '"N - 7"'))
    study = maker.load()
    with pytest.raises(UsageError, match=r"v0\.cu:13: scratch `tmp` has shape \(0,\)"):
        resolve_scratch(study, study.version("v0"), study.problem("n7"))


@pytest.mark.parametrize(("shape", "size"), [('"N * 2**40"', 2**40), ('"2**62"', 2**62)])
def test_scratch_that_no_gpu_holds(maker: Maker, shape: str, size: int) -> None:
    maker.write("v0.cu", VERSION.replace('"N2", "TILE"', shape))
    study = maker.load()
    with pytest.raises(UsageError, match=r"v0\.cu:13: scratch `tmp` of shape .* takes [\d,]{17,}"):
        resolve_scratch(study, study.version("v0"), study.problem("n7"))


def test_requirements(maker: Maker) -> None:
    maker.write("v0.cu", VERSION)
    maker.write("v1.cu", VERSION.replace('requires = "N > 1"\nrequires_why = "it needs two"\n', ""))
    study = maker.load()
    one = Problem(name="one", parameters={"N": 1})
    study.check_requirements(study.version("v0"), study.problem())
    study.check_requirements(study.version("v1"), one)
    with pytest.raises(UsageError, match="v0 cannot run problem one: it needs two") as caught:
        study.check_requirements(study.version("v0"), one)
    assert "kernels/s/v0.cu:5" in caught.value.hint


STRUCT = VERSION.replace('"long(N*N)", 1.5', '["N", "y", "short(TILE)", 1.5]')


def test_a_list_among_the_arguments_is_a_struct(maker: Maker) -> None:
    maker.write("v0.cu", STRUCT)
    study = maker.load()
    (launch,) = resolve_launches(study, study.version("v0"), study.problem())
    assert launch.args[4] == StructArg(
        members=(
            ScalarArg(value=1000),
            BufferArg(name="y"),
            ScalarArg(value=64, ctype="short"),
            ScalarArg(value=1.5, ctype="float"),
        )
    )
    packed = msgspec.json.encode(launch)
    assert msgspec.json.decode(packed, type=ResolvedLaunch) == launch


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ('"NN"', "unknown name `NN` in args"),
        ('"uchar(4 * TILE)"', "is 256, which does not fit into `uchar`"),
        ("1e39", "does not fit into `float`"),
        ('"N /"', "args: "),
    ],
)
def test_a_member_is_read_as_an_argument_is(maker: Maker, member: str, said: str) -> None:
    maker.write("v0.cu", STRUCT.replace('"short(TILE)"', member))
    with pytest.raises(UsageError) as caught:
        study = maker.load()
        resolve_launches(study, study.version("v0"), study.problem())
    assert said in caught.value.message and ":18: " in caught.value.message
