"""Names of C++ kernels."""

from __future__ import annotations

import pytest

from workbench.study.mangling import entries, own_name, written

#: As nvcc writes them.
NAMES = [
    "_Z1kIfEvPKT_PS0_", "_Z1kIdEvPKT_PS0_", "_ZN2ns4tileIfLi16ELj8ELb1EEEvPT_", "_Z5plainPf", "c",
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        ("k<float>", NAMES[:1]),
        ("k< double >", NAMES[1:2]),
        ("k", NAMES[:2]),
        ("k<int>", []),
        ("ns::tile<float, 16, 8, true>", NAMES[2:3]),
        ("tile<float,16,8u,true>", NAMES[2:3]),
        ("tile", NAMES[2:3]),
        ("plain", NAMES[3:4]),
        ("_Z5plainPf", NAMES[3:4]),
        ("c", ["c"]),
        ("lain", []),
    ],
)
def test_which_kernels_a_name_means(kernel: str, found: list[str]) -> None:
    assert entries(kernel, NAMES) == found


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("dot<half, 2>", "_Z3dotI6__halfLi2EEvPT_"),
        ("dot<__half, 2>", "_Z3dotI6__halfLi2EEvPT_"),
        ("m<unsigned, size_t>", "_Z1mIjmEvPT_"),
        ("m<uint32_t, uint64_t>", "_Z1mIjmEvPT_"),
        ("m<unsigned int, unsigned long>", "_Z1mIjmEvPT_"),
    ],
)
def test_types_may_be_written_by_their_other_names(kernel: str, name: str) -> None:
    assert entries(kernel, [name, "_Z3dotIfLi2EEvPT_", "_Z1mIiiEvPT_"]) == [name]


def test_a_kernel_as_it_is_written() -> None:
    assert [written(each) for each in NAMES] == [
        "k<float>", "k<double>", "ns::tile<float, 16, 8u, true>", "plain", "c",
    ]  # fmt: skip
    assert [own_name(each) for each in NAMES] == ["k", "k", "tile", "plain", "c"]
    assert own_name("ns::tile<float, 16>") == "tile"
