#!/usr/bin/env python3
"""Time of one training batch of the digits encoder in PyTorch: what `convolution_bench` is compared with.

    python scripts/torch_convolution.py [--images 400] [--threads 2] [--seconds 8]

Three 5x5 convolutions (64, 64, 128) with batch norm, pooling and ReLU on 1x32x32, a classifier 100-100-10 behind them,
cross-entropy, fused Adam. Prints one JSON line.
"""
import argparse
import json
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "model" / "tests" / "golden"))
import make_golden as ostar  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0)
    o = parser.parse_args()
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    g, f = ostar.ConvEncoder(64, 64, 128), ostar.Classifier(128, 100, 10)
    parameters = [*g.parameters(), *f.parameters()]
    adam = torch.optim.Adam(parameters, lr=1e-4, betas=(0.5, 0.999), fused=True)
    images, labels = torch.randn(o.images, 1, 32, 32), torch.arange(o.images) % 10
    times, end = [], time.perf_counter() + o.seconds
    while time.perf_counter() < end or len(times) < 7:
        start = time.perf_counter()
        adam.zero_grad(set_to_none=True)
        F.cross_entropy(f(g(images)), labels).backward()
        adam.step()
        times.append(1e3 * (time.perf_counter() - start))
    times = sorted(times[2:])
    print(json.dumps({"peer": f"torch {torch.__version__}", "threads": o.threads, "iterations": len(times),
                      "median_ms": round(times[len(times) // 2], 3), "least_ms": round(times[0], 3)}))


if __name__ == "__main__":
    main()
