// Lab 6: bodies that attract each other, as an array of structures.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define AXES 3

typedef struct {
    float at[AXES];
    float3 speed;
} Body;

__global__ void attract(Body *bodies, float dt, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float fx = 0, fy = 0, fz = 0;
    for (int j = 0; j < n; j++) {
        float dx = bodies[j].at[0] - bodies[i].at[0];
        float dy = bodies[j].at[1] - bodies[i].at[1];
        float dz = bodies[j].at[2] - bodies[i].at[2];
        float d = dx * dx + dy * dy + dz * dz + 0.01f, r = 1 / sqrtf(d);
        fx += dx * r * r * r;
        fy += dy * r * r * r;
        fz += dz * r * r * r;
    }
    bodies[i].speed.x += dt * fx;
    bodies[i].speed.y += dt * fy;
    bodies[i].speed.z += dt * fz;
}

void attract_cpu(Body *bodies, float dt, int n) {
    for (int i = 0; i < n; i++) {
        float f[AXES] = {0, 0, 0};
        for (int j = 0; j < n; j++) {
            float d = 0.01f;
            for (int a = 0; a < AXES; a++) d += pow(bodies[j].at[a] - bodies[i].at[a], 2);
            for (int a = 0; a < AXES; a++) f[a] += (bodies[j].at[a] - bodies[i].at[a]) / pow(d, 1.5);
        }
        bodies[i].speed.x += dt * f[0];
        bodies[i].speed.y += dt * f[1];
        bodies[i].speed.z += dt * f[2];
    }
}

int main() {
    int n = 512;
    float dt = 0.01f;
    Body *bodies = (Body *)malloc(n * sizeof(Body)), *back = (Body *)malloc(n * sizeof(Body)), *d;
    for (int i = 0; i < n; i++) {
        for (int a = 0; a < AXES; a++) bodies[i].at[a] = rand() / (float)RAND_MAX;
        bodies[i].speed = make_float3(0, 0, 0);
    }
    cudaMalloc(&d, n * sizeof(Body));
    cudaMemcpy(d, bodies, n * sizeof(Body), cudaMemcpyHostToDevice);
    attract<<<(n + 127) / 128, 128>>>(d, dt, n);
    cudaMemcpy(back, d, n * sizeof(Body), cudaMemcpyDeviceToHost);
    attract_cpu(bodies, dt, n);
    float worst = 0;
    for (int i = 0; i < n; i++) worst = fmaxf(worst, fabsf(back[i].speed.x - bodies[i].speed.x));
    printf("%g\n", worst);
    return 0;
}
