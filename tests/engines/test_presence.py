"""What is here to measure with, and why it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workbench.engines.gpu.nvml import Gpu, NvmlAbsentError, NvmlError
from workbench.engines.host import presence
from workbench.errors import MissingError

SMI = "0, NVIDIA H200, GPU-1, 580.1, 9.0, 143771"


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    presence.find_gpus.cache_clear()
    yield
    presence.find_gpus.cache_clear()


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`smi(lines)`: a PATH that holds an nvidia-smi printing them, and nothing else."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def prints(lines: str) -> None:
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\necho '{lines}'\n")
        path.chmod(0o755)

    return prints


def nvml(monkeypatch: pytest.MonkeyPatch, error: NvmlError) -> None:
    def fails() -> list[Gpu]:
        raise error

    monkeypatch.setattr(presence, "gpus", fails)


def test_a_package_that_is_not_installed_is_no_reason_to_have_no_gpu(
    monkeypatch: pytest.MonkeyPatch, smi: Callable[[str], None]
) -> None:
    nvml(monkeypatch, NvmlAbsentError("the package nvidia-ml-py is not installed"))
    smi(SMI)
    gpu = presence.need_gpu()
    assert (gpu.name, presence.arch_of(gpu)) == ("NVIDIA H200", "sm_90")
    assert gpu.memory_bytes == 143771 * 2**20


@pytest.mark.parametrize(
    ("printed", "why"),
    [(None, "no driver was found (no nvidia-smi on PATH)"), ("", "nvidia-smi lists none")],
)
def test_without_the_package_the_driver_is_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, smi: Callable[[str], None], printed: str | None, why: str
) -> None:
    nvml(monkeypatch, NvmlAbsentError("the package nvidia-ml-py is not installed"))
    if printed is not None:
        smi(printed)
    with pytest.raises(MissingError) as caught:
        presence.need_gpu()
    assert caught.value.message == f"no NVIDIA GPU can be used here: {why}"
    assert "--engine emulator" in caught.value.hint


def test_what_nvml_says_is_told(
    monkeypatch: pytest.MonkeyPatch, smi: Callable[[str], None]
) -> None:
    nvml(monkeypatch, NvmlError("NVML does not start: Driver/library version mismatch"))
    smi("")
    with pytest.raises(MissingError, match="Driver/library version mismatch"):
        presence.need_gpu()


def test_no_hint_installs_a_package_of_that_name_from_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """workbench is on no package index: the name there would be somebody else's."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingError) as caught:
        presence.need_pycuda()
    assert "pip install '.[gpu]' in workbench's checkout" in caught.value.hint
    package = Path(presence.__file__).parents[1]
    hints = [path for path in package.rglob("*.py") if "install workbench" in path.read_text()]
    quoted = [path for path in package.rglob("*.py") if 'install "workbench' in path.read_text()]
    assert hints + quoted == []
