"""Data-parallel training of a small model: torchrun --nproc-per-node 2 ddp.py

All ranks keep an average of the weights; each validates its share of the data after each step.
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH = 2048, 4096


def network():
    layers = []
    for _ in range(6):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 64)).cuda()


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = DistributedDataParallel(network(), device_ids=[rank])
    average = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    torch.manual_seed(rank + 1)
    x, y = torch.randn(BATCH, WIDTH, device="cuda"), torch.randint(0, 64, (BATCH,), device="cuda")
    held = torch.randn(3 * BATCH, WIDTH, device="cuda").chunk(dist.get_world_size())[rank]

    def step():
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, new in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(new, 0.01)
            average(held)
        return loss

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(30):
        loss = step()
    stop.record()
    torch.cuda.synchronize()
    ms = start.elapsed_time(stop) / 30
    print(f"rank {rank}: loss {loss.item():.4f}, {ms:.3f} ms a step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
