"""im2col and cuBLAS's 8-bit product, both timed: what PyTorch can do with int8 on a GPU.

cuDNN's int8 convolutions cannot be reached from PyTorch, which finds no engine for them. What
is left is to write out the matrix of N·H·W rows and 9·C columns, nine times the input, and to
multiply it by the filters. The zeros around the images and the matrix are made by strided
copies of eight channels at a time, the fastest way that PyTorch has for them.

---
title        = "im2col by strided copies, then cuBLAS in int8: three kernels"
baseline     = true
requires     = "N*H*W > 16 and C % 8 == 0 and K % 8 == 0"
requires_why = "its int8 matrices need more than 16 rows, and sides that are multiples of 8"
---
"""


def available():
    """Empty if this can run here; otherwise why not."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed: pip install torch"
    if not torch.cuda.is_available():
        return "PyTorch is here but sees no CUDA device"
    return ""


def prepare(_problem, parameters, buffers):
    import torch

    n, h, w, c, k = (parameters[name] for name in "NHWCK")
    data, weight, output = (
        torch.as_tensor(buffers[name], device="cuda") for name in ("input", "weight", "output")
    )
    # Eight channels are one 64-bit word to the copies: a byte a thread would be far slower.
    words = data.view(torch.int64)
    padded = torch.zeros((n, h + 2, w + 2, c // 8), dtype=torch.int64, device="cuda")
    inside = padded[:, 1:-1, 1:-1]
    image, row, pixel, word = padded.stride()
    windows = padded.as_strided((n, h, w, 3, 3, c // 8), (image, row, pixel, row, pixel, word))
    columns = torch.empty((n, h, w, 3, 3, c // 8), dtype=torch.int64, device="cuda")
    matrix = columns.view(torch.int8).view(n * h * w, 9 * c)
    filters = weight.view(k, 9 * c).t()
    product = output.view(n * h * w, k)

    def run():
        inside.copy_(words)
        columns.copy_(windows)
        torch._int_mm(matrix, filters, out=product)

    return run
