"""cuDNN through PyTorch, channels last: the library to beat.

---
title    = "cuDNN through PyTorch, channels last, float32 sums"
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
    if not torch.backends.cudnn.is_available():
        return "PyTorch is here but was built without cuDNN"
    return ""


def prepare(_problem, _parameters, buffers):
    import torch

    # A contiguous NHWC buffer seen as NCHW is what PyTorch calls channels last: three views,
    # so cuDNN reads and writes the study's own buffers and nothing is copied.
    data, weight, output = (
        torch.as_tensor(buffers[name], device="cuda").permute(0, 3, 1, 2)
        for name in ("input", "weight", "output")
    )
    convolve = torch.ops.aten.cudnn_convolution.out
    shape = {"padding": [1, 1], "stride": [1, 1], "dilation": [1, 1], "groups": 1}

    def run():
        # benchmark: cuDNN tries all its kernels at the first call and keeps the fastest.
        convolve(
            data,
            weight,
            **shape,
            benchmark=True,
            deterministic=False,
            allow_tf32=False,
            out=output,
        )

    run()
    return run
