"""cuDNN through PyTorch on the study's own NCHW buffers, on tensor cores.

Its inputs are rounded to TF32, ten bits of mantissa: less exact than what the ladder computes,
and here to show what that exactness costs.

---
title         = "cuDNN through PyTorch, NCHW, TF32"
baseline      = true
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
        convolve(x, w, **shape, benchmark=True, deterministic=False, allow_tf32=True, out=y)

    run()
    return run
