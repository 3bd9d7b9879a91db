"""Trains a small character model on text that it makes up.

    python train.py                 # AdamW, a loop over the parameters
    python train.py --fused         # AdamW, fused
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        y = F.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, letters=128, width=768, depth=8, length=256):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, 12) for _ in range(depth)))
        self.head = nn.Linear(width, letters)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.layers(self.letter(x) + self.place(places)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Model().cuda()
    kind = {"fused": True} if options.fused else {"foreach": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, **kind)
    text = torch.randint(0, 128, (16, 257), device="cuda").cumsum(1) % 128

    def step():
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        step()
    begin, updated = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(options.steps):
        loss = step()
    updated.record()
    torch.cuda.synchronize()
    print(f"loss {loss.item():.4f}")
    print(f"{begin.elapsed_time(updated) / options.steps:.3f} ms a step")


if __name__ == "__main__":
    main()
