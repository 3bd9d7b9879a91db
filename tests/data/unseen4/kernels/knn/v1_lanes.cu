/* ---
title  = "Eight lanes per query, points in shared memory, lists in registers"
change = "Each lane keeps the best of an eighth of the points; the lists are merged by shuffles. More threads, and no local memory."
[defines]
NEIGHBOURS = 5
THREADS    = 128
TILE       = 512
[[launch]]
kernel = "knn_tiled"
grid   = ["cdiv(Q, THREADS // 8)"]
block  = ["THREADS"]
args   = ["points", "queries", "distance", "index", "N", "Q"]
--- */

constexpr int LANES = 8;
constexpr float FAR = 3.0e38f;
constexpr int NOBODY = 0x7fffffff;

template <int K>
struct Nearest {
    float d[K];
    int id[K];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int s = 0; s < K; ++s) {
            d[s] = FAR;
            id[s] = NOBODY;
        }
    }

    // From the back: whoever is farther moves up one place. All indices are constants.
    __device__ __forceinline__ void insert(float distance, int who) {
#pragma unroll
        for (int s = K - 1; s >= 0; --s) {
            if (s > 0 && distance < d[s > 0 ? s - 1 : 0]) {
                d[s] = d[s > 0 ? s - 1 : 0];
                id[s] = id[s > 0 ? s - 1 : 0];
            } else if (distance < d[s]) {
                d[s] = distance;
                id[s] = who;
            }
        }
    }

    __device__ __forceinline__ void pop() {
#pragma unroll
        for (int s = 0; s + 1 < K; ++s) {
            d[s] = d[s + 1];
            id[s] = id[s + 1];
        }
        d[K - 1] = FAR;
        id[K - 1] = NOBODY;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
knn_tiled(const float* __restrict__ points, const float* __restrict__ queries,
          float* __restrict__ distance, int* __restrict__ index, int n, int q) {
    __shared__ float px[TILE];
    __shared__ float py[TILE];
    __shared__ float pz[TILE];

    const int lane = threadIdx.x % LANES;
    const int query = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    const int source = min(query, q - 1);  // spare threads repeat the last query
    const float x = queries[3 * source];
    const float y = queries[3 * source + 1];
    const float z = queries[3 * source + 2];

    Nearest<NEIGHBOURS> list;
    list.clear();

    for (int base = 0; base < n; base += TILE) {
        const int count = min(TILE, n - base);
        __syncthreads();
        for (int i = threadIdx.x; i < count; i += THREADS) {
            px[i] = points[3 * (base + i)];
            py[i] = points[3 * (base + i) + 1];
            pz[i] = points[3 * (base + i) + 2];
        }
        __syncthreads();

#pragma unroll 4
        for (int i = lane; i < count; i += LANES) {
            const float dx = px[i] - x;
            const float dy = py[i] - y;
            const float dz = pz[i] - z;
            const float d = fmaf(dx, dx, fmaf(dy, dy, dz * dz));
            if (d < list.d[NEIGHBOURS - 1]) list.insert(d, base + i);
        }
    }
    __syncwarp();

    // The nearest of eight heads, as often as there are neighbours to find.
#pragma unroll
    for (int s = 0; s < NEIGHBOURS; ++s) {
        float d = list.d[0];
        int id = list.id[0];
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset /= 2) {
            const float other_d = __shfl_xor_sync(0xffffffffu, d, offset);
            const int other_id = __shfl_xor_sync(0xffffffffu, id, offset);
            if (other_d < d || (other_d == d && other_id < id)) {
                d = other_d;
                id = other_id;
            }
        }
        if (list.id[0] == id) list.pop();
        if (lane == s && query < q) {
            distance[query * NEIGHBOURS + s] = d;
            index[query * NEIGHBOURS + s] = id;
        }
    }
}
