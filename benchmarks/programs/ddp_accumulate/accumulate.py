"""Data-parallel training with accumulated gradients.

torchrun --nproc-per-node 2 accumulate.py                     # gradients meet after each part
torchrun --nproc-per-node 2 accumulate.py --sync last         # after the last part alone
"""

import argparse
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PARTS = 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sync", choices=["each", "last"], default="each")
    sync = parser.parse_args().sync
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    width = 4096
    layers = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(6)]
    model = nn.Sequential(*layers, nn.Linear(width, 10)).cuda()
    model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    torch.manual_seed(10 + rank)
    x = torch.randn(PARTS, 512, width, device="cuda")
    y = torch.randint(0, 10, (PARTS, 512), device="cuda")

    def step():
        optimizer.zero_grad()
        for part in range(PARTS):
            alone = sync == "last" and part < PARTS - 1
            with model.no_sync() if alone else contextlib.nullcontext():
                loss = F.cross_entropy(model(x[part]), y[part]) / PARTS
                loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(20):
        loss = step()
    stop.record()
    torch.cuda.synchronize()
    ms = start.elapsed_time(stop) / 20
    print(f"rank {rank}: loss {loss.item() * PARTS:.4f}, {ms:.3f} ms a step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
