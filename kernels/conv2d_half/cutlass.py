"""CUTLASS's own implicit matrix product for compute capability 9.0, from its headers.

What CUTLASS offers here is one producer and one warpgroup that multiplies, with im2col copies and a
ring, and one tile a block: its schedules with two such warpgroups, and blocks that stay, are not to
be had for convolutions. The tile is the user's to choose, so three are tried for each problem, the
fastest of seven on one or another of the sweep's four, and the best is kept.

The headers are those of the package nvidia-cutlass. They are compiled once, which takes about a
minute, into the user's cache.

---
title        = "CUTLASS's sm90 implicit GEMM, float32 sums, the fastest of three tiles"
baseline     = true
requires     = "C % 8 == 0 and K % 8 == 0"
requires_why = "it copies 16 bytes at a time"
---
"""

import ctypes
import functools
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

#: Pixels and filters of a tile, and blocks of a cluster, which share pixels or filters.
TILES = ((128, 128, 1, 1), (128, 128, 1, 2), (128, 64, 1, 1))

SOURCE = r"""
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/conv/collective/collective_builder.hpp>
#include <cutlass/conv/convolution.h>
#include <cutlass/conv/convnd_problem_shape.hpp>
#include <cutlass/conv/device/conv_universal_adapter.hpp>
#include <cutlass/conv/kernel/conv_universal.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>

using namespace cute;
using Half = cutlass::half_t;
using Nhwc = cutlass::layout::TensorNHWC;
using Arch = cutlass::arch::Sm90;
using Class = cutlass::arch::OpClassTensorOp;
using Cluster = Shape<Int<ACROSS>, Int<DOWN>, _1>;
using Layer = cutlass::conv::ConvProblemShape<cutlass::conv::Operator::kFprop, 2>;

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    Arch, Class, Shape<Int<PIXELS>, Int<FILTERS>, _64>, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, Nhwc, 8, Half, Nhwc, 8,
    cutlass::epilogue::TmaWarpSpecialized>::CollectiveOp;

using Mainloop = cutlass::conv::collective::CollectiveBuilder<
    Arch, Class, cutlass::conv::Operator::kFprop, Half, Nhwc, 8, Half, Nhwc, 8, float,
    Shape<Int<PIXELS>, Int<FILTERS>, Shape<_64>>, Cluster,
    cutlass::conv::collective::StageCountAutoCarveout<sizeof(Epilogue::SharedStorage)>,
    cutlass::conv::KernelImplicitTmaWarpSpecializedSm90>::CollectiveOp;

using Kernel = cutlass::conv::kernel::ConvUniversal<Layer, Mainloop, Epilogue>;
using Device = cutlass::conv::device::ConvUniversalAdapter<Kernel>;

// Zero, or CUTLASS's status: the caller keeps what is made here for its pointers.
extern "C" int make(void** made, const Half* input, const Half* weight, Half* output, int n, int h,
                    int w, int c, int k) {
    Device::Arguments wanted{};
    wanted.problem_shape = Layer(cutlass::conv::Mode::kCrossCorrelation, {n, h, w, c}, {k, 3, 3, c},
                                 {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1);
    wanted.mainloop = {input, weight};
    wanted.epilogue.ptr_D = output;
    // Of the output's strides, pixels first: from column to column, row to row, image to image.
    for_each(make_seq<3>{}, [&](auto i) {
        get<0, i>(wanted.epilogue.dD) = wanted.problem_shape.stride_C[2 - i];
    });
    auto status = Device::can_implement(wanted);
    if (status != cutlass::Status::kSuccess) return int(status);
    Device* device = new Device();
    *made = device;
    return int(device->initialize(wanted));
}

extern "C" int convolve(void* made, cudaStream_t stream) {
    return int(static_cast<Device*>(made)->run(stream));
}
"""


def _headers():
    """The folder that holds CUTLASS's headers; None where they are not installed."""
    spec = importlib.util.find_spec("cutlass_library")
    if spec is None or spec.origin is None:
        return None
    folder = pathlib.Path(spec.origin).parent / "source"
    return folder if (folder / "include" / "cutlass" / "conv").is_dir() else None


def available():
    """Empty if this can run here; otherwise why not."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed: pip install torch"
    if not torch.cuda.is_available():
        return "PyTorch is here but sees no CUDA device"
    if torch.cuda.get_device_capability() != (9, 0):
        return "it is for compute capability 9.0 alone"
    if _headers() is None:
        return "CUTLASS's headers are not installed: pip install --no-deps nvidia-cutlass"
    if shutil.which("nvcc") is None:
        return "nvcc is not on the PATH, which CUTLASS's headers are compiled with"
    return ""


def _compiled(tile):
    """The shared library of a tile, from the user's cache, or compiled into it."""
    headers = _headers()
    command = ["nvcc", "-O3", "-std=c++17", "-arch=sm_90a", "-DNDEBUG", "--expt-relaxed-constexpr"]
    command += ["-shared", "-Xcompiler", "-fPIC"]
    command += [f"-I{headers / 'include'}", f"-I{headers / 'tools' / 'util' / 'include'}"]
    for name, size in zip(("PIXELS", "FILTERS", "ACROSS", "DOWN"), tile, strict=True):
        command.append(f"-D{name}={size}")
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    key = hashlib.sha256("\n".join([SOURCE, version, *command]).encode()).hexdigest()[:16]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    library = cache / "workbench-cutlass" / f"{key}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            source = pathlib.Path(folder) / "conv.cu"
            source.write_text(SOURCE)
            built = source.with_suffix(".so")
            done = subprocess.run([*command, source, "-o", built], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"nvcc failed: {(done.stderr or done.stdout)[-2000:]}")
            built.replace(library)
    return library


@functools.cache
def _libraries():
    with ThreadPoolExecutor() as pool:
        return [ctypes.CDLL(str(library)) for library in pool.map(_compiled, TILES)]


#: Problem -> which of the tiles is the fastest.
_fastest = {}


def prepare(problem, parameters, buffers):
    import torch

    sizes = [parameters[name] for name in "NHWCK"]
    # Views of the study's own buffers: nothing is copied.
    names = ("input", "weight", "output")
    arrays = [torch.as_tensor(buffers[name], device="cuda") for name in names]

    def bind(library):
        made = ctypes.c_void_p()
        pointers = [ctypes.c_void_p(each.data_ptr()) for each in arrays]
        status = library.make(ctypes.byref(made), *pointers, *sizes)
        if status:
            raise RuntimeError(f"CUTLASS refuses the problem: status {status}")

        def run():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            status = library.convolve(made, stream)
            if status:
                raise RuntimeError(f"CUTLASS could not launch: status {status}")

        return run

    runs = [bind(library) for library in _libraries()]
    if problem not in _fastest:
        _fastest[problem] = min(range(len(runs)), key=lambda each: _seconds(runs[each]))
    return runs[_fastest[problem]]


def _seconds(run):
    """The least of ten times of one run."""
    import torch

    times = []
    for _ in range(10):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return min(times)
