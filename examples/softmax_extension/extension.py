"""Builds the extension below this folder (with line tables), or finds it built, and loads it."""

from pathlib import Path

from torch.utils.cpp_extension import load

HERE = Path(__file__).resolve().parent


def build():
    """The extension's module."""
    folder = HERE / "build"
    folder.mkdir(exist_ok=True)
    return load(
        name="softmax_extension",
        sources=[str(HERE / "softmax.cpp"), str(HERE / "softmax.cu")],
        build_directory=str(folder),
        extra_cuda_cflags=["-O3", "-lineinfo"],
    )


if __name__ == "__main__":
    build()
