"""``[[tensor_map]]``: descriptors of tensors, settled for a problem, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from ptxemu import Im2col, TensorMap
from tests.study_maker import VERSION, Maker
from tests.told import english
from workbench.errors import UsageError
from workbench.study.launches import ResolvedLaunch, TensorMapArg, resolve_launches
from workbench.study.sources import source_hash

MAPS = """[[tensor_map]]
name = "x_map"
buffer = "x"
dtype = "float32"
dims = [4, "N // 4"]
box = [4, "TILE"]
swizzle = 32
fill = "nan"
[[tensor_map]]
name = "pixels"
buffer = "tmp"
dtype = "float16"
dims = [64, 5, "N // 5", 2]
strides = [128, 640, "640 * (N // 5)"]
lower = [-1, -1]
upper = [-1, -1]
channels = 64
pixels = "TILE"
swizzle = 128
l2_promotion = 256
"""
FIRST = 14  # the line of the first [[tensor_map]]
ARGS = '"x", "y"'


def mapped(text: str = MAPS, args: str = '"x_map", "pixels", "y"') -> str:
    return VERSION.replace("[[launch]]", text + "[[launch]]").replace(ARGS, args)


def launched(maker: Maker, text: str) -> ResolvedLaunch:
    maker.write("v0.cu", text)
    study = maker.load()
    (launch,) = resolve_launches(study, study.version("v0"), study.problem())
    return launch


def test_maps_are_resolved_and_travel_to_the_worker(maker: Maker) -> None:
    launch = launched(maker, mapped())
    assert launch.args[:2] == (
        TensorMapArg(
            buffer="x",
            map=TensorMap("float32", (4, 250), (16,), (4, 64), swizzle=32, fill_nan=True),
            where="kernels/s/v0.cu:18",
        ),
        TensorMapArg(
            buffer="tmp",
            map=TensorMap(
                "float16", (64, 5, 200, 2), (128, 640, 128_000), swizzle=128, l2_promotion=256,
                im2col=Im2col((-1, -1), (-1, -1), 64, 64),
            ),
            where="kernels/s/v0.cu:26",
        ),
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(launch), type=ResolvedLaunch) == launch


def test_a_tensor_beyond_its_buffer(maker: Maker) -> None:
    argument = launched(maker, mapped()).args[0]
    assert isinstance(argument, TensorMapArg)
    argument.check(4000)
    with pytest.raises(UsageError, match=r"v0\.cu:18: the tensor reaches over 4,000 bytes, but"):
        argument.check(3999)


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        ('[4, "N // 4"]', '[6, "N // 6"]', 4, "strides must be multiples of 16 bytes"),
        ("[128, 640,", "[128, 648,", 13, "strides must be multiples of 16 bytes below 2^40"),
        ("[128, 640,", "[", 13, "it has 1 strides, not one for each axis"),
        ('box = [4, "TILE"]', "", 0, "its box () is not 1 to 256"),
        ('"TILE"]', '"5 * TILE"]', 5, "its box (4, 320) is not 1 to 256"),
        (
            'dims = [4, "N // 4"]\nbox = [4, "TILE"]',
            "dims = [8, 5, 5]\nbox = [8, 256, 256]",
            5,
            "its box has 2,097,152 bytes; a block's shared memory, 232,448",
        ),
        ('[4, "TILE"]', '[2, "TILE"]', 5, "a row of its box has 8 bytes, not a multiple of 16"),
        ('[4, "TILE"]', '[12, "TILE"]', 5, "has 48 bytes, more than the swizzle's 32"),
        ('[4, "TILE"]', '[4, "TILE", 1]', 5, "its box (4, 64, 1) is not"),
        ("swizzle = 32", "swizzle = 16", 6, "swizzle is 16, not one of 0, 32, 64, 128 bytes"),
        ("swizzle = 32", "interleave = 8", 6, "interleave is 8, not one of 0, 16, 32 bytes"),
        ("swizzle = 32", "interleave = 16", 4, "it has 2 axes, not 3 to 5"),
        ("l2_promotion = 256", "l2_promotion = 32", 19, "l2_promotion is 32, not one of"),
        ('[4, "N // 4"]', '[4, "N - 1000"]', 4, "an axis must have 1 to 2^32 elements"),
        ('[4, "N // 4"]', "[4, 5, 2, 5, 2, 5]", 4, "it has 6 axes, not 1 to 5"),
        ("swizzle = 32", "element_strides = [1]", 6, "it has 1 element strides"),
        ("swizzle = 32", "element_strides = [1, 9]", 6, "element strides must be 1 to 8"),
        ('dtype = "float32"', 'dtype = "int32"', 7, "only floating-point types can be filled"),
        ("lower = [-1, -1]", "lower = [-1]", 14, "corners have 2 offsets, one for each of W, H"),
        ("lower = [-1, -1]", "lower = [-129, 0]", 14, "offsets of corners must be -128 to 127"),
        ("lower = [-1, -1]", "", 8, "an im2col map needs `lower`"),
        ("upper = [-1, -1]", "upper = [-7, 0]", 15, "its bounding box has no pixels"),
        (
            "channels = 64",
            "channels = 72",
            16,
            "a row of its box has 144 bytes, more than the swizzle's 128",
        ),
        ("channels = 64", "", 8, "an im2col map needs `channels`"),
        ('pixels = "TILE"', "pixels = 1025", 17, "it must copy 1 to 1024 pixels"),
        ("swizzle = 128", "swizzle = 128\nbox = [64]", 19, "has pixels and channels instead of"),
        ('buffer = "tmp"', 'buffer = "tmq"', 10, "unknown buffer `tmq`"),
        ("swizzle = 32", 'swizzle = "N // (N - 1000)"', 6, "division by zero"),
    ],
)
def test_a_descriptor_that_the_driver_would_refuse(
    maker: Maker, right: str, wrong: str, line: int, message: str
) -> None:
    assert right in MAPS
    text = mapped(MAPS.replace(right, wrong, 1))
    with pytest.raises(UsageError) as caught:
        launched(maker, text)
    assert caught.value.message.startswith(f"kernels/s/v0.cu:{FIRST + line}: ")
    assert message in caught.value.message and caught.value.hint
    assert not english(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        ('name = "pixels"', "", 8, "`name` is missing in [[tensor_map]]"),
        ('name = "pixels"', 'name = "x_map"', 9, "`x_map` is not a name, or is used twice"),
        ('name = "pixels"', 'name = "tmp"', 9, "`tmp` is not a name, or is used twice"),
        ('buffer = "x"', "", 0, "`buffer` is missing in [[tensor_map]]"),
        ('"float16"', '"flaot16"', 11, "unknown dtype `flaot16` of a tensor map"),
        ('fill = "nan"', 'fill = "one"', 7, "unknown fill `one` of a tensor map"),
        ('dims = [4, "N // 4"]', "", 0, "`dims` is missing in [[tensor_map]]"),
        ('dims = [4, "N // 4"]', "dims = [4.0]", 4, "`dims` must hold integers or expressions"),
        ("swizzle = 32", "swizzle = [32]", 6, "`swizzle` must hold integers or expressions"),
        ('"N // 4"', '"M // 4"', 4, "unknown name `M` in dims"),
        ("swizzle = 128", "swizle = 128", 18, "unknown key `swizle` in [[tensor_map]]"),
        ("swizzle = 128", "arch_specific = true", 18, "unknown key `arch_specific`"),
    ],
)
def test_a_mistake_in_a_map_is_named_with_its_line(
    maker: Maker, right: str, wrong: str, line: int, message: str
) -> None:
    assert right in MAPS
    maker.write("v0.cu", mapped(MAPS.replace(right, wrong, 1)))
    maker.fails(f"kernels/s/v0.cu:{FIRST + line}: {message}")


@pytest.mark.parametrize("name", ["y", "N", "TILE"])
def test_a_name_that_a_buffer_or_parameter_has(maker: Maker, name: str) -> None:
    text = mapped(MAPS.replace('"pixels"', f'"{name}"'), f'"x_map", "{name}", "y"')
    with pytest.raises(UsageError, match=rf"v0\.cu:23: the name `{name}` is taken"):
        launched(maker, text)


def test_a_name_that_is_no_map(maker: Maker) -> None:
    maker.write("v0.cu", mapped(args='"x_mop", "y"'))
    maker.fails("unknown name `x_mop` in args", "x_map")


def test_maps_and_the_target_are_part_of_what_was_measured(maker: Maker) -> None:
    hashes = set()
    for text in (
        VERSION, mapped(), mapped(MAPS.replace("nan", "zero")), mapped(MAPS.replace("128", "64")),
        VERSION.replace('change = "c"', 'change = "c"\narch_specific = true'),
    ):  # fmt: skip
        maker.write("v0.cu", text)
        hashes.add(source_hash(maker.project, maker.load().version("v0")))
    assert len(hashes) == 5
