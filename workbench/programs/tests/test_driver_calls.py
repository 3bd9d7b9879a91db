"""Programs that call the driver themselves, as Python's packages do: here by ctypes alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.ptxemu.ptxwords import PRELUDE
from workbench.compile.compilers import find_nvcc, wheel_nvcc
from workbench.programs.tests.test_run import Ran, pytestmark, run

__all__ = ["pytestmark"]

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"
CALLED = ".func (.param .b32 out) twice(.param .b32 x)"
#: A kernel that calls a function of another part, which is linked behind it.
CALLER = f"""{HEAD}.extern {CALLED};
.visible .entry fill(.param .u64 to) {{
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  {{ .param .b32 a; .param .b32 b; mov.u32 %r1, %tid.x; st.param.b32 [a], %r1;
  call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }}
  ld.param.u64 %d1, [to]; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
  st.global.u32 [%d1], %r2; ret;
}}
"""
TWICE = f"""{HEAD}.visible {CALLED} {{
  .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret;
}}
"""
#: Each block writes before all wait for each other, and reads the other's.
WAITS = f"""{HEAD}.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 h, .param .b32 f);
.visible .entry swap(.param .u64 to) {{
  .reg .b32 %r<6>; .reg .b64 %d<8>;
  ld.param.u64 %d1, [to]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2;
  st.global.u32 [%d2], %r1;
  {{ .param .b32 s; .param .b64 h; st.param.b32 [s], 1;
  call.uni (h), cudaCGGetIntrinsicHandle, (s); ld.param.b64 %d3, [h]; }}
  {{ .param .b64 h; .param .b32 f; .param .b32 c; st.param.b64 [h], %d3; st.param.b32 [f], 0;
  call.uni (c), cudaCGSynchronize, (h, f); }}
  xor.b32 %r2, %r1, 1; mul.wide.u32 %d4, %r2, 4; add.s64 %d4, %d1, %d4;
  ld.global.u32 %r3, [%d4]; st.global.u32 [%d2+8], %r3; ret;
}}
"""
PROGRAM = """
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
def ok(code):
    if code: sys.exit(f"CUresult {code}")
def new(kind=ctypes.c_void_p): return kind()
at = ctypes.byref
ok(cu.cuInit(0))
context, module, function, memory = new(), new(), new(), new(ctypes.c_uint64)
ok(cu.cuDevicePrimaryCtxRetain(at(context), 0)); ok(cu.cuCtxSetCurrent(context))
def load(image): ok(cu.cuModuleLoadData(at(module), image))
def get(name): ok(cu.cuModuleGetFunction(at(function), module, name))
def link(*parts):
    state, image = new(), new()
    ok(cu.cuLinkCreate_v2(0, None, None, at(state)))
    for part in parts:
        size = ctypes.c_size_t(len(part))
        ok(cu.cuLinkAddData_v2(state, 1, part, size, b"", 0, None, None))
    ok(cu.cuLinkComplete(state, at(image), None))
    load(image)
def registers():
    value = ctypes.c_int()
    ok(cu.cuFuncGetAttribute(at(value), 4, function))
    blocks = ctypes.c_int()
    ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(at(blocks), function, 64, ctypes.c_size_t(0)))
    return 0 < value.value < 64 and blocks.value == 32
def launch(grid, block, cooperative=False):
    ok(cu.cuMemAlloc_v2(at(memory), ctypes.c_size_t(64)))
    values = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    call = cu.cuLaunchCooperativeKernel if cooperative else cu.cuLaunchKernel
    ok(call(function, grid, 1, 1, block, 1, 1, 0, None, values, None))
    out = (ctypes.c_uint32 * 4)()
    ok(cu.cuMemcpyDtoH_v2(out, memory, ctypes.c_size_t(16)))
    return list(out)
"""


def driver(folder: Path, text: str) -> Ran:
    """A program of Python that calls the driver."""
    (folder / "p.py").write_text(PROGRAM + text)
    return run(folder, "--", sys.executable, "p.py")


def test_what_is_loaded_or_linked_has_the_registers_of_ptxas_and_runs(tmp_path: Path) -> None:
    """PTX alone, a part that calls a later one, and blocks that wait by a library's function."""
    alone = TWICE + CALLER.removeprefix(f"{HEAD}.extern {CALLED};\n")
    archive = b"!<arch>\n/ cuda_device_runtime.o/"
    text = f"""load({alone.encode()!r}); get(b'fill'); print(registers(), launch(1, 4))
link({CALLER.encode()!r}, {TWICE.encode()!r}); get(b'fill'); print(registers(), launch(1, 4))
link({WAITS.encode()!r}, {archive!r}); get(b'swap'); print(registers(), launch(2, 1, True))
"""
    ran = driver(tmp_path, text + RETAINED)
    said = "True [0, 2, 4, 6]\n" * 2 + "True [0, 1, 1, 0]\n[] [7]\n"
    assert ran.out.startswith(said), ran


