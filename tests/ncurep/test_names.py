"""Mangled names, read as far as a kernel's own name; c++filt agrees where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.ncurep.names import kernel_name

MANGLED = [
    ("_Z22rms_norm_matrix_kernelPfS_S_iif", "rms_norm_matrix_kernel"),
    ("_ZL6kernelPf", "kernel"),
    ("_Z4gemmILi128ELi8ELb0EEvPfS0_S0_iii", "gemm"),
    ("_Z4gemmILin3EfEvPf", "gemm"),
    ("_ZN12_GLOBAL__N_16reduceIfEEvPKT_PS1_i", "reduce"),
    ("_ZN3fooIiE3barEPf", "bar"),
    ("_ZN3fooILN2ns5ColorE2EE3barIfEEvPT_", "bar"),
    ("_ZN7rtracer12build_meshesEPNS_10MeshConfigE", "build_meshes"),
    ("_ZN3app5applyISt4plusIfEA32_iXadL_ZNS_3addEffEEEEvPT_", "apply"),
    (
        "_ZN7cutlass9reference6device6kernel13TensorForEachINS1_6detail16TensorFillRandomIfEE"
        "Li2EEEvNS_5CoordIXT0_EilEE",
        "TensorForEach",
    ),
]


@pytest.mark.parametrize(("raw", "name"), MANGLED)
def test_cpp_names(raw: str, name: str) -> None:
    assert kernel_name(raw) == name


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt to compare with")
@pytest.mark.parametrize("raw", [raw for raw, _ in MANGLED])
def test_cpp_names_as_the_binutils_read_them(raw: str) -> None:
    told = subprocess.run(["c++filt", "-p", raw], capture_output=True, text=True, check=True)
    full = told.stdout.strip()
    assert full != raw, "c++filt does not know it either"
    depth, plain = 0, ""
    for letter in full:
        depth += letter == "<"
        plain += letter if not depth else ""
        depth -= letter == ">"
    plain = re.sub(r"\(anonymous namespace\)", "", plain)
    assert re.split(r"::|\s", plain.split("(")[0])[-1] == kernel_name(raw)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        # Numba before and since 0.55, mangled and as ncu demangles it
        ("_ZN6cudapy8__main__10matmul$241E5ArrayIfLi2E1C7mutable7alignedE", "matmul"),
        ("_ZN8__main__6matmulB2v1B12cw51cXTLSUwvE5ArrayIfLi2E1C7mutable7alignedE", "matmul"),
        ("matmul[abi:v1][abi:cw51cXTLSUwv1sDUaKthqKr]", "matmul"),
        # Triton before 3.0
        ("matmul_kernel_0d1d2d3d4d5d6d7c8d9c10de11c", "matmul_kernel"),
        ("add_kernel_0d1d2d3", "add_kernel"),
        ("softmax_kernel_01d2d34", "softmax_kernel"),
        # CuTe DSL: functions, and methods of a class
        (
            "kernel_cutlass_elementwise_add_kernel_tensorptrf32gmemo16128i641i64div16128_"
            "tensorptrf32gmemo16",
            "elementwise_add_kernel",
        ),
        ("kernel_cutlass__convert_kernel_tensorptrf16gmemalign16o1256", "_convert_kernel"),
        (
            "kernel_cutlass_kernel___main__SSDKernel_object_at__CopyAtom_ThrID10_TVLayoutSrc14",
            "SSDKernel.kernel",
        ),
        (
            "kernel_cutlass_kernel___main__PersistentDenseGemmKernel_object_at__TiledMMA_Thr",
            "PersistentDenseGemmKernel.kernel",
        ),
        ("kernel_cutlass_kernel_TiledMMA_ThrLayoutVMNK11110000_PermutationMNK____", "kernel"),
    ],
)
def test_names_that_python_compilers_make(raw: str, name: str) -> None:
    assert kernel_name(raw) == name


@pytest.mark.parametrize(
    "name",
    [
        *("gemm", "ampere_sgemm_64x64_nn", "fft_1d", "blur_0", "step_012", "layer_2d3d", "conv_0d"),
        *("triton_poi_fused_add_0", "set_halo_values_x_396_gpu", "sgemm_v3", "_Z", "_ZN", ""),
        *("rowwise_scaled_linear_kernel_cutlass_sm8x", "kernel_cutlass_sm80"),
    ],
)
def test_other_names_stay_what_they_are(name: str) -> None:
    assert kernel_name(name) == name


@given(st.text(alphabet="NILESTB_Zaf$0123456789", max_size=40))
def test_no_text_is_too_odd(tail: str) -> None:
    assert kernel_name("_Z" + tail)
