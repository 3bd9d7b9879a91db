"""Chip limits and peaks: known chips, unknown ones, and what the device itself says."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import H200
from workbench.gpus import chip_for
from workbench.model import Device

_CAPABILITIES = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (12, 0)]


def device(name: str, capability: tuple[int, int], **fields: float) -> Device:
    return Device(name=name, slug="x", compute_capability=capability, **fields)  # type: ignore[arg-type]


def test_the_h200_has_its_data_sheets_peaks() -> None:
    chip = chip_for(H200)
    assert chip is not None
    assert chip.memory_bandwidth == 4.8e12 and "data sheet" in chip.bandwidth_source
    assert (chip.warps_per_sm, chip.blocks_per_sm, chip.shared_per_block) == (64, 32, 227 << 10)
    assert chip.fp32_peak() == pytest.approx(66.9e12, rel=1e-3)
    assert chip.fp32_peak(1e9) == 2 * 128 * 132 * 1e9
    assert 2 * chip.fp64_lanes == chip.fp32_lanes


@pytest.mark.parametrize("capability", _CAPABILITIES)
def test_limits_are_consistent(capability: tuple[int, int]) -> None:
    chip = chip_for(device("some chip", capability, sms=10, sm_clock=1e9))
    assert chip is not None and chip.assumed == ""
    assert chip.shared_per_block + chip.shared_reserved == chip.shared_per_sm
    assert max(chip.shared_configs) == chip.shared_per_sm
    assert chip.shared_per_block % chip.shared_unit == 0
    assert chip.registers_per_sm // chip.register_unit >= chip.warps_per_sm
    assert (chip.banks, chip.bank_bytes, chip.sector_bytes) == (32, 4, 32)


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", 3.35e12),
        ("NVIDIA H100 PCIe", 2.0e12),
        ("NVIDIA GH200 120GB", 4.0e12),
        ("NVIDIA A100-SXM4-80GB", 2.039e12),
        ("NVIDIA A100-SXM4-40GB", 1.555e12),
        ("Tesla V100-SXM2-32GB", 0.9e12),
        ("NVIDIA GeForce RTX 4090", 1.008e12),
        ("NVIDIA A10G", 0.6e12),
        ("Tesla T4", 0.32e12),
        ("NVIDIA L4", 0.3e12),
        ("NVIDIA L40S", 0.864e12),
    ],
)
def test_products_are_told_apart_by_name(name: str, bandwidth: float) -> None:
    chip = chip_for(device(name, (9, 0)))
    assert chip is not None and chip.memory_bandwidth == bandwidth


def test_an_unknown_product_gets_its_bandwidth_from_clock_and_bus() -> None:
    chip = chip_for(
        device("GeForce GTX 1660 SUPER", (7, 5), memory_clock=7.001e9, memory_bus_bits=192)
    )
    assert chip is not None
    assert chip.memory_bandwidth == pytest.approx(336e9, rel=1e-3)
    assert "clock" in chip.bandwidth_source


def test_a_device_that_says_nothing_has_no_peaks() -> None:
    chip = chip_for(device("mystery", (8, 6)))
    assert chip is not None
    assert (chip.memory_bandwidth, chip.bandwidth_source, chip.fp32_peak()) == (0.0, "", 0.0)


def test_a_newer_minor_revision_borrows_the_limits_of_its_family_and_says_so() -> None:
    chip = chip_for(device("new", (12, 1)))
    assert chip is not None and chip.assumed == "12.0"


@pytest.mark.parametrize("capability", [(0, 0), (3, 5), (6, 1), (99, 0)])
def test_an_unknown_family_has_no_chip(capability: tuple[int, int]) -> None:
    assert chip_for(device("old", capability)) is None


@given(st.text(max_size=30), st.tuples(st.integers(0, 15), st.integers(0, 9)))
def test_no_device_makes_it_fail(name: str, capability: tuple[int, int]) -> None:
    found = chip_for(msgspec.structs.replace(H200, name=name, compute_capability=capability))
    assert found is None or found.warps_per_sm >= 32
