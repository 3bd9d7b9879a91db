/* ---
title  = "Pairs of options in a grid-stride loop, a tree in the registers of a warp"
change = "Fast intrinsics and a polynomial for the normal distribution, float2 loads; a tree's levels are swept by shuffles, its prices by one multiplication."
requires     = "STEPS < 128"
requires_why = "a lane holds four of the tree's leaves"
[[launch]]
kernel = "black_scholes_pairs"
grid   = ["min(cdiv(N, 512), 264)"]
block  = [256]
args   = ["spot", "strike", "years", "call", "put", [0.03, 0.25], "N"]
[[launch]]
kernel = "binomial_warp"
grid   = ["cdiv(M, 4)"]
block  = [128]
args   = ["spot", "strike", "years", "american", [0.03, 0.25], "STEPS", "M"]
--- */

struct Market {
    float rate;
    float volatility;
};

struct Quote {
    float call;
    float put;
};

// The normal distribution by a polynomial of degree five; errors stay below 1e-7.
__device__ __forceinline__ float normal_cdf(float d) {
    const float k = __fdividef(1.0f, fmaf(0.2316419f, fabsf(d), 1.0f));
    float poly = fmaf(k, 1.330274429f, -1.821255978f);
    poly = fmaf(k, poly, 1.781477937f);
    poly = fmaf(k, poly, -0.356563782f);
    poly = fmaf(k, poly, 0.319381530f);
    const float tail = 0.39894228040f * __expf(-0.5f * d * d) * k * poly;
    return d > 0.0f ? 1.0f - tail : tail;
}

__device__ __forceinline__ Quote price(float s, float k, float t, const Market& market) {
    const float root = market.volatility * sqrtf(t);
    const float drift = fmaf(0.5f * market.volatility, market.volatility, market.rate);
    const float d1 = __fdividef(fmaf(drift, t, __logf(__fdividef(s, k))), root);
    const float n1 = normal_cdf(d1);
    const float n2 = normal_cdf(d1 - root);
    const float paid = k * __expf(-market.rate * t);
    Quote quote;
    quote.call = s * n1 - paid * n2;
    quote.put = paid * (1.0f - n2) - s * (1.0f - n1);
    return quote;
}

extern "C" __global__ void __launch_bounds__(256)
black_scholes_pairs(const float* __restrict__ spot, const float* __restrict__ strike,
                    const float* __restrict__ years, float* __restrict__ call,
                    float* __restrict__ put, Market market, int n) {
    const int stride = gridDim.x * blockDim.x;
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < n / 2; i += stride) {
        const float2 s = reinterpret_cast<const float2*>(spot)[i];
        const float2 k = reinterpret_cast<const float2*>(strike)[i];
        const float2 t = reinterpret_cast<const float2*>(years)[i];
        const Quote a = price(s.x, k.x, t.x, market);
        const Quote b = price(s.y, k.y, t.y, market);
        reinterpret_cast<float2*>(call)[i] = make_float2(a.call, b.call);
        reinterpret_cast<float2*>(put)[i] = make_float2(a.put, b.put);
    }
    if (first == 0 && n % 2 == 1) {
        const Quote last = price(spot[n - 1], strike[n - 1], years[n - 1], market);
        call[n - 1] = last.call;
        put[n - 1] = last.put;
    }
}

template <int PER>
__device__ float sweep_tree(float s, float k, float t, const Market& market, int steps) {
    const int lane = threadIdx.x % 32;
    const float dt = t / steps;
    const float x = market.volatility * sqrtf(dt);
    const float up = expf(x);
    const float chance = (expm1f(market.rate * dt) - expm1f(-x)) / (expm1f(x) - expm1f(-x));
    const float discount = expf(-market.rate * dt);
    const float high = discount * chance;
    const float low = discount * (1.0f - chance);

    float asset[PER];
    float value[PER];
#pragma unroll
    for (int r = 0; r < PER; ++r) {
        asset[r] = s * expf(x * (2 * (lane * PER + r) - steps));
        value[r] = fmaxf(k - asset[r], 0.0f);
    }
    // Nodes above the level's last hold rubbish, which never flows down to a node that counts.
    for (int i = steps; i > 0; --i) {
        const float beyond = __shfl_down_sync(0xffffffffu, value[0], 1);
#pragma unroll
        for (int r = 0; r < PER; ++r) {
            const float above = r + 1 < PER ? value[r + 1 < PER ? r + 1 : r] : beyond;
            asset[r] *= up;
            value[r] = fmaxf(fmaf(high, above, low * value[r]), k - asset[r]);
        }
    }
    return value[0];
}

extern "C" __global__ void __launch_bounds__(128)
binomial_warp(const float* __restrict__ spot, const float* __restrict__ strike,
              const float* __restrict__ years, float* __restrict__ american, Market market,
              int steps, int m) {
    const int option = blockIdx.x * 4 + threadIdx.x / 32;
    if (option >= m) return;  // the whole warp leaves
    const float root = sweep_tree<4>(spot[option], strike[option], years[option], market, steps);
    if (threadIdx.x % 32 == 0) american[option] = root;
}
