"""A CUDA graph of PyTorch's, in memory that its allocator keeps for it."""

import torch
from torch.nn.functional import softmax

x = torch.randn(2048, 1024, device="cuda")
y = torch.zeros_like(x)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        y += softmax(x * 2.0, dim=1)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y += softmax(x * 2.0, dim=1)
for _ in range(5):
    graph.replay()
torch.cuda.synchronize()
