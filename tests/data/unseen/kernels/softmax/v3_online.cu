/* ---
title = "Online: maximum and sum in one pass, float4"
requires = "C % 4 == 0"
requires_why = "it loads float4"
[[launch]]
kernel = "softmax"
grid   = ["R"]
block  = [128]
args   = ["x", "y", "C"]
--- */

struct __align__(8) MD {
    float m;
    float d;
};

__device__ __forceinline__ MD reduce_md_op(MD a, MD b) {
    bool a_bigger = (a.m > b.m);
    MD bigger_m = a_bigger ? a : b;
    MD smaller_m = a_bigger ? b : a;
    MD res;
    res.d = bigger_m.d + smaller_m.d * __expf(smaller_m.m - bigger_m.m);
    res.m = bigger_m.m;
    return res;
}

extern "C" __global__ void softmax(const float4* __restrict__ in, float4* __restrict__ out, int cols) {
    const int n = cols / 4;
    const float4* x = in + (size_t)blockIdx.x * n;
    float4* y = out + (size_t)blockIdx.x * n;
    MD md = {-1e30f, 0.0f};
    for (int i = threadIdx.x; i < n; i += 128) {
        float4 v = x[i];
        md = reduce_md_op(md, MD{v.x, 1.0f});
        md = reduce_md_op(md, MD{v.y, 1.0f});
        md = reduce_md_op(md, MD{v.z, 1.0f});
        md = reduce_md_op(md, MD{v.w, 1.0f});
    }
    for (int o = 16; o; o /= 2) {
        MD other;
        other.m = __shfl_xor_sync(~0u, md.m, o);
        other.d = __shfl_xor_sync(~0u, md.d, o);
        md = reduce_md_op(md, other);
    }
    __shared__ MD warps[4];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = md;
    __syncthreads();
    md = reduce_md_op(reduce_md_op(warps[0], warps[1]), reduce_md_op(warps[2], warps[3]));
    float scale = __fdividef(1.0f, md.d);
    for (int i = threadIdx.x; i < n; i += 128) {
        float4 v = x[i];
        v.x = __expf(v.x - md.m) * scale;
        v.y = __expf(v.y - md.m) * scale;
        v.z = __expf(v.z - md.m) * scale;
        v.w = __expf(v.w - md.m) * scale;
        y[i] = v;
    }
}
