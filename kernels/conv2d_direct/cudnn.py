"""cuDNN through PyTorch: the library to beat.

---
title    = "cuDNN through PyTorch, float32 without TF32"
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


def prepare(_problem, parameters, buffers):
    import torch

    x, w, y = (torch.as_tensor(buffers[name], device="cuda")[None] for name in ("x", "w", "y"))
    stride = [parameters["U"]] * 2

    def run():
        # The operator behind conv2d, with its output given: no allocation, no copy. `benchmark`
        # lets cuDNN try its algorithms on the first call and keep the fastest. TF32 keeps 10
        # bits of the mantissa: another job than the one that the ladder does.
        torch.ops.aten.cudnn_convolution.out(
            x,
            w,
            padding=[1, 1],
            stride=stride,
            dilation=[1, 1],
            groups=1,
            benchmark=True,
            deterministic=False,
            allow_tf32=False,
            out=y[None],
        )

    return run
