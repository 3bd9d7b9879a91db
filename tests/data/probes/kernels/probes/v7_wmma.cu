/* ---
title  = "wmma.load and wmma.store"
parent = ""
[[scratch]]
name  = "room"
dtype = "uint32"
shape = ["cdiv(n, 32) * 4096"]
[[launch]]
kernel = "probe"
grid   = ["cdiv(n, 32)"]
block  = [32]
args   = ["x", "at", "words", "y", "room"]
--- */
#include <mma.h>
#define HASH(w) ((unsigned)(w) * 2654435761u)
#define ROW(k) at[(k) * 32 + lane]

using namespace nvcuda::wmma;

// Matrices whose element (r, c) is r + c / 16, with the rows (or columns) `apart` elements apart.
#define PUT(T, p, apart, by_row) for (int w = lane; w < 256; w += 32) p[by_row ? w / 16 * (apart) + w % 16 : w % 16 * (apart) + w / 16] = (T)(w / 16 + w % 16 / 16.0f); __syncthreads();
// Fragments hold each element at least once; all of them are summed.
#define SUM(f) { float v = 0; for (int e = 0; e < f.num_elements; ++e) v += (float)f.x[e]; for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o); bad += v != 2040.0f * (f.num_elements / 8); __syncthreads(); }
#define A_ROW(p, apart) load_matrix_sync(a_row, p, apart);
#define A_COL(p, apart) load_matrix_sync(a_col, p, apart);
#define B_ROW(p, apart) load_matrix_sync(b_row, p, apart);
#define B_COL(p, apart) load_matrix_sync(b_col, p, apart);
#define C_ROW(p, apart) load_matrix_sync(c, p, apart, mem_row_major);
#define C_COL(p, apart) load_matrix_sync(c, p, apart, mem_col_major);
#define H_ROW(p, apart) load_matrix_sync(h, p, apart, mem_row_major);
#define H_COL(p, apart) load_matrix_sync(h, p, apart, mem_col_major);

