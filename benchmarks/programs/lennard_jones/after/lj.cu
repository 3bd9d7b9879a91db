// Forces and energy of a Lennard-Jones fluid in a periodic box, all pairs.
// build: nvcc -O3 -lineinfo -arch=sm_90 lj.cu -o lj
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define BLOCK 128

__global__ void forces(const float4 *pos, float4 *force, int n, float box, float cutoff)
{
    __shared__ float4 tile[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    float4 p = pos[i];
    float fx = 0.0f, fy = 0.0f, fz = 0.0f, energy = 0.0f;
    for (int start = 0; start < n; start += BLOCK) {
        tile[threadIdx.x] = pos[start + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < BLOCK; j++) {
            float dx = p.x - tile[j].x;
            float dy = p.y - tile[j].y;
            float dz = p.z - tile[j].z;
            dx -= box * rintf(dx / box);
            dy -= box * rintf(dy / box);
            dz -= box * rintf(dz / box);
            float r2 = dx * dx + dy * dy + dz * dz;
            if (r2 > 0.0f && r2 < cutoff * cutoff) {
                float inv2 = 1.0f / r2;
                float inv6 = inv2 * inv2 * inv2;
                float f = 24.0f * inv2 * inv6 * (2.0f * inv6 - 1.0f);
                fx += f * dx;
                fy += f * dy;
                fz += f * dz;
                energy += 2.0f * inv6 * (inv6 - 1.0f);
            }
        }
        __syncthreads();
    }
    force[i] = make_float4(fx, fy, fz, energy);
}

__global__ void move(float4 *pos, float4 *vel, const float4 *force, int n, float box, float dt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = pos[i], v = vel[i], f = force[i];
    v.x += f.x * dt; v.y += f.y * dt; v.z += f.z * dt;
    p.x += v.x * dt; p.y += v.y * dt; p.z += v.z * dt;
    p.x -= box * floorf(p.x / box);
    p.y -= box * floorf(p.y / box);
    p.z -= box * floorf(p.z / box);
    pos[i] = p;
    vel[i] = v;
}

int main()
{
    const int side = 32, n = side * side * side, steps = 40;
    const float spacing = 1.2f, box = side * spacing;
    std::vector<float4> pos(n), force(n);
    srand(1);
    for (int i = 0; i < n; i++) {
        float jitter[3];
        for (float &x : jitter) x = 0.1f * (rand() / (float)RAND_MAX - 0.5f);
        pos[i] = make_float4(i % side * spacing + jitter[0], i / side % side * spacing + jitter[1],
                             i / side / side * spacing + jitter[2], 0.0f);
    }
    float4 *d_pos, *d_vel, *d_force;
    cudaMalloc(&d_pos, n * sizeof(float4));
    cudaMalloc(&d_vel, n * sizeof(float4));
    cudaMalloc(&d_force, n * sizeof(float4));
    cudaMemcpy(d_pos, pos.data(), n * sizeof(float4), cudaMemcpyHostToDevice);
    cudaMemset(d_vel, 0, n * sizeof(float4));

    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (int s = 0; s < steps; s++) {
        if (s == 5) cudaEventRecord(begin);
        forces<<<n / BLOCK, BLOCK>>>(d_pos, d_force, n, box, 0.5f * box);
        move<<<n / 256, 256>>>(d_pos, d_vel, d_force, n, box, 0.002f);
    }
    cudaEventRecord(end);
    cudaMemcpy(force.data(), d_force, n * sizeof(float4), cudaMemcpyDeviceToHost);
    double energy = 0;
    for (auto &f : force) energy += f.w;
    float ms;
    cudaEventElapsedTime(&ms, begin, end);
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    printf("potential energy per particle %.5f\n", energy / n);
    printf("%.4f ms a step\n", ms / (steps - 5));
}
