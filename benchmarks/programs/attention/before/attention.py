import math

import torch


def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    length = q.shape[-2]
    mask = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
    scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.out(attention(q, k, v).transpose(1, 2).reshape(batch, length, width))


def main():
    torch.manual_seed(0)
    layer = Attention(1024, 16).cuda().bfloat16()
    x = torch.randn(8, 2048, 1024, device="cuda", dtype=torch.bfloat16)
    with torch.inference_mode():
        for _ in range(5):
            y = layer(x)
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(30):
            y = layer(x)
        end.record()
    torch.cuda.synchronize()
    print("norm", round(y.float().norm().item(), 2))
    print("ms per forward", round(begin.elapsed_time(end) / 30, 4))


if __name__ == "__main__":
    main()
