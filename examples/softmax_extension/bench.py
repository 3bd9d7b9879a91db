"""A small piece of attention around the extension's softmax: what one would time."""

import torch
from extension import build

softmax = build().softmax
torch.manual_seed(0)
query, key, value = (torch.randn(4096, 128, device="cuda") for _ in range(3))
for _ in range(50):
    scores = (query @ key.T) * 128**-0.5
    out = softmax(scores) @ value
torch.cuda.synchronize()