#: What a graph retains is destroyed with the last graph.
RETAINED = """
graph, copy, user, gone = new(), new(), new(), []
then = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(gone.append)
ok(cu.cuUserObjectCreate(at(user), 7, then, 1, 1)); ok(cu.cuGraphCreate(at(graph), 0))
ok(cu.cuGraphRetainUserObject(graph, user, 1, 1)); ok(cu.cuGraphClone(at(copy), graph))
ok(cu.cuGraphDestroy(graph)); before = list(gone); ok(cu.cuGraphDestroy(copy)); print(before, gone)
"""


def test_machine_code_alone_is_refused_by_name_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        'extern "C" __global__ void fill(int* to) { to[threadIdx.x] = 3; }'
    )
    nvcc = find_nvcc() or wheel_nvcc()
    for name, flags in (("lines", ["-lineinfo"]), ("alone", [])):
        words = [str(nvcc), "-arch=sm_90", *flags, "-cubin", "-o", f"{name}.cubin", "k.cu"]
        subprocess.run(words, cwd=tmp_path, check=True)
    ran = driver(tmp_path, """
for name in ("lines", "alone"):
    load(open(f"{name}.cubin", "rb").read()); get(b"fill"); print(launch(1, 4), flush=True)
""")  # fmt: skip
    said = " ".join(ran.out.split())
    assert ran.out.startswith("[3, 3, 3, 3]\n") and "(fill) exist only as machine code" in said
    assert "CUresult 209" in ran.err and "@cuda.jit(lineinfo=True)" in said


def test_another_library_of_machine_code_is_named(tmp_path: Path) -> None:
    ran = driver(tmp_path, "link(b'!<arch>\\n/ other.o/')")
    assert ran.code == 1 and "cuLinkAddData(library.a) was called" in " ".join(ran.out.split()), ran


#: One tile of 16 rows of 32 floats, from column 48 and row -2 on.
TILE = f"""{PRELUDE}
extern "C" __global__ void corner(const __grid_constant__ CUtensorMap map, float* y) {{
  __shared__ __align__(1024) float smem[512];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {{ init(&bar, 1); expect(&bar, 2048); tile(smem, &map, 48, -2, &bar); }}
  __syncthreads();
  wait(&bar, 0);
  for (int i = threadIdx.x; i < 512; i += 32) y[i] = smem[i];
}}
"""
MAPS = """
array = ctypes.c_uint64
def encoded(swizzle, fill, stride=320, box=(32, 16)):
    data = ctypes.create_string_buffer(192)
    out = (ctypes.addressof(data) + 63) // 64 * 64
    dims, strides = (array * 2)(72, 9), (array * 1)(stride)
    box, steps = (ctypes.c_uint32 * 2)(*box), (ctypes.c_uint32 * 2)(1, 1)
    code = cu.cuTensorMapEncodeTiled(ctypes.c_void_p(out), 7, 2, y, dims, strides, box, steps,
                                     0, swizzle, 0, fill)
    return data, out, code or cu.cuTensorMapReplaceAddress(ctypes.c_void_p(out), x)
load(open("k.ptx", "rb").read()); get(b"corner")
x, y, size = new(), new(), ctypes.c_size_t(2880)
ok(cu.cuMemAlloc_v2(at(x), size)); ok(cu.cuMemAlloc_v2(at(y), size))
ok(cu.cuMemcpyHtoD_v2(x, (ctypes.c_float * 720)(*range(720)), size))
for swizzle in (0, 3):
    data, out, code = encoded(swizzle, swizzle // 3)
    ok(code)
    values = (ctypes.c_void_p * 2)(out, ctypes.addressof(y))
    ok(cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, values, None))
    got = (ctypes.c_float * 512)()
    ok(cu.cuMemcpyDtoH_v2(got, y, ctypes.c_size_t(2048)))
    wrong = 0
    for row in range(16):
        for column in range(32):
            inside = 2 <= row < 11 and column < 24
            want = (row - 2) * 80 + 48 + column if inside else None if swizzle else 0
            chunk = column // 4 ^ (row % 8 if swizzle else 0)
            value = got[32 * row + 4 * chunk + column % 4]
            wrong += (value == value) if want is None else value != want
    print("swizzle", swizzle, "wrong", wrong)
print("refused", encoded(0, 0, stride=100)[2], cu.cuTensorMapEncodeIm2col())
"""


def test_a_tensor_map_of_the_driver_brings_tiles(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(TILE)
    nvcc = find_nvcc() or wheel_nvcc()
    subprocess.run([str(nvcc), "-arch=sm_90a", "-ptx", "k.cu"], cwd=tmp_path, check=True)
    ran = driver(tmp_path, MAPS)
    assert "swizzle 0 wrong 0\nswizzle 3 wrong 0\nrefused 1 801\n" in ran.out, ran
    said = " ".join(ran.out.split())
    assert "cuTensorMapEncodeTiled was refused: tensor map of float32 (72, 9): strides must" in said
    assert "cuTensorMapEncodeIm2col was called, but is not here" in said
