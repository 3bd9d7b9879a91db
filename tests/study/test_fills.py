"""``[[fill]]``: what buffers and symbols hold before the first launch."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tests.study_maker import VERSION, Maker
from workbench.engines.host.buffers import repeated
from workbench.errors import UsageError
from workbench.study.launches import ResolvedFill, resolve_fills
from workbench.study.sources import source_hash

FILLS = """[[fill]]
name = "tmp"
value = ["-N", 1.5]
[[fill]]
name = "y"
value = -inf
[[fill]]
name = "table"
input = "x"
[[fill]]
name = "mask"
dtype = "uint8"
value = 255
"""
FIRST = 14  # the line of the first [[fill]]


def filled(text: str = FILLS) -> str:
    return VERSION.replace("[[launch]]", text + "[[launch]]")


def resolved(maker: Maker, text: str) -> tuple[ResolvedFill, ...]:
    maker.write("v0.cu", filled(text))
    study = maker.load()
    return resolve_fills(study, study.version("v0"), study.problem())


def test_fills_are_resolved_and_travel_to_the_worker(maker: Maker) -> None:
    fills = resolved(maker, FILLS)
    assert [(f.name, f.symbol, f.input, f.dtype, f.values) for f in fills] == [
        ("tmp", False, "", "float16", ("-1000", "1.5")),
        ("y", False, "", "float32", ("-inf",)),
        ("table", True, "x", "", ()),
        ("mask", True, "", "uint8", ("255",)),
    ]
    packed = msgspec.json.encode(fills)
    tmp, y, _, mask = msgspec.json.decode(packed, type=tuple[ResolvedFill, ...])
    assert repeated(tmp, 6).view("<f2").tolist() == [-1000, 1.5, -1000]
    assert np.isneginf(repeated(y, 8).view("<f4")).all()
    assert repeated(mask, 2).tolist() == [255, 255]


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        ('name = "y"', 'name = "x"', 4, "`x` is an input"),
        ('input = "x"', 'input = "y"', 8, "unknown input `y`"),
        ('name = "tmp"', 'name = "tmq"', 1, "`tmq` is not a buffer"),
        ('dtype = "uint8"\n', "", 10, "`mask` is not a buffer"),
        ("value = 255", "value = 256", 12, "value 256 is more than uint8 can hold"),
        ("value = 255", "value = -1", 12, "value -1 is more than uint8 can hold"),
        ("value = 255", "value = 1.0", 12, "value 1.0 is not a uint8"),
        ("value = -inf", 'dtype = "int8"\nvalue = 1', 4, "`y` holds float32, not int8"),
        ('"-N"', '"1 // (N - 1000)"', 2, "division by zero"),
    ],
)
def test_a_fill_that_cannot_be(
    maker: Maker, right: str, wrong: str, line: int, message: str
) -> None:
    assert right in FILLS
    with pytest.raises(UsageError) as caught:
        resolved(maker, FILLS.replace(right, wrong, 1))
    assert caught.value.message.startswith(f"kernels/s/v0.cu:{FIRST + line}: ")
    assert message in caught.value.message and caught.value.hint


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        ('input = "x"', "", 6, "[[fill]] of `table` takes either `value` or `input`"),
        (
            'input = "x"',
            'input = "x"\nvalue = 1',
            6,
            "[[fill]] of `table` takes either `value` or `input`",
        ),
        ('name = "mask"', 'name = "y"', 10, "`y` is filled twice"),
        ('"uint8"', '"unit8"', 11, "unknown dtype `unit8`"),
        ("value = 255", "value = [[1]]", 12, "`value` must hold strings or numbers"),
        ('"-N"', '"-M"', 2, "unknown name `M` in value"),
        ('input = "x"', 'inptu = "x"', 8, "unknown key `inptu` in [[fill]]"),
    ],
)
def test_a_mistake_in_a_fill_is_named_with_its_line(
    maker: Maker, right: str, wrong: str, line: int, message: str
) -> None:
    maker.write("v0.cu", filled(FILLS.replace(right, wrong, 1)))
    maker.fails(f"kernels/s/v0.cu:{FIRST + line}: {message}")


def test_a_fill_is_part_of_what_was_measured(maker: Maker) -> None:
    hashes = set()
    for text in ("", FILLS, FILLS.replace("255", "254"), FILLS.replace('"y"', '"z"', 1)):
        maker.write("v0.cu", filled(text.replace('"z"', '"z"\ndtype = "float32"')))
        hashes.add(source_hash(maker.project, maker.load().version("v0")))
    assert len(hashes) == 4
