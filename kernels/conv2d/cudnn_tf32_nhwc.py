"""cuDNN through PyTorch, channels last, on tensor cores.

Its inputs are rounded to TF32, ten bits of mantissa: less exact than what the ladder computes.
What is timed is the convolution alone, as in a network that is channels last throughout:
input and filters are reordered before, and the output, which fills the study's own buffer in
N×OH×OW×K order, is reordered after it.

---
title         = "cuDNN through PyTorch, channels last (reordering not timed), TF32"
baseline      = true
requires      = "C > 1"
requires_why  = "with one channel PyTorch takes one order for the other, and a plan of it"
tolerance     = 1e-3
tolerance_why = "TF32 inputs put a sum of sign-mixed terms off by 2.9e-4; room for a factor of 3"
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
    if not torch.backends.cudnn.is_available():
        return "PyTorch is here but was built without cuDNN"
    return ""


def prepare(_problem, parameters, buffers):
    import torch

    x, w, y = (torch.as_tensor(buffers[name], device="cuda") for name in ("x", "w", "y"))
    x, w = (each.contiguous(memory_format=torch.channels_last) for each in (x, w))
    # The study's buffer, filled as N×OH×OW×K and seen as N×K×OH×OW: channels last.
    n, k, rows, columns = y.shape
    output = y.view(n, rows, columns, k).permute(0, 3, 1, 2)
    # The operator behind conv2d, with its output given: no allocation, no copy.
    convolve = torch.ops.aten.cudnn_convolution.out
    shape = {
        "stride": [parameters["U"], parameters["V"]],
        "padding": [parameters["P"], parameters["Q"]],
        "dilation": [1, 1],
        "groups": 1,
    }

    def run():
        # benchmark: cuDNN tries all its kernels at the first call and keeps the fastest.
        convolve(x, w, **shape, benchmark=True, deterministic=False, allow_tf32=True, out=output)

    def collect():
        y.copy_(output.clone(memory_format=torch.contiguous_format))

    run()
    run.collect = collect
    return run
