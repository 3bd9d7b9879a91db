/* ---
title  = "One option per thread, the tree in global memory"
change = "Library functions as they are; every node's price is an exponential."
[[scratch]]
name  = "tree"
dtype = "float32"
shape = ["STEPS + 1", "M"]
[[launch]]
kernel = "black_scholes"
grid   = ["cdiv(N, 256)"]
block  = [256]
args   = ["spot", "strike", "years", "call", "put", 0.03, 0.25, "N"]
[[launch]]
kernel = "binomial_american_put"
grid   = ["cdiv(M, 64)"]
block  = [64]
args   = ["spot", "strike", "years", "american", "tree", 0.03, 0.25, "STEPS", "M"]
--- */

extern "C" __global__ void black_scholes(const float* spot, const float* strike, const float* years,
                                         float* call, float* put, float rate, float volatility,
                                         int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = spot[i];
        float k = strike[i];
        float t = years[i];
        float root = volatility * sqrtf(t);
        float d1 = (logf(s / k) + (rate + 0.5f * volatility * volatility) * t) / root;
        float d2 = d1 - root;
        float paid = k * expf(-rate * t);
        call[i] = s * normcdff(d1) - paid * normcdff(d2);
        put[i] = paid * normcdff(-d2) - s * normcdff(-d1);
    }
}

extern "C" __global__ void binomial_american_put(const float* spot, const float* strike,
                                                 const float* years, float* price, float* tree,
                                                 float rate, float volatility, int steps, int m) {
    int option = blockIdx.x * blockDim.x + threadIdx.x;
    if (option >= m) return;

    float s = spot[option];
    float k = strike[option];
    float dt = years[option] / steps;
    float x = volatility * sqrtf(dt);
    // expm1f keeps the digits that exp(x) - exp(-x) would lose
    float chance = (expm1f(rate * dt) - expm1f(-x)) / (expm1f(x) - expm1f(-x));
    float discount = expf(-rate * dt);

    for (int j = 0; j <= steps; j++) {
        tree[j * m + option] = fmaxf(k - s * expf(x * (2 * j - steps)), 0.0f);
    }
    for (int i = steps - 1; i >= 0; i--) {
        float low = tree[option];
        for (int j = 0; j <= i; j++) {
            float high = tree[(j + 1) * m + option];
            float held = discount * (chance * high + (1.0f - chance) * low);
            float exercised = k - s * expf(x * (2 * j - i));
            tree[j * m + option] = fmaxf(held, exercised);
            low = high;
        }
    }
    price[option] = tree[option];
}
