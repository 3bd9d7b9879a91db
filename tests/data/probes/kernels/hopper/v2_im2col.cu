/* ---
title = "Pixels through a window: im2col copies, whole, beyond the edges, and out"
[[scratch]]
name = "room"
dtype = "float16"
shape = [2, 9, 10, 64]
[[tensor_map]]
name = "window"
buffer = "pixels"
dtype = "float16"
dims = [64, 10, 9, 2]
lower = [-1, -1]
upper = [-1, -1]
channels = 64
pixels = 64
swizzle = 128
[[tensor_map]]
name = "part"
buffer = "pixels"
dtype = "float16"
dims = [64, 10, 9, 2]
lower = [-1, -1]
upper = [-1, -1]
channels = 32
pixels = 32
swizzle = 64
[[tensor_map]]
name = "target"
buffer = "room"
dtype = "float16"
dims = [64, 10, 9, 2]
lower = [0, 0]
upper = [0, 0]
channels = 64
pixels = 64
swizzle = 128
[[launch]]
kernel = "probe"
grid   = [1]
block  = [128]
args   = ["x", "pixels", "window", "part", "target", "room", "y"]
--- */
#include "async.cuh"
#define MAP const __grid_constant__ CUtensorMap

#define IN(map, place, tap) if (t == 0) asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {" place "}], [%2], {" tap "};" ::"r"(at(s)), "l"(&map), "r"(at(&bar)) : "memory");
// From output pixel `first` on, each moved by the tap: what is outside of the image is 0.
#define LANDED(channels, count, first, c0, tw, th) if (t == 0) expect(&bar, (channels) * (count) * 2); wait(&bar, phase); for (int i = t; i < (channels) * (count); i += 128) { int p = (first) + i / (channels), n = p / 90, h = p / 10 % 9 - 1 + (th), w = p % 10 - 1 + (tw), a = 2 * i ^ ((2 * i >> 7 & ((channels) / 8 - 1)) << 4); float want = n < 2 && h >= 0 && h < 9 && w >= 0 && w < 10 ? __half2float(pixels[((n * 9 + h) * 10 + w) * 64 + (c0) + i % (channels)]) : 0; bad += __half2float(s[a / 2]) != want; } fence(); __syncthreads();
#define OUT(place) if (t == 0) asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {" place "}], [%1];" ::"l"(&target), "r"(at(s)) : "memory");
// From pixel `first` on; what would lie behind the last image is left out.
#define LEFT(first) if (t == 0) done(); __syncthreads(); for (int i = t; i < 4096; i += 128) { int p = (first) + i / 64, a = 2 * i ^ ((2 * i >> 7 & 7) << 4); if (p < 180) bad += __half2float(s[a / 2]) != __half2float(__ldcg(&room[p * 64 + i % 64])); } __syncthreads();

extern "C" __global__ void probe(const float *x, const half *pixels, MAP window, MAP part, MAP target, const half *room, float *y) {
    __shared__ __align__(1024) half s[4096];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    int bad = 0, phase = 0;
    if (t == 0) init(&bar, 1);
    __syncthreads();
    IN(window, "0, -1, -1, 0", "0, 0")
    LANDED(64, 64, 0, 0, 0, 0)
    IN(window, "0, -1, -1, 0", "1, 1")
    LANDED(64, 64, 0, 0, 1, 1)
    IN(window, "0, -1, -1, 0", "2, 2")
    LANDED(64, 64, 0, 0, 2, 2)
    IN(window, "0, 4, 6, 0", "1, 0")
    LANDED(64, 64, 75, 0, 1, 0)
    IN(window, "0, 4, 6, 1", "1, 2")
    LANDED(64, 64, 165, 0, 1, 2)
    IN(part, "0, -1, -1, 0", "1, 1")
    LANDED(32, 32, 0, 0, 1, 1)
    IN(part, "32, -1, -1, 0", "1, 1")
    LANDED(32, 32, 0, 32, 1, 1)
    IN(window, "0, -1, -1, 0", "1, 1")
    LANDED(64, 64, 0, 0, 1, 1)
    OUT("0, 0, 0, 0")
    LEFT(0)
    OUT("0, 9, 8, 0")
    LEFT(89)
    OUT("0, 0, 8, 1")
    LEFT(170)
    y[t] = x[t] + bad;
}
