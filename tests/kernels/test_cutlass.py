"""The CUTLASS baseline of conv2d_half: what it lacks is said, and it is compiled once."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from tests.ladders import python_file, shipped


def torch_with(devices: int, capability: tuple[int, int]) -> types.ModuleType:
    module = types.ModuleType("torch")
    module.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        is_available=lambda: devices > 0, get_device_capability=lambda: capability
    )
    return module


@pytest.fixture
def library() -> types.ModuleType:
    return python_file(shipped("conv2d_half"), "cutlass")


@pytest.fixture
def headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path that looks like the package, with no more in it than that."""
    package = tmp_path / "site" / "cutlass_library"
    (package / "source" / "include" / "cutlass" / "conv").mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(package.parent)
    return package


def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> Path:
    """An nvcc that writes down how it is called, and then does that."""
    calls = folder / "calls"
    program = folder / "bin" / "nvcc"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] || echo "$@" >> {calls}\n{does}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return calls


def test_what_is_missing_is_said_one_after_the_other(
    library: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "PyTorch is not installed" in library.available()
    monkeypatch.setitem(sys.modules, "torch", torch_with(0, (9, 0)))
    assert "sees no CUDA device" in library.available()
    monkeypatch.setitem(sys.modules, "torch", torch_with(1, (8, 0)))
    assert "compute capability 9.0" in library.available()
    monkeypatch.setitem(sys.modules, "torch", torch_with(1, (9, 0)))
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    assert "pip install --no-deps nvidia-cutlass" in library.available()


@pytest.mark.usefixtures("headers")
def test_without_a_compiler_that_is_said(
    library: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_with(1, (9, 0)))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "nvcc is not on the PATH" in library.available()
    compiler(tmp_path, monkeypatch, "exit 0")
    assert library.available() == ""


def test_a_tile_is_compiled_once_from_the_packages_headers(
    library: types.ModuleType, headers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = compiler(
        tmp_path, monkeypatch, 'for last; do :; done; [ "$last" = --version ] || touch "$last"'
    )
    first = library._compiled((128, 64, 1, 2))
    assert first == library._compiled((128, 64, 1, 2)) and first.exists()
    assert first.parent == tmp_path / "cache" / "workbench-cutlass"
    (line,) = calls.read_text().splitlines()
    assert f"-I{headers / 'source' / 'include'}" in line
    assert "-DPIXELS=128 -DFILTERS=64 -DACROSS=1 -DDOWN=2" in line
    other = library._compiled((128, 128, 1, 1))
    assert other != first and len(calls.read_text().splitlines()) == 2
    assert sorted(first.parent.iterdir()) == sorted([first, other])
