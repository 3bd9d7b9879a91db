// Launches of every kind: from pinned host memory, on two streams, in clusters, of all blocks at
// once, and through a tensor map.
//   nvcc -O3 -lineinfo -arch=sm_90 corners.cu -o corners
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;
const int N = 1 << 16;

__global__ void pinned(const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2.0f * x[i] + y[i];
}

__global__ void clustered(const float *x, float *y)
{
    __shared__ float all[256];
    cg::cluster_group cluster = cg::this_cluster();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    all[threadIdx.x] = x[i];
    cluster.sync();
    float *other = cluster.map_shared_rank(all, cluster.block_rank() ^ 1);
    y[i] += other[255 - threadIdx.x];
    cluster.sync();
}

__global__ void together(float *x, float *sums)
{
    cg::grid_group grid = cg::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] += 1.0f;
    grid.sync();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = x[(i + N / 2) % N];
}

// 32 x 32 floats from the corner that the block names.
__global__ void tiled(const __grid_constant__ CUtensorMap map, float *y)
{
    __shared__ alignas(128) float tile[1024];
    __shared__ alignas(8) unsigned long long barrier;
    unsigned to = (unsigned)__cvta_generic_to_shared(tile);
    unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
        asm volatile("fence.proxy.async.shared::cta;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(at));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                     "l"(&map), "r"(32 * (int)blockIdx.x), "r"(32 * (int)blockIdx.y), "r"(at)
                     : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; "
                 "@!p bra again; }" ::"r"(at)
                 : "memory");
    y[(blockIdx.y * gridDim.x + blockIdx.x) * 1024 + threadIdx.x] = 3.0f * tile[threadIdx.x];
}

int main()
{
    float *host, *x, *y, *z, *sums;
    cudaHostAlloc(&host, N * sizeof(float), cudaHostAllocMapped);
    for (int i = 0; i < N; i++)
        host[i] = (float)(i % 1001);
    float **all[] = {&x, &y, &z, &sums};
    for (float **each : all) {
        cudaMalloc(each, N * sizeof(float));
        cudaMemcpy(*each, host, N * sizeof(float), cudaMemcpyHostToDevice);
    }
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    for (int k = 0; k < 3; k++) {
        pinned<<<N / 256, 256, 0, a>>>(host, y);
        pinned<<<N / 256, 256, 0, b>>>(host, z);
    }
    cudaDeviceSynchronize();

    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = N / 256, config.blockDim = 256, config.stream = a;
    config.attrs = &attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, clustered, (const float *)x, y);

    void *given[] = {&x, &sums};
    cudaLaunchCooperativeKernel((void *)together, dim3(N / 1024), dim3(1024), given, 0, a);

    void *encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault,
                                     &found);
    CUtensorMap map;
    cuuint64_t shape[] = {256, 256}, rows[] = {256 * sizeof(float)};
    cuuint32_t box[] = {32, 32}, steps[] = {1, 1};
    ((decltype(&cuTensorMapEncodeTiled))encode)(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, shape, rows, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    tiled<<<dim3(8, 8), 1024, 0, a>>>(map, z);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
