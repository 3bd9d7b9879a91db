/* ---
title = "Tickets: one lane adds for its warp"
change = "Values before the addition, of constants, of one value for all lanes, of a value for each."

[[launch]]
kernel = "tickets"
grid   = ["n // 32"]
block  = [32]
args   = ["x", "y", "n"]
--- */
extern "C" __global__ void tickets(const unsigned* x, unsigned* y, int n) {
  __shared__ unsigned c[4];
  const int lane = threadIdx.x, i = blockIdx.x * 32 + lane;
  if (lane < 4) c[lane] = 0;
  __syncwarp();
  const unsigned v = x[i], odd = __ballot_sync(~0u, v & 1), below = (1u << lane) - 1;
  unsigned wrong = 0;
  if (v & 1) {
    unsigned number = atomicAdd(&c[0], 1);
    wrong |= number != __popc(odd & below);
  }
  __syncwarp();
  unsigned fives = atomicAdd(&c[1], 5);
  wrong |= fives != 5 * lane;
  if (v & 1) {
    unsigned many = atomicAdd(&c[2], n);
    wrong |= many != n * __popc(odd & below);
  }
  __syncwarp();
  unsigned sum = atomicAdd(&c[3], lane);
  wrong |= sum != lane * (lane - 1) / 2;
  if (v & 1) {
    unsigned before = atomicAdd(&c[3], v & 6);
    wrong |= before < 496;
  }
  __syncwarp();
  unsigned largest = atomicMax(&c[1], v);
  wrong |= largest < 160;
  y[i] = v + wrong;
}
