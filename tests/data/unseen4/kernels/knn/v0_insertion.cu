/* ---
title  = "One query per thread, insertion into a sorted list"
change = "Every thread reads every point from global memory."
[defines]
K = 5
[[launch]]
kernel = "knn"
grid   = ["cdiv(Q, 128)"]
block  = [128]
args   = ["points", "queries", "distance", "index", "N", "Q"]
--- */

extern "C" __global__ void knn(const float* points, const float* queries, float* distance,
                               int* index, int n, int q) {
    int query = blockIdx.x * blockDim.x + threadIdx.x;
    if (query >= q) return;

    float x = queries[3 * query];
    float y = queries[3 * query + 1];
    float z = queries[3 * query + 2];

    float best[K];
    int who[K];
    int found = 0;

    for (int i = 0; i < n; i++) {
        float dx = points[3 * i] - x;
        float dy = points[3 * i + 1] - y;
        float dz = points[3 * i + 2] - z;
        float d = dx * dx + dy * dy + dz * dz;

        // Full list and not better than its last: the usual case.
        if (found == K && d >= best[K - 1]) continue;

        int slot = found < K ? found++ : K - 1;
        while (slot > 0 && best[slot - 1] > d) {
            best[slot] = best[slot - 1];
            who[slot] = who[slot - 1];
            slot--;
        }
        best[slot] = d;
        who[slot] = i;
    }

    for (int s = 0; s < K; s++) {
        distance[query * K + s] = best[s];
        index[query * K + s] = who[s];
    }
}
