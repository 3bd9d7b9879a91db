"""How long one gated block of the model takes, in the steady state."""

import time

import torch
from torch import nn


class GatedBlock(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 2 * hidden)
        self.scale = nn.Parameter(torch.full((hidden,), 0.5))

    def forward(self, x):
        value, gate = self.expand(self.norm(x)).chunk(2, dim=-1)
        y = value * torch.sigmoid(gate) * gate
        y = torch.clamp(y, -6.0, 6.0) * self.scale
        return x + y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)


def main():
    torch.manual_seed(0)
    model = GatedBlock(2048, 2048).cuda().bfloat16().eval()
    x = torch.randn(8192, 2048, device="cuda", dtype=torch.bfloat16)

    with torch.no_grad():
        begin = time.perf_counter()
        out = model(x)
        torch.cuda.synchronize()
        print(f"first call: {time.perf_counter() - begin:.2f} s, mean {out.float().mean():.6f}")
        for _ in range(10):
            model(x)
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(100):
            model(x)
        stop.record()
        torch.cuda.synchronize()
    print(f"{start.elapsed_time(stop) / 100:.4f} ms a call")


if __name__ == "__main__":
    main()
