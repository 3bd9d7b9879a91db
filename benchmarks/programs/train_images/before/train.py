"""A small residual network on random images: is the input pipeline or the GPU the limit?"""

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(y)))


model = nn.Sequential(
    nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU(),
    Residual(64), Residual(64),
    nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.ReLU(),
    Residual(128), Residual(128),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100),
)  # fmt: skip

torch.manual_seed(0)
model = model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
images = torch.randn(128, 3, 128, 128, device="cuda")
labels = torch.randint(0, 100, (128,), device="cuda")


def step():
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss


for _ in range(8):
    step()
start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
for _ in range(25):
    loss = step()
stop.record()
torch.cuda.synchronize()
ms = start.elapsed_time(stop) / 25
print(f"loss {loss.item():.4f}")
print(f"{ms:.3f} ms a step, {128 / ms * 1e3:.0f} images/s")
