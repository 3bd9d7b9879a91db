#!/usr/bin/env bash
# The emulator and the compilers have a ceiling of time and memory. Started by run.sh: WB.
. "$(dirname "${BASH_SOURCE[0]}")/head.sh"
mkdir -p p/kernels/s && cd p || exit 2
touch workbench.toml
cat > kernels/s/study.py <<'P'
title = "y = 2x"
input_names = ("x",)
problems = {"n64": {"n": 64, "uses": ("verify", "profile")}}
tolerance = 1e-6
tolerance_why = "exact"
def inputs(problem, rng):
    return {"x": rng.standard_normal(problem["n"], dtype="float32")}
def outputs(problem):
    return {"y": ((problem["n"],), "float32")}
def reference(problem, inputs):
    return {"y": 2 * inputs["x"].astype("float64")}
def flops(problem):
    return problem["n"]
def bytes(problem):
    return 8 * problem["n"]
P
version() { # NAME TEXT-BEFORE BODY
  { printf '/* ---\ntitle = "t"\n[[launch]]\nkernel = "scale"\ngrid = [1]\nblock = [64]\nargs = ["x", "y", "n"]\n--- */\n%s\n' "$2"
    printf 'extern "C" __global__ void scale(const float *x, float *y, int n) {\n int i = threadIdx.x; if (i < n) y[i] = 2 * x[i];\n%s\n}\n' "$3"; } > "kernels/s/$1.cu"
}
FIB='template <int N, int M> struct F { static constexpr unsigned long long v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };
template <int M> struct F<0, M> { static constexpr unsigned long long v = 1; };'
version v1 "$FIB" 'if (n < 0) y[0] = F<28, 1>::v;'
version v2 '#include <cstdio>' 'if (i == 0) printf("%%2000000000d", n);'
version v3 '#include <cstdio>' 'if (i == 0) printf("%%.2000000000f", 1.0);'
version v4 '#include <cstdio>' 'if (i == 0) printf("[%%.*d|%%*d|]", -1, 3, -4, 5);'
version v5 '__device__ char big[4000000000u];' 'if (n < 0) big[i] = 1;'
version v6 '__device__ char big[1ull << 46];' 'if (n < 0) big[i] = 1;'
sed -i 's/%%/%/g' kernels/s/v*.cu
told() { # NAME CODE, and what was printed where it is not 0
  say "$@"; [ "$2" = 0 ] || { tail -3 "$scratch/out"; echo "code $code"; } >&2
}
run() { # KiB SECONDS COMMAND…: output in $scratch/out, code in $code
  local kib=$1 s=$2; shift 2
  ( ulimit -c 0; ulimit -v "$kib"; exec timeout -k 5 "$s" "$@" ) > "$scratch/out" 2>&1; code=$?
}
emu="--engine emulator --seed 1"
# 1: --timeout bounds compiling (before: the compiler's own 600 s, or all of the memory)
run 8000000 60 "$WB" verify s/v1 $emu --timeout 5
[ $code = 4 ] && grep -q "takes longer than 5 s" "$scratch/out"; told "an exponential template ends at --timeout" $?
# 2: a compiler's memory has a limit, which is told
WORKBENCH_MEMORY_MIB=500 run 8000000 120 "$WB" verify s/v1 $emu --timeout 100
[ $code = 4 ] && grep -q "needs more memory than the 500 MiB that a compiler may use" "$scratch/out"; told "a compiler's memory is limited and told" $?
# 3, 4: text is counted before it is formatted (before: 4.6 GB, or no end)
run 3500000 90 "$WB" verify s/v2 $emu --timeout 40 # compiles it
run 1500000 90 "$WB" verify s/v2 $emu --timeout 40
[ $code = 0 ] && grep -q "more than 1,048,576 bytes were printed" "$scratch/out"; told "printf of a width of 2 GB" $?
run 3500000 90 "$WB" verify s/v3 $emu --timeout 40 # compiles it
run 1500000 90 "$WB" verify s/v3 $emu --timeout 40
[ $code = 0 ] && grep -q "more than 1,048,576 bytes were printed" "$scratch/out"; told "printf of a precision of 2 GB" $?
# 5: a negative precision is none, a negative width a flag
run 3500000 60 "$WB" verify s/v4 $emu --timeout 40
[ $code = 0 ] && grep -qF "[3|5   |]" "$scratch/out"; told "printf of a negative precision" $?
# 6: an array of 4 GB under a limit is refused by its size (before: 70)
run 3500000 60 "$WB" verify s/v5 $emu --timeout 40
[ $code = 4 ] && grep -q "big has 4,000,000,000" "$scratch/out"; told "a __device__ array of 4 GB under ulimit -v" $?
run 3500000 60 "$WB" verify s/v6 $emu --timeout 40
[ $code = 4 ]; told "a __device__ array of 64 TB" $?
# 7: what study.py computes ends as well
sed -i 's/^def inputs(problem, rng):/def inputs(problem, rng):\n    while True:\n        pass/' kernels/s/study.py
run 3500000 60 "$WB" verify s/v4 $emu --timeout 10
[ $code = 4 ] && grep -q "did not end within 10 s" "$scratch/out"; told "endless inputs end at --timeout" $?
exit $failed
