"""cuBLAS's 8-bit product alone, of a matrix that im2col wrote beforehand.

Not the whole job: what a convolution would cost if its matrix came for nothing. It reads nine
times the input, which a convolution need not do.

---
title        = "cuBLAS in int8, the product alone: im2col is not timed"
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
    padded = torch.zeros((n, h + 2, w + 2, c), dtype=torch.int8, device="cuda")
    padded[:, 1:-1, 1:-1] = data
    image, row, pixel, channel = padded.stride()
    windows = padded.as_strided((n, h, w, 3, 3, c), (image, row, pixel, row, pixel, channel))
    matrix = windows.reshape(n * h * w, 9 * c)
    filters = weight.view(k, 9 * c).t()
    product = output.view(n * h * w, k)

    def run():
        torch._int_mm(matrix, filters, out=product)

    return run
