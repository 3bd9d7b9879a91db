"""The projection of our decoder, in Triton: y = x @ w, fp16 in, fp32 accumulation."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    pid_m = first + pid % (GROUP * columns) % height
    pid_n = pid % (GROUP * columns) // height
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += BLOCK_K
        b += BLOCK_K * stride_bk
    c = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :]
    tl.store(c, acc.to(tl.float16))


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, 32) * triton.cdiv(N, 64),)
    matmul_kernel[grid](
        a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0),
        BLOCK_M=32, BLOCK_N=64, BLOCK_K=32, GROUP=8, num_warps=4, num_stages=2,
    )
    return c


def main():
    torch.manual_seed(0)
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    b = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    error = (matmul(a, b) - a @ b).abs().max().item()
    print(f"largest difference to torch: {error:.4f}")

    for _ in range(10):
        matmul(a, b)
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(200):
        matmul(a, b)
    stop.record()
    torch.cuda.synchronize()
    ms = start.elapsed_time(stop) / 200
    print(f"{ms:.4f} ms, {2 * 4096**3 / ms * 1e-9:.0f} TFLOP/s")


if __name__ == "__main__":
    main()