extern "C" __global__ void probe(const float* x, const int* at, const unsigned* words, float* y,
                                 unsigned* room) {
    const int lane = threadIdx.x;
    int bad = 0;
    __shared__ __align__(128) unsigned s[4096];
    fragment<matrix_a, 16, 16, 16, half, row_major> a_row;
    fragment<matrix_a, 16, 16, 16, half, col_major> a_col;
    fragment<matrix_b, 16, 16, 16, half, row_major> b_row;
    fragment<matrix_b, 16, 16, 16, half, col_major> b_col;
    fragment<accumulator, 16, 16, 16, float> c;
    fragment<accumulator, 16, 16, 16, half> h;
    half* sh = (half*)s;
    float* sf = (float*)s;
    half* gh = (half*)(room + blockIdx.x * 4096);
    float* gf = (float*)gh;
    PUT(half, sh, 16, 1)
    A_ROW(sh, 16)
    SUM(a_row)
    PUT(half, sh, 16, 0)
    A_COL(sh, 16)
    SUM(a_col)
    PUT(half, sh, 16, 1)
    B_ROW(sh, 16)
    SUM(b_row)
    PUT(half, sh, 16, 0)
    B_COL(sh, 16)
    SUM(b_col)
    PUT(half, sh, 24, 1)
    A_ROW(sh, 24)
    SUM(a_row)
    PUT(half, sh, 24, 0)
    A_COL(sh, 24)
    SUM(a_col)
    PUT(half, sh, 24, 1)
    B_ROW(sh, 24)
    SUM(b_row)
    PUT(half, sh, 24, 0)
    B_COL(sh, 24)
    SUM(b_col)
    PUT(half, sh, 32, 1)
    A_ROW(sh, 32)
    SUM(a_row)
    PUT(half, sh, 32, 0)
    A_COL(sh, 32)
    SUM(a_col)
    PUT(half, sh, 32, 1)
    B_ROW(sh, 32)
    SUM(b_row)
    PUT(half, sh, 32, 0)
    B_COL(sh, 32)
    SUM(b_col)
    PUT(half, sh, 40, 1)
    A_ROW(sh, 40)
    SUM(a_row)
    PUT(half, sh, 40, 0)
    A_COL(sh, 40)
    SUM(a_col)
    PUT(half, sh, 40, 1)
    B_ROW(sh, 40)
    SUM(b_row)
    PUT(half, sh, 40, 0)
    B_COL(sh, 40)
    SUM(b_col)
    PUT(half, sh, 64, 1)
    A_ROW(sh, 64)
    SUM(a_row)
    PUT(half, sh, 64, 0)
    A_COL(sh, 64)
    SUM(a_col)
    PUT(half, sh, 64, 1)
    B_ROW(sh, 64)
    SUM(b_row)
    PUT(half, sh, 64, 0)
    B_COL(sh, 64)
    SUM(b_col)
    PUT(half, sh, 72, 1)
    A_ROW(sh, 72)
    SUM(a_row)
    PUT(half, sh, 72, 0)
    A_COL(sh, 72)
    SUM(a_col)
    PUT(half, sh, 72, 1)
    B_ROW(sh, 72)
    SUM(b_row)
    PUT(half, sh, 72, 0)
    B_COL(sh, 72)
    SUM(b_col)
    PUT(float, sf, 16, 1)
    C_ROW(sf, 16)
    SUM(c)
    PUT(float, sf, 16, 0)
    C_COL(sf, 16)
    SUM(c)
    PUT(float, sf, 20, 1)
    C_ROW(sf, 20)
    SUM(c)
    PUT(float, sf, 20, 0)
    C_COL(sf, 20)
    SUM(c)
    PUT(float, sf, 32, 1)
    C_ROW(sf, 32)
    SUM(c)
    PUT(float, sf, 32, 0)
    C_COL(sf, 32)
    SUM(c)
    PUT(float, sf, 36, 1)
    C_ROW(sf, 36)
    SUM(c)
    PUT(float, sf, 36, 0)
    C_COL(sf, 36)
    SUM(c)
    PUT(float, sf, 64, 1)
    C_ROW(sf, 64)
    SUM(c)
    PUT(float, sf, 64, 0)
    C_COL(sf, 64)
    SUM(c)
    PUT(float, sf, 68, 1)
    C_ROW(sf, 68)
    SUM(c)
    PUT(float, sf, 68, 0)
    C_COL(sf, 68)
    SUM(c)
    PUT(half, sh, 16, 1)
    H_ROW(sh, 16)
    SUM(h)
    PUT(half, sh, 16, 0)
    H_COL(sh, 16)
    SUM(h)
    PUT(half, sh, 24, 1)
    H_ROW(sh, 24)
    SUM(h)
    PUT(half, sh, 24, 0)
    H_COL(sh, 24)
    SUM(h)
    PUT(half, sh, 32, 1)
    H_ROW(sh, 32)
    SUM(h)
    PUT(half, sh, 32, 0)
    H_COL(sh, 32)
    SUM(h)
    PUT(half, sh, 64, 1)
    H_ROW(sh, 64)
    SUM(h)
    PUT(half, sh, 64, 0)
    H_COL(sh, 64)
    SUM(h)
    PUT(half, gh, 16, 1)
    A_ROW(gh, 16)
    SUM(a_row)
    PUT(half, gh, 16, 0)
    A_COL(gh, 16)
    SUM(a_col)
    PUT(half, gh, 16, 1)
    B_ROW(gh, 16)
    SUM(b_row)
    PUT(half, gh, 16, 0)
    B_COL(gh, 16)
    SUM(b_col)
    PUT(half, gh, 24, 1)
    A_ROW(gh, 24)
    SUM(a_row)
    PUT(half, gh, 24, 0)
    A_COL(gh, 24)
    SUM(a_col)
    PUT(half, gh, 24, 1)
    B_ROW(gh, 24)
    SUM(b_row)
    PUT(half, gh, 24, 0)
    B_COL(gh, 24)
    SUM(b_col)
    PUT(half, gh, 128, 1)
    A_ROW(gh, 128)
    SUM(a_row)
    PUT(half, gh, 128, 0)
    A_COL(gh, 128)
    SUM(a_col)
    PUT(half, gh, 128, 1)
    B_ROW(gh, 128)
    SUM(b_row)
    PUT(half, gh, 128, 0)
    B_COL(gh, 128)
    SUM(b_col)
    PUT(float, gf, 16, 1)
    C_ROW(gf, 16)
    SUM(c)
    PUT(float, gf, 16, 0)
    C_COL(gf, 16)
    SUM(c)
    PUT(float, gf, 20, 1)
    C_ROW(gf, 20)
    SUM(c)
    PUT(float, gf, 20, 0)
    C_COL(gf, 20)
    SUM(c)
    PUT(float, gf, 128, 1)
    C_ROW(gf, 128)
    SUM(c)
    PUT(float, gf, 128, 0)
    C_COL(gf, 128)
    SUM(c)
    PUT(half, sh, 16, 1)
    H_ROW(sh, 16)
    PUT(float, sf, 16, 1)
    C_ROW(sf, 16)
    __syncthreads();
    store_matrix_sync(sf, c, 16, mem_row_major);
    __syncthreads();
    bad += sf[lane / 16 * 16 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sf, c, 16, mem_col_major);
    __syncthreads();
    bad += sf[lane / 16 * 16 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sf, c, 20, mem_row_major);
    __syncthreads();
    bad += sf[lane / 16 * 20 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sf, c, 20, mem_col_major);
    __syncthreads();
    bad += sf[lane / 16 * 20 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sf, c, 36, mem_row_major);
    __syncthreads();
    bad += sf[lane / 16 * 36 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sf, c, 36, mem_col_major);
    __syncthreads();
    bad += sf[lane / 16 * 36 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sf, c, 64, mem_row_major);
    __syncthreads();
    bad += sf[lane / 16 * 64 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sf, c, 64, mem_col_major);
    __syncthreads();
    bad += sf[lane / 16 * 64 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sh, h, 16, mem_row_major);
    __syncthreads();
    bad += (float)sh[lane / 16 * 16 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sh, h, 16, mem_col_major);
    __syncthreads();
    bad += (float)sh[lane / 16 * 16 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sh, h, 24, mem_row_major);
    __syncthreads();
    bad += (float)sh[lane / 16 * 24 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sh, h, 24, mem_col_major);
    __syncthreads();
    bad += (float)sh[lane / 16 * 24 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sh, h, 64, mem_row_major);
    __syncthreads();
    bad += (float)sh[lane / 16 * 64 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(sh, h, 64, mem_col_major);
    __syncthreads();
    bad += (float)sh[lane / 16 * 64 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(gf, c, 16, mem_row_major);
    __syncthreads();
    bad += gf[lane / 16 * 16 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(gf, c, 16, mem_col_major);
    __syncthreads();
    bad += gf[lane / 16 * 16 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(gf, c, 128, mem_row_major);
    __syncthreads();
    bad += gf[lane / 16 * 128 + lane % 16] != lane / 16 + lane % 16 / 16.0f;
    __syncthreads();
    store_matrix_sync(gf, c, 128, mem_col_major);
    __syncthreads();
    bad += gf[lane / 16 * 128 + lane % 16] != lane % 16 + lane / 16 / 16.0f;
    __syncthreads();
    y[blockIdx.x * 32 + lane] = x[blockIdx.x * 32 + lane] + bad;
}
