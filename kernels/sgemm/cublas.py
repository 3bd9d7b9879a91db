"""cuBLAS through PyTorch: the library to beat.

---
title    = "cuBLAS through PyTorch, float32 without TF32"
baseline = true
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


def prepare(_problem, _parameters, buffers):
    import torch

    # TF32 keeps 10 bits of the mantissa: another job than the one that the ladder does.
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b, c = (torch.as_tensor(buffers[name], device="cuda") for name in ("A", "B", "C"))

    def run():
        torch.mm(a, b, out=c)

    return run
