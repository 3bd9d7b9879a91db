"""``[[texture]]``: textures over buffers, settled for a problem, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from ptxemu import Texture
from tests.study.test_tensormaps import launched
from tests.study_maker import VERSION, Maker
from tests.told import english
from workbench.errors import UsageError
from workbench.study.launches import ResolvedLaunch, TextureArg
from workbench.study.signatures import check_arguments
from workbench.study.sources import source_hash

TEXTURES = """[[texture]]
name = "image"
buffer = "x"
dtype = "float32"
dims = ["N // 4", 4]
address = ["wrap", "border"]
filter = "linear"
normalized = true
[[texture]]
name = "bytes"
buffer = "tmp"
dtype = "uint8"
channels = 4
dims = ["TILE // 4", 5]
pitch = "4 * TILE"
layout = "linear"
read = "float"
"""
FIRST = 14  # the line of the first [[texture]]


def bound(text: str = TEXTURES, args: str = '"image", "bytes", "y"') -> str:
    return VERSION.replace("[[launch]]", text + "[[launch]]").replace('"x", "y"', args)


def test_textures_are_resolved_and_travel_to_the_worker(maker: Maker) -> None:
    launch = launched(maker, bound())
    assert launch.args[:2] == (
        TextureArg(
            buffer="x",
            texture=Texture(
                "float32", (250, 4), address=("wrap", "border"), filter="linear", normalized=True
            ),
            where="kernels/s/v0.cu:18",
        ),
        TextureArg(
            buffer="tmp",
            texture=Texture(
                "uint8", (16, 5), channels=4, pitch=256, layout="linear", as_float=True
            ),
            where="kernels/s/v0.cu:27",
        ),
    )
    assert msgspec.json.decode(msgspec.json.encode(launch), type=ResolvedLaunch) == launch


def test_a_texture_beyond_its_buffer(maker: Maker) -> None:
    argument = launched(maker, bound()).args[1]
    assert isinstance(argument, TextureArg)
    argument.check(4 * 256 + 64)
    with pytest.raises(UsageError, match=r"v0\.cu:27: the texture reaches over 1,088 bytes, but"):
        argument.check(1087)


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        ('dims = ["N // 4", 4]', "dims = [0, 4]", 4, "an axis has 0 texels"),
        ("normalized = true", "", 5, "wrap, border, but the coordinates count texels"),
        ('"border"]', '"mirored"]', 5, "unknown address mirored"),
        ('["wrap", "border"]', '["wrap", "wrap", "wrap"]', 5, "it has 3 modes"),
        ('filter = "linear"', 'filter = "cubic"', 6, "unknown filter cubic"),
        ('dtype = "float32"', 'dtype = "int32"', 6, "integers are not interpolated"),
        ("channels = 4", "channels = 3", 12, "unknown channels 3"),
        ('pitch = "4 * TILE"', "pitch = 72", 14, "72 bytes apart, not a multiple of 32"),
        ('pitch = "4 * TILE"', "pitch = 32", 14, "rows of 64 bytes are 32 bytes apart"),
        ('layout = "linear"', 'layout = "array"', 10, "`tmp` is not an input"),
        ('layout = "linear"', 'layout = "rows"', 15, "unknown layout rows"),
        ('dtype = "uint8"', 'dtype = "uint32"', 16, "uint32 cannot become a number"),
        ('buffer = "tmp"', 'buffer = "tmq"', 10, "unknown buffer `tmq`"),
    ],
)
def test_a_texture_that_the_driver_would_refuse(
    maker: Maker, right: str, wrong: str, line: int, message: str
) -> None:
    assert right in TEXTURES
    with pytest.raises(UsageError) as caught:
        launched(maker, bound(TEXTURES.replace(right, wrong, 1)))
    assert caught.value.message.startswith(f"kernels/s/v0.cu:{FIRST + line}: ")
    assert message in caught.value.message and caught.value.hint
    assert not english(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        ('name = "bytes"', 'name = "image"', 9, "`image` is not a name, or is used twice"),
        ('dtype = "uint8"', 'dtype = "float64"', 11, "unknown dtype `float64` of a texture"),
        ('read = "float"', 'read = "flaot"', 16, "unknown read `flaot` of a texture"),
        ('address = ["wrap", "border"]', "address = 3", 5, "`address` must be a string or a list"),
        ("normalized = true", 'normalized = "yes"', 7, "`normalized` must be true or false"),
        ('dims = ["N // 4", 4]', "", 0, "`dims` is missing in [[texture]]"),
        ('"N // 4"', '"M // 4"', 4, "unknown name `M` in dims"),
        ("channels = 4", "chanels = 4", 12, "unknown key `chanels` in [[texture]]"),
    ],
)
def test_a_mistake_in_a_texture_is_named_with_its_line(
    maker: Maker, right: str, wrong: str, line: int, message: str
) -> None:
    assert right in TEXTURES
    maker.write("v0.cu", bound(TEXTURES.replace(right, wrong, 1)))
    maker.fails(f"kernels/s/v0.cu:{FIRST + line}: {message}")


def test_no_struct_holds_one(maker: Maker) -> None:
    with pytest.raises(UsageError, match="`image` is a texture, which no struct may hold") as said:
        launched(maker, bound(args='["image", "N"], "bytes", "y"'))
    assert "cudaTextureObject_t" in said.value.hint


def test_textures_are_part_of_what_was_measured(maker: Maker) -> None:
    hashes = set()
    for text in (TEXTURES, TEXTURES.replace("normalized = true", "normalized = false")):
        maker.write("v0.cu", bound(text))
        hashes.add(source_hash(maker.project, maker.load().version("v0")))
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ('"x", "y"', "argument 1 of kernel scale is no texture, but the kernel takes cuda"),
        (
            '"image", "image"',
            r"argument 2 of kernel scale is a texture, but the kernel takes float\*",
        ),
    ],
)
def test_a_buffer_for_a_texture_and_a_texture_for_a_buffer(
    maker: Maker, args: str, said: str
) -> None:
    code = 'extern "C" __global__ void scale(cudaTextureObject_t t, float* y) {}'
    text = bound().partition("extern")[0].replace('"image", "bytes", "y", "tmp"', args)
    text = text.replace(', "N", "long(N*N)", 1.5, "double(N)", "float(2)"]', "]")
    launch = launched(maker, text + code)
    with pytest.raises(UsageError, match=said) as caught:
        check_arguments(maker.load().version("v0"), "", [launch])
    assert caught.value.hint
