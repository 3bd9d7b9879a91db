/* ---
title = "Philox with umulhi, four elements a thread"
[[launch]]
kernel = "dropout"
grid = ["cdiv(N, 1024)"]
block = [256]
args = ["x", "y", "N", "uint(SEED)"]
--- */
__device__ uint4 round1(uint4 c, uint2 k)
{
    unsigned hi0 = __umulhi(0xD2511F53u, c.x), lo0 = 0xD2511F53u * c.x;
    unsigned hi1 = __umulhi(0xCD9E8D57u, c.z), lo1 = 0xCD9E8D57u * c.z;
    return make_uint4(hi1 ^ c.y ^ k.x, lo1, hi0 ^ c.w ^ k.y, lo0);
}

__device__ uint4 philox(uint4 c, uint2 k)
{
    for (int r = 0; r < 10; r++) {
        c = round1(c, k);
        k.x += 0x9E3779B9u;
        k.y += 0xBB67AE85u;
    }
    return c;
}

extern "C" __global__ void dropout(const float *__restrict__ x, float *__restrict__ y, int n, unsigned seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 r = philox(make_uint4(i, 0, 0, 0), make_uint2(seed, 0));
    if (4 * i + 3 < n) {
        float4 v = reinterpret_cast<const float4 *>(x)[i];
        v.x = r.x < 0xC0000000u ? v.x / 0.75f : 0.f;
        v.y = r.y < 0xC0000000u ? v.y / 0.75f : 0.f;
        v.z = r.z < 0xC0000000u ? v.z / 0.75f : 0.f;
        v.w = r.w < 0xC0000000u ? v.w / 0.75f : 0.f;
        reinterpret_cast<float4 *>(y)[i] = v;
    } else {
        unsigned w[4] = {r.x, r.y, r.z, r.w};
        for (int k = 0; k < 4; k++)
            if (4 * i + k < n)
                y[4 * i + k] = w[k] < 0xC0000000u ? x[4 * i + k] / 0.75f : 0.f;
    }
}
