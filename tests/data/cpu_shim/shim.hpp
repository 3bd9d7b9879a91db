// Enough of CUDA C++ to run a kernel's own source on a CPU, under the sanitizers of g++.
//
// Every thread of a block is a fiber; __syncthreads() gives way to the next one. Blocks run
// one after another, so `__shared__` may be `static`. Two neighbouring phases run the threads
// in opposite orders: a kernel that lacks a barrier reads a tile before it is written in one
// of them. Not here: warp intrinsics, atomics, dynamic shared memory, textures.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static
#define __restrict__ __restrict

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim {

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    dim3 thread;
    bool done = false;
};

static ucontext_t scheduler;
static Fiber* current = nullptr;
static std::function<void()> kernel;

inline void enter() {
    kernel();
    current->done = true;
    swapcontext(&current->context, &scheduler);
}

inline void resume(Fiber& fiber) {
    current = &fiber;
    threadIdx = fiber.thread;
    swapcontext(&scheduler, &fiber.context);
}

inline void run_block(std::vector<Fiber>& fibers, unsigned parity) {
    unsigned index = 0;
    for (Fiber& fiber : fibers) {
        fiber.thread = {index % blockDim.x, index / blockDim.x % blockDim.y,
                        index / blockDim.x / blockDim.y};
        fiber.done = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, enter, 0);
        ++index;
    }
    for (bool alive = true; alive; ++parity) {
        alive = false;
        for (size_t i = 0; i < fibers.size(); ++i) {
            Fiber& fiber = fibers[parity % 2 ? fibers.size() - 1 - i : i];
            if (!fiber.done) resume(fiber);
            alive = alive || !fiber.done;
        }
    }
}

inline void launch(dim3 grid, dim3 block, std::function<void()> body) {
    gridDim = grid;
    blockDim = block;
    kernel = std::move(body);
    static std::vector<Fiber> fibers;  // kept: a thousand stacks take longer than a small block
    fibers.resize(block.x * block.y * block.z);
    for (Fiber& fiber : fibers) fiber.stack.resize(32 * 1024);
    unsigned count = 0;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                blockIdx = {x, y, z};
                run_block(fibers, count++);
            }
}

// A buffer on the heap of exactly its own size, so that one element too far is an error.
inline float* load(const std::string& path, size_t count) {
    float* data = static_cast<float*>(std::malloc(count * sizeof(float)));
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (!file || std::fread(data, sizeof(float), count, file) != count) std::abort();
    std::fclose(file);
    return data;
}

inline float* poisoned(size_t count) {
    float* data = static_cast<float*>(std::malloc(count * sizeof(float)));
    std::fill_n(data, count, std::numeric_limits<float>::quiet_NaN());
    return data;
}

inline void save(const std::string& path, const float* data, size_t count) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (!file || std::fwrite(data, sizeof(float), count, file) != count) std::abort();
    std::fclose(file);
}

}  // namespace shim

inline void __syncthreads() { swapcontext(&shim::current->context, &shim::scheduler); }
